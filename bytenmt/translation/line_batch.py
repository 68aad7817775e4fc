"""Translate lines together: the way of a line to its translation.

There is one request for each distinct chunk. This is the one batcher under Translator, the server's
workers, the data set jobs and the commands. It only makes requests and takes hypotheses; who
decodes the requests, and in which order, is left to its users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.sentinels import SENTINELS, to_text
from bytenmt.translation.chunks import Chunk, has_translatable_text, split_line
from bytenmt.translation.kept_spans import (
    SourceLine,
    TextOrCode,
    encode_parts,
    mark_prefix,
    mark_spans,
    merge_texts,
    restore_spans,
    separate_spans,
)
from bytenmt.translation.numbers import count_number_faults
from bytenmt.translation.settings import Settings

# The sampling numbers of a line's chunks are this far apart: more than there are lines.
CHUNK_NUMBER_STEP = 1 << 40
_SENTINELS_TO_SPACES = bytes.maketrans(SENTINELS, b" " * len(SENTINELS))
# A flag: kept spans were written where the model would have ended the translation.
PLACEMENT = "placement"


class TranslationResult(NamedTuple):
    """The translations of a line."""

    # Up to n_best of the whole line, at least one, the k-th joined from the k-th of each chunk.
    hypotheses: list[Hypothesis]
    chunks: list[Chunk]  # the parts in which the line was translated
    chunk_hypotheses: list[list[Hypothesis]]  # those of each chunk, the best first
    # The best hypothesis as texts and inline codes (sentinels.Code) in turn, for documents.
    parts: list[TextOrCode]
    # The words of the line that the model does not know; set by a Judge.
    unknown_words: tuple[str, ...] = ()

    @property
    def best(self) -> Hypothesis:
        """The best hypothesis."""
        return self.hypotheses[0]

    @property
    def source(self) -> bytes:
        """The line that was translated, with the inline codes of a document as texts in it.

        Without kept spans it lacks these codes.
        """
        return b"".join(chunk.text + chunk.separator for chunk in self.chunks)

    def with_flags(self, flags: Sequence[str]) -> TranslationResult:
        """Return a copy of the result with these flags added to those of the best hypothesis."""
        return self._replace(hypotheses=add_flags(self.hypotheses, flags))

    def best_chunks(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (source, best translation, separator) of each chunk, in order."""
        pairs = zip(self.chunks, self.chunk_hypotheses, strict=True)
        return [(chunk.text, hypotheses[0].text, chunk.separator) for chunk, hypotheses in pairs]


def add_flags(hypotheses: Sequence[Hypothesis], flags: Sequence[str]) -> list[Hypothesis]:
    """Return a copy of hypotheses with these flags added to those of the first, the best one."""
    best, *others = hypotheses
    flags = tuple(dict.fromkeys((*(best.flags or ()), *flags)))
    return [best._replace(flags=flags), *others]


class PendingChunk(NamedTuple):
    """A chunk with the request by which it is translated."""

    chunk: Chunk
    request: Request | None  # None: the chunk is copied


class RestoredChunk(NamedTuple):
    """A translated chunk, in which kept spans stand in place of sentinels."""

    chunk: Chunk
    hypotheses: list[Hypothesis]  # the best first
    parts: list[TextOrCode]  # the best one as texts and inline codes


class LineBatch:
    """Lines that are translated together. It decodes nothing itself.

    The caller decodes `requests` (distinct), passes the hypotheses of each to `add`, in any order,
    and then takes `results`. `hypotheses` holds those added so far.
    """

    def __init__(self, lines: Sequence[SourceLine], settings: Settings, first: int = 0) -> None:
        """Mark and split lines.

        lines: valid UTF-8 without line ends, or a document's texts and inline codes. first: number
        of the first line, on which random draws depend.
        """
        self._settings = settings
        self._lines: list[list[PendingChunk]] = []
        self._results: list[TranslationResult] = []
        self.hypotheses: dict[Request, list[Hypothesis]] = {}
        self._translation = self._translate(lines, first)
        self.requests = next(self._translation)

    def _translate(self, lines: Sequence[SourceLine], first: int) -> Iterator[list[Request]]:
        """Translate lines: the whole way of a line, in the order of its steps.

        It stops at `yield` and hands out the requests. Whoever made this batch decodes them, beside
        those of other batches, and gives the hypotheses to `add`; then `results` continues here.
        """
        settings = self._settings
        for number, line in enumerate(lines, first):
            marked = mark_spans(line, settings.keep)
            chunks = split_line(marked, settings.max_source_bytes, settings.languages)
            self._lines.append(self._request_chunks(chunks, number))
        yield self._distinct_requests()  # they are decoded now
        for pending_chunks in self._lines:
            restored = [self._restore(pending) for pending in pending_chunks]
            joined = join_chunks(restored, settings.search.length_penalty)
            self._results.append(flag_placement(joined, settings.keep is not None))

    def _request_chunks(self, chunks: Sequence[Chunk], number: int) -> list[PendingChunk]:
        """Return the chunks of a line with their requests. number: of the line."""
        pending = []
        prefix_index = self._prefix_index(chunks)
        for index, chunk in enumerate(chunks):
            prefix = self._settings.prefix if index == prefix_index else b""
            request = self._request(chunk, number + index * CHUNK_NUMBER_STEP, prefix)
            pending.append(PendingChunk(chunk, request))
        return pending

    def _prefix_index(self, chunks: Sequence[Chunk]) -> int:
        """Return which chunk of a line has the forced prefix.

        It is the first one with words, which the mark of a list is not.
        """
        if self._settings.prefix:
            for index, chunk in enumerate(chunks):
                if has_translatable_text(chunk.source, self._settings.keep is not None):
                    return index
        return 0

    def _request(self, chunk: Chunk, number: int, prefix: bytes) -> Request | None:
        """Return the request for a chunk, or None where it is copied.

        number: for random draws. prefix: with which its translation begins.
        """
        settings = self._settings
        source = chunk.source
        prefix = mark_prefix(prefix, chunk.spans)
        if not source:
            return None
        if not prefix and not has_translatable_text(source, settings.keep is not None):
            return None
        limit = max(settings.max_target_bytes(len(source)), len(prefix))
        if not settings.search.sample:  # nothing is drawn, and equal requests are one
            number = 0
        has_choice = settings.search.beam > 1 and not settings.search.sample
        returns_all = has_choice and any(map(str.isdecimal, to_text(source)))
        return Request(source, limit, prefix, number, chunk.pairs, settings.formality, returns_all)

    def _distinct_requests(self) -> list[Request]:
        """Return the requests without duplicates; in sampling all differ by their number."""
        requests = dict[Request, None]()
        for line in self._lines:
            for pending in line:
                if pending.request is not None:
                    requests[pending.request] = None
        return list(requests)

    @property
    def is_complete(self) -> bool:
        """True if `add` was called for all requests, so that `results` can be called."""
        return len(self.hypotheses) == len(self.requests)

    def add(self, request: Request, hypotheses: list[Hypothesis]) -> None:
        """Store the hypotheses of a request, given best first, reranked if there is a reranker.

        Those whose numbers agree with the source come before the others.
        """
        settings = self._settings
        if settings.reranker is not None:
            hypotheses = settings.reranker.rerank(request, hypotheses)
        if request.returns_all and len(hypotheses) > 1:
            hypotheses = rank_by_numbers(request, hypotheses, settings.target_language)
        self.hypotheses[request] = hypotheses[: settings.search.n_best]

    def results(self) -> list[TranslationResult]:
        """Return the translations of the lines, in their order.

        Raises ValueError if not is_complete.
        """
        if not self.is_complete:
            raise ValueError("add the hypotheses of all requests first")
        next(self._translation, None)  # from its `yield` to its end
        return self._results

    def beginning(self, line: int) -> tuple[bytes, bool]:
        """Return the translation of a line up to the first chunk that is not done.

        Also return whether all are done. line: its index in this batch.
        """
        text = b""
        for pending in self._lines[line]:
            if pending.request is not None and pending.request not in self.hypotheses:
                return text, False
            restored = self._restore(pending)
            text += restored.hypotheses[0].text + restored.chunk.separator
        return text, True

    def _restore(self, pending: PendingChunk) -> RestoredChunk:
        """Put the kept spans of a decoded chunk in place of its sentinels."""
        chunk = pending.chunk
        if pending.request is None:
            hypotheses = [Hypothesis(chunk.source, 0.0, 0.0)]  # a copy costs nothing
        else:
            hypotheses = self.hypotheses[pending.request]
        parts = []
        for hypothesis in hypotheses:
            text = hypothesis.text
            if hypothesis.is_past_end:
                text = separate_spans(text, chunk.source)
            parts.append(restore_spans(text, chunk.spans))
        restored = [
            hypothesis._replace(text=encode_parts(own))
            for hypothesis, own in zip(hypotheses, parts, strict=True)
        ]
        return RestoredChunk(chunk, restored, parts[0])


def rank_by_numbers(
    request: Request, hypotheses: Sequence[Hypothesis], language: str
) -> list[Hypothesis]:
    """Return hypotheses with those first that have fewest faults in their numbers, the order
    otherwise kept.

    language: code of the target language.
    """
    source = _without_sentinels(request.source or b"")
    texts = [_without_sentinels(hypothesis.text) for hypothesis in hypotheses]
    faults = [count_number_faults(source, text, language) for text in texts]
    order = sorted(range(len(hypotheses)), key=faults.__getitem__)
    return [hypotheses[number] for number in order]


def _without_sentinels(data: bytes) -> str:
    return data.translate(_SENTINELS_TO_SPACES).decode()


def join_chunks(line: Sequence[RestoredChunk], length_penalty: float) -> TranslationResult:
    """Join the hypotheses of the chunks of a line to those of the line.

    The k-th of the line joins the k-th of each chunk, or its last one where there are fewer.
    length_penalty: the exponent in the new scores of a line of several chunks.
    """
    hypotheses = []
    for rank in range(max(len(restored.hypotheses) for restored in line)):
        chosen = [restored.hypotheses[: rank + 1][-1] for restored in line]
        separators = [restored.chunk.separator for restored in line]
        hypotheses.append(_join_hypotheses(chosen, separators, length_penalty))
    parts = list[TextOrCode]()
    for restored in line:
        parts += [*restored.parts, restored.chunk.separator.decode()]
    return TranslationResult(
        hypotheses,
        [restored.chunk for restored in line],
        [restored.hypotheses for restored in line],
        merge_texts(parts),
    )


def _join_hypotheses(
    hypotheses: Sequence[Hypothesis], separators: Sequence[bytes], length_penalty: float
) -> Hypothesis:
    """Join one hypothesis of each chunk of a line, with a separator after each."""
    pairs = zip(hypotheses, separators, strict=True)
    text = b"".join(hypothesis.text + separator for hypothesis, separator in pairs)
    if len(hypotheses) == 1:
        return hypotheses[0]._replace(text=text)
    log_probability = sum(hypothesis.log_probability for hypothesis in hypotheses)
    score = log_probability / (len(text) + 1) ** length_penalty
    is_past_end = any(hypothesis.is_past_end for hypothesis in hypotheses)
    return Hypothesis(text, log_probability, score, is_past_end=is_past_end)


def flag_placement(result: TranslationResult, keeps_spans: bool) -> TranslationResult:
    """Flag the hypotheses whose kept spans may stand in the wrong place.

    keeps_spans: whether spans are kept at all; if not, flags stay None.
    """
    if not keeps_spans:
        return result
    return result._replace(
        hypotheses=_flagged(result.hypotheses),
        chunk_hypotheses=[_flagged(hypotheses) for hypotheses in result.chunk_hypotheses],
    )


def _flagged(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return hypotheses with flags: PLACEMENT where the model would have ended before a span."""
    return [
        hypothesis._replace(flags=(PLACEMENT,) if hypothesis.is_past_end else ())
        for hypothesis in hypotheses
    ]
