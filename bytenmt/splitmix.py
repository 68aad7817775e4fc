"""Compute the random numbers of sampling: splitmix64 (Steele, Lea and Flood 2014).

They do not depend on the versions of NumPy and PyTorch. A sampled byte depends only on the seed and
on the numbers of the request, of the text and of the byte: an engine hashes the text's key plus the
number of the byte, `mixed(key + step)`, and takes the highest 24 bits. compiled_hashes.py has the
same for compiled code.
"""

from __future__ import annotations

WORD_MASK = (1 << 64) - 1
GOLDEN_INCREMENT = 0x9E3779B97F4A7C15  # the increment: 2^64 divided by the golden ratio
FIRST_MULTIPLIER = 0xBF58476D1CE4E5B9
SECOND_MULTIPLIER = 0x94D049BB133111EB


def mixed(x: int) -> int:
    """Return splitmix64's pseudo-random output for the state x; both are 64-bit unsigned."""
    x = (x + GOLDEN_INCREMENT) & WORD_MASK
    x = ((x ^ (x >> 30)) * FIRST_MULTIPLIER) & WORD_MASK
    x = ((x ^ (x >> 27)) * SECOND_MULTIPLIER) & WORD_MASK
    return x ^ (x >> 31)


def draw_key(seed: int, number: int, text: int) -> int:
    """Return the random key, 64 bits unsigned, from which all bytes of one sampled text are drawn.

    number: that of the request, a sentence to decode; text: index of the sample of that request.
    """
    return mixed(mixed(mixed(seed) + number) + text)


def signed(word: int) -> int:
    """Reinterpret an unsigned 64-bit integer as a signed one, which PyTorch and int64 need."""
    if word >> 63:
        return word - (1 << 64)
    return word
