"""Which pairs form a batch, in which order, and their bytes as arrays.

A plan is a function of the lengths, the seed and the epoch alone, so that a run resumes from
(epoch, batch index). This file does not know models or devices; arrays are NumPy's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.alphabet import BOS, EOS, PAD, njit

if TYPE_CHECKING:
    from bytenmt.corpus import ParallelCorpus, TextFile

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
RandomState = npt.NDArray[np.uint64]  # (1,)

# Widths, in bytes of target length, of the strips that are tried; the one that pads least is kept.
STRIP_WIDTHS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32], np.int64)
LONGEST_KEY = 1 << 16  # pairs longer than this are sorted as if they had this length
PREFETCH = 4  # batches that are assembled ahead


class EpochPlan(NamedTuple):
    """order (m,) int64: all indices into corpus.pairs, each once; batch b of the plan is
    order[bounds[b] : bounds[b + 1]], bounds (n_batches + 1,) int64."""

    order: Indices
    bounds: Indices

    @property
    def n_batches(self) -> int:
        return len(self.bounds) - 1

    def batch(self, index: int) -> Indices:
        """(n,) int64: the indices into corpus.pairs that batch `index` holds."""
        return self.order[self.bounds[index] : self.bounds[index + 1]]


class Batch(NamedTuple):
    """One batch. Without a source, source is (n, 0) and source_len all 0.

    source (n, s) uint8: bytes, EOS, PAD; source_len (n,) int64: bytes with EOS.
    target_in (n, t) uint8: BOS, bytes, PAD; target_out (n, t) uint8: bytes, EOS, PAD.
    target_len (n,) int64: bytes with EOS, which is also bytes with BOS.
    """

    source: Bytes
    source_len: Indices
    target_in: Bytes
    target_out: Bytes
    target_len: Indices


@njit
def _random(state: RandomState) -> np.uint64:
    """The next 64 bits of splitmix64 (Steele et al. 2014); it stays the same in every NumPy."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.uint64 = z ^ (z >> np.uint64(31))
    return mixed


@njit
def _random_below(state: RandomState, limit: int) -> int:
    return int(np.int64(_random(state) % np.uint64(limit)))


@njit
def _shuffle(items: Indices, state: RandomState) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = _random_below(state, last + 1)
        items[last], items[other] = items[other], items[last]


@njit
def _counting_sort(order: Indices, keys: Indices) -> Indices:
    """`order` sorted by keys[index], equal keys as they stood; keys (m,) int64, none negative."""
    places = np.zeros(keys.max() + 2, np.int64)
    for key in keys:
        places[key + 1] += 1
    places = np.cumsum(places)
    result = np.empty_like(order)
    for index in order:
        result[places[keys[index]]] = index
        places[keys[index]] += 1
    return result


@njit
def _reverse_odd_strips(order: Indices, strips: Indices) -> None:
    """Let source lengths rise in one strip and fall in the next: no jump where they meet."""
    begin = 0
    for place in range(1, len(order) + 1):
        if place == len(order) or strips[order[place]] != strips[order[begin]]:
            if strips[order[begin]] % 2 == 1:
                order[begin:place] = order[begin:place][::-1].copy()
            begin = place


@njit
def _pack(
    order: Indices, source: Indices, target: Indices, max_tokens: int, first_tokens: int
) -> tuple[Indices, int]:
    """Cut `order` into batches, each as large as the budget allows; the first has its own budget.

    Returns bounds (n_batches + 1,) int64 and what all batches cost in bytes, padding counted.
    """
    bounds = np.zeros(len(order) + 1, np.int64)
    n_batches, begin, cost, total = 0, 0, 0, 0
    longest_source, longest_target = 0, 0
    budget = first_tokens
    for place in range(len(order)):
        new_source = max(longest_source, source[order[place]])
        new_target = max(longest_target, target[order[place]])
        new_cost = (place + 1 - begin) * (new_source + new_target)
        if new_cost > budget and place > begin:
            n_batches += 1
            bounds[n_batches] = begin = place
            total += cost
            budget = max_tokens
            new_source, new_target = source[order[place]], target[order[place]]
            new_cost = new_source + new_target
        longest_source, longest_target, cost = new_source, new_target, new_cost
    bounds[n_batches + 1] = len(order)
    return bounds[: n_batches + 2].copy(), total + cost


@njit
def _shuffle_batches(order: Indices, bounds: Indices, state: RandomState) -> tuple[Indices, Indices]:
    batches = np.arange(len(bounds) - 1)
    _shuffle(batches, state)
    new_order, new_bounds = np.empty_like(order), np.zeros_like(bounds)
    for k in range(len(batches)):
        begin, end = bounds[batches[k]], bounds[batches[k] + 1]
        new_bounds[k + 1] = new_bounds[k] + end - begin
        new_order[new_bounds[k] : new_bounds[k + 1]] = order[begin:end]
    return new_order, new_bounds


@njit
def _plan(
    source: Indices,
    target: Indices,
    max_tokens: int,
    state: RandomState,
    widths: Indices,
    shuffle: bool,
) -> tuple[Indices, Indices]:
    """The plan of an epoch with at least one pair; source and target (m,) int64 count EOS."""
    shuffled = np.arange(len(target))
    first_tokens = max_tokens
    if shuffle:
        _shuffle(shuffled, state)
        # Else the batches would be cut at the same lengths in every epoch.
        first_tokens = 1 + _random_below(state, max_tokens)
    by_source = _counting_sort(shuffled, np.minimum(source, LONGEST_KEY))
    best_order, best_bounds, best_total = by_source, np.zeros(1, np.int64), -1
    for width in widths:
        phase = _random_below(state, width) if shuffle else 0
        strips = (np.minimum(target, LONGEST_KEY) + phase) // width
        order = _counting_sort(by_source, strips)
        _reverse_odd_strips(order, strips)
        bounds, total = _pack(order, source, target, max_tokens, first_tokens)
        if best_total < 0 or total < best_total:
            best_order, best_bounds, best_total = order, bounds, total
    if shuffle:
        return _shuffle_batches(best_order, best_bounds, state)
    return best_order, best_bounds


def epoch_plan(
    source_lengths: Lengths,
    target_lengths: Lengths,
    max_tokens: int,
    seed: int,
    epoch: int,
    shuffle: bool = True,
) -> EpochPlan:
    """Cut an epoch into batches of pairs of about one length.

    source_lengths, target_lengths (m,) int32: bytes without EOS; all sources 0: there is none.
    A batch of n pairs costs n * (longest source + longest target) bytes, EOS and padding counted
    (a source that is not there has no EOS), and at most `max_tokens`; a pair that costs more
    alone is a batch alone. Within one length the pairs are drawn anew in every epoch, and so is
    the batches' order; `shuffle=False` leaves them sorted, the same in every epoch.
    """
    if len(source_lengths) != len(target_lengths):
        raise ValueError(f"{len(source_lengths)} source and {len(target_lengths)} target lengths")
    if max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens}, expected at least 1")
    if len(target_lengths) == 0:
        return EpochPlan(np.zeros(0, np.int64), np.zeros(1, np.int64))
    source = source_lengths.astype(np.int64)
    target = target_lengths.astype(np.int64) + 1
    if source.any():
        source += 1
    state = np.array([_mix(_mix(seed) + epoch)], np.uint64)
    return EpochPlan(*_plan(source, target, max_tokens, state, STRIP_WIDTHS, shuffle))


def _mix(value: int) -> int:
    """64 bits that depend on all bits of `value`, so that (seed, epoch) pairs do not overlap."""
    return int(_random(np.array([value % 2**64], np.uint64)))


@njit
def _copy_lines(
    data: Bytes,
    side: Bytes,
    starts: Indices,
    lengths: Lengths,
    lines: Indices,
    column: int,
    out: Bytes,
) -> None:
    """Write line lines[row] of a TextFile into each row of out (n, width), from `column` on."""
    for row in range(len(lines)):
        start, length = starts[lines[row]], lengths[lines[row]]
        if start < 0:
            out[row, column : column + length] = side[~start : ~start + length]
        else:
            out[row, column : column + length] = data[start : start + length]


def _rows(text: TextFile, lines: Indices, column: int) -> Bytes:
    """(n, longest + 1) uint8: each line from `column` on, PAD around it."""
    rows = np.full((len(lines), int(text.lengths[lines].max(initial=0)) + 1), PAD, np.uint8)
    _copy_lines(text.data, text.side, text.starts, text.lengths, lines, column, rows)
    return rows


def assemble(corpus: ParallelCorpus, indices: Indices) -> Batch:
    """The batch of these pairs; indices (n,) int64 into corpus.pairs, in the order of the rows."""
    lines = corpus.pairs[indices]
    every_row = np.arange(len(lines))
    if corpus.src is None:
        source = np.zeros((len(lines), 0), np.uint8)
        source_len = np.zeros(len(lines), np.int64)
    else:
        source = _rows(corpus.src, lines, 0)
        source_len = corpus.src.lengths[lines].astype(np.int64) + 1
        source[every_row, source_len - 1] = EOS
    target_in = _rows(corpus.tgt, lines, 1)
    target_in[:, 0] = BOS
    target_out = _rows(corpus.tgt, lines, 0)
    target_len = corpus.tgt.lengths[lines].astype(np.int64) + 1
    target_out[every_row, target_len - 1] = EOS
    return Batch(source, source_len, target_in, target_out, target_len)


def batches(corpus: ParallelCorpus, plan: EpochPlan, first: int = 0) -> Iterator[Batch]:
    """The batches of a plan from batch `first` on, a few of them assembled ahead by a thread.

    An error of the thread is raised here; the thread ends with the iterator.
    """
    with ThreadPoolExecutor(1, "batches") as thread:
        waiting: deque[Future[Batch]] = deque()
        for index in range(first, plan.n_batches):
            waiting.append(thread.submit(assemble, corpus, plan.batch(index)))
            if len(waiting) > PREFETCH:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
