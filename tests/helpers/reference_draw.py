"""Sampling written with Python's integers and plain loops, as the reference for every engine."""

from collections.abc import Callable

import numpy as np
from made_up import NO_SENTINELS, Distribution, Sentinels

from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.utf8 import EOS

WORD = (1 << 64) - 1


def splitmix(seed: int) -> Callable[[], int]:
    """Return splitmix64 from a state, in Python's integers: each call gives the next 64 bits."""
    state = seed

    def draw() -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & WORD
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return z ^ (z >> 31)

    return draw


def naive_uniform(seed: int, number: int, text: int, step: int) -> float:
    """The number that draws byte `step` of a text."""
    x = seed
    for more in (number, text, step):
        x = splitmix(x)() + more
    return float(splitmix(x)() >> 40) / 2**24


def naive_draw(log_p: np.ndarray, u: float, options: SearchOptions) -> int:
    """log_p (256,): -inf where not allowed."""
    scaled = log_p / options.temperature
    ranked = [int(byte) for byte in np.argsort(-scaled, kind="stable") if scaled[byte] > -np.inf]
    if options.top_k:
        ranked = ranked[: options.top_k]
    weights = {byte: np.exp(scaled[byte] - scaled[ranked[0]]) for byte in ranked}
    total = sum(weights.values())
    taken = 0.0
    n_kept = 0
    while n_kept < len(ranked) and (n_kept == 0 or taken / total < options.top_p):
        taken += weights[ranked[n_kept]]
        n_kept += 1
    kept = sorted(ranked[:n_kept])
    share = u * sum(weights[byte] for byte in kept)
    running = 0.0
    for byte in kept:
        running += weights[byte]
        if running > share:
            return byte
    return kept[-1]


def naive_text(
    log_p: Distribution,
    request: Request,
    text: int,
    options: SearchOptions,
    rule: Sentinels = NO_SENTINELS,
) -> tuple[bytes, float]:
    """One sampled text and its log-probability."""
    made = b""
    total = 0.0
    limit = max(request.limit, len(request.prefix) + len(rule.symbols))
    while True:
        row = log_p(made)
        masked = np.full(256, -np.inf)
        ranked = rule.rankings(made, row, limit, request.prefix, options.no_repeat_ngram_size)
        masked[list(ranked)] = list(ranked.values())
        u = naive_uniform(options.seed, request.number, text, len(made))
        byte = naive_draw(masked, u, options)
        total += row[byte]
        if byte == EOS:
            return made, total
        made += bytes([byte])
