"""Scan the bytes of a file once: where its lines are, which of them are not UTF-8, and a digest of all bytes.

Numba kernels over the memory map.
"""

import numpy as np
import numpy.typing as npt

from bytenmt.data.byte_vectors import (
    LANES,
    count_bits,
    lowest_bit,
    newline_bits,
    non_ascii_bits,
    return_bits,
    tab_bits,
    utf8_mistake_bits,
    word_at,
)
from bytenmt.jit import njit
from bytenmt.utf8 import ACCEPT

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

# It works in chunks that stay in the innermost cache: one look for line ends and non-ASCII bytes and,
# where there are any, one for UTF-8 mistakes; memory is read once for both.
CHUNK = 4096  # bytes, a multiple of LANES
ONE = np.uint64(1)
LAST_LANE = np.uint64(63)
NO_LANE = np.uint64(0)
# Of the digest: each word of a chunk has a key of its own, a multiple of the first number, and each chunk's
# sum is multiplied by the second one on top of those before it.
KEY, MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)
HALF, LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)
WORD = 8  # bytes


@njit
def _add_to_digest(digest: Words, data: Bytes, at: int, n_bytes: int) -> None:
    """Take the bytes of a chunk, from data[at] on, into digest (1,) uint64.

    The two halves of each word, each with its half of the word's key, are multiplied (UMAC's NH, Black et al.
    1999): a sum that vectors compute as fast as the bytes come. It tells mistakes, not forgeries.
    """
    n_words = n_bytes // WORD
    total = NO_LANE
    for k in range(n_words):
        word, key = word_at(data, at + k * WORD), np.uint64(k + 1) * KEY
        total += ((word + key) & LOW_HALF) * (((word >> HALF) + (key >> HALF)) & LOW_HALF)
    rest = np.uint64(n_bytes)
    for place in range(n_words * WORD, n_bytes):
        rest = (rest << np.uint64(8)) | np.uint64(data[at + place])
    mixed = (digest[0] ^ (total + rest)) * MIX
    digest[0] = mixed ^ (mixed >> HALF)


@njit
def _find_lines(
    text: Bytes, at: int, n_blocks: int, offset: int, starts: Indices, n_lines: int, return_before: np.uint64
) -> tuple[int, np.uint64, np.uint64]:
    """Note where lines begin after the newlines of n_blocks times 64 bytes, from text[at] on.

    offset: what to add to a place in text for its place in the file. return_before: 1 where a carriage
    return stands just before the bytes. Returns the number of lines that have ended, bits that are not
    zero where a byte is not ASCII, and the same for a carriage return before a newline.
    """
    not_ascii, with_return = NO_LANE, NO_LANE
    for block in range(n_blocks):
        place = at + block * LANES
        not_ascii |= non_ascii_bits(text, place)
        hits, returns = newline_bits(text, place), return_bits(text, place)
        with_return |= ((returns << ONE) | return_before) & hits
        return_before = returns >> LAST_LANE
        after = place + offset + 1
        end = n_lines + count_bits(hits)
        # Two are noted whether they are there or not, which is faster than to ask; the next
        # lines overwrite what is noted in vain.
        for k in range(1, 3):
            starts[n_lines + k] = after + lowest_bit(hits)
            hits &= hits - ONE
        for k in range(n_lines + 3, end + 1):
            starts[k] = after + lowest_bit(hits)
            hits &= hits - ONE
        n_lines = end
    return n_lines, not_ascii, with_return


@njit
def _measure(data: Bytes, starts: Indices, lengths: Lengths, first: int, end: int, with_return: bool) -> None:
    """Set the lengths of lines first to end, each of which has a newline."""
    for line in range(first, end):
        lengths[line] = starts[line + 1] - starts[line] - 1
    if with_return:
        for line in range(first, end):
            if lengths[line] > 0 and data[starts[line + 1] - 2] == 0x0D:
                lengths[line] -= 1


@njit
def _scan(
    data: Bytes,
    chunk: int,
    n_lines: int,
    starts: Indices,
    lengths: Lengths,
    suspicious: Flags,
    digest: Words,
) -> tuple[int, int]:
    """Go on with scan_lines from a chunk on, to the end or to where there is no room for its lines.

    Returns the chunk to go on with and the number of lines that have ended; after the last chunk,
    of which nothing may be there, this is n_chunks + 1.
    """
    n_chunks = len(data) // CHUNK
    last = np.zeros(LANES, np.uint8)
    while chunk <= n_chunks and n_lines + CHUNK + 3 <= len(lengths):
        begin = chunk * CHUNK
        n_bytes = min(CHUNK, len(data) - begin)
        n_blocks = n_bytes // LANES
        return_before = np.uint64(chunk > 0 and data[begin - 1] == 0x0D)
        found, not_ascii, with_return = _find_lines(data, begin, n_blocks, 0, starts, n_lines, return_before)
        if n_bytes % LANES:
            rest = begin + n_blocks * LANES
            last[: n_bytes % LANES] = data[rest:]
            return_before = np.uint64(rest > 0 and data[rest - 1] == 0x0D)
            found, _, more = _find_lines(last, 0, 1, rest, starts, found, return_before)
            with_return |= more
        _measure(data, starts, lengths, n_lines, found, with_return != NO_LANE)
        if 0 < chunk < n_chunks:
            # A chunk of ASCII is innocent unless the one before may have left a character open.
            wrong = NO_LANE
            if not_ascii or data[begin - 1] >= 0x80:
                for block in range(n_blocks):
                    wrong |= utf8_mistake_bits(data, begin + block * LANES)
            if wrong:
                # A lead byte before the newline would also excuse the first bytes of the next line.
                suspicious[chunk] = suspicious[chunk + 1] = True
        _add_to_digest(digest, data, begin, n_bytes)
        chunk, n_lines = chunk + 1, found
    return chunk, n_lines


def scan_lines(data: Bytes, first: int = 0) -> tuple[Indices, Lengths, Flags, int]:
    """Find all lines, and the chunks that may hold a UTF-8 mistake; and tell the bytes by a digest.

    data (size,) uint8; first: where line 1 begins.
    Returns starts (n,) int64, lengths (n,) int32, suspicious (size // CHUNK + 2,) bool, and 64 bits that are
    others for nearly all other bytes, and the same on every machine. Of the suspicious chunks the first two
    and what follows the last whole one always are: a character would have to be followed over the edge of
    the data.
    """
    n_chunks = len(data) // CHUNK
    suspicious = np.zeros(n_chunks + 2, np.bool_)
    suspicious[[0, min(1, n_chunks), n_chunks]] = True
    # Room that is never written to is never given memory by the operating system. NumPy asks for large
    # pages here, Numba would not.
    room = len(data) // 32 + 2 * CHUNK
    starts, lengths = np.empty(room + 1, np.int64), np.empty(room, np.int32)
    starts[0] = first
    digest = np.zeros(1, np.uint64)
    chunk, n_lines = _scan(data, 0, 0, starts, lengths, suspicious, digest)
    while chunk <= n_chunks:
        starts = np.concatenate((starts, np.empty_like(starts)))
        lengths = np.concatenate((lengths, np.empty_like(lengths)))
        chunk, n_lines = _scan(data, chunk, n_lines, starts, lengths, suspicious, digest)
    if starts[n_lines] < len(data):  # the last line has no newline
        lengths[n_lines] = min(len(data) - starts[n_lines], 2**31 - 1)  # TextFile refuses what is longer
        n_lines += 1
    return starts[:n_lines], lengths[:n_lines], suspicious, int(digest[0])


@njit
def invalid_lines(
    data: Bytes, starts: Indices, lengths: Lengths, suspicious: Flags, following: npt.NDArray[np.uint8]
) -> Indices:
    """Indices of the lines that are not UTF-8: those in suspicious chunks, byte by byte.

    following (states, 256) uint8: the automaton of a text.
    """
    invalid = np.empty(len(starts), np.int64)
    n_invalid, line = 0, 0
    for chunk in np.flatnonzero(suspicious):
        # From the line that the chunk begins in. The newline belongs to its line: it is where a
        # character that is cut off shows.
        line = max(line, int(np.searchsorted(starts, chunk * CHUNK, "right")) - 1)
        while line < len(starts) and starts[line] < (chunk + 1) * CHUNK:
            state = ACCEPT
            for place in range(starts[line], starts[line] + lengths[line]):
                state = following[state, data[place]]
            if state != ACCEPT:
                invalid[n_invalid] = line
                n_invalid += 1
            line += 1
    return invalid[:n_invalid].copy()


@njit
def split_at_tabs(
    data: Bytes, side: Bytes, starts: Indices, lengths: Lengths
) -> tuple[Indices, Lengths, Indices, Lengths, int]:
    """Split each line of a TextFile at its first tab, and end it before its second.

    Returns starts (n,) int64 and lengths (n,) int32 of the left parts, the same of the right ones, and
    the first line that is not empty and has no tab, or -1. An empty line splits into two empty ones.
    """
    n_lines = len(starts)
    left_starts, left_lengths = starts.copy(), np.zeros(n_lines, np.int32)
    right_starts, right_lengths = starts.copy(), np.zeros(n_lines, np.int32)
    for line in range(n_lines):
        length = lengths[line]
        if length == 0:
            continue
        start, text = starts[line], data
        if start < 0:
            start, text = ~start, side
        tab = _find_tab(text, start, start + length)
        if tab == start + length:
            return left_starts, left_lengths, right_starts, right_lengths, line
        left_lengths[line] = tab - start
        right = tab + 1
        right_starts[line] = right if starts[line] >= 0 else ~right
        right_lengths[line] = _find_tab(text, right, start + length) - right
    return left_starts, left_lengths, right_starts, right_lengths, -1


@njit
def _find_tab(text: Bytes, begin: int, end: int) -> int:
    """Return the position of the first tab in text[begin:end], or `end`."""
    while begin < end and begin + LANES <= len(text):
        tabs = tab_bits(text, begin)
        if tabs:
            return min(end, begin + int(lowest_bit(tabs)))
        begin += LANES
    for place in range(begin, end):
        if text[place] == 0x09:
            return place
    return end


@njit
def sort_out(
    source: Lengths, target: Lengths, max_source: int, max_target: int, keep_empty: bool
) -> tuple[bool, Lengths, Indices, Indices]:
    """Tell which pairs are used: those with bytes on both sides (unless keep_empty) and within the limits.

    source, target (n,) int32: lengths without EOS. Returns whether all are used (and then only empty arrays),
    the used lines (m,) int32, and two (k,) int64: the lines that are too long, and the empty ones; a line
    with both faults counts as empty.
    """
    n_lines = len(target)
    least = 0 if keep_empty else 1
    n_faulty = 0
    for line in range(n_lines):  # a vector loop, and for most corpora all there is to do
        n_faulty += (
            (min(source[line], target[line]) < least)
            | (source[line] > max_source)
            | (target[line] > max_target)
        )
    kept = np.empty(n_lines - n_faulty if n_faulty else 0, np.int32)
    too_long, empty = np.empty(n_faulty, np.int64), np.empty(n_faulty, np.int64)
    n_kept, n_long, n_empty = 0, 0, 0
    if n_faulty:
        for line in range(n_lines):
            if min(source[line], target[line]) < least:
                empty[n_empty] = line
                n_empty += 1
            elif source[line] > max_source or target[line] > max_target:
                too_long[n_long] = line
                n_long += 1
            else:
                kept[n_kept] = line
                n_kept += 1
    return n_faulty == 0, kept, too_long[:n_long].copy(), empty[:n_empty].copy()
