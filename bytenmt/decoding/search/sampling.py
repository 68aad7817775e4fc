"""Draw bytes at random: the random number of a byte is a hash of its request, text and step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bytenmt.compiled_hashes import INCREMENT, mix_bits
from bytenmt.decoding.search.candidates import sort_allowed
from bytenmt.decoding.search.state import SearchParams, Workspace
from bytenmt.jit import compiled
from bytenmt.utf8 import N_IDS

DROPPED_BITS = np.uint64(40)  # of 64: a draw has the 24 highest


@compiled
def uniform(key: np.uint64, step: int) -> float:
    """Return the random number in [0, 1) by which a text's byte at a step is drawn.

    It is a hash of key + step (splitmix64, its 24 highest bits). key: a random key of the text.
    """
    bits = mix_bits(key + np.uint64(step) + INCREMENT) >> DROPPED_BITS
    return float(bits) / float(1 << 24)


@compiled
def draw_byte(log_p: Any, work: Workspace, params: SearchParams, share: float) -> int:
    """Return a byte drawn at random by its probability.

    log_p (256,): natural log-probabilities. work: `allowed` says which bytes may be drawn; `order`
    and `weights` are overwritten. params: has the temperature; only the top_k likeliest allowed
    bytes can be drawn, and of these only the fewest whose probabilities reach top_p. share: a
    random number in [0, 1): the first byte whose cumulative probability exceeds it is drawn.
    """
    order = work.order
    weights = work.weights
    n = sort_allowed(log_p, work.allowed, order)
    if params.top_k > 0:
        n = min(n, params.top_k)
    for byte in range(N_IDS):
        weights[byte] = 0.0
    total = 0.0
    for rank in range(n):
        below_best = np.float64(log_p[order[rank]]) - np.float64(log_p[order[0]])
        weights[order[rank]] = math.exp(below_best / params.temperature)
        total += weights[order[rank]]
    if params.top_p < 1.0:
        kept = 0.0
        for rank in range(n):
            if kept >= params.top_p * total:
                weights[order[rank]] = 0.0
            kept += weights[order[rank]]
        total = 0.0
        for byte in range(N_IDS):
            total += weights[byte]
    target = share * total
    running = 0.0
    drawn = order[0]
    for byte in range(N_IDS):
        if weights[byte] > 0.0:
            running += weights[byte]
            drawn = byte
            if running > target:
                break
    return int(drawn)
