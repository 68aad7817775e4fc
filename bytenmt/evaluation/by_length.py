"""Scores by the length of the source, as plotted by Bahdanau et al. 2015 (figure 2) and Luong et al. 2015."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bytenmt.evaluation.scores import TextScores, text_scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def figure(models: Mapping[str, Sequence[Bucket]]) -> Figure:
    """Plot each score against the mean length of a bucket, a line for each model; names may be of any
    script.
    """
    from matplotlib.figure import Figure

    from bytenmt.evaluation.drawing import Labels

    labels = Labels.from_texts(models)
    names = list(next(iter(models.values()))[0].values())
    made = Figure(figsize=(4 * len(names), 4), layout="constrained")
    for place, name in enumerate(names):
        axes = made.add_subplot(1, len(names), place + 1)
        for model, buckets in models.items():
            points = [(bucket.mean, bucket.values()[name]) for bucket in buckets]
            label = labels.legible(model)
            axes.plot(*zip(*points, strict=True), "o-", markersize=4, linewidth=1.2, label=label)
        axes.set(xlabel="source bytes", ylabel=f"{name} in %" if name == "exact match" else name)
        axes.set_ylim(0, 102)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
    if len(models) > 1:
        handles, told = made.axes[0].get_legend_handles_labels()
        made.legend(
            handles,
            told,
            loc="outside upper center",
            ncols=5,
            frameon=False,
            prop={"family": labels.families},
        )
    return made
