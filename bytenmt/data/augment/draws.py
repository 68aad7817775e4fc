"""Random draws for rows of a batch: functions of a key and of a row's number alone (splitmix64)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bytenmt.data.bucketing import next_random, random_below
from bytenmt.jit import njit

Keys = npt.NDArray[np.uint64]
Below = Callable[[int], int]  # draws a number from 0 to below another

HALF = np.uint64(32)


@njit
def row_keys(key: np.uint64, rows: npt.NDArray[np.int64]) -> Keys:
    """Return a random seed for each row of a batch, (n,) uint64, so that draws for two rows are
    unrelated. key: the seed of the batch; rows (n,) int64: the numbers of the rows."""
    state, keys = np.zeros(1, np.uint64), np.empty(len(rows), np.uint64)
    for i in range(len(rows)):
        state[0] = key + np.uint64(rows[i])
        keys[i] = next_random(state)
    return keys


@njit
def draw_words(key: np.uint64, n: int) -> Keys:
    """Return the first n random 64-bit words, (n,) uint64, of splitmix64 with the seed `key`."""
    state, words = np.zeros(1, np.uint64), np.empty(n, np.uint64)
    state[0] = key
    for i in range(n):
        words[i] = next_random(state)
    return words


def keyed_draws(key: np.uint64) -> Below:
    """Return a random generator with the seed `key` as a function f: f(n) draws an integer from 0
    to n - 1."""
    state = np.array([key], np.uint64)
    return lambda limit: int(random_below(state, limit))


def chance_threshold(share: float) -> np.uint64:
    """Return round(share * 2 ** 32): the upper 32 bits of a random 64-bit word are below it with
    the probability `share`, 0 to 1."""
    return np.uint64(round(share * 2**32))
