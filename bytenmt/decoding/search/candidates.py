"""Select the best continuations of a sentence's beams, and share the width of a beam search among banks."""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.jit import allocating, compiled
from bytenmt.utf8 import EOS, N_IDS

NO_SCORE = -np.inf
BLOCK = 16  # bytes compared at once


@compiled
def copy_values(target: Any, source: Any) -> None:
    """Copy a one-dimensional array. A slice assignment would make Numba copy twice."""
    for i in range(len(source)):
        target[i] = source[i]


@compiled
def insert(best: Any, index: Any, n: int, total: float, candidate: int) -> int:
    """Insert a candidate into the n best ones, sorted by score, after its equals; return their new number."""
    at = n if n < len(best) else n - 1
    n = at + 1
    while at > 0 and total > best[at - 1]:
        best[at], index[at] = best[at - 1], index[at - 1]
        at -= 1
    best[at], index[at] = total, candidate
    return n


@compiled
def consider(best: Any, index: Any, n: int, total: float, candidate: int) -> int:
    """Insert a candidate if it is among the best; return the new number of candidates."""
    if total > (best[n - 1] if n == len(best) else NO_SCORE):
        return insert(best, index, n, total, candidate)
    return n


@compiled
def consider_all(
    best: Any, index: Any, n: int, score: float, log_p: Any, allowed: Any, candidate: int
) -> int:
    """Insert the continuations of a beam by all allowed bytes; return the new number of candidates.

    score: of the beam. log_p (256,): of the bytes. candidate: the number of its continuation by byte 0.
    """
    for first in range(0, N_IDS, BLOCK):
        # Few blocks have a candidate, and a comparison without branches compiles to vector instructions.
        least = best[n - 1] if n == len(best) else NO_SCORE
        n_above = 0
        for byte in range(first, first + BLOCK):
            n_above += int(score + np.float64(log_p[byte]) > least)
        if n_above > 0:
            for byte in range(first, first + BLOCK):
                if allowed[byte]:
                    total = score + np.float64(log_p[byte])
                    n = consider(best, index, n, total, candidate + byte)
    return n


@compiled
def sort_allowed(values: Any, allowed: Any, order: Any) -> int:
    """Write the allowed bytes to `order`, highest value first, lower bytes first among equals; return their
    number."""
    n = 0
    for byte in range(N_IDS):
        if allowed[byte]:
            at = n
            while at > 0 and values[order[at - 1]] < values[byte]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = byte
            n += 1
    return n


@allocating
def share_width(best: Any, index: Any, n_in_bank: Any, shared: Any, shared_index: Any, beams: int) -> int:
    """Share the width of a beam search among banks: dynamic beam allocation (Post and Vilar 2018).

    A bank holds the candidates that leave the same number of items to be written.
    best, index (banks, n): scores and numbers of the candidates of each bank, best first; n_in_bank (banks,).
    shared, shared_index (n,): written to. First come the best of each bank, sorted by score, then the second
    best of each, and so on; the first `beams` of them that do not end are then sorted by score.
    Returns their number.
    """
    n, most = 0, best.shape[1]
    for rank in range(most):
        start = n
        for bank in range(len(n_in_bank)):
            if rank < n_in_bank[bank]:
                total, which = best[bank, rank], index[bank, rank]
                if n == most and (
                    total < shared[n - 1] or (total == shared[n - 1] and which > shared_index[n - 1])
                ):
                    continue
                at = min(n, most - 1)
                while at > start and (
                    total > shared[at - 1] or (total == shared[at - 1] and which < shared_index[at - 1])
                ):
                    shared[at], shared_index[at] = shared[at - 1], shared_index[at - 1]
                    at -= 1
                shared[at], shared_index[at] = total, which
                n = min(n + 1, most)
        if n == most:
            break
    ranks = np.empty(beams, np.int64)
    n_going = 0
    for rank in range(n):
        if shared_index[rank] % N_IDS == EOS or n_going == beams:
            continue
        ranks[n_going] = rank
        total, which = shared[rank], shared_index[rank]
        at = n_going
        while at > 0 and total > shared[ranks[at - 1]]:
            shared[ranks[at]], shared_index[ranks[at]] = shared[ranks[at - 1]], shared_index[ranks[at - 1]]
            at -= 1
        shared[ranks[at]], shared_index[ranks[at]] = total, which
        n_going += 1
    return n
