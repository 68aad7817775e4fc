"""Cut lines into sentences and chunks, ask for each distinct chunk once, and join the hypotheses of the
chunks.

This is the one batcher under Translator, the server's workers, the data set jobs and the commands. It only
makes requests and takes hypotheses; who decodes the requests, and in which order, is left to its users.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bytenmt.data.sentences import ends_at_signs, is_sign, sentence_ends
from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.decoding.settings import Settings
from bytenmt.decoding.tag_transfer import TAGS, split_tags
from bytenmt.spans.extractor import Span, has_letters, span_extractor
from bytenmt.spans.grammar import parse_tag, partners
from bytenmt.utf8 import first_invalid

if TYPE_CHECKING:
    from bytenmt.decoding.constraints.constraint_spec import ConstraintSpec
    from bytenmt.decoding.reranking import Reranker
    from bytenmt.decoding.tag_transfer import TagTransfer

CHUNK_NUMBER_STEP = 1 << 40  # between the sampling numbers of a line's chunks: more than there are lines
ALWAYS_COPIED = ("urls", "emails")  # classes of spans that a line may consist of without being translated
COPIED_IF_KEPT = ("placeholders", "tags")  # also these where they are kept; numbers may be written otherwise
BLANKS = " \t\u00a0\u3000"  # that a line of signs may have
LETTER_OR_DIGIT = re.compile(rb"[0-9A-Za-z]")
FIRST_SIGNS = (b"{", b"$", b"#", b"%", b"[", b"<")  # of placeholders and tags


class Chunk(NamedTuple):
    """A part of a line that is translated by itself.

    text: whole characters of the line. separator: the bytes between this chunk and the next one.
    """

    text: bytes
    separator: bytes


class TranslationResult(NamedTuple):
    """The translation of a line.

    hypotheses: up to n_best of the whole line, best first. chunks: the parts in which the line was
    translated. chunk_hypotheses: the hypotheses of each chunk, from which those of the line are joined.
    """

    hypotheses: list[Hypothesis]
    chunks: list[Chunk]
    chunk_hypotheses: list[list[Hypothesis]]

    @property
    def best(self) -> Hypothesis:
        """The best hypothesis."""
        return self.hypotheses[0]

    @property
    def source(self) -> bytes:
        """The line."""
        return b"".join(chunk.text + chunk.separator for chunk in self.chunks)

    def with_flags(self, flags: Sequence[str]) -> TranslationResult:
        """Return the result with flags of the best hypothesis, besides those that it has."""
        best, *others = self.hypotheses
        best = best._replace(flags=tuple(dict.fromkeys((*(best.flags or ()), *flags))))
        return self._replace(hypotheses=[best, *others])

    def best_chunks(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return source, translation and separator of each chunk, of the best hypothesis."""
        pairs = zip(self.chunks, self.chunk_hypotheses, strict=True)
        return [(chunk.text, hypotheses[0].text, chunk.separator) for chunk, hypotheses in pairs]


class LineBatch:
    """Lines that are translated together.

    Add the hypotheses of each of `requests`, in any order; then `results` gives those of the lines.

    lines: valid UTF-8 without line ends. languages: see split_line. max_source_bytes: of a chunk. has_source:
    whether the model was trained with a source; without one it is asked for its likeliest text, whatever the
    line. first: number of the first line, on which random draws depend. rules: constraints instead of those
    of the settings. reranker: ranks the hypotheses of each request, of which n_best are kept. tags: puts
    paired tags that are kept into translations made without them; None: the search writes them.
    """

    def __init__(
        self,
        lines: Sequence[bytes],
        settings: Settings,
        max_source_bytes: int,
        has_source: bool = True,
        first: int = 0,
        rules: ConstraintSpec | None = None,
        languages: Sequence[str] = (),
        reranker: Reranker | None = None,
        tags: TagTransfer | None = None,
    ) -> None:
        self._settings, self._has_source, self._reranker = settings, has_source, reranker
        self._rules = settings.rules if rules is None else rules
        is_kept = has_source and self._rules is not None and TAGS in self._rules.classes
        self._tags = tags if is_kept else None
        # The hypotheses with their tags, by the text of the chunk and its request, which has none.
        self._restored: dict[tuple[bytes, Request], list[Hypothesis]] = {}
        self._chunks = [
            split_line(line, max_source_bytes, self._rules, languages) if has_source else [Chunk(b"", b"")]
            for line in lines
        ]
        # Equal requests are one; in sampling they differ by their number.
        self._requests = [
            self._requests_of_line(chunks, number) for number, chunks in enumerate(self._chunks, first)
        ]
        every = (request for requests in self._requests for request in requests if request is not None)
        self.requests = list(dict.fromkeys(every))
        self.hypotheses: dict[Request, list[Hypothesis]] = {}

    def __len__(self) -> int:
        """The number of lines."""
        return len(self._chunks)

    @property
    def is_complete(self) -> bool:
        """True if the hypotheses of all requests are there."""
        return len(self.hypotheses) == len(self.requests)

    def parts(self, line: int) -> list[tuple[Chunk, Request | None]]:
        """Return the chunks of a line with their requests; None for a chunk that is copied."""
        return list(zip(self._chunks[line], self._requests[line], strict=True))

    def add(self, request: Request, hypotheses: list[Hypothesis]) -> None:
        """Store the hypotheses of a request, best first: reranked, and with flags under constraints."""
        if self._reranker is not None:
            n_best = self._settings.search.n_best
            hypotheses = self._reranker.rerank(request, hypotheses)[:n_best]
        if self._rules is not None:
            flags = self._rules.flags
            hypotheses = [one._replace(flags=flags(request, one.text, one.is_past_end)) for one in hypotheses]
        self.hypotheses[request] = hypotheses

    def results(self, n_best: int | None = None) -> list[TranslationResult]:
        """Return the results in the order of the lines. n_best: hypotheses of a line at most; None: all."""
        self._restore_tags([part for line in range(len(self)) for part in self.parts(line)])
        results = []
        for line, chunks in enumerate(self._chunks):
            hypotheses = [self.chunk_hypotheses(*part) for part in self.parts(line)]
            search = self._settings.search
            joined = join_hypotheses(chunks, hypotheses, search.length_penalty, search.n_best, search.sample)
            results.append(TranslationResult(joined[:n_best], chunks, hypotheses))
        return results

    def chunk_hypotheses(self, chunk: Chunk, request: Request | None) -> list[Hypothesis]:
        """Return the hypotheses of a chunk whose request has been decoded; where it is copied, the chunk."""
        if request is None:
            return [self._copy(chunk.text)]
        if not has_moved_tags(chunk, request):
            return self.hypotheses[request]
        self._restore_tags([(chunk, request)])
        return self._restored[chunk.text, request]

    def _restore_tags(self, parts: Sequence[tuple[Chunk, Request | None]]) -> None:
        """Put the paired tags of chunks into their hypotheses."""
        if self._tags is None:
            return
        assert self._rules is not None
        extractor = self._rules.tracker.extractor
        keys = dict.fromkeys(
            (chunk.text, request)
            for chunk, request in parts
            if request is not None and has_moved_tags(chunk, request)
        )
        waiting = [
            (key, hypothesis)
            for key in keys
            if key not in self._restored
            for hypothesis in self.hypotheses[key[1]]
        ]
        lines = [(split_tags(text, extractor), hypothesis) for (text, _), hypothesis in waiting]
        restored = self._tags.restore(
            [(line, hypothesis) for line, hypothesis in lines if line is not None], extractor
        )
        for ((text, request), _), hypothesis in zip(waiting, restored, strict=True):
            flags = (*(hypothesis.flags or ()), *self._rules.tag_flags(text, hypothesis.text))
            hypothesis = hypothesis._replace(flags=tuple(dict.fromkeys(flags)))
            self._restored.setdefault((text, request), []).append(hypothesis)

    def beginning(self, line: int, so_far: Callable[[Request], bytes]) -> tuple[bytes, bool]:
        """Return the beginning of a line's translation that is final, and whether it is complete.

        so_far: returns the first bytes of a request that is still being decoded.
        """
        text = b""
        for chunk, request in self.parts(line):
            if request is None or request in self.hypotheses:
                text += self.chunk_hypotheses(chunk, request)[0].text
            elif has_moved_tags(chunk, request):
                return text, False
            else:
                part = so_far(request)
                n_whole = first_invalid(part)  # the last character may be incomplete
                return text + (part if n_whole < 0 else part[:n_whole]), False
            text += chunk.separator
        return text, True

    def _requests_of_line(self, chunks: Sequence[Chunk], number: int) -> list[Request | None]:
        """Return the request of each chunk of line `number`; the first one with a text has the prefix."""
        begin = next((index for index, chunk in enumerate(chunks) if chunk.text), 0)
        return [
            self._request(chunk.text, number, index, self._settings.prefix if index == begin else b"")
            for index, chunk in enumerate(chunks)
        ]

    def _request(self, text: bytes, number: int, chunk: int, prefix: bytes) -> Request | None:
        """Return the request for a chunk of line `number`, or None where the text is copied."""
        settings, rules = self._settings, self._rules
        if self._has_source and not (text and (prefix or has_translatable_text(text, rules))):
            return None
        if self._tags is not None and rules is not None and not prefix:
            tagged = split_tags(text, rules.tracker.extractor)
            text = text if tagged is None else tagged.text
        limit = max(settings.max_target_bytes(len(text)), len(prefix))
        draws = number + chunk * CHUNK_NUMBER_STEP if settings.search.sample else 0
        request = Request(text if self._has_source else None, limit, prefix, draws)
        return rules.add_constraint(request) if rules else request

    def _copy(self, text: bytes) -> Hypothesis:
        """Return a text as its own translation, which costs nothing."""
        scores = (0.0,) * (len(text) + 1) if self._settings.search.byte_scores and text else ()
        return Hypothesis(text, 0.0, 0.0, byte_scores=scores, flags=None if self._rules is None else ())


def has_moved_tags(chunk: Chunk, request: Request) -> bool:
    """Return whether the paired tags of a chunk are not in its request."""
    return request.source is not None and request.source != chunk.text


def has_translatable_text(text: bytes, rules: ConstraintSpec | None = None) -> bool:
    """Return whether a text has letters or digits outside of URLs and e-mail addresses, and outside of
    placeholders and tags to be kept.

    True for a text of symbols alone, such as emojis. rules: the spans to keep, and the glossary, whose terms
    are translated wherever they stand.
    """
    if not LETTER_OR_DIGIT.search(text) and all(c in BLANKS or is_sign(c) for c in text.decode()):
        return rules is not None and not all(span.of for span in rules.spans(text))
    classes = tuple(name for name in COPIED_IF_KEPT if rules is not None and name in rules.classes)
    may_have_address = b"@" in text or b"://" in text or b"www." in text
    if not may_have_address and not (classes and text.lstrip().startswith(FIRST_SIGNS)):
        return True  # nearly every line: in less than a microsecond
    spans = span_extractor(ALWAYS_COPIED + classes).spans(text)
    if not spans or (rules is not None and not all(span.of for span in rules.spans(text))):
        return True
    return has_letters(text, spans)


def split_line(
    line: bytes, max_bytes: int, rules: ConstraintSpec | None = None, languages: Sequence[str] = ()
) -> list[Chunk]:
    """Return the chunks in which a line is translated: its sentences, cut where they have over max_bytes.

    The mark of a list item, as in `- item`, and a sign that is repeated, as in `Name: ________`, are chunks
    of their own. Spans to be kept are not cut, and no sentence ends between two tags that belong together.
    languages: of the sentences, see sentences.sentence_ends; none: the line is one sentence.
    """
    chunks = []
    for text, separator in split_sentences(line, rules, languages) if languages else [Chunk(line, b"")]:
        spans = [span[:2] for span in rules.spans(text)] if rules and len(text) > max_bytes else []
        *first, last = cut_line(text, max_bytes, spans)
        chunks += [*first, Chunk(last.text, separator)]
    return chunks


def split_sentences(line: bytes, rules: ConstraintSpec | None, languages: Sequence[str]) -> list[Chunk]:
    """Return the sentences, list marks and repeated signs of a line.

    The white space after each is its separator. rules: spans to keep, inside which no sentence ends.
    languages: codes such as "de", whose abbreviations are known. Without a language, a sentence ends where
    English and German rules agree.

    White space at the beginning of a line of several sentences is the separator of an empty chunk.
    """
    text = line.decode()
    at_signs = ends_at_signs(text)
    ends = sorted({*sentence_ends(text, languages), *at_signs})
    if not ends:
        return [Chunk(line, b"")]
    addresses = span_extractor(ALWAYS_COPIED).spans(line) if at_signs else []
    kept = rules.spans(line) if rules else []
    uncut = _uncut_ranges(line, sorted([*addresses, *kept]))
    chunks, at, index, position = list[Chunk](), 0, 0, 0  # position: of the byte `at`, in characters
    blanks = _blanks(text, 0)
    begin = len(blanks)
    for end in ends:
        at += len(text[position:end].encode())
        position = end
        while index < len(uncut) and uncut[index][1] <= at:
            index += 1
        if index < len(uncut) and uncut[index][0] < at:
            continue
        separator = _blanks(text, end)
        chunks.append(Chunk(line[begin:at], separator))
        begin = at + len(separator)
    if not chunks:
        return [Chunk(line, b"")]
    last = line[begin:].decode().rstrip().encode()
    leading = [Chunk(b"", blanks)] if blanks else []
    return [*leading, *chunks, Chunk(last, line[begin + len(last) :])]


def _blanks(text: str, begin: int) -> bytes:
    """Return the white space that begins at a character of a text."""
    end = begin
    while end < len(text) and text[end].isspace():
        end += 1
    return text[begin:end].encode()


def _uncut_ranges(line: bytes, spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Return begin and end of spans and of the elements between paired tags, in order, merged."""
    partner = partners([parse_tag(line[span.begin : span.end].decode()) for span in spans])
    ranges: list[tuple[int, int]] = []
    for index, span in enumerate(spans):
        begin, end = span.begin, spans[max(index, partner.get(index, index))].end
        if ranges and begin < ranges[-1][1]:
            begin, end = ranges[-1][0], max(end, ranges.pop()[1])
        ranges.append((begin, end))
    return ranges


def cut_line(line: bytes, max_bytes: int, spans: Sequence[tuple[int, int]] = ()) -> list[Chunk]:
    """Cut valid UTF-8 into chunks of at most `max_bytes`; texts and separators make the line again.

    A chunk ends at the last space that it can reach, else between two characters. max_bytes: at least 4, one
    character. spans: begins and ends of spans that are not cut, in order and without overlaps; a chunk that
    begins with a span longer than max_bytes ends after it.
    """
    chunks = []
    start = 0
    begins = [begin for begin, _ in spans]
    while len(line) - start > max_bytes:
        end, separator = _chunk_end(line, start, max_bytes, spans, begins)
        if end >= len(line):
            break
        chunks.append(Chunk(line[start:end], separator))
        start = end + len(separator)
    chunks.append(Chunk(line[start:], b""))
    return chunks


def _chunk_end(
    line: bytes, start: int, max_bytes: int, spans: Sequence[tuple[int, int]], begins: Sequence[int]
) -> tuple[int, bytes]:
    """Return where the chunk that begins at start ends, and its separator. begins: of the spans."""
    last = start + max_bytes + 1  # one more than the last byte that may be the separator
    while True:
        end = line.rfind(b" ", start + 1, last)
        separator = line[end : end + 1] if end > start else b""
        if not separator:
            end = min(last - 1, start + max_bytes)
            while line[end] & 0xC0 == 0x80:  # a continuation byte: its character began before
                end -= 1
        # The last span that begins at the end of the chunk or before it is the only one that can be cut.
        nearest = bisect_right(begins, end) - 1
        span_begin, span_end = spans[nearest] if nearest >= 0 else (end, end)
        if span_end <= end or (span_begin == end and not separator):
            return end, separator
        if span_begin <= start:
            return span_end, b" " if line[span_end : span_end + 1] == b" " else b""
        if separator and line.rfind(b" ", start + 1, span_begin) > start:
            last = span_begin
        else:
            return span_begin, b""


def join_hypotheses(
    chunks: Sequence[Chunk],
    hypotheses: Sequence[Sequence[Hypothesis]],
    length_penalty: float,
    n_best: int = 1,
    is_sampled: bool = False,
) -> list[Hypothesis]:
    """Return up to n_best hypotheses of a line, those whose chunks have the highest sums of scores, best
    first.

    Drawn hypotheses have no order: the k-th of a line then joins the k-th of each chunk.
    """
    if len(chunks) == 1:
        return list(hypotheses[0])
    joined = []
    for parts in zip(*hypotheses, strict=False) if is_sampled else _best_combinations(hypotheses, n_best):
        text = b"".join(part.text + chunk.separator for part, chunk in zip(parts, chunks, strict=True))
        log_probability = sum(part.log_probability for part in parts)
        score = log_probability / (len(text) + 1) ** length_penalty
        scores = _join_byte_scores(chunks, parts)
        checked = [part.flags for part in parts if part.flags is not None]
        flags = tuple(dict.fromkeys(flag for flags in checked for flag in flags)) if checked else None
        joined.append(Hypothesis(text, log_probability, score, scores, flags))
    return joined


def _best_combinations(hypotheses: Sequence[Sequence[Hypothesis]], n: int) -> list[tuple[Hypothesis, ...]]:
    """Return up to n combinations of a hypothesis of each chunk, those with the highest sums of scores."""
    if n == 1:
        return [tuple(each[0] for each in hypotheses)]
    # The best n of some chunks begin with the best n of all but the last of them: keep these at each chunk,
    # with the index of their beginning, and follow the indices back from the end.
    totals, steps = [0.0], list[list[tuple[int, int]]]()
    for each in hypotheses:
        longer = [(total + one.score, i, k) for i, total in enumerate(totals) for k, one in enumerate(each)]
        longer = sorted(longer, key=lambda item: -item[0])[:n]
        totals = [total for total, _, _ in longer]
        steps.append([(i, k) for _, i, k in longer])
    combinations = []
    for i in range(len(totals)):
        path = []
        for step, each in zip(reversed(steps), reversed(hypotheses), strict=True):
            i, k = step[i]  # noqa: PLW2901
            path.append(each[k])
        combinations.append(tuple(reversed(path)))
    return combinations


def _join_byte_scores(chunks: Sequence[Chunk], parts: Sequence[Hypothesis]) -> tuple[float, ...]:
    """Return the byte scores of a line: separators cost nothing, its end as much as the ends of all
    chunks."""
    if not any(part.byte_scores for part in parts):
        return ()
    scores, ends = list[float](), 0.0
    for part, chunk in zip(parts, chunks, strict=True):
        *of_bytes, end = part.byte_scores or (0.0,)  # an empty chunk has no scores
        scores += of_bytes + [0.0] * len(chunk.separator)
        ends += end
    return (*scores, ends)
