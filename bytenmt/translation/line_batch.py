"""Translate lines together: the way of a line to its translation.

This is the one batcher under Translator, the server's workers, the data set jobs and the commands.
It makes one request for each distinct chunk and takes hypotheses; its users decode the requests.
"""

from __future__ import annotations

from collections.abc import Sequence
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
PLACEMENT = "placement"  # a flag: spans were written where the model would have ended the text


class TranslationResult(NamedTuple):
    """The translations of a line."""

    hypotheses: list[Hypothesis]  # 1 to n_best, best first; the k-th joins the k-th of each chunk
    chunks: list[Chunk]  # the parts, usually sentences, in which the line was translated
    chunk_hypotheses: list[list[Hypothesis]]  # the hypotheses of each chunk, the best first
    parts: list[TextOrCode]  # the best hypothesis as texts and inline codes, for documents
    unknown_words: tuple[str, ...] = ()  # of the source, rare in training; evaluation.judge sets it

    @property
    def best(self) -> Hypothesis:
        """The best hypothesis."""
        return self.hypotheses[0]

    @property
    def source(self) -> bytes:
        """The line that was translated, in UTF-8; kept inline codes are in it as their markup."""
        return b"".join(chunk.text + chunk.separator for chunk in self.chunks)

    def with_flags(self, flags: Sequence[str]) -> TranslationResult:
        """Return a copy of the result with flags (suspected faults) added to those of `best`."""
        return self._replace(hypotheses=add_flags(self.hypotheses, flags))

    def best_chunks(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (source, best translation, separator) of each chunk, in order."""
        pairs = zip(self.chunks, self.chunk_hypotheses, strict=True)
        return [(chunk.text, hypotheses[0].text, chunk.separator) for chunk, hypotheses in pairs]


def add_flags(hypotheses: Sequence[Hypothesis], flags: Sequence[str]) -> list[Hypothesis]:
    """Return hypotheses with flags (suspected faults) added to those of the first, best one."""
    best, *others = hypotheses
    flags = tuple(dict.fromkeys((*(best.flags or ()), *flags)))
    return [best._replace(flags=flags), *others]


class RestoredChunk(NamedTuple):
    """A translated chunk (a part of a line), in which kept spans have replaced sentinels."""

    chunk: Chunk
    hypotheses: list[Hypothesis]  # the best first
    parts: list[TextOrCode]  # the best one as texts and inline codes


class LineBatch:
    """Lines that are translated together.

    `requests` lists each distinct chunk (part of a line) to decode once. The caller has an engine
    decode them, passes the hypotheses of each to `add`, in any order, and then calls `results`.
    `hypotheses` maps the requests that are done to their hypotheses.
    """

    def __init__(self, lines: Sequence[SourceLine], settings: Settings, first: int = 0) -> None:
        """lines: valid UTF-8 without line ends, or a document's texts and inline codes. settings:
        how lines are split, searched and ranked. first: number of the first line, on which the
        random numbers of sampling depend."""
        self._settings = settings
        # The chunks of each line, with their requests; None where a chunk is copied.
        self._lines: list[list[tuple[Chunk, Request | None]]] = []
        self.hypotheses: dict[Request, list[Hypothesis]] = {}
        for number, line in enumerate(lines, first):
            marked = mark_spans(line, settings.keep)
            chunks = split_line(marked, settings.max_source_bytes, settings.languages)
            self._lines.append(self._request_chunks(chunks, number))
        requests = [request for line in self._lines for _, request in line if request is not None]
        self.requests = list(dict.fromkeys(requests))  # in sampling all differ by number

    def _request_chunks(
        self, chunks: Sequence[Chunk], number: int
    ) -> list[tuple[Chunk, Request | None]]:
        """Return the chunks of a line with their requests. number: of the line."""
        settings = self._settings
        prefix_index = 0
        if settings.prefix:  # the first chunk with words begins with it, not the mark of a list
            keeps_spans = settings.keep is not None
            has_words = [has_translatable_text(chunk.source, keeps_spans) for chunk in chunks]
            prefix_index = has_words.index(True) if any(has_words) else 0
        pending = []
        for index, chunk in enumerate(chunks):
            prefix = settings.prefix if index == prefix_index else b""
            request = self._request(chunk, number + index * CHUNK_NUMBER_STEP, prefix)
            pending.append((chunk, request))
        return pending

    def _request(self, chunk: Chunk, number: int, prefix: bytes) -> Request | None:
        """Return the request for a chunk, which draws by `number`, or None where it is copied."""
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
        return Request(source, limit, prefix, number, chunk.pairs, returns_all)

    @property
    def is_complete(self) -> bool:
        """True if `add` was called for all requests, so that `results` can be called."""
        return len(self.hypotheses) == len(self.requests)

    def add(self, request: Request, hypotheses: list[Hypothesis]) -> None:
        """Store the hypotheses of a request, given best first, and keep the n_best of them.

        Before, the settings' reranker ranks them anew, if there is one; then beam search puts those
        first that have the numbers of the source.
        """
        settings = self._settings
        if settings.reranker is not None:
            hypotheses = settings.reranker.rerank(request, hypotheses)
        if request.returns_all and len(hypotheses) > 1:
            hypotheses = rank_by_numbers(request, hypotheses, settings.target_language)
        self.hypotheses[request] = hypotheses[: settings.search.n_best]

    def results(self) -> list[TranslationResult]:
        """Return the translations of the lines in order. Raises ValueError if not is_complete."""
        if not self.is_complete:
            raise ValueError("add the hypotheses of all requests first")
        results = []
        for line_chunks in self._lines:
            restored = [self._restore(chunk, request) for chunk, request in line_chunks]
            result = join_chunks(restored, self._settings.search.length_penalty)
            if self._settings.keep is not None:
                result = result._replace(
                    hypotheses=_flag_placement(result.hypotheses),
                    chunk_hypotheses=list(map(_flag_placement, result.chunk_hypotheses)),
                )
            results.append(result)
        return results

    def beginning(self, line: int) -> tuple[bytes, bool]:
        """Return (text, is_done): a line's translation before its first chunk that is not done.

        line: its index in this batch. text: UTF-8. is_done: whether all of its chunks are done.
        """
        text = b""
        for chunk, request in self._lines[line]:
            if request is not None and request not in self.hypotheses:
                return text, False
            text += self._restore(chunk, request).hypotheses[0].text + chunk.separator
        return text, True

    def _restore(self, chunk: Chunk, request: Request | None) -> RestoredChunk:
        """Put the kept spans of a decoded chunk in place of its sentinels."""
        hypotheses = [Hypothesis(chunk.source, 0.0, 0.0)]  # a copy costs nothing
        if request is not None:
            hypotheses = self.hypotheses[request]
        parts = []
        for hypothesis in hypotheses:
            text = hypothesis.text
            if hypothesis.is_past_end:
                text = separate_spans(text, chunk.source)
            parts.append(restore_spans(text, chunk.spans))
        texts = map(encode_parts, parts)
        restored = [
            hypothesis._replace(text=text)
            for hypothesis, text in zip(hypotheses, texts, strict=True)
        ]
        return RestoredChunk(chunk, restored, parts[0])


def rank_by_numbers(
    request: Request, hypotheses: Sequence[Hypothesis], language: str
) -> list[Hypothesis]:
    """Sort hypotheses by the faults in their numbers, such as missing ones, fewest first.

    Equal ones keep their order. request: holds their source. language: code of the target language,
    by which decimal signs are judged.
    """
    source = (request.source or b"").translate(_SENTINELS_TO_SPACES).decode()

    def n_faults(hypothesis: Hypothesis) -> int:
        text = hypothesis.text.translate(_SENTINELS_TO_SPACES).decode()
        return count_number_faults(source, text, language)

    return sorted(hypotheses, key=n_faults)


def join_chunks(line: Sequence[RestoredChunk], length_penalty: float) -> TranslationResult:
    """Join the translated chunks of a line to the translations of the whole line.

    The k-th hypothesis of the line joins the k-th of each chunk, or its last one where there are
    fewer. Its score is log-probability / (bytes + 1) ** length_penalty, unless the line is one
    chunk, whose scores stay.
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
    of_sources = [hypothesis.source_log_probability for hypothesis in hypotheses]
    known = [log_p for log_p in of_sources if log_p is not None]
    return Hypothesis(
        text,
        log_probability,
        score,
        is_past_end=is_past_end,
        source_log_probability=sum(known) if known else None,
    )


def _flag_placement(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return hypotheses with flags: PLACEMENT where the model would have ended before a span."""
    return [
        hypothesis._replace(flags=(PLACEMENT,) if hypothesis.is_past_end else ())
        for hypothesis in hypotheses
    ]
