"""Plan an epoch: which pairs form a batch, and in which order.

A plan is a function of the lengths, the seed and the epoch only, so that a run resumes from (epoch,
batch index) and every process has the same one. bucketing.py explains how pairs of one length are
brought together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bytenmt.data import bucketing
from bytenmt.data.bucketing import (
    LONGEST_BYTES,
    UNIT_FACTOR,
    Counts,
    Entries,
    Indices,
    Lengths,
    RandomState,
)
from bytenmt.splitmix import mixed

MAX_PAIRS = 2**31 - 1  # of an epoch, repeated ones counted each time
# Lengths below 2 ** EXACT_BITS have cells of their own; longer ones share, two in a thousand apart.
EXACT_BITS = 9


class EpochPlan(NamedTuple):
    """The batches of an epoch, as indices of a corpus' pairs, and the random order of batches."""

    order: Counts  # (k,) int32: indices of the corpus' pairs, sorted by length, batch after batch
    bounds: Indices  # (n_batches + 1,) int64: batch b has order[bounds[b] : bounds[b + 1]]
    shapes: Indices  # (n_batches, 2) int64: source and target width of each, bytes with EOS
    sequence: Indices  # (n_batches,) int64: the batches in the random order in which they are used

    @property
    def n_batches(self) -> int:
        """The number of batches in the epoch."""
        return len(self.sequence)

    def batch(self, index: int) -> Indices:
        """Return the indices, (n,) int64, of the corpus' pairs in batch `index`, from 0."""
        place = self.sequence[index]
        return self.order[self.bounds[place] : self.bounds[place + 1]].astype(np.int64)


def epoch_plan(
    source_lengths: Lengths,
    target_lengths: Lengths,
    max_tokens: int,
    seed: int,
    epoch: int,
    *,
    bounds: Indices | None = None,
    weights: Sequence[float] | None = None,
) -> EpochPlan:
    """Plan the batches of an epoch, each of pairs of similar length, with little padding.

    source_lengths, target_lengths (m,) int32: bytes without EOS. If all source lengths are 0, the
    corpus has no sources.
    max_tokens: the largest batch. A batch of n pairs has n * (longest source + longest target)
    bytes, where each length includes EOS (but for missing sources). A pair that exceeds the limit
    by itself is a batch of its own.
    seed, epoch: determine which pairs meet in a batch, and the order of the batches.
    bounds (n_parts + 1,) int64, weights (n_parts,): each of the pairs bounds[p] to bounds[p + 1] -
    1 occurs floor(weights[p]) times, and a random share of them, the weight's fraction, once more.
    None: each pair occurs once.
    Raises ValueError for more than MAX_PAIRS (2 ** 31 - 1) pairs in the epoch.
    """
    state = np.array([mixed(mixed(seed) + epoch)], np.uint64)
    copies = _copies(bounds, weights, state)
    if len(target_lengths) == 0 or (len(copies) and not copies.any()):
        return EpochPlan(
            order=np.zeros(0, np.int32),
            bounds=np.zeros(1, np.int64),
            shapes=np.zeros((0, 2), np.int64),
            sequence=np.zeros(0, np.int64),
        )
    max_tokens = min(max_tokens, MAX_PAIRS)
    end = int(source_lengths.max() > 0)
    entries = _entries(source_lengths, target_lengths, copies, end, max_tokens, state)
    # With a fixed budget the batches would be cut at the same lengths in every epoch.
    first = 1 + bucketing.random_below(state, max_tokens)
    order, cuts, shapes = bucketing.cut_batches(
        entries, source_lengths, target_lengths, end, max_tokens, first
    )
    sequence = np.arange(len(shapes))
    bucketing.shuffle(sequence, state)
    return EpochPlan(order, cuts, shapes, sequence)


def _entries(
    source: Lengths, target: Lengths, copies: Counts, end: int, budget: int, state: RandomState
) -> Entries:
    """Return the pairs, packed, along the path on which batches are cut, shuffled in their cells.

    end: 1 if sources have an EOS, else 0; budget: of a batch, in bytes.
    """
    source_keys, source_values = _keys(int(source.max()), end)
    target_keys, target_values = _keys(int(target.max()), 1)
    counts = np.zeros((len(target_values), len(source_values)), np.int32)
    bucketing.count_cells(source, target, copies, source_keys, target_keys, counts)
    # Strips differ from epoch to epoch; near the best factor their padding hardly changes.
    factor = UNIT_FACTOR // 4 + bucketing.random_below(state, UNIT_FACTOR)
    strip_of, n_strips = bucketing.cut_strips(counts, source_values, target_values, budget, factor)
    places = bucketing.first_places(counts, strip_of, n_strips)
    n_entries = int(copies.sum(dtype=np.int64)) if len(copies) else len(target)
    entries = np.empty(n_entries, np.uint64)
    rows = strip_of[target_keys] * np.int32(len(source_values))
    bucketing.scatter(source, target, copies, source_keys, rows, places, entries)
    bucketing.shuffle_cells(entries, places, len(source_values), state)
    return entries


def _copies(bounds: Indices | None, weights: Sequence[float] | None, state: RandomState) -> Counts:
    """Return how often each pair occurs, (n_pairs,) int32; empty if each occurs once."""
    if bounds is None or weights is None or all(weight == 1 for weight in weights):
        return np.zeros(0, np.int32)
    sizes = np.diff(bounds)
    each = np.array(weights)
    n_drawn = int(np.ceil(each) @ sizes)
    if n_drawn > MAX_PAIRS:
        raise ValueError(
            f"{n_drawn} pairs an epoch, expected at most {MAX_PAIRS}: lower the weights"
        )
    whole = np.floor(each).astype(np.int64)
    # A random number before the cut: in the mean over the epochs the share is exact.
    below_one = [int(bucketing.next_random(state)) / 2**64 for _ in weights]
    extra = ((each - whole) * sizes + below_one).astype(np.int64)
    return bucketing.draw_copies(bounds, whole, extra, state)


def _keys(longest: int, end: int) -> tuple[Counts, Indices]:
    """Map lengths to a scale that is exact for short ones and ends at LONGEST_BYTES.

    Returns the key of each length without EOS (min(longest, LONGEST_BYTES) + 1,) int32, and for
    each key the longest length, with EOS, that has it (n_keys,) int64.
    """
    lengths = np.arange(min(longest, LONGEST_BYTES) + 1) + end
    shift = np.maximum(np.frexp(lengths.astype(np.float64))[1] - EXACT_BITS, 0)
    keys = (lengths >> shift) + (shift << (EXACT_BITS - 1))
    values = np.zeros(int(keys[-1]) + 1, np.int64)
    np.maximum.at(values, keys, lengths)
    return keys.astype(np.int32), values
