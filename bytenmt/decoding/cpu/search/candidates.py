"""The best ways for a sentence to go on, and how the width of a beam is shared among them.

Compiled without a cache of its own, as part of interpreter.py. Knows scores; knows no sentences.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.elementwise import exp_sum, largest
from bytenmt.decoding.cpu.kernels.simd import LANES, allocating, compiled
from bytenmt.utf8 import EOS, N_IDS

NOTHING = -np.inf


@allocating
def log_softmax(logits: Any, row: int, merged: Any) -> None:
    """The mean of the models' probabilities, as a logarithm. NaN wherever a model's logits hold one."""
    n_models = logits.shape[0]
    exponentials = np.empty(N_IDS, np.float32)
    for model in range(n_models):
        values = logits[model, row]
        highest = largest(values.ctypes.data, N_IDS)
        total = exp_sum(exponentials.ctypes.data, values.ctypes.data, N_IDS, highest)
        away = np.float32(highest + np.float32(math.log(total)))
        for byte in range(N_IDS):
            value = np.float32(values[byte] - away)
            if model == 0:
                merged[byte] = value
            else:
                higher, lower = max(merged[byte], value), min(merged[byte], value)
                merged[byte] = higher + np.float32(math.log1p(math.exp(lower - higher)))
    if n_models > 1:
        for byte in range(N_IDS):
            merged[byte] -= np.float32(math.log(n_models))


@compiled
def insert(best: Any, index: Any, n: int, total: float, candidate: int) -> int:
    """Put a candidate among the best ones, best first, an earlier one before its equals; returns how many."""
    at = n if n < len(best) else n - 1
    n = at + 1
    while at > 0 and total > best[at - 1]:
        best[at], index[at] = best[at - 1], index[at - 1]
        at -= 1
    best[at], index[at] = total, candidate
    return n


@compiled
def consider(best: Any, index: Any, n: int, total: float, candidate: int) -> int:
    """Put a candidate among the best ones if it is one of them; returns how many there are."""
    if total > (best[n - 1] if n == len(best) else NOTHING):
        return insert(best, index, n, total, candidate)
    return n


@compiled
def consider_all(
    best: Any, index: Any, n: int, before: float, values: Any, allowed: Any, candidate: int
) -> int:
    """Put what the allowed bytes of a text lead to among the best candidates, of which the first is its byte
    0's: `before` and the byte's value; returns how many there are."""
    for first in range(0, N_IDS, LANES):
        top = before + np.float64(largest(values.ctypes.data + 4 * first, LANES))
        if n < len(best) or top > best[n - 1]:
            for byte in range(first, first + LANES):
                if allowed[byte]:
                    total = before + np.float64(values[byte])
                    n = consider(best, index, n, total, candidate + byte)
    return n


@compiled
def likeliest(values: Any, allowed: Any, order: Any) -> int:
    """Put the allowed bytes into `order`, the likeliest first, of equals the lower one; returns how many."""
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
def share_width(best: Any, index: Any, n_of: Any, shared: Any, shared_index: Any, beams: int) -> int:
    """Dynamic beam allocation, see shared_order in the twin; then those of the first `beams` that go on are
    sorted by their scores. best, index (banks, n): candidates by what they leave owed, n_of (banks,) of each;
    shared, shared_index (n,): where they go. Returns how many."""
    n, most = 0, best.shape[1]
    for rank in range(most):
        start = n
        for bank in range(len(n_of)):
            if rank < n_of[bank]:
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
    places = np.empty(beams, np.int64)
    going = 0
    for rank in range(n):
        if shared_index[rank] % N_IDS == EOS or going == beams:
            continue
        places[going] = rank
        total, which = shared[rank], shared_index[rank]
        at = going
        while at > 0 and total > shared[places[at - 1]]:
            shared[places[at]], shared_index[places[at]] = (
                shared[places[at - 1]],
                shared_index[places[at - 1]],
            )
            at -= 1
        shared[places[at]], shared_index[places[at]] = total, which
        going += 1
    return n
