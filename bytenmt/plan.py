"""Which pairs form a batch, and in which order: from the lengths of an epoch's pairs to its plan.

A plan is a function of the lengths, the seed and the epoch alone, so that a run resumes from (epoch, batch
index) and every process has the same one. The pairs are put into cells, one for each source length in a
strip of target lengths, by counting; they are shuffled inside the cells, which the cache holds, and cut into
batches along a path on which neighbours are alike: source lengths rise in one strip and fall in the next.
This file does not know texts, models or devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.alphabet import njit

Lengths = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Entries = npt.NDArray[np.uint64]
RandomState = npt.NDArray[np.uint64]  # (1,)

LONGEST = 2**16 - 1  # bytes: longer lines share a cell with lines of this length
EXACT_BITS = 9  # lengths below 2 ** 9 have cells of their own; longer ones share, two in a thousand apart
MOST_PAIRS = 2**31 - 1  # of an epoch, repeated ones counted each time
ONE_STRIP = 256  # the unit of the factor that draws other strips in every epoch

# An entry packs what the packer reads about a pair, so that it reads memory in order.
SOURCE_SHIFT = np.uint64(48)
TARGET_SHIFT = np.uint64(32)
LENGTH_MASK = np.uint64(2**16 - 1)
INDEX_MASK = np.uint64(2**32 - 1)
HALF = np.uint64(32)


class EpochPlan(NamedTuple):
    """The batches of an epoch.

    order (k,) int32: indices of kept pairs, batch beside batch.
    bounds (n_batches + 1,) int64: where the batches lie in `order`.
    shapes (n_batches, 2) int64: source and target width in bytes of each, EOS counted, rounded.
    sequence (n_batches,) int64: which of them comes when.
    """

    order: Counts
    bounds: Indices
    shapes: Indices
    sequence: Indices

    @property
    def n_batches(self) -> int:
        return len(self.sequence)

    def batch(self, index: int) -> Indices:
        """(n,) int64: the indices of the kept pairs that batch `index` holds."""
        place = self.sequence[index]
        return self.order[self.bounds[place] : self.bounds[place + 1]].astype(np.int64)

    def widths(self, index: int) -> tuple[int, int]:
        """Bytes of a source row and of a target row of batch `index`, EOS and rounding counted."""
        source, target = self.shapes[self.sequence[index]].tolist()
        return source, target

    @property
    def n_bytes(self) -> int:
        """What all batches cost together, padding counted."""
        return int((np.diff(self.bounds) * self.shapes.sum(axis=1)).sum())


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
    """A number from 0 to limit - 1, limit at most 2 ** 32, by multiplication instead of division."""
    product = (_random(state) >> HALF) * np.uint64(limit)
    return int(np.int64(product >> HALF))


@njit
def _shuffle(items: Indices, state: RandomState) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = _random_below(state, last + 1)
        items[last], items[other] = items[other], items[last]


@njit
def _draw_copies(bounds: Indices, whole: Indices, extra: Indices, state: RandomState) -> Counts:
    """How often each pair comes: whole[part] times, and extra[part] pairs of a part once more (m,) int32."""
    copies = np.empty(bounds[-1], np.int32)
    for part in range(len(whole)):
        needed = extra[part]
        for index in range(bounds[part], bounds[part + 1]):
            # Each set of pairs is as likely (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S).
            drawn = needed > 0 and _random_below(state, bounds[part + 1] - index) < needed
            copies[index] = whole[part] + drawn
            needed -= drawn
    return copies


@njit
def _count(
    source: Lengths, target: Lengths, copies: Counts, source_keys: Counts, target_keys: Counts, cells: Counts
) -> None:
    """Add up, for each target key and source key, the pairs that have them.

    copies (m,), or empty where each pair comes once; keys: of each length; cells (target keys, source keys).
    """
    last_source, last_target = len(source_keys) - 1, len(target_keys) - 1
    weighted = len(copies) > 0
    for index in range(len(target)):
        row = target_keys[min(target[index], last_target)]
        column = source_keys[min(source[index], last_source)]
        cells[row, column] += copies[index] if weighted else 1


@njit
def _strips(
    cells: Counts, source_values: Indices, target_values: Indices, budget: int, factor: int
) -> tuple[Counts, int]:
    """Cut the target keys into strips. Returns the strip of each key (n,) int32 and their number.

    A strip of N pairs, w target lengths and s source lengths pads about N * w / 2 bytes of targets; its
    batches of n pairs span its source lengths once, which pads n * s / 2 bytes of sources. Both are least
    together where they are equal: there a strip ends. values: the length of a key, which is in the unit of
    the budget; factor / ONE_STRIP moves the ends.
    """
    strip_of = np.zeros(len(cells), np.int32)
    strip, first = 0, 0
    n_pairs, total = 0, 0
    lowest, highest = len(source_values), -1
    for row in range(len(cells)):
        strip_of[row] = strip
        for column in range(cells.shape[1]):
            count = int(cells[row, column])
            if count:
                n_pairs += count
                total += count * (source_values[column] + target_values[row])
                lowest, highest = min(lowest, column), max(highest, column)
        if n_pairs == 0:
            first = row + 1
            continue
        n_batch = max(1, budget * n_pairs // total)
        target_span = target_values[row] - target_values[first] + 1
        source_span = source_values[highest] - source_values[lowest]
        if n_pairs * target_span * ONE_STRIP >= n_batch * source_span * factor:
            strip, first = strip + 1, row + 1
            n_pairs, total = 0, 0
            lowest, highest = len(source_values), -1
    return strip_of, int(strip_of[-1]) + 1


@njit
def _first_places(cells: Counts, strip_of: Counts, n_strips: int) -> Counts:
    """Where each cell begins: (strips * source keys,) int32, along the path through the strips."""
    n_columns = cells.shape[1]
    places = np.zeros(n_strips * n_columns, np.int32)
    for row in range(len(cells)):
        begin = strip_of[row] * n_columns
        for column in range(n_columns):
            places[begin + column] += cells[row, column]
    place = 0
    for strip in range(n_strips):
        for step in range(n_columns):
            cell = strip * n_columns + (n_columns - 1 - step if strip % 2 else step)
            place, places[cell] = place + places[cell], place
    return places


@njit
def _scatter(
    source: Lengths,
    target: Lengths,
    copies: Counts,
    source_keys: Counts,
    target_rows: Counts,
    places: Counts,
    entries: Entries,
) -> None:
    """Put the entry of each pair into its cell. Moves `places` to the cells' ends.

    target_rows: where the strip of a target length begins in `places`.
    """
    last_source, last_target = len(source_keys) - 1, len(target_rows) - 1
    weighted = len(copies) > 0
    for index in range(len(target)):
        cell = target_rows[min(target[index], last_target)] + source_keys[min(source[index], last_source)]
        lengths = (min(source[index], LONGEST) << 16) | min(target[index], LONGEST)
        entry = (np.uint64(lengths) << TARGET_SHIFT) | np.uint64(index)
        for _ in range(copies[index] if weighted else 1):
            entries[places[cell]] = entry
            places[cell] += 1


@njit
def _shuffle_cells(entries: Entries, ends: Counts, n_columns: int, state: RandomState) -> None:
    """Shuffle the entries inside each cell; ends (cells,): where the cells end."""
    begin = 0
    for strip in range(len(ends) // n_columns):
        for step in range(n_columns):
            end = ends[strip * n_columns + (n_columns - 1 - step if strip % 2 else step)]
            for last in range(end - 1, begin, -1):
                other = begin + _random_below(state, last - begin + 1)
                entries[last], entries[other] = entries[other], entries[last]
            begin = end


@njit
def _pack(
    entries: Entries, source: Lengths, target: Lengths, end: int, round_to: int, max_tokens: int, first: int
) -> tuple[Counts, Indices, Indices]:
    """Cut the entries into batches, each as large as the budget allows; the first has its own budget.

    end: 1 where sources have an EOS, else 0. Returns order, bounds and shapes of an EpochPlan.
    """
    order = np.empty(len(entries), np.int32)
    bounds = np.empty(len(entries) + 1, np.int64)  # memory that is not written to is never given
    shapes = np.empty((len(entries), 2), np.int64)
    bounds[0] = 0
    n_batches, begin, budget = 0, 0, first
    longest_source, longest_target, source_width, target_width = -1, -1, 0, 0
    for place in range(len(entries)):
        index = int(np.int64(entries[place] & INDEX_MASK))
        n_source = int(np.int64(entries[place] >> SOURCE_SHIFT))
        n_target = int(np.int64((entries[place] >> TARGET_SHIFT) & LENGTH_MASK))
        order[place] = index
        if max(n_source, n_target) == LONGEST:  # or more, which an entry does not hold
            n_source, n_target = int(source[index]), int(target[index])
        longer = n_source > longest_source or n_target > longest_target
        if longer or (place + 1 - begin) * (source_width + target_width) > budget:
            new_source = max(longest_source, n_source)
            new_target = max(longest_target, n_target)
            new_source_width = (new_source + end + round_to - 1) // round_to * round_to
            new_target_width = (new_target + round_to) // round_to * round_to
            if place > begin and (place + 1 - begin) * (new_source_width + new_target_width) > budget:
                shapes[n_batches, 0], shapes[n_batches, 1] = source_width, target_width
                n_batches += 1
                bounds[n_batches] = begin = place
                budget = max_tokens
                new_source, new_target = n_source, n_target
                new_source_width = (new_source + end + round_to - 1) // round_to * round_to
                new_target_width = (new_target + round_to) // round_to * round_to
            longest_source, longest_target = new_source, new_target
            source_width, target_width = new_source_width, new_target_width
    shapes[n_batches, 0], shapes[n_batches, 1] = source_width, target_width
    bounds[n_batches + 1] = len(entries)
    return order, bounds[: n_batches + 2].copy(), shapes[: n_batches + 1].copy()


def epoch_plan(
    source_lengths: Lengths,
    target_lengths: Lengths,
    max_tokens: int,
    seed: int,
    epoch: int,
    *,
    shuffle: bool = True,
    round_to: int = 1,
    bounds: Indices | None = None,
    weights: Sequence[float] | None = None,
    short_first: bool = False,
) -> EpochPlan:
    """Cut an epoch into batches of pairs of about one length.

    source_lengths, target_lengths (m,) int32: bytes without EOS; all sources 0: there is none.
    A batch of n pairs costs n * (longest source + longest target) bytes, each counted with EOS (a source
    that is not there has none) and rounded up to a multiple of `round_to`, and at most `max_tokens`; a pair
    that costs more alone is a batch alone. Which pairs meet is drawn anew in every epoch, and so is the
    batches' order. shuffle=False: every pair once, sorted, the same in every epoch.
    bounds (n_parts + 1,) int64, weights (n_parts,): the pairs bounds[p] to bounds[p + 1] come as often as
    the whole part of weights[p] says, and a share of them, its fraction, once more, drawn anew.
    short_first: the batches in order of their widths instead of a random one. Raises ValueError.
    """
    if len(source_lengths) != len(target_lengths):
        raise ValueError(f"{len(source_lengths)} source and {len(target_lengths)} target lengths")
    if max_tokens < 1 or round_to < 1:
        raise ValueError(f"max_tokens is {max_tokens} and round_to {round_to}, expected at least 1")
    state = np.array([mix(mix(seed) + epoch)], np.uint64)
    copies = _copies(bounds, weights, len(target_lengths), state) if shuffle else np.zeros(0, np.int32)
    n_pairs = int(copies.sum(dtype=np.int64)) if len(copies) else len(target_lengths)
    if max(n_pairs, len(target_lengths)) > MOST_PAIRS:
        raise ValueError(f"{n_pairs} pairs an epoch, expected at most {MOST_PAIRS}: lower the weights")
    if n_pairs == 0:
        nothing = np.zeros(0, np.int64)
        return EpochPlan(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros((0, 2), np.int64), nothing)
    longest_source, longest_target = int(source_lengths.max()), int(target_lengths.max())
    end = 1 if longest_source else 0
    source_keys, source_values = _keys(longest_source, end, round_to)
    target_keys, target_values = _keys(longest_target, 1, round_to)
    max_tokens = min(max_tokens, MOST_PAIRS)
    factor, first = ONE_STRIP, max_tokens
    if shuffle:  # else the batches would be cut at the same lengths in every epoch
        factor = ONE_STRIP // 2 + _random_below(state, ONE_STRIP)
        first = 1 + _random_below(state, max_tokens)
    cells = np.zeros((len(target_values), len(source_values)), np.int32)
    _count(source_lengths, target_lengths, copies, source_keys, target_keys, cells)
    strip_of, n_strips = _strips(cells, source_values, target_values, max_tokens // round_to, factor)
    places = _first_places(cells, strip_of, n_strips)
    entries = np.empty(n_pairs, np.uint64)
    rows = strip_of[target_keys] * np.int32(len(source_values))
    _scatter(source_lengths, target_lengths, copies, source_keys, rows, places, entries)
    if shuffle:
        _shuffle_cells(entries, places, len(source_values), state)
    packed = _pack(entries, source_lengths, target_lengths, end, round_to, max_tokens, first)
    order, cuts, shapes = packed
    sequence = np.arange(len(shapes))
    if shuffle:
        _shuffle(sequence, state)
    if short_first:
        sequence = sequence[np.argsort(shapes.sum(axis=1)[sequence], kind="stable")]
    return EpochPlan(order, cuts, shapes, sequence)


def mix(value: int) -> int:
    """64 bits that depend on all bits of `value`, so that (seed, epoch) pairs do not overlap."""
    return int(_random(np.array([value % 2**64], np.uint64)))


def _copies(
    bounds: Indices | None, weights: Sequence[float] | None, n_pairs: int, state: RandomState
) -> Counts:
    """How often each pair comes (n_pairs,) int32; empty where each comes once."""
    if weights is None or all(weight == 1 for weight in weights):
        return np.zeros(0, np.int32)
    if any(not math.isfinite(weight) or weight < 0 for weight in weights):
        raise ValueError(f"weights are {list(weights)}, expected numbers that are not negative")
    if bounds is None or len(bounds) != len(weights) + 1 or bounds[0] != 0 or bounds[-1] != n_pairs:
        raise ValueError(f"{len(weights)} weights, but bounds are {bounds} of {n_pairs} pairs")
    whole = np.array([math.floor(weight) for weight in weights], np.int64)
    # A random number in front of the rounding: in the mean over the epochs the share is exact.
    shares = [
        (weight - math.floor(weight)) * int(n) for weight, n in zip(weights, np.diff(bounds), strict=True)
    ]
    extra = np.array([int(share + int(_random(state)) / 2**64) for share in shares], np.int64)
    return _draw_copies(bounds, whole, extra, state)


def _keys(longest: int, end: int, round_to: int) -> tuple[Counts, Indices]:
    """Lengths on a scale that is exact for short ones and ends at LONGEST.

    Returns the key of each length without EOS (min(longest, LONGEST) + 1,) int32, and of each key the longest
    length, with EOS, that has it (n_keys,) int64; lengths with EOS are counted in units of round_to.
    """
    units = (np.arange(min(longest, LONGEST) + 1) + end + round_to - 1) // round_to
    shift = np.maximum(np.frexp(units.astype(np.float64))[1] - EXACT_BITS, 0)
    keys = (units >> shift) + (shift << (EXACT_BITS - 1))
    values = np.zeros(int(keys[-1]) + 1, np.int64)
    np.maximum.at(values, keys, units)
    return keys.astype(np.int32), np.maximum.accumulate(values)
