"""Put sentinels in the place of what both sides of a training pair share, so that a model learns to carry
them.

Kept spans (sentinels.py) that stand on both sides become sentinels. Some pairs get others besides: a name or
a number that occurs once on both sides becomes one, or comes to stand between two; or a clause does, as words
between tags do, where both sides have as many clauses. Lengths change, so this is done for a whole epoch,
before its batches are planned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.data.augment.draws import HALF, Below, chance, keyed_draws, row_keys
from bytenmt.data.corpus import ParallelCorpus, Part
from bytenmt.data.text_file import TextFile
from bytenmt.sentinels import (
    N_SENTINELS,
    Span,
    find_spans,
    merge_adjacent,
    replace_spans,
    sentinel,
    shared_spans,
    to_bytes,
)

RAW = 0.1  # share of the pairs with kept spans that stay as they are, so that a model also reads plain text
AROUND = 3  # one in so many names and numbers gets a sentinel before and after it, the others become one
MOST_WORDS = 2  # names and numbers of a pair that are replaced
CLAUSE = 3  # one in so many pairs gets sentinels around a clause instead

# A name or a number: in Korean text it ends where Korean letters begin.
_LATIN = "A-Za-z0-9\u00c0-\u024f"
_CLAUSE = re.compile(r"[^\s,;:.!?…()\"“”„»«–—][^,;:.!?…()\"“”„»«–—]*(?<!\s)")
_WORD = re.compile(rf"(?<![{_LATIN}_])[A-Z0-9\u00c0-\u00de][{_LATIN}]*+(?:[.,:'’-][{_LATIN}]++)*+")


class SharedSpans(NamedTuple):
    """The spans that both sides of a pair share, in the source's order: source[i] goes with target[i]."""

    source: tuple[Span, ...]
    target: tuple[Span, ...]


class SentinelAugmenter:
    """The shared spans of a corpus, found once, of which the corpus of each epoch is made."""

    def __init__(self, corpus: ParallelCorpus, share: float) -> None:
        """share: of the pairs, in which names and numbers become sentinels, too."""
        self._corpus, self._share = corpus, share
        self._shared: dict[int, SharedSpans] = {}
        for k in range(len(corpus)):
            shared = find_shared(corpus.source(k).decode(), corpus.target(k).decode())
            if shared.source:
                self._shared[k] = shared

    def corpus(self, key: int) -> ParallelCorpus:
        """Return the corpus with sentinels. What a pair gets depends on the key and on its index alone.

        Changed lines lie beside the mapped file, as repaired ones do.
        """
        corpus = self._corpus
        keys = row_keys(np.uint64(key), np.arange(len(corpus)))
        with_words = keys >> HALF < chance(self._share)
        changed = sorted({*self._shared, *np.flatnonzero(with_words).tolist()})
        source_lengths, target_lengths = corpus.source_lengths.copy(), corpus.target_lengths.copy()
        texts = [
            (_ChangedText(part.src), _ChangedText(part.tgt)) for part in corpus.parts if part.src is not None
        ]
        part_of = np.searchsorted(corpus.bounds, changed, side="right") - 1
        for k, part in zip(changed, part_of.tolist(), strict=True):
            line, below = int(corpus.lines[k]), keyed_draws(keys[k])
            source, target = corpus.source(k).decode(), corpus.target(k).decode()
            shared = self._shared.get(k, SharedSpans((), ()))
            if below(1000) < 1000 * RAW:
                shared = SharedSpans((), ())
            own, other = with_sentinels(source, target, shared, bool(with_words[k]), below)
            if not (_fits(own, corpus.max_source_bytes) and _fits(other, corpus.max_target_bytes)):
                continue
            for text, content, lengths in zip(
                texts[part], (own, other), (source_lengths, target_lengths), strict=True
            ):
                text.put(line, content)
                lengths[k] = len(content)
        parts = tuple(
            Part(source.finished(), target.finished(), part.weight)
            for (source, target), part in zip(texts, corpus.parts, strict=True)
        )
        return replace(corpus, parts=parts, source_lengths=source_lengths, target_lengths=target_lengths)


def _fits(text: bytes, limit: int | None) -> bool:
    return limit is None or len(text) <= limit


class _ChangedText:
    """A text file with some lines replaced."""

    def __init__(self, text: TextFile) -> None:
        self._text, self._side = text, bytearray(text.side.tobytes())
        self._starts, self._lengths = text.starts.copy(), text.lengths.copy()

    def put(self, line: int, content: bytes) -> None:
        self._starts[line], self._lengths[line] = ~len(self._side), len(content)
        self._side += content

    def finished(self) -> TextFile:
        side: npt.NDArray[np.uint8] = np.frombuffer(bytes(self._side), np.uint8)
        return replace(self._text, starts=self._starts, lengths=self._lengths, side=side)


def find_shared(source: str, target: str) -> SharedSpans:
    """Return the kept spans that both sides share, at most as many as there are sentinels.

    Spans with nothing between them are compared as one first, then each by itself.
    """
    own, other = find_spans(source), find_spans(target)
    if not own or not other:
        return SharedSpans((), ())
    pairs = _matched(source, target, merge_adjacent(own), merge_adjacent(other))
    covered = tuple([span for pair in pairs for span in (pair[side],)] for side in (0, 1))
    left = [
        [span for span in spans if not _lies_in(span, whole)]
        for spans, whole in zip((own, other), covered, strict=True)
    ]
    pairs = sorted(pairs + _matched(source, target, *left))[:N_SENTINELS]
    return SharedSpans(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))


def _matched(source: str, target: str, own: Sequence[Span], other: Sequence[Span]) -> list[tuple[Span, Span]]:
    texts = [source[begin:end] for begin, end in own], [target[begin:end] for begin, end in other]
    return [(own[i], other[j]) for i, j in shared_spans(*texts)]


def _lies_in(span: Span, others: Sequence[Span]) -> bool:
    return any(other.begin <= span.begin and span.end <= other.end for other in others)


def with_sentinels(
    source: str, target: str, shared: SharedSpans, with_words: bool, below: Below
) -> tuple[bytes, bytes]:
    """Return a pair with sentinels, drawn from all of them at random, in the place of its shared spans.

    with_words: whether names and numbers outside of the spans, or a clause, get sentinels, too. below(n)
    draws a number from 0 to n - 1. Both texts as UTF-8 with sentinels.
    """
    numbers = list(range(N_SENTINELS))
    for i in range(N_SENTINELS - 1):  # Fisher and Yates' shuffle
        j = i + below(N_SENTINELS - i)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    changes: list[list[tuple[Span, str]]] = [[], []]
    for spans in zip(shared.source, shared.target, strict=True):
        symbol = sentinel(numbers.pop())
        for side, span in enumerate(spans):
            changes[side].append((span, symbol))
    if with_words and below(CLAUSE) == 0 and len(numbers) > 1:
        symbols = [sentinel(numbers.pop()), sentinel(numbers.pop())]
        for side, clause in enumerate(_clauses(source, target, below)):
            changes[side] += [(Span(at, at), symbol) for at, symbol in zip(clause, symbols, strict=True)]
        with_words = False
    words = _shared_words(source, target, shared) if with_words else []
    for _ in range(min(1 + below(MOST_WORDS), len(words))):
        spans = words.pop(below(len(words)))
        is_around = below(AROUND) == 0
        if len(numbers) < 1 + is_around:
            break
        symbols = [sentinel(numbers.pop()) for _ in range(1 + is_around)]
        for side, (text, span) in enumerate(zip((source, target), spans, strict=True)):
            new = text[span.begin : span.end].join(symbols) if is_around else symbols[0]
            changes[side].append((span, new))
    return to_bytes(replace_spans(source, changes[0])), to_bytes(replace_spans(target, changes[1]))


def _shared_words(source: str, target: str, shared: SharedSpans) -> list[tuple[Span, Span]]:
    """Return the places of names and numbers that occur once, unchanged, on both sides, outside of spans."""
    of_target = {match[0]: Span(*match.span()) for match in _WORD.finditer(target)}
    words = []
    for match in _WORD.finditer(source):
        word, span = match[0], Span(*match.span())
        other = of_target.get(word)
        if other is None or source.count(word) > 1 or target.count(word) > 1:
            continue
        if not _overlaps(span, shared.source) and not _overlaps(other, shared.target):
            words.append((span, other))
    return words


def _clauses(source: str, target: str, below: Below) -> tuple[Span, ...]:
    """Return a clause of a source and the one in its place in the target, () where their numbers differ."""
    own, other = ([Span(*match.span()) for match in _CLAUSE.finditer(text)] for text in (source, target))
    if len(own) != len(other) or not own:
        return ()
    chosen = below(len(own))
    return own[chosen], other[chosen]


def _overlaps(span: Span, others: Sequence[Span]) -> bool:
    return any(span.begin < other.end and other.begin < span.end for other in others)
