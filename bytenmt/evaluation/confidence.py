"""Measure how well bits per byte find wrong translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.chrf import CHRF


class ConfidenceStats(NamedTuple):
    """Statistics of how well bits per byte find lines that differ from their reference.

    n_wrong: of n lines that differ from their reference. area: under the ROC curve, the probability that a
    wrong line has more bits than a right one, None if all lines are right or all wrong; correlation:
    Spearman's, of bits with chrF, None if all values are equal.
    """

    n: int
    n_wrong: int
    area: float | None
    correlation: float | None


def confidence(bits: Sequence[float], texts: Sequence[str], references: Sequence[str]) -> ConfidenceStats:
    """Compare bits per byte of each translation with whether it equals its reference."""
    wrong = np.array([text != reference for text, reference in zip(texts, references, strict=True)], bool)
    metric = CHRF()
    chrf = [
        metric.sentence_score(text, [reference]).score
        for text, reference in zip(texts, references, strict=True)
    ]
    ranks, of_chrf = _ranks(bits), _ranks(chrf)
    n_wrong, n_right = int(wrong.sum()), int((~wrong).sum())
    area = None
    if n_wrong and n_right:  # Mann and Whitney's statistic
        area = float((ranks[wrong].sum() - n_wrong * (n_wrong + 1) / 2) / (n_wrong * n_right))
    alike = len(bits) < 2 or not ranks.std() or not of_chrf.std()
    correlation = None if alike else float(np.corrcoef(ranks, of_chrf)[0, 1])
    return ConfidenceStats(len(bits), n_wrong, area, correlation)


def _ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return ranks from 1; equal values share their mean rank."""
    _, index, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[index]
