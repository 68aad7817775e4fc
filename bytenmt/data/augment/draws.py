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
    """Return a random key for each row of a batch, (n,) uint64, from the batch's key and the
    numbers of the rows, so that what is drawn for two rows is unrelated."""
    state, keys = np.zeros(1, np.uint64), np.empty(len(rows), np.uint64)
    for i in range(len(rows)):
        state[0] = key + np.uint64(rows[i])
        keys[i] = next_random(state)
    return keys


@njit
def draw_words(key: np.uint64, n: int) -> Keys:
    """Return the first n random 64-bit words, (n,) uint64, of the sequence that a key begins."""
    state, words = np.zeros(1, np.uint64), np.empty(n, np.uint64)
    state[0] = key
    for i in range(n):
        words[i] = next_random(state)
    return words


def keyed_draws(key: np.uint64) -> Below:
    """Return a random generator as a function: f(n) is from 0 to n − 1; equal keys give equal
    sequences."""
    state = np.array([key], np.uint64)
    return lambda limit: int(random_below(state, limit))


def chance_threshold(share: float) -> np.uint64:
    """Return a probability as a number out of 2 ** 32, to be compared with the upper half of random
    words."""
    return np.uint64(round(share * 2**32))
