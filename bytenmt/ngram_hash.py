"""Hash the last n bytes of a text, for draft tables and for n-gram embeddings.

The *word* of a text is its last eight bytes as one integer, the newest byte lowest. A text begins as
eight BOS bytes. With all arithmetic modulo 2 ** 64,

    key = the lowest n bytes of the word
    h = (key ^ (n * PER_ORDER)) * SPREAD;  h = (h ^ (h >> 32)) * MIX

and a table of 2 ** k rows takes the k highest bits of h. hash_ngram has this for Python's
integers, hash_ngram_compiled for compiled code, layers/ngram_tables.py for tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.jit import njit
from bytenmt.utf8 import BOS

N_BYTES = 8  # bytes of a word, and of the longest n-gram
WORD = (1 << 64) - 1  # all bits of a word
PER_ORDER, SPREAD, MIX = 0xBF58476D1CE4E5B9, 0x9E3779B97F4A7C15, 0x94D049BB133111EB
KEYS = tuple((1 << 8 * n) - 1 for n in range(N_BYTES + 1))  # KEYS[n]: the mask of the last n bytes
START = int.from_bytes(bytes([BOS]) * N_BYTES, "big")  # the word of an empty text
# The same for compiled code.
_BYTE, _HALF, _WHOLE = np.uint64(8), np.uint64(32), np.uint64(64)
_PER_ORDER, _SPREAD, _MIX = np.uint64(PER_ORDER), np.uint64(SPREAD), np.uint64(MIX)
# Bits that tell the ASCII capitals A to Z among the eight bytes of a word, see fold_case.
_SEVEN, _HIGH = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
_FROM_A, _BEYOND_Z, _TWO = np.uint64(0x3F3F3F3F3F3F3F3F), np.uint64(0x2525252525252525), np.uint64(2)


def word_of(text: bytes) -> int:
    """Return the word of a text: its last 8 bytes, the newest lowest, after as many BOS as are missing."""
    return int.from_bytes((bytes([BOS]) * N_BYTES + text)[-N_BYTES:], "big")


def append_byte(word: int, byte: int) -> int:
    """Return the last eight bytes of a text as one integer, the newest lowest, after one more byte.

    word: the same integer before that byte.
    """
    return (word << 8 | byte) & WORD


def hash_ngram(word: int, n: int) -> int:
    """Return the hash of the last n bytes of a text, n from 1 to 8, from 0 to 2 ** 64 - 1.

    word: the last eight bytes of the text packed into an integer, the newest lowest.
    """
    h = ((word & KEYS[n]) ^ (n * PER_ORDER & WORD)) * SPREAD & WORD
    return (h ^ h >> 32) * MIX & WORD


@njit
def hash_ngram_compiled(word: Any, n: Any) -> Any:
    """Return hash_ngram, as a uint64, in code that Numba compiles. word: the last eight bytes."""
    key = word & (~np.uint64(0) >> (_WHOLE - _BYTE * np.uint64(n)))
    h = (key ^ (np.uint64(n) * _PER_ORDER)) * _SPREAD
    return (h ^ (h >> _HALF)) * _MIX


@njit
def fold_case(word: Any) -> Any:
    """Return a word, uint64, with its ASCII capitals replaced by small letters, all eight bytes at once.

    A byte b below 128 is a capital where b + 63 has its highest bit set (b >= 65) and b + 37 has not
    (b <= 90); the bit, moved to the place of 32, turns it into the small letter.
    """
    low = word & _SEVEN
    capital = (low + _FROM_A) & ~(low + _BEYOND_Z) & ~word & _HIGH
    return word | (capital >> _TWO)
