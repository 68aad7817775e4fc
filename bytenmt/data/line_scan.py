"""Scan the bytes of a file: where its lines are, which are not UTF-8, and a digest of all bytes."""

import numpy as np
import numpy.typing as npt

from bytenmt.jit import inlined, njit
from bytenmt.utf8 import ACCEPT, EOS, REJECT, UTF8_NEXT

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

PIECE = 1 << 16  # bytes that are checked together: one with a mistake is read again, line by line
WORDS = PIECE // 8
NEWLINE, RETURN, TAB = np.uint64(0x0A), 0x0D, 0x09
LONGEST_LINE = 2**31 - 1  # what an int32 can hold; TextFile refuses longer lines
# The automaton of a text: EOS passes between the characters of a hypothesis but is no text.
TEXT_NEXT = UTF8_NEXT.copy()
TEXT_NEXT[ACCEPT, EOS] = REJECT
# Eight bytes are compared at once, as a number. The answer is in the highest bit of each byte.
EACH_BYTE, HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
LOW_BITS = ~HIGH_BITS
# Shifts that move another bit of each byte to its highest one.
BIT_6, BIT_5, BIT_4, BIT_3, BIT_2, BIT_1, BIT_0 = (np.uint64(n) for n in range(1, 8))
# Of the digest: each word of a chunk has a key of its own, a multiple of the first number, and each chunk's
# sum is multiplied by the second one on top of those before it.
CHUNK = 4096  # bytes
KEY, MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)
HALF, LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)


def scan_lines(data: Bytes, first: int = 0) -> tuple[Indices, Lengths, Indices, int]:
    """Return where all lines begin, their lengths, the lines that are not UTF-8, and a digest of all bytes.

    data (size,) uint8; first: position of the first byte of line 1.
    Returns starts (n,) int64; lengths (n,) int32 without line ends; invalid (k,) int64; and 64 bits that
    differ for nearly all other bytes and are the same on every machine.
    """
    words = np.require(data[: len(data) // 8 * 8].view(np.uint64), requirements="A")
    pieces = range(0, len(data), PIECE)
    n_newlines = sum(np.count_nonzero(data[at : at + PIECE] == NEWLINE) for at in pieces)
    starts, lengths = np.empty(n_newlines + 1, np.int64), np.empty(n_newlines + 1, np.int32)
    starts[0] = first
    _find_lines(data, words, starts, lengths)
    n_lines = n_newlines + (starts[-1] < len(data))  # nothing follows the last newline of most files
    starts, lengths = starts[:n_lines], lengths[:n_lines]
    suspicious = suspicious_pieces(words[: len(words) // WORDS * WORDS].reshape(-1, WORDS))
    invalid = _invalid_lines(data, starts, lengths, suspicious, TEXT_NEXT)
    return starts, lengths, invalid, int(_digest(data, words))


@inlined
def _is_equal(word: np.uint64, byte: int) -> np.uint64:
    """Return the high bits of those bytes of a word that are equal to a byte, among other bits."""
    differs = word ^ (np.uint64(byte) * EACH_BYTE)
    return ~(((differs & LOW_BITS) + LOW_BITS) | differs)


@njit
def _find_lines(data: Bytes, words: Words, starts: Indices, lengths: Lengths) -> None:
    """Set starts, from the second on, and the lengths of all lines; the last one may be empty."""
    line = 0
    for word in range(len(words)):
        differs = words[word] ^ (NEWLINE * EACH_BYTE)
        if (differs - EACH_BYTE) & ~differs & HIGH_BITS:  # some byte of `differs` is zero
            for place in range(8 * word, 8 * word + 8):
                if data[place] == NEWLINE:
                    line = _end_line(data, place, line, starts, lengths)
    for place in range(8 * len(words), len(data)):
        if data[place] == NEWLINE:
            line = _end_line(data, place, line, starts, lengths)
    lengths[line] = min(len(data) - starts[line], LONGEST_LINE)


@inlined
def _end_line(data: Bytes, newline: int, line: int, starts: Indices, lengths: Lengths) -> int:
    """Set the length of a line and the start of the next one, whose number is returned."""
    has_return = newline > starts[line] and data[newline - 1] == RETURN
    lengths[line] = min(newline - has_return - starts[line], LONGEST_LINE)
    starts[line + 1] = newline + 1
    return line + 1


@njit
def suspicious_pieces(words: npt.NDArray[np.uint64]) -> Flags:
    """Return the pieces in which a line may not be UTF-8: all that are not, and few others.

    words (n, WORDS): the whole pieces as numbers of eight bytes. Returns (n + 1,) bool; what follows the
    whole pieces is always suspected, since it has not been looked at and may end within a character.
    """
    suspicious = np.zeros(len(words) + 1, np.bool_)
    suspicious[-1] = True
    before = np.uint64(0)
    for piece in range(len(words)):
        mistakes = np.uint64(0)
        for k in range(WORDS):
            mistakes |= _mistakes(words[piece, k], before)
            before = words[piece, k]
        if mistakes & HIGH_BITS:
            # A lead byte before a newline at the end would also excuse the first bytes of the next line.
            suspicious[piece] = suspicious[piece + 1] = True
    return suspicious


@inlined
def _mistakes(word: np.uint64, before: np.uint64) -> np.uint64:
    """Return the high bits of those bytes of a word that cannot follow the bytes before them in UTF-8.

    A byte must be a continuation (10xxxxxx) exactly where one of the three before it is a lead byte that asks
    for one; the leads E0, ED, F0 and F4 narrow the range of the next byte; C0, C1 and F5 to FF never occur.
    """
    previous = (word << np.uint64(8)) | (before >> np.uint64(56))
    second = (word << np.uint64(16)) | (before >> np.uint64(48))
    third = (word << np.uint64(24)) | (before >> np.uint64(40))
    is_expected = previous & (previous << BIT_6)
    is_expected |= second & (second << BIT_6) & (second << BIT_5)
    is_expected |= third & (third << BIT_6) & (third << BIT_5) & (third << BIT_4)
    wrong = is_expected ^ (word & ~(word << BIT_6))
    from_a0, from_90 = word << BIT_5, (word << BIT_5) | (word << BIT_4)  # of continuation bytes
    wrong |= _is_equal(previous, 0xE0) & ~from_a0
    wrong |= _is_equal(previous, 0xED) & from_a0
    wrong |= _is_equal(previous, 0xF0) & ~from_90
    wrong |= _is_equal(previous, 0xF4) & from_90
    wrong |= _is_equal(word & (np.uint64(0xFE) * EACH_BYTE), 0xC0)
    from_f0 = word & (word << BIT_6) & (word << BIT_5) & (word << BIT_4)
    return wrong | from_f0 & ((word << BIT_3) | ((word << BIT_2) & ((word << BIT_1) | (word << BIT_0))))


@njit
def _invalid_lines(
    data: Bytes, starts: Indices, lengths: Lengths, suspicious: Flags, following: npt.NDArray[np.uint8]
) -> Indices:
    """Return the indices of the lines that are not UTF-8, having read suspicious pieces byte by byte.

    following (states, 256) uint8: the automaton of a text.
    """
    invalid = np.empty(len(starts), np.int64)
    n_invalid, line = 0, 0
    for piece in np.flatnonzero(suspicious):
        # From the line that the piece begins in. The newline belongs to its line: it is where a
        # character that is cut off shows.
        line = max(line, int(np.searchsorted(starts, piece * PIECE, "right")) - 1)
        while line < len(starts) and starts[line] < (piece + 1) * PIECE:
            state = ACCEPT
            for place in range(starts[line], starts[line] + lengths[line]):
                state = following[state, data[place]]
            if state != ACCEPT:
                invalid[n_invalid] = line
                n_invalid += 1
            line += 1
    return invalid[:n_invalid].copy()


@njit
def _digest(data: Bytes, words: Words) -> np.uint64:
    """Return a digest of all bytes, chunk by chunk.

    The two halves of each word, each plus its half of the word's key, are multiplied (UMAC's NH, Black et al.
    1999): a sum that vectors compute as fast as the bytes come. It tells mistakes, not forgeries.
    """
    digest = np.uint64(0)
    for begin in range(0, len(data) // CHUNK * CHUNK + 1, CHUNK):
        n_bytes = min(CHUNK, len(data) - begin)
        total = np.uint64(0)
        for k in range(n_bytes >> 3):
            word, key = words[(begin >> 3) + k], np.uint64(k + 1) * KEY
            total += ((word + key) & LOW_HALF) * (((word >> HALF) + (key >> HALF)) & LOW_HALF)
        rest = np.uint64(n_bytes)
        for place in range(n_bytes & ~7, n_bytes):
            rest = (rest << np.uint64(8)) | np.uint64(data[begin + place])
        mixed = (digest ^ (total + rest)) * MIX
        digest = mixed ^ (mixed >> HALF)
    return digest


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
    for place in range(begin, end):
        if text[place] == TAB:
            return place
    return end


def select_pairs(
    source: Lengths, target: Lengths, max_source: int, max_target: int, keep_empty: bool
) -> tuple[Indices, Indices, Indices]:
    """Find the pairs that are used: those with bytes on both sides (unless keep_empty) and within the limits.

    source, target (n,) int32: lengths without EOS. Returns three (k,) int64: the used lines, the lines that
    are too long, and the empty ones; a line with both faults counts as empty.
    """
    is_empty = np.minimum(source, target) < (0 if keep_empty else 1)
    is_long = ((source > max_source) | (target > max_target)) & ~is_empty
    used, too_long, empty = map(np.flatnonzero, (~(is_empty | is_long), is_long, is_empty))
    return used, too_long, empty
