"""Where draws come from: splitmix64 (Steele, Lea and Flood 2014) on the host, its constants for the engines.

A draw depends on the seed, the request's number, the text's and the byte's, on nothing else: an engine hashes
a text's key and the number of the byte, `mixed(key + step)`, and takes the highest 24 bits. Knows no search.
"""

from __future__ import annotations

WORD = (1 << 64) - 1
# The increment and the two multipliers.
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mixed(x: int) -> int:
    """The generator's number after x, both from 0 to 2 ** 64 - 1; all arithmetic is modulo 2 ** 64."""
    x = (x + GOLDEN) & WORD
    x = ((x ^ (x >> 30)) * FIRST) & WORD
    x = ((x ^ (x >> 27)) * SECOND) & WORD
    return x ^ (x >> 31)


def draw_key(seed: int, number: int, text: int) -> int:
    """The key of the draws of one text of a request, unsigned."""
    return mixed(mixed(mixed(seed) + number) + text)
