"""The random numbers of sampling: splitmix64 (Steele, Lea and Flood 2014), in Python and in
compiled code.

They do not depend on the versions of NumPy and PyTorch. A sampled byte depends only on the seed and
on the numbers of the request, of the text and of the byte: an engine hashes the text's key plus the
number of the byte, `mixed(key + step)`, and takes the highest 24 bits.
"""

from __future__ import annotations

import numpy as np

from bytenmt.jit import njit

WORD = (1 << 64) - 1
# The increment and the two multipliers.
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
INCREMENT, _FIRST, _SECOND = np.uint64(GOLDEN), np.uint64(FIRST), np.uint64(SECOND)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def mixed(x: int) -> int:
    """Return splitmix64's output for the state x; both are 64-bit unsigned integers."""
    x = (x + GOLDEN) & WORD
    x = ((x ^ (x >> 30)) * FIRST) & WORD
    x = ((x ^ (x >> 27)) * SECOND) & WORD
    return x ^ (x >> 31)


def draw_key(seed: int, number: int, text: int) -> int:
    """Return the random key, 64 bits unsigned, from which all bytes of one sampled text are drawn.

    number: of the request; text: of the sample among those of the request.
    """
    return mixed(mixed(mixed(seed) + number) + text)


def signed(word: int) -> int:
    """Reinterpret an unsigned 64-bit integer as a signed one, as PyTorch and NumPy's int64 do."""
    return word - (1 << 64) if word >> 63 else word


@njit
def mix_bits(z: np.uint64) -> np.uint64:
    """Compute `mixed` without the increment, in compiled code: mix_bits(x + INCREMENT) equals
    mixed(x)."""
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)
