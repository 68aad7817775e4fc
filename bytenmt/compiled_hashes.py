"""Hash numbers and texts in compiled code: see splitmix.py and ngram_hash.py for the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt import ngram_hash, splitmix
from bytenmt.jit import njit

# Compiled code needs unsigned integers of 64 bits.
INCREMENT = np.uint64(splitmix.GOLDEN_INCREMENT)
_FIRST_MULTIPLIER = np.uint64(splitmix.FIRST_MULTIPLIER)
_SECOND_MULTIPLIER = np.uint64(splitmix.SECOND_MULTIPLIER)
_30 = np.uint64(30)
_27 = np.uint64(27)
_31 = np.uint64(31)
_PER_ORDER = np.uint64(ngram_hash.PER_ORDER)
_SPREAD = np.uint64(ngram_hash.SPREAD)
_MIX = np.uint64(ngram_hash.MIX)
_PER_BYTE = np.uint64(ngram_hash.PER_BYTE)
_BYTE_BITS = np.uint64(8)
_HALF_BITS = np.uint64(32)
_WORD_BITS = np.uint64(64)
# Bits that tell the ASCII capitals A to Z among the eight bytes of a word, see fold_case.
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH_BITS = np.uint64(0x8080808080808080)
_FROM_A = np.uint64(0x3F3F3F3F3F3F3F3F)
_BEYOND_Z = np.uint64(0x2525252525252525)
_TWO = np.uint64(2)
_CASE_BIT = np.uint64(ord(" "))
_SMALL_A = np.uint64(ord("a"))
_SMALL_Z = np.uint64(ord("z"))
_ZERO = np.uint64(ord("0"))
_NINE = np.uint64(ord("9"))
_FIRST_LONG = np.uint64(0x80)  # the lowest byte of longer characters
_LAST_OF_WORD = np.uint64(ngram_hash.LAST_OF_WORD)


@njit
def mix_bits(z: np.uint64) -> np.uint64:
    """Return splitmix64's output, uint64, for a state z to which INCREMENT has been added."""
    z = (z ^ (z >> _30)) * _FIRST_MULTIPLIER
    z = (z ^ (z >> _27)) * _SECOND_MULTIPLIER
    return z ^ (z >> _31)


@njit
def mix(key: Any, n: Any) -> Any:
    """Return a hash, uint64, whose highest bits are the row of an n-gram in an embedding table.

    key: the n bytes, 1 to 8, as a uint64, the latest in the lowest bits. For the table of words, n
    is 9 and key is the hash of the word's bytes so far, from extend_prefix.
    """
    h = (key ^ (np.uint64(n) * _PER_ORDER)) * _SPREAD
    return (h ^ (h >> _HALF_BITS)) * _MIX


@njit
def hash_ngram(word: Any, n: Any) -> Any:
    """Return the hash of the last n bytes of a text, n from 1 to 8, as a uint64.

    word: the last eight bytes of the text as a uint64, the latest byte in its lowest bits.
    """
    return mix(word & (~np.uint64(0) >> (_WORD_BITS - _BYTE_BITS * np.uint64(n))), n)


@njit
def fold_case(word: Any) -> Any:
    """Return eight bytes, packed into a uint64, with the ASCII capitals among them in lower case.

    A byte b below 128 is a capital where b + 63 has its highest bit set (b >= 65) and b + 37 has
    not (b <= 90); the bit, moved to the place of 32, turns it into the small letter.
    """
    low = word & _LOW_BITS
    capital = (low + _FROM_A) & ~(low + _BEYOND_Z) & ~word & _HIGH_BITS
    return word | (capital >> _TWO)


@njit
def letter_value(byte: Any) -> Any:
    """Return the term, uint64, that a byte adds to the hash of the word it continues.

    It is byte + 1 with A to Z in lower case, or 0 if the byte is not part of a word, such as white
    space and punctuation.
    """
    lower = byte | _CASE_BIT
    if _SMALL_A <= lower <= _SMALL_Z:
        return lower + np.uint64(1)
    if _ZERO <= byte <= _NINE or _FIRST_LONG <= byte <= _LAST_OF_WORD:
        return byte + np.uint64(1)
    return np.uint64(0)


@njit
def extend_prefix(prefix: Any, byte: Any) -> Any:
    """Return the hash of the current word after one more byte; 0 if the byte is not part of a word.

    prefix: the hash of the bytes of the word so far, 0 for none. All are uint64.
    """
    value = letter_value(byte)
    return prefix * _PER_BYTE + value if value else value
