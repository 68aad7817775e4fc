"""One read of a file's bytes: where its lines lie, and which of them are not UTF-8.

Numba kernels over the memory map. They stand together in one file because Numba's cache does not notice a
change in another.
"""

import numpy as np
import numpy.typing as npt

from bytenmt.alphabet import ACCEPT, njit

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]

# The scan works in chunks that stay in the innermost cache: one look for non-ASCII bytes, one for
# UTF-8 mistakes where there are any, one for line ends, one read of memory for all three.
CHUNK = 4096  # bytes, a multiple of 8
EVERY_BYTE_01 = np.uint64(0x0101010101010101)
EVERY_BYTE_7F = np.uint64(0x7F7F7F7F7F7F7F7F)
EVERY_BYTE_80 = np.uint64(0x8080808080808080)
EVERY_BYTE_NEWLINE = np.uint64(0x0A0A0A0A0A0A0A0A)
ONE = np.uint64(1)
SEVEN = np.uint64(7)
TOP_BYTE = np.uint64(56)


@njit
def _any_bit(words: npt.NDArray[np.uint64], bits: np.uint64) -> bool:
    """Whether any of the words has any of the bits."""
    seen = np.uint64(0)
    for k in range(len(words)):
        seen |= words[k]
    return bool(seen & bits)


@njit
def _mark_mistakes(third: Bytes, second: Bytes, previous: Bytes, current: Bytes, out: Bytes) -> None:
    """Set out[i] where current[i] cannot follow the three bytes before it in UTF-8.

    The four inputs are one text, each a byte further on. Written without branches, so that the
    compiler makes vectors of it: a byte must be a continuation exactly where a lead byte asks for
    one, and four leads narrow the range of the byte after them (alphabet.py tells which).
    """
    for i in range(len(out)):
        byte, before = current[i], previous[i]
        expected = (before >= 0xC0) | (second[i] >= 0xE0) | (third[i] >= 0xF0)
        wrong = ((byte & 0xC0) == 0x80) ^ expected
        wrong |= ((byte & 0xFE) == 0xC0) | (byte >= 0xF5)
        wrong |= (before == 0xE0) & (byte < 0xA0)
        wrong |= (before == 0xED) & (byte >= 0xA0)
        wrong |= (before == 0xF0) & (byte < 0x90)
        wrong |= (before == 0xF4) & (byte >= 0x90)
        out[i] |= wrong


@njit
def _length(data: Bytes, start: int, newline: int) -> int:
    """Bytes of the line that begins at `start` and whose newline stands at `newline`."""
    if newline > start and data[newline - 1] == 0x0D:
        return newline - 1 - start
    return newline - start


@njit
def _find_lines(
    data: Bytes,
    words: npt.NDArray[np.uint64],
    begin: int,
    stop: int,
    n_lines: int,
    start: int,
    starts: Indices,
    lengths: Lengths,
) -> tuple[int, int]:
    """Add the lines whose newline lies in bytes begin to stop; `begin` is a multiple of 8.

    Returns the number of lines and where the next one starts. words is data, 8 bytes each.
    """
    for k in range(begin // 8, stop // 8):
        # The high bit of each byte that is a newline; no carry reaches the byte beside it.
        x = words[k] ^ EVERY_BYTE_NEWLINE
        hits = ~(((x & EVERY_BYTE_7F) + EVERY_BYTE_7F) | x | EVERY_BYTE_7F)
        while hits:
            below = ((hits & (~hits + ONE)) >> SEVEN) - ONE  # ones below the lowest hit
            offset = np.int64(((below & EVERY_BYTE_01) * EVERY_BYTE_01) >> TOP_BYTE)
            newline = 8 * k + int(offset)
            starts[n_lines], lengths[n_lines] = start, _length(data, start, newline)
            n_lines, start = n_lines + 1, newline + 1
            hits &= hits - ONE
    for newline in range(stop // 8 * 8, stop):
        if data[newline] == 0x0A:
            starts[n_lines], lengths[n_lines] = start, _length(data, start, newline)
            n_lines, start = n_lines + 1, newline + 1
    return n_lines, start


@njit
def scan_lines(
    data: Bytes, words: npt.NDArray[np.uint64], first: int
) -> tuple[Indices, Lengths, npt.NDArray[np.bool_]]:
    """Find all lines, and the chunks that may hold a UTF-8 mistake.

    data (size,) uint8; words (size // 8,) uint64, the same memory; first: where line 1 begins.
    Returns starts (n,) int64, lengths (n,) int32 and suspicious (size // CHUNK + 1,) bool: the
    first chunk and what follows the last whole one always are, because there a character would
    have to be followed over the edge of the data.
    """
    size = len(data)
    n_chunks = size // CHUNK
    suspicious = np.zeros(n_chunks + 1, np.bool_)
    suspicious[0] = suspicious[n_chunks] = True
    mistakes = np.empty(CHUNK, np.uint8)
    # Room that is never written to is never given memory by the operating system.
    starts = np.empty(2 * CHUNK + size // 32, np.int64)
    lengths = np.empty(2 * CHUNK + size // 32, np.int32)
    n_lines, start = 0, first
    was_ascii = False
    for chunk in range(n_chunks + 1):
        begin = chunk * CHUNK
        stop = min(begin + CHUNK, size)
        if n_lines + CHUNK >= len(starts):  # every byte of a chunk may end a line
            starts = np.concatenate((starts, np.empty_like(starts)))
            lengths = np.concatenate((lengths, np.empty_like(lengths)))
        # A chunk of ASCII is innocent unless the one before may have left a character open.
        is_ascii = not _any_bit(words[begin // 8 : stop // 8], EVERY_BYTE_80)
        if 0 < chunk < n_chunks and not (is_ascii and was_ascii):
            mistakes[:] = 0
            third, second = data[begin - 3 : stop - 3], data[begin - 2 : stop - 2]
            _mark_mistakes(third, second, data[begin - 1 : stop - 1], data[begin:stop], mistakes)
            suspicious[chunk] = _any_bit(mistakes.view(np.uint64), EVERY_BYTE_01)
        was_ascii = is_ascii
        n_lines, start = _find_lines(data, words, begin, stop, n_lines, start, starts, lengths)
    if start < size:  # the last line has no newline
        starts[n_lines], lengths[n_lines] = start, size - start
        n_lines += 1
    return starts[:n_lines], lengths[:n_lines], suspicious


@njit
def invalid_lines(
    data: Bytes,
    starts: Indices,
    lengths: Lengths,
    suspicious: npt.NDArray[np.bool_],
    following: npt.NDArray[np.uint8],
) -> Indices:
    """Indices of the lines that are not UTF-8: those in suspicious chunks, byte by byte."""
    invalid = np.zeros(len(starts), np.bool_)
    for line in range(len(starts)):
        start, end = starts[line], starts[line] + lengths[line]
        is_suspicious = False
        # The byte after the line counts: it is where a character that is cut off shows.
        for chunk in range(start // CHUNK, end // CHUNK + 1):
            is_suspicious |= suspicious[chunk]
        if is_suspicious:
            state = ACCEPT
            for place in range(start, end):
                state = following[state, data[place]]
            invalid[line] = state != ACCEPT
    return np.flatnonzero(invalid)


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
    """Where the first tab is in text[begin:end]; `end` where there is none."""
    for place in range(begin, end):
        if text[place] == 0x09:
            return place
    return end


@njit
def sort_out(
    source: Lengths, target: Lengths, max_source: int, max_target: int, keep_empty: bool
) -> tuple[bool, Lengths, Indices, Indices]:
    """Which pairs are kept: those with bytes on both sides (where that matters) and within the limits.

    source, target (n,) int32: lengths without EOS. Returns whether all are kept (and then only empty
    arrays), the kept lines (m,) int32, and two (k,) int64: the lines that are too long, and the empty
    ones; a line with both faults counts as empty.
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
