"""Hash the last n bytes of a text, for n-gram embeddings.

The *word* of a text is its last eight bytes as one integer, the newest byte lowest. A text begins
as eight BOS bytes. With all arithmetic modulo 2 ** 64,

    key = the lowest n bytes of the word
    h = (key ^ (n * PER_ORDER)) * SPREAD;  h = (h ^ (h >> 32)) * MIX

and a table of 2 ** k rows takes the k highest bits of h. hash_ngram has this for compiled code,
layers/ngram_tables.py for tensors.

The *prefix hash* of a text is a hash of the bytes since the last byte that is part of no word: an
ASCII letter or digit is, and so is every byte of a longer character (0x80 to 0xF4). With a byte b
of a word, A to Z taken as a to z, it becomes prefix * PER_BYTE + b + 1, with any other byte 0. A
table of words hashes it as the key of an n-gram of WORD_ORDER bytes.

A source may begin with 0xC0 or 0xC1, which ask for a form of address (formality.py). Whoever hashes
a text takes both for BOS, so that the n-grams and words behind them are those of the source alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.jit import njit
from bytenmt.kernel_constants import FORMAL_BYTE, INFORMAL_BYTE
from bytenmt.utf8 import BOS

N_BYTES = 8  # bytes of a word, and of the longest n-gram
WORD = (1 << 64) - 1  # all bits of a word
PER_ORDER, SPREAD, MIX = 0xBF58476D1CE4E5B9, 0x9E3779B97F4A7C15, 0x94D049BB133111EB
PER_BYTE = 0xD6E8FEB86659FD93  # odd: its powers have inverses modulo 2 ** 64
WORD_ORDER = 9  # the order that stands for words, one above the longest n-gram's
LAST_OF_WORD = 0xF4  # the highest byte of UTF-8
START = int.from_bytes(bytes([BOS]) * N_BYTES, "big")  # the word of an empty text
# The same for compiled code.
_BYTE, _HALF, _WHOLE = np.uint64(8), np.uint64(32), np.uint64(64)
_PER_ORDER, _SPREAD, _MIX = np.uint64(PER_ORDER), np.uint64(SPREAD), np.uint64(MIX)
# Bits that tell the ASCII capitals A to Z among the eight bytes of a word, see fold_case.
_SEVEN, _HIGH = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
_CASE, _A, _Z, _ZERO, _NINE = (np.uint64(ord(letter)) for letter in " az09")
_LEAST_LONG, _LAST_OF_WORD, _PER_BYTE = (
    np.uint64(0x80),
    np.uint64(LAST_OF_WORD),
    np.uint64(PER_BYTE),
)
_INFORMAL, _FORMAL, _BOS = np.uint64(INFORMAL_BYTE), np.uint64(FORMAL_BYTE), np.uint64(BOS)
_FROM_A, _BEYOND_Z, _TWO = (
    np.uint64(0x3F3F3F3F3F3F3F3F),
    np.uint64(0x2525252525252525),
    np.uint64(2),
)


@njit
def mix(key: Any, n: Any) -> Any:
    """Return the hash of a key, uint64, of the order n: an n-gram, or with WORD_ORDER a prefix
    hash."""
    h = (key ^ (np.uint64(n) * _PER_ORDER)) * _SPREAD
    return (h ^ (h >> _HALF)) * _MIX


@njit
def hash_ngram(word: Any, n: Any) -> Any:
    """Return the hash of the last n bytes of a text, n from 1 to 8, as a uint64.

    word: uint64 of the last eight bytes, the latest one in its lowest bits.
    """
    return mix(word & (~np.uint64(0) >> (_WHOLE - _BYTE * np.uint64(n))), n)


@njit
def fold_case(word: Any) -> Any:
    """Return eight bytes, packed into a uint64, with the ASCII capitals among them in lower case.

    A byte b below 128 is a capital where b + 63 has its highest bit set (b >= 65) and b + 37 has
    not (b <= 90); the bit, moved to the place of 32, turns it into the small letter.
    """
    low = word & _SEVEN
    capital = (low + _FROM_A) & ~(low + _BEYOND_Z) & ~word & _HIGH
    return word | (capital >> _TWO)


@njit
def without_form(byte: Any) -> Any:
    """Return a byte, as uint64; BOS for the two that ask for a form of address."""
    return _BOS if byte in (_INFORMAL, _FORMAL) else byte


@njit
def letter_value(byte: Any) -> Any:
    """Return what a byte, as uint64, adds to the prefix hash of its word: byte + 1 with A to Z in
    lower case, or 0 if it is not part of a word, as white space and punctuation."""
    lower = byte | _CASE
    if _A <= lower <= _Z:
        return lower + np.uint64(1)
    if _ZERO <= byte <= _NINE or _LEAST_LONG <= byte <= _LAST_OF_WORD:
        return byte + np.uint64(1)
    return np.uint64(0)


@njit
def extend_prefix(prefix: Any, byte: Any) -> Any:
    """Return the hash of the current word after one more byte, 0 after one that is part of no word.

    prefix: the hash of the bytes of the word so far, 0 for none. All are uint64.
    """
    value = letter_value(byte)
    return prefix * _PER_BYTE + value if value else value
