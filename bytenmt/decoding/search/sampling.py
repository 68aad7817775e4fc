"""Sampling: the random number of a byte is a hash of its request, text and step, independent of all
else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bytenmt.decoding.search.candidates import sort_allowed
from bytenmt.decoding.search.state import SearchParams
from bytenmt.jit import allocating, compiled
from bytenmt.splitmix import INCREMENT, mix_bits
from bytenmt.utf8 import N_IDS

DROPPED_BITS = np.uint64(40)  # of 64: a draw has the 24 highest


@compiled
def uniform(key: np.uint64, step: int) -> float:
    """Return the random number in [0, 1) that decides a text's byte at a step: splitmix.mixed(key +
    step).
    key: of the text, from draw_key."""
    return float(mix_bits(key + np.uint64(step) + INCREMENT) >> DROPPED_BITS) / float(1 << 24)


@allocating
def draw_byte(log_p: Any, allowed: Any, params: SearchParams, share: float) -> int:
    """Return a byte drawn by its probability: the first at which the cumulative one exceeds share *
    total.

    log_p (256,): natural log-probabilities. allowed (256,) bool. share: a random number in [0, 1).
    Of the allowed bytes, after the temperature is applied, only the top_k likeliest can be drawn,
    and of these only the fewest whose probabilities reach top_p.
    """
    order = np.empty(N_IDS, np.int64)
    n = sort_allowed(log_p, allowed, order)
    if params.top_k > 0:
        n = min(n, params.top_k)
    weights = np.zeros(N_IDS)
    total = 0.0
    for rank in range(n):
        tempered = (
            np.float64(log_p[order[rank]]) - np.float64(log_p[order[0]])
        ) / params.temperature
        weights[order[rank]] = math.exp(tempered)
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
    running, drawn = 0.0, order[0]
    for byte in range(N_IDS):
        if weights[byte] > 0.0:
            running += weights[byte]
            drawn = byte
            if running > target:
                break
    return int(drawn)
