"""The hash of n-grams in Python's integers, a reference for bytenmt/ngram_hash.py and the tensors."""

BOS = 0xFE
WORD = (1 << 64) - 1  # all bits of a word


def word_of(text: bytes) -> int:
    """Return the word of a text: its last 8 bytes, the newest lowest, after as many BOS as are missing."""
    return int.from_bytes((bytes([BOS] * 8) + text)[-8:], "big")


def append_byte(word: int, byte: int) -> int:
    """Return the word of a text after one more byte. word: of the text before that byte."""
    return (word << 8 | byte) & WORD


def hash_ngram(word: int, n: int) -> int:
    """Return the hash of the last n bytes of a text, n from 1 to 8, from 0 to 2 ** 64 - 1."""
    key = word & (1 << 8 * n) - 1
    h = (key ^ (n * 0xBF58476D1CE4E5B9 & WORD)) * 0x9E3779B97F4A7C15 & WORD
    return (h ^ h >> 32) * 0x94D049BB133111EB & WORD


def hash_prefix(prefix: int) -> int:
    """Return the hash of a prefix hash, which is hashed as the key of an n-gram of 9 bytes."""
    h = (prefix ^ (9 * 0xBF58476D1CE4E5B9 & WORD)) * 0x9E3779B97F4A7C15 & WORD
    return (h ^ h >> 32) * 0x94D049BB133111EB & WORD
