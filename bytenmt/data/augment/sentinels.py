"""Put sentinels in the place of what both sides of a training pair share, so that a model learns to
carry them.

Kept spans (sentinels.py) that stand on both sides become sentinels. Some pairs get others besides:
a name or a number that occurs once on both sides becomes one, or comes to stand between two, as
words between tags do. Lengths change, so this is done for a whole epoch, before its batches are
planned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bytenmt.data.augment.draws import HALF, Below, chance_threshold, keyed_draws, row_keys
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.kernel_constants import N_SENTINELS
from bytenmt.sentinels import (
    Span,
    find_spans,
    merge_adjacent,
    replace_spans,
    sentinel_char,
    to_bytes,
)

# Share of the pairs with shared spans that stay as they are, so that a model also reads plain text.
RAW_SHARE = 0.1
# One in so many names and numbers gets a sentinel before and after it; the others become one.
SURROUNDED_PERIOD = 3
MAX_WORDS = 2  # names and numbers of a pair that are replaced

SharedSpans = list[tuple[Span, Span]]  # of a source and its target

# A name or a number: in Korean text it ends where Korean letters begin.
_LATIN = "A-Za-z0-9\u00c0-\u024f"
_WORD = re.compile(rf"(?<![{_LATIN}_])[A-Z0-9\u00c0-\u00de][{_LATIN}]*+(?:[.,:'’-][{_LATIN}]++)*+")


class SentinelAugmenter:
    """Replaces spans that both sides of a training pair share, such as tags, by sentinels: bytes
    from 0xF5 to 0xFC that a model learns to copy. The spans of the whole corpus are found once, at
    the start; sentinels are drawn anew for each epoch."""

    def __init__(self, corpus: ParallelCorpus, share: float) -> None:
        """share: of the pairs, 0 to 1, in which some names and numbers become sentinels, too."""
        self._corpus, self._share = corpus, share
        self._shared: dict[int, SharedSpans] = {}
        for k in range(len(corpus)):
            shared = find_shared(corpus.source(k).decode(), corpus.target(k).decode())
            if shared:
                self._shared[k] = shared

    def corpus(self, key: int) -> ParallelCorpus:
        """Return the corpus with sentinels in its pairs. key: random seed of an epoch; the changes
        of a pair depend on it and on the pair's index alone."""
        corpus = self._corpus
        keys = row_keys(np.uint64(key), np.arange(len(corpus)))
        with_words = keys >> HALF < chance_threshold(self._share)
        changed = sorted({*self._shared, *np.flatnonzero(with_words).tolist()})
        limits = corpus.max_source_bytes, corpus.max_target_bytes
        lengths = corpus.source_lengths.copy(), corpus.target_lengths.copy()
        pairs: dict[int, tuple[bytes, bytes]] = {}
        for k in changed:
            below = keyed_draws(keys[k])
            shared = [] if below(1000) < 1000 * RAW_SHARE else self._shared.get(k, [])
            texts = corpus.source(k).decode(), corpus.target(k).decode()
            pair = with_sentinels(*texts, shared, bool(with_words[k]), below)
            if all(
                limit is None or len(text) <= limit
                for text, limit in zip(pair, limits, strict=True)
            ):
                pairs[k] = pair
                lengths[0][k], lengths[1][k] = map(len, pair)
        return replace(corpus, source_lengths=lengths[0], target_lengths=lengths[1], changed=pairs)


def find_shared(source: str, target: str) -> SharedSpans:
    """Return the places of tags, numbers, addresses and the like whose text is the same in source
    and target: pairs of Spans (in the source, in the target), in the source's order.

    A Span is (begin, end) in characters. There are at most N_SENTINELS (8). Spans that touch are
    compared as one first, then each by itself.
    """
    source_spans = find_spans(source)
    if not source_spans:
        return []
    target_spans = find_spans(target)
    pairs = _match_equal_spans(
        source, target, merge_adjacent(source_spans), merge_adjacent(target_spans)
    )
    unmatched = [
        [span for span in spans if not _overlaps(span, [pair[side] for pair in pairs])]
        for side, spans in enumerate((source_spans, target_spans))
    ]
    return sorted(pairs + _match_equal_spans(source, target, *unmatched))[:N_SENTINELS]


def _match_equal_spans(
    source: str, target: str, source_spans: Sequence[Span], target_spans: Sequence[Span]
) -> SharedSpans:
    """Pair the spans of equal texts: the first of a text with the first on the other side."""
    places = dict[str, list[Span]]()
    for span in target_spans:
        places.setdefault(target[span.begin : span.end], []).append(span)
    matches = ((span, places.get(source[span.begin : span.end])) for span in source_spans)
    return [(span, same.pop(0)) for span, same in matches if same]


def with_sentinels(
    source: str, target: str, shared: SharedSpans, with_words: bool, below: Below
) -> tuple[bytes, bytes]:
    """Replace each shared span of a pair by a sentinel, a random byte from 0xF5 to 0xFC, the same
    one on both sides; return (source, target) in UTF-8 with these bytes.

    shared: places of the spans, from find_shared; empty for a pair that keeps them as plain text.
    with_words: whether some names and numbers outside of tags, addresses and the like become
    sentinels, or get one before and after them, too. below(n): draws an integer from 0 to n - 1.
    """
    numbers = list(range(N_SENTINELS))
    for i in range(N_SENTINELS - 1):  # Fisher and Yates' shuffle
        j = i + below(N_SENTINELS - i)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    changes: list[list[tuple[Span, str]]] = [[], []]
    for spans in shared:
        symbol = sentinel_char(numbers.pop())
        for side, span in enumerate(spans):
            changes[side].append((span, symbol))
    words = _shared_words(source, target) if with_words else []
    for _ in range(min(1 + below(MAX_WORDS), len(words))):
        spans = words.pop(below(len(words)))
        is_surrounded = below(SURROUNDED_PERIOD) == 0
        if len(numbers) < 1 + is_surrounded:
            break
        symbols = [sentinel_char(numbers.pop()) for _ in range(1 + is_surrounded)]
        for side, (text, span) in enumerate(zip((source, target), spans, strict=True)):
            new = text[span.begin : span.end].join(symbols) if is_surrounded else symbols[0]
            changes[side].append((span, new))
    return to_bytes(replace_spans(source, changes[0])), to_bytes(replace_spans(target, changes[1]))


def _shared_words(source: str, target: str) -> SharedSpans:
    """Return the places of names and numbers that occur once, unchanged, on both sides, outside of
    the kept spans of either side, shared or not."""
    of_target = {match[0]: Span(*match.span()) for match in _WORD.finditer(target)}
    words = []
    for match in _WORD.finditer(source):
        word = match[0]
        if word in of_target and source.count(word) == target.count(word) == 1:
            words.append((Span(*match.span()), of_target[word]))
    if not words:
        return []
    source_spans = find_spans(source)
    target_spans = find_spans(target)
    return [
        (place, other)
        for place, other in words
        if not _overlaps(place, source_spans) and not _overlaps(other, target_spans)
    ]


def _overlaps(span: Span, others: Sequence[Span]) -> bool:
    return any(span.begin < other.end and other.begin < span.end for other in others)
