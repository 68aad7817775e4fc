"""Kernels of the epoch plan: counting, strips, cells, shuffling, packing.

Pairs are put into cells by counting, one for each source length in a strip of target lengths. They
are shuffled inside the cells, which fit the cache, and cut into batches along a path on which
neighbours are
alike: source lengths rise in one strip and fall in the next. Lengths do not count EOS; a key is a
length on a scale that is coarse for long ones.
"""

import numpy as np
import numpy.typing as npt

from bytenmt.jit import njit
from bytenmt.splitmix import INCREMENT, mix_bits

Lengths = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Entries = npt.NDArray[np.uint64]
RandomState = npt.NDArray[np.uint64]  # (1,)

LONGEST = 2**16 - 1  # bytes: longer lines share a cell with lines of this length
PLAIN = 256  # the factor that moves the strips' ends by nothing

# An entry packs what the packer reads about a pair, so that it reads memory in order.
SOURCE_SHIFT = np.uint64(48)
TARGET_SHIFT = np.uint64(32)
LENGTH_MASK = np.uint64(2**16 - 1)
INDEX_MASK = np.uint64(2**32 - 1)
HALF = np.uint64(32)


@njit
def next_random(state: RandomState) -> np.uint64:
    """Return the next 64 random bits of splitmix64, and advance `state` (1,) uint64 in place."""
    state[0] += INCREMENT
    return mix_bits(state[0])


@njit
def random_below(state: RandomState, limit: int) -> int:
    """Return a random number from 0 to limit - 1 (limit at most 2 ** 32), and advance `state` in
    place."""
    product = (next_random(state) >> HALF) * np.uint64(limit)
    return int(np.int64(product >> HALF))


@njit
def shuffle(items: Indices, state: RandomState) -> None:
    """Shuffle `items` in place (Fisher and Yates), and advance `state`."""
    for last in range(len(items) - 1, 0, -1):
        other = random_below(state, last + 1)
        items[last], items[other] = items[other], items[last]


@njit
def draw_copies(bounds: Indices, whole: Indices, extra: Indices, state: RandomState) -> Counts:
    """Return how often each pair occurs in an epoch, (m,) int32: each pair of part p whole[p]
    times, and extra[p] random ones of them once more. bounds (n_parts + 1,): where the parts begin
    among the m pairs."""
    copies = np.empty(bounds[-1], np.int32)
    for part in range(len(whole)):
        needed = extra[part]
        for index in range(bounds[part], bounds[part + 1]):
            # Each set of pairs is as likely (Knuth, The Art of Computer Programming 2, 3.4.2,
            # algorithm S).
            drawn = needed > 0 and random_below(state, bounds[part + 1] - index) < needed
            copies[index] = whole[part] + drawn
            needed -= drawn
    return copies


@njit
def count_cells(
    source: Lengths,
    target: Lengths,
    copies: Counts,
    source_keys: Counts,
    target_keys: Counts,
    cells: Counts,
) -> None:
    """Add to cells[target key, source key] the number of pairs with these lengths.

    source, target (m,): the lengths of the pairs; copies (m,): how often each occurs, empty for
    once; source_keys, target_keys: the key of each length, a number that long lengths of similar
    size share.
    """
    last_source, last_target = len(source_keys) - 1, len(target_keys) - 1
    weighted = len(copies) > 0
    for index in range(len(target)):
        row = target_keys[min(target[index], last_target)]
        column = source_keys[min(source[index], last_source)]
        cells[row, column] += copies[index] if weighted else 1


@njit
def cut_strips(
    cells: Counts, source_values: Indices, target_values: Indices, budget: int, factor: int
) -> tuple[Counts, int]:
    """Cut the target keys into strips, ranges of similar target lengths, so that batches have
    little padding; return the strip of each target key, (target keys,) int32, and the number of
    strips.

    A strip of N pairs, w target lengths and s source lengths pads about N * w / 2 bytes of targets;
    its batches of n pairs span its source lengths once, which pads n * s / 2 bytes of sources. Both
    are least together where they are equal: there a strip ends. cells: the counts of `count_cells`;
    source_values,
    target_values: the length that each key stands for; budget: of a batch in bytes; factor: PLAIN
    (256) puts the ends there, more makes strips wider, less narrower.
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
        if n_pairs * target_span * PLAIN >= n_batch * source_span * factor:
            strip, first = strip + 1, row + 1
            n_pairs, total = 0, 0
            lowest, highest = len(source_values), -1
    return strip_of, int(strip_of[-1]) + 1


@njit
def first_places(cells: Counts, strip_of: Counts, n_strips: int) -> Counts:
    """Return where the pairs of each cell begin in the sorted epoch, (strips * source keys,) int32.

    cells: see count_cells; strip_of: the strip of each target key. Source keys rise in strips of
    even number and fall in the others.
    """
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
def scatter(
    source: Lengths,
    target: Lengths,
    copies: Counts,
    source_keys: Counts,
    target_rows: Counts,
    places: Counts,
    entries: Entries,
) -> None:
    """Sort the pairs by cell: write lengths and index of each pair, packed, into `entries` (n,)
    uint64.

    places: where each cell begins, see first_places; moved to where it ends. target_rows: for each
    target length, where its strip begins in `places`. source_keys, copies: as of `count_cells`.
    """
    last_source, last_target = len(source_keys) - 1, len(target_rows) - 1
    weighted = len(copies) > 0
    for index in range(len(target)):
        cell = (
            target_rows[min(target[index], last_target)]
            + source_keys[min(source[index], last_source)]
        )
        lengths = (min(int(source[index]), LONGEST) << 16) | min(int(target[index]), LONGEST)
        entry = (np.uint64(lengths) << TARGET_SHIFT) | np.uint64(index)
        for _ in range(copies[index] if weighted else 1):
            entries[places[cell]] = entry
            places[cell] += 1


@njit
def shuffle_cells(entries: Entries, ends: Counts, n_columns: int, state: RandomState) -> None:
    """Shuffle the entries inside each cell, in place. ends (cells,): where each cell ends, as
    scatter leaves `places`; n_columns: the number of source keys; state: advanced."""
    begin = 0
    for strip in range(len(ends) // n_columns):
        for step in range(n_columns):
            end = ends[strip * n_columns + (n_columns - 1 - step if strip % 2 else step)]
            for last in range(end - 1, begin, -1):
                other = begin + random_below(state, last - begin + 1)
                entries[last], entries[other] = entries[other], entries[last]
            begin = end


@njit
def cut_batches(
    entries: Entries, source: Lengths, target: Lengths, end: int, max_tokens: int, first: int
) -> tuple[Counts, Indices, Indices]:
    """Cut the sorted entries into batches, each as large as its budget in bytes with padding
    allows.

    end: 1 where sources have an EOS, else 0; max_tokens: the budget of a batch; first: that of the
    first batch alone. Returns order, bounds and shapes of an EpochPlan.
    """
    order = np.empty(len(entries), np.int32)
    bounds = np.empty(len(entries) + 1, np.int64)  # memory that is not written to is never given
    shapes = np.empty((len(entries), 2), np.int64)
    bounds[0] = 0
    n_batches, begin, budget = 0, 0, first
    source_width, target_width = 0, 0
    for place in range(len(entries)):
        index = int(np.int64(entries[place] & INDEX_MASK))
        n_source = int(np.int64(entries[place] >> SOURCE_SHIFT))
        n_target = int(np.int64((entries[place] >> TARGET_SHIFT) & LENGTH_MASK))
        order[place] = index
        if max(n_source, n_target) == LONGEST:  # or more, which an entry does not hold
            n_source, n_target = int(source[index]), int(target[index])
        wider_source, wider_target = (
            max(source_width, n_source + end),
            max(target_width, n_target + 1),
        )
        if place > begin and (place + 1 - begin) * (wider_source + wider_target) > budget:
            shapes[n_batches, 0], shapes[n_batches, 1] = source_width, target_width
            n_batches += 1
            bounds[n_batches] = begin = place
            budget = max_tokens
            wider_source, wider_target = n_source + end, n_target + 1
        source_width, target_width = wider_source, wider_target
    shapes[n_batches, 0], shapes[n_batches, 1] = source_width, target_width
    bounds[n_batches + 1] = len(entries)
    return order, bounds[: n_batches + 2].copy(), shapes[: n_batches + 1].copy()
