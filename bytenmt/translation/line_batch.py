"""Cut lines into sentences and chunks, ask for each distinct chunk once, and join the hypotheses of
the chunks.

This is the one batcher under Translator, the server's workers, the data set jobs and the commands.
It only makes requests and takes hypotheses; who decodes the requests, and in which order, is left
to its users. With a KeepSpec, kept spans and codes become sentinels in the requests, and their
texts again in the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bytenmt.data.sentences import ends_at_signs, is_sign, sentence_ends
from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.kernel_constants import N_SENTINELS
from bytenmt.sentinels import (
    SENTINELS,
    compile_patterns,
    find_spans,
    replace_spans,
    sentinel_char,
    to_bytes,
    to_text,
)
from bytenmt.translation.kept_spans import (
    KeepSpec,
    KeptSpan,
    MarkedText,
    SourceLine,
    TextOrCode,
    mark_prefix,
    merge_texts,
    restore_parts,
    restore_text,
)
from bytenmt.translation.settings import Settings

CHUNK_NUMBER_STEP = (
    1 << 40
)  # between the sampling numbers of a line's chunks: more than there are lines
ADDRESSES = compile_patterns(("urls", "emails"))  # what no model translates
SPAN_CHARACTER = "\ue000"  # for private use: stands for a kept span where sentences are looked for
PLACEMENT = (
    "placement"  # flag: kept spans were written where the model would have ended the translation
)


class Chunk(NamedTuple):
    """A part of a line, usually a sentence, that is translated by itself.

    text: valid UTF-8. separator: white space between this chunk and the next one, copied into
    translations.
    source: the text as the model reads it: sentinel k (byte 0xF5 + k) stands for spans[k]. spans:
    the kept spans of the text, in order. pairs: indices into `spans` of an opening and its closing
    tag, of which the first must be written first.
    """

    text: bytes
    separator: bytes
    source: bytes
    spans: tuple[KeptSpan, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()


class TranslationResult(NamedTuple):
    """The translations of a line.

    hypotheses: up to n_best of the whole line, at least one, the k-th joined from the k-th of each
    chunk.
    chunks: the parts in which the line was translated. chunk_hypotheses: the hypotheses of each
    chunk, the best first. parts: the best hypothesis as texts and inline codes (sentinels.Code) in
    turn, for documents.
    """

    hypotheses: list[Hypothesis]
    chunks: list[Chunk]
    chunk_hypotheses: list[list[Hypothesis]]
    parts: list[TextOrCode]

    @property
    def best(self) -> Hypothesis:
        """The best hypothesis."""
        return self.hypotheses[0]

    @property
    def source(self) -> bytes:
        """The line that was translated; inline codes of a document are texts in it where spans are
        kept."""
        return b"".join(chunk.text + chunk.separator for chunk in self.chunks)

    def with_flags(self, flags: Sequence[str]) -> TranslationResult:
        """Return a copy of the result in which these flags are added to those of the best
        hypothesis."""
        best, *others = self.hypotheses
        best = best._replace(flags=tuple(dict.fromkeys((*(best.flags or ()), *flags))))
        return self._replace(hypotheses=[best, *others])

    def best_chunks(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (source, best translation, separator) of each chunk, in order."""
        pairs = zip(self.chunks, self.chunk_hypotheses, strict=True)
        return [(chunk.text, hypotheses[0].text, chunk.separator) for chunk, hypotheses in pairs]


class LineBatch:
    """Lines that are translated together, cut into chunks by `settings`. It decodes nothing itself.

    The caller decodes `requests` (distinct), passes the hypotheses of each to `add`, in any order,
    and then `results` joins them to translations of the lines. `hypotheses` holds those added so
    far.

    lines: valid UTF-8 without line ends, or a document's texts and inline codes. first: number of
    the first line, on which random draws depend.
    """

    def __init__(self, lines: Sequence[SourceLine], settings: Settings, first: int = 0) -> None:
        self._settings = settings
        self._parts, has_sentinels = (
            list[list[tuple[Chunk, Request | None]]](),
            settings.keep is not None,
        )
        for number, line in enumerate(lines, first):
            chunks = split_line(line, settings.max_source_bytes, settings.keep, settings.languages)
            prefixes = [b""] * len(chunks)
            if (
                settings.prefix
            ):  # the first chunk with words has it, which is not the mark of a list
                has_words = [has_translatable_text(chunk.source, has_sentinels) for chunk in chunks]
                prefixes[has_words.index(True) if any(has_words) else 0] = settings.prefix
            numbers = range(number, number + len(chunks) * CHUNK_NUMBER_STEP, CHUNK_NUMBER_STEP)
            self._parts.append(
                list(zip(chunks, map(self._request, chunks, numbers, prefixes), strict=True))
            )
        # Equal requests are one; in sampling they differ by their number.
        every = (request for parts in self._parts for _, request in parts if request is not None)
        self.requests = list(dict.fromkeys(every))
        self.hypotheses: dict[Request, list[Hypothesis]] = {}

    @property
    def is_complete(self) -> bool:
        """True if `add` was called for all requests, so that `results` can be called."""
        return len(self.hypotheses) == len(self.requests)

    def add(self, request: Request, hypotheses: list[Hypothesis]) -> None:
        """Store the hypotheses of a request, given best first, for `results`.

        They are reranked if there is a reranker; where spans are kept, their flags are set.
        """
        settings = self._settings
        if settings.reranker is not None:
            hypotheses = settings.reranker.rerank(request, hypotheses)[: settings.search.n_best]
        if settings.keep is not None:
            hypotheses = [h._replace(flags=(PLACEMENT,) * h.is_past_end) for h in hypotheses]
        self.hypotheses[request] = hypotheses

    def results(self) -> list[TranslationResult]:
        """Return the translations of the lines, in their order. Only when is_complete."""
        results, length_penalty = [], self._settings.search.length_penalty
        for line in self._parts:
            chunks = [chunk for chunk, _ in line]
            pairs = [(chunk, self._with_sentinels(chunk, request)) for chunk, request in line]
            hypotheses = [
                [h._replace(text=restore_text(h.text, chunk.spans)) for h in each]
                for chunk, each in pairs
            ]
            of_line = join_hypotheses(chunks, hypotheses, length_penalty)
            parts = merge_texts(
                part
                for chunk, each in pairs
                for part in (*restore_parts(each[0].text, chunk.spans), chunk.separator.decode())
            )
            results.append(TranslationResult(of_line, chunks, hypotheses, parts))
        return results

    def _with_sentinels(self, chunk: Chunk, request: Request | None) -> list[Hypothesis]:
        """Return the hypotheses of a chunk with sentinels; where it is copied, the chunk at no
        cost."""
        if request is not None:
            return self.hypotheses[request]
        return [Hypothesis(chunk.source, 0.0, 0.0, None if self._settings.keep is None else ())]

    def beginning(self, line: int) -> tuple[bytes, bool]:
        """Return the translation of the first chunks of a line, up to the first that is not done,
        and whether all are done. line: its index in this batch."""
        text = b""
        for chunk, request in self._parts[line]:
            if request is not None and request not in self.hypotheses:
                return text, False
            best = self._with_sentinels(chunk, request)[0].text
            text += restore_text(best, chunk.spans) + chunk.separator
        return text, True

    def _request(self, chunk: Chunk, number: int, prefix: bytes) -> Request | None:
        """Return the request for a chunk, or None where the text is copied. number: for random
        draws."""
        settings, source, prefix = self._settings, chunk.source, mark_prefix(prefix, chunk.spans)
        if not (source and (prefix or has_translatable_text(source, settings.keep is not None))):
            return None
        limit = max(settings.max_target_bytes(len(source)), len(prefix))
        draws = number if settings.search.sample else 0
        return Request(source, limit, prefix, draws, pairs=chunk.pairs)


def has_translatable_text(source: bytes, has_sentinels: bool) -> bool:
    """Return whether a text has letters besides sentinels, URLs and e-mail addresses; if not, it is
    copied.

    has_sentinels: whether the model keeps spans; if not, digits and symbols such as emoji count as
    letters.
    """
    text = to_text(source.translate(None, SENTINELS))
    if any(sign in text for sign in ("@", ".", "://")):
        text = replace_spans(text, [(span, "") for span in find_spans(text, ADDRESSES)])
    if has_sentinels:
        return any(map(str.isalpha, text))
    return not all(character.isspace() or is_sign(character) for character in text)


def split_line(
    line: SourceLine, max_bytes: int, keep: KeepSpec | None = None, languages: Sequence[str] = ()
) -> list[Chunk]:
    """Return the chunks in which a line is translated: its sentences, cut where they have over
    max_bytes, or more kept spans than there are sentinels.

    line: UTF-8, or texts and inline codes. keep: the spans to replace by sentinels; None: no span,
    and codes are left out. The mark of a list item, as in `- item`, and a sign that is repeated, as
    in `Name: ____`, are chunks of their own. languages: codes such as "de", see split_sentences;
    none: one sentence.
    """
    parts = [line.decode()] if isinstance(line, bytes) else line
    # Without sentinels a name is text, and other codes are left out.
    texts = [
        part if isinstance(part, str) else part.text * part.text.isidentifier() for part in parts
    ]
    text = "".join(texts)
    data, spans, pairs = MarkedText(text.encode(), (), ()) if keep is None else keep.mark(parts)
    chunks, first = list[Chunk](), 0
    for sentence, after in split_sentences(data, languages) if languages else [(data, b"")]:
        for piece, separator in cut_text(sentence, after, max_bytes):
            begin, *others = piece.split(SENTINELS[:1])  # what stands before and after the spans
            end = first + len(others)
            chunk_spans = spans[first:end]
            after_spans = zip(chunk_spans, others, strict=True)
            plain = begin + b"".join(span.source.encode() + other for span, other in after_spans)
            source = begin + b"".join(
                SENTINELS[k : k + 1] + other for k, other in enumerate(others)
            )
            inside = tuple(
                (a - first, b - first) for a, b in pairs if first <= a < end and first <= b < end
            )
            chunks.append(Chunk(plain, separator, source, chunk_spans, inside))
            first = end
    return chunks


def split_sentences(data: bytes, languages: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Return (text, white space after it) of each sentence, list mark and repeated sign of a line,
    in order.

    data: UTF-8 with sentinels. languages: codes such as "de", whose abbreviations are known; with
    several, a sentence ends where all their rules agree. No sentence ends inside a URL or e-mail
    address. White space at the beginning of a line of several sentences follows an empty text.
    """
    text = to_text(data)
    probe = text.replace(sentinel_char(0), SPAN_CHARACTER)
    ends = sorted({*sentence_ends(probe, languages), *ends_at_signs(probe)})
    if not ends:
        return [(data, b"")]
    addresses = find_spans(text, ADDRESSES)
    begin = len(text) - len(text.lstrip())
    bounds = [(0, 0, begin)] if begin else []
    for end in ends:
        if not any(span.begin < end < span.end for span in addresses):
            after = end + len(text[end:]) - len(text[end:].lstrip())
            bounds.append((begin, end, after))
            begin = after
    bounds.append((begin, begin + len(text[begin:].rstrip()), len(text)))
    return [(to_bytes(text[first:end]), to_bytes(text[end:after])) for first, end, after in bounds]


def cut_text(data: bytes, after: bytes, max_bytes: int) -> list[tuple[bytes, bytes]]:
    """Cut UTF-8 with sentinels into texts of at most max_bytes bytes and N_SENTINELS sentinels.

    Returns (text, separator) of each. A text ends at the last space that it can reach, which is
    then its separator, else between two characters, with the separator b"". after: the separator of
    the last text.
    max_bytes: at least 4, the bytes of the longest character.
    """
    texts, start = list[tuple[bytes, bytes]](), 0
    while True:
        between = data[start : start + max_bytes + 1].split(SENTINELS[:1])[: N_SENTINELS + 1]
        last = start + min(max_bytes, len(SENTINELS[:1].join(between)))
        if last >= len(data):
            return [*texts, (data[start:], after)]
        end = data.rfind(b" ", start + 1, last + 1)
        separator = b" " if end > start else b""
        if not separator:
            end = last
            while data[end] & 0xC0 == 0x80:  # a continuation byte: its character began before
                end -= 1
        texts.append((data[start:end], separator))
        start = end + len(separator)


def join_hypotheses(
    chunks: Sequence[Chunk], hypotheses: Sequence[Sequence[Hypothesis]], length_penalty: float
) -> list[Hypothesis]:
    """Return the hypotheses of a line.

    hypotheses: of each chunk. The k-th of the line joins the k-th of each chunk, or its last one
    where there are fewer. length_penalty: the exponent in the new scores of a line of several
    chunks.
    """
    if len(chunks) == 1:
        return [h._replace(text=h.text + chunks[0].separator) for h in hypotheses[0]]
    of_line = []
    for k in range(max(map(len, hypotheses))):
        parts = [each[min(k, len(each) - 1)] for each in hypotheses]
        text = b"".join(
            part.text + chunk.separator for part, chunk in zip(parts, chunks, strict=True)
        )
        log_probability = sum(part.log_probability for part in parts)
        score = log_probability / (len(text) + 1) ** length_penalty
        checked = [part.flags for part in parts if part.flags is not None]
        flags = (
            tuple(dict.fromkeys(flag for flags in checked for flag in flags)) if checked else None
        )
        of_line.append(Hypothesis(text, log_probability, score, flags))
    return of_line
