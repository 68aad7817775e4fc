"""Sampling: the random number of a byte is a hash of its request, text and step, independent of all else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bytenmt.decoding.search.candidates import sort_allowed
from bytenmt.decoding.search.state import SearchParams
from bytenmt.jit import allocating, compiled
from bytenmt.splitmix import INCREMENT, scrambled
from bytenmt.utf8 import N_IDS

DROPPED_BITS = np.uint64(40)  # of 64: a draw has the 24 highest


@compiled
def uniform(key: np.uint64, step: int) -> float:
    """Return the draw of a text's byte at a step, from 0 to under 1: splitmix.mixed(key + step)."""
    return float(scrambled(key + np.uint64(step) + INCREMENT) >> DROPPED_BITS) / float(1 << 24)


@allocating
def draw_byte(log_p: Any, allowed: Any, params: SearchParams, share: float) -> int:
    """Draw a byte: the first one at which the cumulative probability exceeds `share` of the total.

    log_p (256,): natural log-probabilities. allowed (256,) bool. Of the allowed bytes, after the temperature
    is applied, the top_k likeliest count, and of these the fewest whose probabilities reach top_p.
    """
    order = np.empty(N_IDS, np.int64)
    n = sort_allowed(log_p, allowed, order)
    if params.top_k > 0:
        n = min(n, params.top_k)
    weights = np.zeros(N_IDS)
    total = 0.0
    for rank in range(n):
        tempered = (np.float64(log_p[order[rank]]) - np.float64(log_p[order[0]])) / params.temperature
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
