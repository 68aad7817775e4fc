"""Select the best continuations of a sentence's beams."""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.jit import compiled
from bytenmt.utf8 import N_IDS

NO_SCORE = -np.inf
BLOCK_BYTES = 16  # bytes compared at once


@compiled
def copy_values(target: Any, source: Any) -> None:
    """Copy a one-dimensional array into another; a slice assignment would make Numba copy twice."""
    for i in range(len(source)):
        target[i] = source[i]


@compiled
def consider(best: Any, index: Any, n: int, total: float, candidate: int) -> int:
    """Insert a candidate into the n best ones, after its equals; return how many there are then.

    best: the candidates' scores, highest first; index: their numbers. total, candidate: score and
    number of the new one. If `best` is full (n is its length), the lowest candidate drops out. The
    new one is left out if its score is -inf or does not exceed that of the candidate to drop.
    """
    place = n
    lowest = NO_SCORE
    if n == len(best):
        place = n - 1
        lowest = best[n - 1]
    if not total > lowest:
        return n
    n = place + 1
    while place > 0 and total > best[place - 1]:
        best[place] = best[place - 1]
        index[place] = index[place - 1]
        place -= 1
    best[place] = total
    index[place] = candidate
    return n


@compiled
def consider_all(
    best: Any, index: Any, n: int, score: float, log_p: Any, allowed: Any, candidate: int
) -> int:
    """Insert the continuations of a beam by all allowed bytes into the n best candidates.

    Returns how many there are then. best, index: the candidates' scores, highest first, and their
    numbers; both are updated. score: the beam's, to which log_p[byte] is added. log_p, allowed:
    (256,), float and bool. candidate: the number of the continuation by byte 0; by another byte it
    is candidate + byte.
    """
    for first in range(0, N_IDS, BLOCK_BYTES):
        # Few blocks have a candidate, and a comparison without branches compiles to vector
        # instructions.
        least = NO_SCORE
        if n == len(best):
            least = best[n - 1]
        n_above = 0
        for byte in range(first, first + BLOCK_BYTES):
            n_above += int(score + np.float64(log_p[byte]) > least)
        if n_above > 0:
            for byte in range(first, first + BLOCK_BYTES):
                if allowed[byte]:
                    total = score + np.float64(log_p[byte])
                    n = consider(best, index, n, total, candidate + byte)
    return n


@compiled
def sort_allowed(values: Any, allowed: Any, order: Any) -> int:
    """Write the allowed bytes to `order` (256,), highest value first; return how many there are.

    values (256,), allowed (256,) bool: of each byte. Among equals, lower bytes come first.
    """
    n = 0
    for byte in range(N_IDS):
        if allowed[byte]:
            place = n
            while place > 0 and values[order[place - 1]] < values[byte]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = byte
            n += 1
    return n
