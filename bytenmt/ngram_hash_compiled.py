"""The hash of ngram_hash.py for code that Numba compiles: words are uint64, the newest byte lowest."""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.jit import njit
from bytenmt.ngram_hash import MIX, PER_ORDER, SPREAD

_BYTE, _HALF, _WHOLE = np.uint64(8), np.uint64(32), np.uint64(64)
_PER_ORDER, _SPREAD, _MIX = np.uint64(PER_ORDER), np.uint64(SPREAD), np.uint64(MIX)
# Bits that tell the ASCII capitals A to Z among the eight bytes of a word, see fold_case.
_SEVEN, _HIGH = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
_FROM_A, _BEYOND_Z, _TWO = np.uint64(0x3F3F3F3F3F3F3F3F), np.uint64(0x2525252525252525), np.uint64(2)


@njit
def hash_ngram_compiled(word: Any, n: Any) -> Any:
    """Return ngram_hash.hash_ngram, as a uint64, in code that Numba compiles. word: the last eight bytes."""
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
