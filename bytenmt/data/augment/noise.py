"""Noise in a text as people make it: typos, letter case, swapped neighbours, dropped and doubled characters.

Each character is disturbed at random; ASCII digits and what is between two of them stay, as nobody could
guess what they were. UTF-8 stays valid.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.data.bucketing import random, random_below
from bytenmt.jit import njit
from bytenmt.kernel_constants import FIRST_SENTINEL
from bytenmt.utf8 import EOS, PAD

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.uint64]

TYPO, CASE, SWAP, DROP, DOUBLE = range(5)  # equally often, where the character lets it
N_KINDS = 5
HALF = np.uint64(32)
ZERO, NINE = 0x30, 0x39


class Letters(NamedTuple):
    """The letters of a text, (k,) int32 each.

    codes: code points, ascending. cased: the other letter case with as many bytes, 0 if there is none.
    members: code points again, grouped by script, case and number of bytes: a typo takes another letter of
    the group. begins, sizes: the position of each letter's group in `members`.
    """

    codes: Codes
    cased: Codes
    members: Codes
    begins: Codes
    sizes: Codes

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Letters:
        """Collect the letters of texts."""
        groups: defaultdict[tuple[int, str, bool], list[int]] = defaultdict(list)
        found = sorted({letter for text in texts for letter in text if letter.isalpha()})
        keys = [_group(letter) for letter in found]
        for letter, key in zip(found, keys, strict=True):
            groups[key].append(ord(letter))
        order = {key: number for number, key in enumerate(groups)}
        sizes = np.array([len(members) for members in groups.values()], np.int32)
        begins = np.cumsum(sizes, dtype=np.int32) - sizes
        own = np.array([order[key] for key in keys], np.int64)
        return cls(
            np.array([ord(letter) for letter in found], np.int32),
            np.array([_other_case(letter) for letter in found], np.int32),
            np.array([code for members in groups.values() for code in members], np.int32),
            begins[own],
            sizes[own],
        )


def _group(letter: str) -> tuple[int, str, bool]:
    script = unicodedata.name(letter, "").partition(" ")[0]
    return len(letter.encode()), script, letter.isupper()


def _other_case(letter: str) -> int:
    other = letter.swapcase()
    alike = len(other) == 1 and len(other.encode()) == len(letter.encode())
    return ord(other) if alike and other != letter else 0


def chance(share: float) -> np.uint64:
    """Return a share as a number out of 2 ** 32, to be compared with draws."""
    return np.uint64(round(share * 2**32))


def noisy_rows(
    lines: Bytes,
    ends: Indices,
    share: float,
    letters: Letters,
    limit: int,
    key: np.uint64,
    rows: Indices,
    round_to: int = 1,
) -> tuple[Bytes, Indices]:
    """Return rows of a batch with noise, and their lengths.

    lines (n, s) uint8: valid UTF-8, in which sentinels may stand, EOS, PAD; ends (n,) int64: bytes with EOS
    of each row. share: of the characters that are disturbed. limit: bytes without EOS, beyond which no line
    grows. The draws of row i depend on the key and the number rows[i] only. The result is as wide as its
    longest row, rounded up to a multiple of round_to.
    """
    longest = int(ends.max(initial=1)) - 1
    scratch = np.empty((len(lines), max(longest, min(limit, 2 * longest))), np.uint8)
    new_ends = np.empty_like(ends)
    disturb(lines, ends, chance(share), *letters, limit, key, rows, scratch, new_ends)
    width = -(-int(new_ends.max(initial=0)) // round_to) * round_to
    noisy = np.empty((len(lines), width), np.uint8)
    _finish(scratch, new_ends, noisy)
    return noisy, new_ends


def noisy_lines(lines: Sequence[bytes], share: float, letters: Letters, seed: int = 0) -> list[bytes]:
    """Return lines of valid UTF-8 with noise that depends on the seed, a line's number and its text only."""
    found = []
    for number, line in enumerate(lines):
        row = np.frombuffer(line + bytes([EOS]), np.uint8)[None]
        rows = np.array([number])
        noisy, (end,) = noisy_rows(
            row, np.array([row.size]), share, letters, 2 * len(line), np.uint64(seed), rows
        )
        found.append(noisy[0, : end - 1].tobytes())
    return found


@njit
def row_keys(key: np.uint64, rows: Indices) -> Keys:
    """Return a key for each row, (n,) uint64, mixed so that the draws of two rows are unrelated."""
    state, keys = np.zeros(1, np.uint64), np.empty(len(rows), np.uint64)
    for i in range(len(rows)):
        state[0] = key + np.uint64(rows[i])
        keys[i] = random(state)
    return keys


@njit
def disturb(
    lines: Bytes,
    ends: Indices,
    chance: np.uint64,
    codes: Codes,
    cased: Codes,
    members: Codes,
    begins: Codes,
    sizes: Codes,
    limit: int,
    key: np.uint64,
    rows: Indices,
    out: Bytes,
    out_ends: Indices,
) -> None:
    """Write lines with noise into out (n, w), without EOS, and their bytes with EOS into out_ends (n,).

    See noisy_rows and Letters. w: room for twice a line's bytes, or for the limit.
    """
    state, keys = np.zeros(1, np.uint64), row_keys(key, rows)
    for i in range(len(lines)):
        state[0] = keys[i]
        line, written, n, at, end = lines[i], out[i], ends[i] - 1, 0, 0
        while at < n:
            width = n_bytes(line[at])
            behind = at + width
            drawn = random(state)
            if drawn >> HALF >= chance or is_kept(line, at, behind, n):
                end = copy(line, at, width, written, end)
                at = behind
                continue
            kind = int(np.int64(((drawn & np.uint64(0xFFFFFFFF)) * np.uint64(N_KINDS)) >> HALF))
            code = decoded(line, at, width)
            place = int(np.searchsorted(codes, code))
            known = place < len(codes) and codes[place] == code
            if kind == CASE and not (known and cased[place] != 0):
                kind = TYPO
            if kind == TYPO and not (known and sizes[place] > 1):
                kind = DOUBLE
            if kind == SWAP and (behind >= n or is_digit(line[behind]) or line[behind] >= FIRST_SENTINEL):
                kind = DOUBLE
            if kind == DROP and end == 0 and behind >= n:
                kind = DOUBLE  # no line gets empty
            if kind == CASE:
                end = encode(cased[place], width, written, end)
            elif kind == TYPO:
                last = begins[place] + sizes[place] - 1
                other = members[begins[place] + random_below(state, sizes[place] - 1)]
                end = encode(members[last] if other == code else other, width, written, end)
            elif kind == SWAP:
                end = copy(line, behind, n_bytes(line[behind]), written, end)
                behind += n_bytes(line[behind])
                end = copy(line, at, width, written, end)
            elif kind == DOUBLE:
                if end + 2 * width + n - behind <= limit:
                    end = copy(line, at, width, written, end)
                end = copy(line, at, width, written, end)
            at = behind
        out_ends[i] = end + 1


@njit
def _finish(scratch: Bytes, ends: Indices, out: Bytes) -> None:
    """Write the bytes of each row into out (n, width), then EOS and PAD."""
    for i in range(len(out)):
        text, row, rest = scratch[i], out[i], out[i, ends[i] :]
        for place in range(ends[i] - 1):
            row[place] = text[place]
        row[ends[i] - 1] = EOS
        for place in range(len(rest)):
            rest[place] = PAD


@njit
def n_bytes(first: int) -> int:
    """Return the number of bytes of the character that begins with this byte, or of a sentinel."""
    return 1 if first < 0x80 or first >= FIRST_SENTINEL else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


@njit
def is_digit(byte: int) -> bool:
    return ZERO <= byte <= NINE


@njit
def is_kept(line: Bytes, at: int, after: int, n: int) -> bool:
    """Return whether a character belongs to a number, or is a sentinel."""
    if is_digit(line[at]) or line[at] >= FIRST_SENTINEL:
        return True
    return at > 0 and after < n and is_digit(line[at - 1]) and is_digit(line[after])


@njit
def copy(line: Bytes, at: int, width: int, written: Bytes, end: int) -> int:
    """Append a character to the output and return the new end."""
    for k in range(width):
        written[end + k] = line[at + k]
    return end + width


@njit
def decoded(line: Bytes, at: int, width: int) -> int:
    """Return the code point of a character."""
    code = int(line[at])
    if width > 1:
        code &= 0x7F >> width
    for k in range(1, width):
        code = code << 6 | int(line[at + k]) & 0x3F
    return code


@njit
def encode(code: int, width: int, written: Bytes, end: int) -> int:
    """Append a code point as so many bytes to the output and return the new end."""
    rest = int(code)
    for k in range(width - 1, 0, -1):
        written[end + k] = 0x80 | rest & 0x3F
        rest >>= 6
    written[end] = rest if width == 1 else rest | (0xF00 >> width) & 0xFF
    return end + width
