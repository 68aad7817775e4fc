"""Hash the last n bytes of a text, for n-gram embeddings.

The *word* of a text is its last eight bytes as one integer, the newest byte lowest. A text begins as
eight BOS bytes. With all arithmetic modulo 2 ** 64,

    key = the lowest n bytes of the word
    h = (key ^ (n * PER_ORDER)) * SPREAD;  h = (h ^ (h >> 32)) * MIX

and a table of 2 ** k rows takes the k highest bits of h. hash_ngram has this for compiled code,
layers/ngram_tables.py for tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.jit import njit
from bytenmt.utf8 import BOS

N_BYTES = 8  # bytes of a word, and of the longest n-gram
WORD = (1 << 64) - 1  # all bits of a word
PER_ORDER, SPREAD, MIX = 0xBF58476D1CE4E5B9, 0x9E3779B97F4A7C15, 0x94D049BB133111EB
START = int.from_bytes(bytes([BOS]) * N_BYTES, "big")  # the word of an empty text
# The same for compiled code.
_BYTE, _HALF, _WHOLE = np.uint64(8), np.uint64(32), np.uint64(64)
_PER_ORDER, _SPREAD, _MIX = np.uint64(PER_ORDER), np.uint64(SPREAD), np.uint64(MIX)
# Bits that tell the ASCII capitals A to Z among the eight bytes of a word, see fold_case.
_SEVEN, _HIGH = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
_FROM_A, _BEYOND_Z, _TWO = np.uint64(0x3F3F3F3F3F3F3F3F), np.uint64(0x2525252525252525), np.uint64(2)


@njit
def hash_ngram(word: Any, n: Any) -> Any:
    """Return the hash of the last n bytes of a text, n from 1 to 8, as a uint64. word: uint64."""
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
