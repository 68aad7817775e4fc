"""Translate a line without its paired tags, and put them around the same words of its translation.

A model translates a sentence better when no tags interrupt it. Which words of the translation belong between
a pair of tags is read from the attention weights: those that attend mostly to what the pair encloses in the
source. Other spans that are kept, such as placeholders, are copies of spans of the source: it is known which
pairs enclose them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.alignment import Aligner
from bytenmt.decoding.interface import Hypothesis
from bytenmt.decoding.reading import Weights
from bytenmt.spans.extractor import Span, SpanExtractor, has_letters
from bytenmt.spans.grammar import CLOSE, OPEN, parse_tag, partners

TAGS = "tags"  # the class of spans
CACHED = 2048  # lines whose parts are remembered: they are needed before and after the search
LONGEST = 2000  # bytes of a line: there is a weight for every pair of bytes
AT_ONCE = 32  # translations that are aligned together
# A word of an alphabet, with signs in it as in don't and Ctrl+C, or any other character that is no blank. A
# letter of other scripts, without spaces or with particles behind a word, is a token of its own.
LETTERS = r"[0-9A-Za-z_\u00c0-\u07ff\u1e00-\u1fff]+"
LETTER_AND_DIGIT = re.compile(rb"[A-Za-z\x80-\xff][0-9]|[0-9][A-Za-z\x80-\xff]")
TOKEN = re.compile(rf"{LETTERS}(?:[-'’.+/]{LETTERS})*|\S")


@dataclass(frozen=True)
class Element:
    """A pair of tags.

    begin, end: of what it encloses, in bytes of the line without paired tags. children: elements inside.
    """

    opening: bytes
    closing: bytes
    begin: int
    end: int
    children: tuple[Element, ...]


@dataclass(frozen=True)
class TaggedLine:
    """A line without its paired tags.

    text: valid UTF-8. spans: the spans that are kept in it. elements: the outermost ones, in their order.
    """

    text: bytes
    spans: tuple[Span, ...]
    elements: tuple[Element, ...]


class Token(NamedTuple):
    """A word, a sign or a kept span of a translation.

    begin, end: in bytes. is_sign: it has neither letters nor digits, and is not kept. source: the span of the
    source that it is a copy of.
    """

    begin: int
    end: int
    is_sign: bool
    source: Span | None


class PlacedElement(NamedTuple):
    """An element around tokens[first:end], or before tokens[first] where the two are equal."""

    first: int
    end: int
    element: Element
    children: list[PlacedElement]


@dataclass(frozen=True, eq=False)
class TagTransfer:
    """Puts the paired tags of lines into their translations by the attention of models.

    aligner: is not called before the first line with tags, as its weights take time and memory.
    """

    aligner: Callable[[], Aligner]

    def restore(
        self, lines: Sequence[tuple[TaggedLine, Hypothesis]], extractor: SpanExtractor
    ) -> list[Hypothesis]:
        """Return the hypotheses of lines without paired tags with the tags of their lines.

        extractor: of the spans that are kept. The tags cost nothing.
        """
        restored = []
        for first in range(0, len(lines), AT_ONCE):
            some = lines[first : first + AT_ONCE]
            weights = self.aligner().weights([(line.text, hypothesis.text) for line, hypothesis in some])
            restored += [
                insert_tags(hypothesis, Placement(line, hypothesis.text, matrix, extractor).tags())
                for (line, hypothesis), matrix in zip(some, weights, strict=True)
            ]
        return restored


@lru_cache(maxsize=CACHED)
def split_tags(line: bytes, extractor: SpanExtractor) -> TaggedLine | None:
    """Return a line without its paired tags; None where they have to stay in it.

    That is a line that has none, or others that are not paired; one whose words would be joined, because
    elements touch or a tag is between a letter and a digit, as in word<sup>1</sup>; one that has other spans
    without them; and one of more than LONGEST bytes.
    """
    spans = extractor.spans(line) if b"<" in line and len(line) <= LONGEST else []
    tags = [parse_tag(line[begin:end].decode()) if of == TAGS else None for begin, end, of in spans]
    partner = partners(tags)
    kinds = [None if tag is None else tag[0] for tag in tags]
    if not partner or len(partner) < len(tags) - kinds.count(None):
        return None
    for (span, kind), (next_span, next_kind) in pairwise(zip(spans, kinds, strict=True)):
        if span.end == next_span.begin and kind == CLOSE and next_kind == OPEN:
            return None
    text, last, kept, starts = b"", 0, list[Span](), list[int]()  # starts: of all spans, in the text
    for index, (begin, end, of) in enumerate(spans):
        text += line[last:begin]
        starts.append(len(text))
        last = end
        if index not in partner:
            text += line[begin:end]
            kept.append(Span(starts[-1], len(text), of))
    text += line[last:]
    places = [starts[index] for index in partner if starts[index]]
    if extractor.spans(text) != kept or any(LETTER_AND_DIGIT.match(text, place - 1) for place in places):
        return None

    def elements(first: int, end: int) -> tuple[Element, ...]:
        """Return the elements of spans[first:end]."""
        found = []
        while first < end:
            closing = partner.get(first, first)
            if closing > first:
                opening_tag, closing_tag = (line[slice(*spans[k][:2])] for k in (first, closing))
                children = elements(first + 1, closing)
                found.append(Element(opening_tag, closing_tag, starts[first], starts[closing], children))
            first = closing + 1
        return tuple(found)

    return TaggedLine(text, tuple(kept), elements(0, len(spans)))


class Placement:
    """The places of the elements of a line in its translation.

    weights: (bytes of the text, bytes of the line + 1), see Aligner.weights.
    """

    def __init__(self, line: TaggedLine, text: bytes, weights: Weights, extractor: SpanExtractor) -> None:
        self._line, self._text = line, text
        self._tokens = tokens = tokenize(text, line, extractor)
        self._is_copy = np.array([token.source is not None for token in tokens], bool)
        self._is_sign = np.array([token.is_sign for token in tokens], bool)
        self._n_bytes = np.array([token.end - token.begin for token in tokens], float)
        # Row t, column j: the share of the attention of token t on the first j bytes of the line.
        n = len(line.text)
        self._shares: npt.NDArray[np.float64] = np.zeros((len(tokens), n + 1))
        for row, token in zip(self._shares, tokens, strict=True):
            if token.source is None:
                np.cumsum(weights[token.begin : token.end, :n].sum(axis=0), out=row[1:])
                row /= max(row[-1], 1e-9)
            else:
                begin, end, _ = token.source
                row[:] = np.clip((np.arange(n + 1) - begin) / (end - begin), 0.0, 1.0)

    def tags(self) -> list[tuple[int, bytes]]:
        """Return the tags in the order of the text, and how many of its bytes are before each."""
        whole = Element(b"", b"", 0, len(self._line.text), self._line.elements)
        return list(self._tags(self._place_children(whole, 0, len(self._tokens)), 0, len(self._tokens), 0))

    def _tags(
        self, placed: Sequence[PlacedElement], first: int, end: int, at: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the tags of elements among tokens[first:end]. at: position where there are no tokens."""
        tokens = self._tokens
        for child in sorted(placed, key=lambda child: (child.first, child.end)):
            if child.first < child.end:
                begin, behind = tokens[child.first].begin, tokens[child.end - 1].end
            elif child.first < end:
                begin = behind = tokens[child.first].begin
            else:
                begin = behind = tokens[end - 1].end if first < end else at
            yield begin, child.element.opening
            yield from self._tags(child.children, child.first, child.end, begin)
            yield behind, child.element.closing

    def _place_children(self, parent: Element, first: int, end: int) -> list[PlacedElement]:
        """Return the children of an element, which encloses tokens[first:end]."""
        children = parent.children
        if not children:
            return []
        begins, ends = [child.begin for child in children], [child.end for child in children]
        # Whether a token belongs to a child: from -1, not at all, to 1. (tokens, children)
        inside = 2.0 * (self._shares[:, ends] - self._shares[:, begins]) - 1.0
        n_owners = (inside > 0).sum(axis=1)
        is_left = np.zeros(len(self._tokens), bool)  # in the parent, and in no child yet
        is_left[first:end] = True
        ranges = list[tuple[int, int] | None]()
        for child, share in zip(children, inside.T, strict=True):
            is_own = share > 0
            is_free = is_left & (n_owners == is_own) & (is_own | ~self._is_copy)
            found = self._find_range(child, parent, share, is_free)
            if found is not None and not is_left[slice(*found)].all():
                found = None
            ranges.append(found)
            is_left[slice(*found or (0, 0))] = False
        taken = [found for found in ranges if found is not None]
        placed = []
        for child, found in zip(children, ranges, strict=True):
            if found is None:
                cut = self._find_cut(child, parent, first, end, taken)
                found = cut, cut
            placed.append(PlacedElement(*found, child, self._place_children(child, *found)))
        return placed

    def _find_range(
        self,
        element: Element,
        parent: Element,
        share: npt.NDArray[np.float64],
        is_free: npt.NDArray[np.bool_],
    ) -> tuple[int, int] | None:
        """Return the tokens that an element encloses, as a range; None for none.

        share: how much each token belongs to it, from -1 to 1. is_free: which tokens it may enclose.
        """
        has_text = self._has_letters(element.begin, element.end)
        copies, words = np.flatnonzero(is_free & self._is_copy), np.flatnonzero(is_free & ~self._is_sign)
        if not (has_text and len(words)) and not len(copies):
            return None
        # A sign alone is no translation of words.
        worth = np.where(self._is_sign, share.clip(max=0.0), share) * self._n_bytes
        before = self._has_letters(parent.begin, element.begin)
        after = self._has_letters(element.end, parent.end)
        if has_text and not before and not after:
            low, high = best_range(np.ones(len(is_free)), is_free)
        elif len(copies):
            low, high = int(copies[0]), int(copies[-1]) + 1
        else:
            low, high = best_range(worth, is_free)
            if worth[low:high].sum() <= 0:  # no word attends to it mostly: the one that does most
                low = int(words[share[words].argmax()])
                high = low + 1
        if has_text and len(copies):
            low -= best_extension(worth[:low][::-1], is_free[:low][::-1])
            high += best_extension(worth[high:], is_free[high:])
        return self._fit_signs(element, low, high, is_free)

    def _fit_signs(
        self, element: Element, low: int, high: int, is_free: npt.NDArray[np.bool_]
    ) -> tuple[int, int]:
        """Return a range with signs at its ends only where the element has some in the source."""
        source = self._line.text[element.begin : element.end].decode().strip()
        tokens = self._tokens
        if source and source[0].isalnum():
            while high - low > 1 and tokens[low].is_sign:
                low += 1
        if source and source[-1].isalnum():
            while high - low > 1 and tokens[high - 1].is_sign:
                high -= 1
        elif source and is_free[high : high + 1].any() and not tokens[high - 1].is_sign:
            high += self._text[tokens[high].begin : tokens[high].end].decode() == source[-1]
        return low, high

    def _find_cut(
        self, element: Element, parent: Element, first: int, end: int, taken: Sequence[tuple[int, int]]
    ) -> int:
        """Return the token before which an element without tokens belongs.

        It is between what attends to the part of the parent before it and what attends to the part after it.
        taken: ranges of other elements, in which it does not belong.
        """
        before = self._shares[first:end, element.begin] - self._shares[first:end, parent.begin]
        costs = np.concatenate([[0.0], np.cumsum(1.0 - 2.0 * before)])
        for low, high in taken:
            costs[low + 1 - first : high - first] = np.inf
        return first + int(costs.argmin())

    def _has_letters(self, begin: int, end: int) -> bool:
        """Return whether a part of the line has letters or digits outside of kept spans."""
        spans = [span for span in self._line.spans if begin <= span.begin and span.end <= end]
        moved = [Span(span.begin - begin, span.end - begin, span.of) for span in spans]
        return has_letters(self._line.text[begin:end], moved)


def tokenize(text: bytes, line: TaggedLine, extractor: SpanExtractor) -> list[Token]:
    """Return the tokens of a translation. Equal spans are copies of those of the line in their order."""
    sources: dict[bytes, deque[Span]] = {}
    for span in line.spans:
        sources.setdefault(line.text[span.begin : span.end], deque()).append(span)
    tokens, at = list[Token](), 0

    def add_words(end: int) -> None:
        position, last = at, 0
        part = text[at:end].decode()
        for match in TOKEN.finditer(part):
            position += len(part[last : match.start()].encode())
            begin, position = position, position + len(match[0].encode())
            last = match.end()
            if tokens and tokens[-1].end == begin and unicodedata.category(match[0][0])[0] == "M":
                tokens[-1] = tokens[-1]._replace(end=position)  # an accent belongs to its letter
            else:
                tokens.append(Token(begin, position, not any(map(str.isalnum, match[0])), None))

    for span in extractor.spans(text):
        add_words(span.begin)
        copies = sources.get(text[span.begin : span.end])
        source = copies.popleft() if copies else None
        tokens.append(Token(span.begin, span.end, False, source))
        at = span.end
    add_words(len(text))
    return tokens


def best_range(worth: npt.NDArray[np.float64], is_free: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return the range with the largest sum among those that are free; (0, 0) where nothing is.

    >>> best_range(np.array([-1.0, 2.0, -1.0, 3.0, 9.0]), np.array([True, True, True, True, False]))
    (1, 4)
    """
    best, found, total, begin = -np.inf, (0, 0), 0.0, 0
    for index, (value, free) in enumerate(zip(worth.tolist(), is_free.tolist(), strict=True)):
        if not free:
            total, begin = 0.0, index + 1
            continue
        if total < 0:
            total, begin = 0.0, index
        total += value
        if total > best:
            best, found = total, (begin, index + 1)
    return found


def best_extension(worth: npt.NDArray[np.float64], is_free: npt.NDArray[np.bool_]) -> int:
    """Return how many of the first values, all of them free, have the largest sum; 0 where it is negative."""
    n_free = int(np.argmin(np.append(is_free, False)))
    return int(np.append(0.0, np.cumsum(worth[:n_free])).argmax())


def insert_tags(hypothesis: Hypothesis, tags: Sequence[tuple[int, bytes]]) -> Hypothesis:
    """Return a hypothesis with tags at these positions of its text, in ascending order; they cost nothing."""
    text, scores, last = b"", list[float](), 0
    old, has_scores = hypothesis.text, bool(hypothesis.byte_scores)
    for at, tag in [*tags, (len(old), b"")]:
        text += old[last:at] + tag
        if has_scores:
            scores += [*hypothesis.byte_scores[last:at], *[0.0] * len(tag)]
        last = at
    end = hypothesis.byte_scores[-1:]
    return hypothesis._replace(text=text, byte_scores=(*scores, *end))
