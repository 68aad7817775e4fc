"""Scores by the length of the source, as plotted by Bahdanau et al. 2015 (figure 2) and Luong et al. 2015."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bytenmt.evaluation.scores import TextScores, text_scores

MOST_BUCKETS = 8
FEWEST_LINES = 20  # in a bucket; of fewer a score says little


class Bucket(NamedTuple):
    """Scores of the lines whose sources have `shortest` to `longest` bytes, and `mean` on average."""

    shortest: int
    longest: int
    mean: float
    n_lines: int
    scores: TextScores

    def values(self) -> dict[str, float]:
        """Return the scores by the names under which they are printed, all out of 100."""
        return {"BLEU": self.scores.bleu, "chrF": self.scores.chrf, "exact match": self.scores.exact_match}

    def to_dict(self) -> dict[str, Any]:
        """Return the bucket as JSON values."""
        names = ("chrf", "bleu", "exact_match")
        span = {"shortest": self.shortest, "longest": self.longest, "mean": self.mean, "lines": self.n_lines}
        return span | {name: getattr(self.scores, name) for name in names}


def borders(lengths: Sequence[int], n_buckets: int) -> list[tuple[int, int]]:
    """Return ranges of lengths, ends included, that hold about equally many lines each.

    Lines of one length stay together, so there may be fewer ranges than n_buckets.
    """
    ordered, found, begin = sorted(lengths), list[tuple[int, int]](), 0
    while begin < len(ordered):
        share = (len(ordered) - begin) / max(1, n_buckets - len(found))
        longest = ordered[min(len(ordered), begin + max(1, round(share))) - 1]
        found.append((ordered[begin], longest))
        begin = next((i for i, length in enumerate(ordered) if length > longest), len(ordered))
    return found


def by_length(
    lengths: Sequence[int], hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> list[Bucket]:
    """Score lines by the length of their sources, shortest first.

    lengths: of the sources, in bytes; tokenize: see text_scores.
    """
    n_buckets = min(MOST_BUCKETS, max(1, len(lengths) // FEWEST_LINES))
    found = []
    for shortest, longest in borders(lengths, n_buckets):
        lines = [i for i, length in enumerate(lengths) if shortest <= length <= longest]
        scores = text_scores([hypotheses[i] for i in lines], [references[i] for i in lines], tokenize)
        mean = sum(lengths[i] for i in lines) / len(lines)
        found.append(Bucket(shortest, longest, mean, len(lines), scores))
    return found


def table(buckets: Sequence[Bucket]) -> Iterator[str]:
    """Yield a head and a line for each bucket."""
    yield "source bytes   lines   BLEU   chrF  exact match"
    for bucket in buckets:
        bleu, chrf, exact = bucket.values().values()
        span = f"{bucket.shortest} to {bucket.longest}"
        yield f"{span:>12}  {bucket.n_lines:6}  {bleu:5.1f}  {chrf:5.1f}  {exact:9.1f} %"
