"""Fit a and b of |t^| = a|s| + b, the columns that ByteNet's encoder unfolds to, to a corpus."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Lengths = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float64]

COVERED = 0.99  # share of the pairs at which the line is aimed
MOST_PAIRS = 100_000  # that are looked at, evenly spaced
HUNDREDTHS, MOST_OFFSET = 1600, 1 << 12  # of the largest a; the largest b


class Unfolding(NamedTuple):
    """A line |t^| = a|s| + b.

    factor, offset: a, in hundredths, and b; covered: the share of pairs of which every target byte, EOS among
    them, has a column; columns: of a pair, on the mean.
    """

    factor: float
    offset: int
    covered: float
    columns: float

    def __str__(self) -> str:
        line = f"|t^| = {self.factor:g} |s| + {self.offset}"
        return f"{line}: columns for {self.covered:.1%} of the targets, {self.columns:.1f} on the mean"


def fit_unfolding(source_lengths: Lengths, target_lengths: Lengths, covered: float = COVERED) -> Unfolding:
    """Fit the line under which the share `covered` of the targets lies.

    source_lengths, target_lengths (pairs,): bytes without EOS, at least one pair. It minimises the pinball
    loss of quantile regression (Koenker and Bassett 1978): for each slope the best offset is the quantile of
    what is left, and the loss is convex in the slope, so that a search by thirds finds it. A few pairs that
    do not belong together hardly move it, however long they are. b is never below 0, and rounded up.
    """
    every = max(1, -(-len(source_lengths) // MOST_PAIRS))
    s = source_lengths[::every].astype(np.float64) + 1
    t = target_lengths[::every].astype(np.float64) + 1
    low, high = 1, HUNDREDTHS
    while high - low > 2:
        third = (high - low) // 3
        left, right = low + third, high - third
        if _loss(left / 100, s, t, covered) <= _loss(right / 100, s, t, covered):
            high = right
        else:
            low = left
    factor = min(range(low, high + 1), key=lambda a: _loss(a / 100, s, t, covered)) / 100
    offset = min(MOST_OFFSET, int(np.ceil(_offset(factor, s, t, covered))))
    columns = np.ceil(factor * s + offset - 1e-9)
    return Unfolding(factor, offset, float((columns >= t).mean()), float(columns.mean()))


def _offset(factor: float, s: Floats, t: Floats, covered: float) -> float:
    """The best b for an a."""
    return max(0.0, float(np.quantile(t - factor * s, covered, method="higher")))


def _loss(factor: float, s: Floats, t: Floats, covered: float) -> float:
    """The pinball loss with that b: what a target is longer counts `covered`, shorter 1 - covered."""
    above = t - factor * s - _offset(factor, s, t, covered)
    return float(np.maximum(covered * above, (covered - 1) * above).sum())
