"""Sampling written with NumPy's uint64 and plain loops, as the reference for every engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from made_up import Distribution

from bytenmt.decoding.interface import Options, Request
from bytenmt.utf8 import EOS


def splitmix64(x: np.uint64) -> np.uint64:
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def naive_uniform(seed: int, number: int, text: int, step: int) -> float:
    """The number that draws byte `step` of a text."""
    x = splitmix64(np.uint64(seed))
    with np.errstate(over="ignore"):
        x = splitmix64(x + np.uint64(number))
        x = splitmix64(x + np.uint64(text))
        x = splitmix64(x + np.uint64(step))
    return float(x >> np.uint64(40)) / 2**24


def naive_draw(log_p: np.ndarray, u: float, options: Options) -> int:
    """log_p (256,): -inf where not allowed."""
    scaled = log_p / options.temperature
    ranked = [int(byte) for byte in np.argsort(-scaled, kind="stable") if scaled[byte] > -np.inf]
    if options.top_k:
        ranked = ranked[: options.top_k]
    weights = {byte: np.exp(scaled[byte] - scaled[ranked[0]]) for byte in ranked}
    total, taken, n_kept = sum(weights.values()), 0.0, 0
    while n_kept < len(ranked) and (n_kept == 0 or taken / total < options.top_p):
        taken += weights[ranked[n_kept]]
        n_kept += 1
    kept = sorted(ranked[:n_kept])
    share, running = u * sum(weights[byte] for byte in kept), 0.0
    for byte in kept:
        running += weights[byte]
        if running > share:
            return byte
    return kept[-1]


def naive_text(
    log_p: Distribution,
    request: Request,
    text: int,
    options: Options,
    followers: Callable[..., list[int]],
) -> tuple[bytes, float]:
    """One sampled text and its log-probability."""
    made, total = b"", 0.0
    while True:
        row, masked = log_p(made), np.full(256, -np.inf)
        allowed = followers(made, request.limit, request.prefix, options.no_repeat_ngram_size)
        masked[allowed] = row[allowed]
        u = naive_uniform(options.seed, request.number, text, len(made))
        byte = naive_draw(masked, u, options)
        total += row[byte]
        if byte == EOS:
            return made, total
        made += bytes([byte])
