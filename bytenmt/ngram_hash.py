"""Hash the last n bytes of a text, for draft tables and for n-gram embeddings.

The *word* of a text is its last eight bytes as one integer, the newest byte lowest. A text begins as
eight BOS bytes. With all arithmetic modulo 2 ** 64,

    key = the lowest n bytes of the word
    h = (key ^ (n * PER_ORDER)) * SPREAD;  h = (h ^ (h >> 32)) * MIX

and a table of 2 ** k rows takes the k highest bits of h. This is the definition, for Python's integers;
ngram_hash_compiled.py has it for compiled code, layers/ngram_tables.py for tensors.
"""

from __future__ import annotations

from bytenmt.utf8 import BOS

N_BYTES = 8  # bytes of a word, and of the longest n-gram
WORD = (1 << 64) - 1  # all bits of a word
PER_ORDER, SPREAD, MIX = 0xBF58476D1CE4E5B9, 0x9E3779B97F4A7C15, 0x94D049BB133111EB
KEYS = tuple((1 << 8 * n) - 1 for n in range(N_BYTES + 1))  # KEYS[n]: the mask of the last n bytes
START = int.from_bytes(bytes([BOS]) * N_BYTES, "big")  # the word of an empty text


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
