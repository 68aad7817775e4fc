"""Where draws come from: splitmix64 (Steele, Lea and Flood 2014) on the host and in compiled code.

The same in every NumPy and PyTorch. A draw of a search depends on the seed, the request's number, the text's
and the byte's, on nothing else: an engine hashes a text's key and the number of the byte,
`mixed(key + step)`, and takes the highest 24 bits. Knows nothing of what is drawn.
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
    """The generator's number after x, both from 0 to 2 ** 64 - 1; all arithmetic is modulo 2 ** 64."""
    x = (x + GOLDEN) & WORD
    x = ((x ^ (x >> 30)) * FIRST) & WORD
    x = ((x ^ (x >> 27)) * SECOND) & WORD
    return x ^ (x >> 31)


def draw_key(seed: int, number: int, text: int) -> int:
    """The key of the draws of one text of a request, unsigned."""
    return mixed(mixed(mixed(seed) + number) + text)


def signed(word: int) -> int:
    """Return the signed 64-bit integer with the bits of an unsigned one."""
    return word - (1 << 64) if word >> 63 else word


@njit
def scrambled(z: np.uint64) -> np.uint64:
    """mixed without the increment, for compiled code: scrambled(x + INCREMENT) is mixed(x)."""
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)
