"""Paired bootstrap resampling (Koehn 2004), which tells a real difference of systems from chance.

The numbers are those of sacreBLEU's paired test, `sacrebleu --paired-bs`, for any metric.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.plugins import Metric

N_RESAMPLES = 1000
SEED_VARIABLE = "SACREBLEU_SEED"
DEFAULT_SEED = "12345"
Reals = npt.NDArray[np.float64]


class Significance(NamedTuple):
    """The spread of a system's value, and its difference from the first system."""

    value: float  # of the metric on the whole text
    interval: float  # half of the 95 % confidence interval of the value
    # How probable a difference as large as this one, or larger, is by chance, if both systems were
    # the same process; None for the first system
    p_value: float | None = None


class PairedBootstrap:
    """Draws N_RESAMPLES (1,000) samples of a text's lines, on which systems are compared.

    n_lines: lines of the text. All systems and metrics are compared on the same samples.
    """

    def __init__(self, n_lines: int) -> None:
        generator = np.random.default_rng(seed())
        self._lines = generator.choice(n_lines, size=(N_RESAMPLES, n_lines), replace=True)

    def compare(self, metric: Metric, first: Any, others: list[Any]) -> list[Significance]:
        """Return the significance of the first system and of each other against it, in order.

        first, others: a system's array each, from scores.line_values of this metric: (lines,), or
        (lines, k) for k numbers per line, such as counts of n-grams.
        """
        first_value = metric.combine(first)
        first_values = self._resampled_values(metric, first)
        found = [Significance(first_value, _interval(first_values))]
        for numbers in others:
            value = metric.combine(numbers)
            values = self._resampled_values(metric, numbers)
            differences = np.abs(values - first_values)
            n_larger = int((differences - differences.mean() > abs(value - first_value)).sum())
            p_value = (n_larger + 1) / (N_RESAMPLES + 1)
            if value == first_value:  # for which sacreBLEU may have the smallest possible p
                p_value = 1.0
            found.append(Significance(value, _interval(values), p_value))
        return found

    def _resampled_values(self, metric: Metric, numbers: Any) -> Reals:
        """Return the value of each resample, (N_RESAMPLES,)."""
        numbers = numbers.astype(np.float32)  # as in sacreBLEU
        return np.array([metric.combine(numbers[lines]) for lines in self._lines])


def seed() -> int | None:
    """Return the seed of the samples, 12345 or the environment's SACREBLEU_SEED; None: random."""
    text = os.environ.get(SEED_VARIABLE, DEFAULT_SEED)
    return None if text.lower() == "none" else int(text)


def with_resampling(signature: str) -> str:
    """Add the bootstrap's number of samples and seed to sacreBLEU's signature of a metric."""
    references, _, rest = signature.partition("|")
    return f"{references}|bs:{N_RESAMPLES}|seed:{str(seed()).lower()}|{rest}"


def _interval(values: Reals) -> float:
    """Return half of the 95 % confidence interval of resampled values."""
    ordered = np.sort(values)
    n_outside = len(ordered) // 40
    return float(ordered[len(ordered) - n_outside - 1] - ordered[n_outside]) / 2
