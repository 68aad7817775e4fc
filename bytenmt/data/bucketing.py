"""Kernels of the epoch plan: counting, strips, cells, shuffling, packing.

Pairs are put into cells by counting, one for each source length in a strip of target lengths. They
are shuffled inside the cells, which fit the cache, and cut into batches along a path on which
neighbours are alike: source lengths rise in one strip and fall in the next. Lengths do not count
EOS; a key is a length on a scale that is coarse for long ones.
"""

import numpy as np
import numpy.typing as npt

from bytenmt.compiled_hashes import INCREMENT, mix_bits
from bytenmt.jit import njit

Lengths = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Entries = npt.NDArray[np.uint64]
RandomState = npt.NDArray[np.uint64]  # (1,)

LONGEST_BYTES = 2**16 - 1  # longer lines share a cell with lines of this length
UNIT_FACTOR = 256  # the factor of cut_strips that leaves the strips' ends where they are

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
    """Return a random integer from 0 to limit - 1, and advance `state` in place.

    state (1,) uint64: of splitmix64; limit: at most 2 ** 32.
    """
    product = (next_random(state) >> HALF) * np.uint64(limit)
    return int(np.int64(product >> HALF))


@njit
def shuffle(items: Indices, state: RandomState) -> None:
    """Shuffle `items` (n,) in place (Fisher and Yates); advance the random `state` (1,) uint64."""
    for last in range(len(items) - 1, 0, -1):
        other = random_below(state, last + 1)
        items[last], items[other] = items[other], items[last]


@njit
def draw_copies(bounds: Indices, whole: Indices, extra: Indices, state: RandomState) -> Counts:
    """Draw how often each of the m pairs of a corpus occurs in an epoch; return it, (m,) int32.

    The corpus joins n_parts parts; part p has the pairs bounds[p] to bounds[p + 1] - 1, each of
    which occurs whole[p] times, and extra[p] random ones of them once more. bounds (n_parts + 1,),
    whole, extra (n_parts,): int64; state (1,) uint64: random state, advanced in place.
    """
    copies = np.empty(bounds[-1], np.int32)
    for part in range(len(whole)):
        needed = extra[part]
        for index in range(bounds[part], bounds[part + 1]):
            # All sets of pairs are equally likely (Knuth, The Art of Computer Programming 2,
            # 3.4.2, algorithm S).
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
    """Count pairs by their lengths: add their numbers to cells[target key, source key], in place.

    A key is the number of a bin of lengths: long lengths of similar size share one. source, target
    (m,): bytes of each side of the pairs; copies (m,): how often each pair occurs, empty for once;
    source_keys, target_keys: source_keys[i] is the key of length i, the last entry that of all
    longer texts, too.
    """
    last_source = len(source_keys) - 1
    last_target = len(target_keys) - 1
    is_weighted = len(copies) > 0
    for index in range(len(target)):
        row = target_keys[min(target[index], last_target)]
        column = source_keys[min(source[index], last_source)]
        if is_weighted:
            cells[row, column] += copies[index]
        else:
            cells[row, column] += 1


@njit
def cut_strips(
    cells: Counts, source_values: Indices, target_values: Indices, budget: int, factor: int
) -> tuple[Counts, int]:
    """Cut the target lengths into strips (ranges of similar lengths) that give little padding.

    A key is the number of a bin of lengths. cells (target keys, source keys): number of pairs with
    these keys; source_values, target_values: the length that each key stands for; budget: bytes of
    a batch; factor: width of the strips, 256 (UNIT_FACTOR) for the least padding, more for wider
    ones. Returns the strip of each target key, (target keys,) int32, and the number of strips.

    A strip of N pairs, w target lengths and s source lengths pads about N * w / 2 bytes of targets;
    its batches of n pairs span its source lengths once, which pads n * s / 2 bytes of sources. The
    sum is least where both are equal: there a strip ends.
    """
    strip_of = np.zeros(len(cells), np.int32)
    strip = 0
    first = 0
    n_pairs = 0
    total = 0
    lowest = len(source_values)
    highest = -1
    for row in range(len(cells)):
        strip_of[row] = strip
        for column in range(cells.shape[1]):
            count = int(cells[row, column])
            if count:
                n_pairs += count
                total += count * (source_values[column] + target_values[row])
                lowest = min(lowest, column)
                highest = max(highest, column)
        if n_pairs == 0:
            first = row + 1
            continue
        n_batch = max(1, budget * n_pairs // total)
        target_span = target_values[row] - target_values[first] + 1
        source_span = source_values[highest] - source_values[lowest]
        if n_pairs * target_span * UNIT_FACTOR >= n_batch * source_span * factor:
            strip += 1
            first = row + 1
            n_pairs = 0
            total = 0
            lowest = len(source_values)
            highest = -1
    return strip_of, int(strip_of[-1]) + 1


@njit
def cell_on_path(strip: int, step: int, n_columns: int) -> int:
    """Return the index of the cell that is visited as number `step`, from 0, of a strip.

    A cell holds the pairs of a strip (range of target lengths) with one source key (bin of source
    lengths); its index is strip * n_columns + key. n_columns: the number of source keys, which are
    visited upwards in strips of even number and downwards in the others.
    """
    if strip % 2:
        return strip * n_columns + n_columns - 1 - step
    return strip * n_columns + step


@njit
def first_places(cells: Counts, strip_of: Counts, n_strips: int) -> Counts:
    """Return where the pairs of each cell begin in an epoch sorted by cells, (cells,) int32.

    A cell holds the pairs of a strip (range of target lengths) with one source key (bin of source
    lengths). Its index is strip * (number of source keys) + source key; the epoch has the cells in
    the order of cell_on_path. cells (target keys, source keys): the number of pairs with these
    keys; strip_of (target keys,): the strip, below n_strips, of each target key.
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
            cell = cell_on_path(strip, step, n_columns)
            n_pairs = places[cell]
            places[cell] = place
            place += n_pairs
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
    """Sort the pairs by cell, a range of target and source lengths: write them into `entries`.

    entries (n,) uint64: output; source length << 48 | target length << 32 | index of the pair.
    places (cells,): where each cell begins in it, from first_places; on return, where it ends.
    source, target (m,): bytes of the pairs; copies (m,): how often each occurs, empty for once;
    source_keys: the key of each source length; target_rows: for each target length the first
    index of its strip in `places`. The last entry of both is also that of longer texts.
    """
    last_source = len(source_keys) - 1
    last_target = len(target_rows) - 1
    is_weighted = len(copies) > 0
    for index in range(len(target)):
        row = target_rows[min(target[index], last_target)]
        cell = row + source_keys[min(source[index], last_source)]
        n_source = min(int(source[index]), LONGEST_BYTES)
        n_target = min(int(target[index]), LONGEST_BYTES)
        entry = (np.uint64((n_source << 16) | n_target) << TARGET_SHIFT) | np.uint64(index)
        n_copies = 1
        if is_weighted:
            n_copies = copies[index]
        for _ in range(n_copies):
            entries[places[cell]] = entry
            places[cell] += 1


@njit
def shuffle_cells(entries: Entries, ends: Counts, n_columns: int, state: RandomState) -> None:
    """Shuffle an epoch's entries (packed pairs) in place, each only inside its cell.

    A cell holds pairs of similar source and target lengths. entries (n,): from `scatter`; ends
    (cells,): where each cell ends in it; n_columns: the number of source keys, the cells of a
    strip; state (1,) uint64: random state, advanced in place.
    """
    begin = 0
    for strip in range(len(ends) // n_columns):
        for step in range(n_columns):
            end = ends[cell_on_path(strip, step, n_columns)]
            for last in range(end - 1, begin, -1):
                other = begin + random_below(state, last - begin + 1)
                entries[last], entries[other] = entries[other], entries[last]
            begin = end


@njit
def cut_batches(
    entries: Entries, source: Lengths, target: Lengths, end: int, max_tokens: int, first: int
) -> tuple[Counts, Indices, Indices]:
    """Cut the sorted pairs into batches, each as large as its budget allows, padding included.

    entries (n,): the sorted pairs, packed by `scatter`; source, target (m,): the lengths of the
    corpus' pairs; end: 1 where sources have an EOS, else 0; max_tokens: the budget of a batch in
    bytes; first: that of the first batch alone. Returns the indices of the pairs, (n,) int32, where
    each batch begins and the last ends in them, (n_batches + 1,), and the width of the batches'
    sources and targets with EOS, (n_batches, 2).
    """
    order = np.empty(len(entries), np.int32)
    bounds = np.empty(len(entries) + 1, np.int64)  # memory that is not written to is never given
    shapes = np.empty((len(entries), 2), np.int64)
    bounds[0] = 0
    n_batches = 0
    begin = 0
    budget = first
    source_width = 0
    target_width = 0
    for place in range(len(entries)):
        index = int(np.int64(entries[place] & INDEX_MASK))
        n_source = int(np.int64(entries[place] >> SOURCE_SHIFT))
        n_target = int(np.int64((entries[place] >> TARGET_SHIFT) & LENGTH_MASK))
        order[place] = index
        if max(n_source, n_target) == LONGEST_BYTES:  # or more, which an entry does not hold
            n_source = int(source[index])
            n_target = int(target[index])
        wider_source = max(source_width, n_source + end)
        wider_target = max(target_width, n_target + 1)
        if place > begin and (place + 1 - begin) * (wider_source + wider_target) > budget:
            shapes[n_batches, 0] = source_width
            shapes[n_batches, 1] = target_width
            n_batches += 1
            bounds[n_batches] = begin = place
            budget = max_tokens
            wider_source = n_source + end
            wider_target = n_target + 1
        source_width = wider_source
        target_width = wider_target
    shapes[n_batches, 0] = source_width
    shapes[n_batches, 1] = target_width
    bounds[n_batches + 1] = len(entries)
    return order, bounds[: n_batches + 2].copy(), shapes[: n_batches + 1].copy()
