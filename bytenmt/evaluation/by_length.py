"""Scores by the length of the source, as plotted by Bahdanau et al. 2015 (figure 2) and Luong et al. 2015."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bytenmt.evaluation.scores import TextScores, text_scores

MOST_BUCKETS = 8
FEWEST_LINES = 20  # in a bucket; of fewer a score says little


class Bucket(NamedTuple):
    """Scores of lines whose sources have about the same length, in bytes."""

    shortest: int
    longest: int
    mean: float
    n_lines: int
    scores: TextScores

    def to_dict(self) -> dict[str, Any]:
        """Return the bucket as JSON values."""
        span = {"shortest": self.shortest, "longest": self.longest, "mean": self.mean, "lines": self.n_lines}
        return span | {name: getattr(self.scores, name) for name in ("chrf", "bleu", "exact_match")}


def by_length(
    lengths: Sequence[int], hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> list[Bucket]:
    """Score lines in buckets of equal size by the length of their sources, shortest first.

    lengths: of the sources, in bytes; tokenize: see text_scores.
    """
    n_buckets = min(MOST_BUCKETS, max(1, len(lengths) // FEWEST_LINES))
    buckets = []
    for lines in np.array_split(np.argsort(lengths, kind="stable"), n_buckets):
        some = lines.tolist()
        scores = text_scores([hypotheses[i] for i in some], [references[i] for i in some], tokenize)
        own = [lengths[i] for i in some]
        buckets.append(Bucket(own[0], own[-1], sum(own) / len(own), len(own), scores))
    return buckets


def table(buckets: Sequence[Bucket]) -> Iterator[str]:
    """Yield a head and a line for each bucket."""
    yield "source bytes   lines   BLEU   chrF  exact match"
    for bucket in buckets:
        span, of = f"{bucket.shortest} to {bucket.longest}", bucket.scores
        yield f"{span:>12}  {bucket.n_lines:6}  {of.bleu:5.1f}  {of.chrf:5.1f}  {of.exact_match:9.1f} %"
