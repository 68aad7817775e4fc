"""Compare runs: learning curves, and scores on one text with tests of significance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from bytenmt.atomic_file import read_limited
from bytenmt.checkpoints.manifest import METRICS
from bytenmt.errors import BytenmtError
from bytenmt.evaluation.scores import TextScores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_SAMPLES = 1000  # of the paired bootstrap
SEED = 12345  # of its draws, as sacreBLEU's
MOST_METRICS = 1 << 28  # bytes of a run's metrics.jsonl
SURE = 0.05  # p below which a difference counts


class Scored(NamedTuple):
    """Scores of a run.

    n_parameters: of its model; p_chrf, p_bleu: p-values of the difference from the first run, None for the
    first run; settings: a fingerprint of its configuration without the seed.
    """

    name: str
    architecture: str
    n_parameters: int
    bits_per_byte: float
    scores: TextScores
    p_chrf: float | None = None
    p_bleu: float | None = None
    settings: str = ""

    def measures(self) -> dict[str, float]:
        """Return its scores by name."""
        scores = self.scores
        named = {"bits_per_byte": self.bits_per_byte, "chrf": scores.chrf, "bleu": scores.bleu}
        return named | {"exact_match": scores.exact_match} | scores.metrics


def over_seeds(runs: Sequence[Scored]) -> list[tuple[list[str], dict[str, tuple[float, float]]]]:
    """Return the names of runs that differ in their seeds alone, with the mean and the sample standard
    deviation of each score; of settings with two runs or more."""
    groups: dict[str, list[Scored]] = {}
    for run in runs:
        groups.setdefault(run.settings or run.name, []).append(run)
    found = []
    for same in (same for same in groups.values() if len(same) > 1):
        values = {name: [run.measures()[name] for run in same] for name in same[0].measures()}
        found.append(([run.name for run in same], {name: (mean(v), stdev(v)) for name, v in values.items()}))
    return found


def with_significance(
    runs: Sequence[Scored], texts: Sequence[Sequence[str]], references: Sequence[str], tokenize: str
) -> list[Scored]:
    """Return the runs with the p-values of their differences from the first run, by paired bootstrap.

    texts: each run's translations of the same lines; references: of these lines.
    """
    if len(runs) < 2:
        return list(runs)
    chrf = paired_bootstrap(CHRF(), texts, references)
    bleu = paired_bootstrap(BLEU(tokenize=tokenize), texts, references)
    found = [run._replace(p_chrf=c, p_bleu=b) for run, c, b in zip(runs[1:], chrf, bleu, strict=True)]
    return [runs[0], *found]


def paired_bootstrap(
    metric: Metric, texts: Sequence[Sequence[str]], references: Sequence[str]
) -> list[float]:
    """Return the p-value of each system's difference from the first one (Koehn 2004, two-sided).

    The lines are drawn N_SAMPLES times with replacement, the same for all systems. As sacreBLEU's PairedTest,
    with one difference: a sample that deviates from the mean exactly as much as the observed difference
    counts as well. Equal systems therefore have p = 1, where sacreBLEU gives 1 / (N_SAMPLES + 1).
    """
    drawn = np.random.default_rng(SEED).choice(len(references), size=(N_SAMPLES, len(references)))
    observed: list[float] = []
    sampled: list[npt.NDArray[np.float64]] = []
    for lines in texts:
        rows = metric._extract_corpus_statistics(lines, [references])
        observed.append(metric._aggregate_and_compute(rows).score)
        counts = np.array(rows, dtype="float32")  # as sacreBLEU: (lines, counts)
        sampled.append(
            np.array([metric._compute_score_from_stats(counts[one].sum(0)).score for one in drawn])
        )
    found = []
    for score, scores in zip(observed[1:], sampled[1:], strict=True):
        differences = np.abs(scores - sampled[0])
        deviations = np.abs(differences - differences.mean())
        n_as_large = int((deviations >= abs(score - observed[0])).sum())
        found.append((n_as_large + 1) / (N_SAMPLES + 1))
    return found


HEAD = ("run", "architecture", "parameters", "bits/byte", "chrF", "p", "BLEU", "p", "exact match")


def table(runs: Sequence[Scored], n_lines: int) -> Iterator[str]:
    """Yield a head, a line for each run, and an explanation of p. Metrics of plugins have a column each."""
    rows = [(*HEAD, *runs[0].scores.metrics), *map(_row, runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, second, *numbers = row
        words = [first.ljust(widths[0]), second.ljust(widths[1])]
        yield "  ".join([*words, *map(str.rjust, numbers, widths[2:])]).rstrip()
    for names, scores in over_seeds(runs):
        told = ", ".join(f"{name} {middle:.4g} ± {spread:.2g}" for name, (middle, spread) in scores.items())
        yield f"{len(names)} seeds ({', '.join(names)}): {told}"
    yield ""
    yield f"{n_lines} lines  {runs[0].scores.chrf_signature}  {runs[0].scores.bleu_signature}"
    if len(runs) > 1:
        yield (
            f"p: how likely the difference from the first run is chance, by paired bootstrap"
            f" ({N_SAMPLES} samples); * below {SURE}"
        )


def tree(runs: Sequence[Scored], n_lines: int) -> dict[str, Any]:
    """Return the table as JSON values; p is None for the first run."""
    signatures = {name: getattr(runs[0].scores, name) for name in ("chrf_signature", "bleu_signature")}
    return {
        "lines": n_lines,
        **signatures,
        "runs": [
            {
                "run": run.name,
                "architecture": run.architecture,
                "parameters": run.n_parameters,
                "bits_per_byte": run.bits_per_byte,
                "chrf": run.scores.chrf,
                "chrf_p": run.p_chrf,
                "bleu": run.scores.bleu,
                "bleu_p": run.p_bleu,
                "exact_match": run.scores.exact_match,
                **run.scores.metrics,
            }
            for run in runs
        ],
        "seeds": [
            {"runs": names} | {name: {"mean": m, "std": s} for name, (m, s) in scores.items()}
            for names, scores in over_seeds(runs)
        ],
    }


def _row(run: Scored) -> tuple[str, ...]:
    return (
        run.name,
        run.architecture,
        f"{run.n_parameters:,}",
        f"{run.bits_per_byte:.4f}",
        f"{run.scores.chrf:.2f}",
        _chance(run.p_chrf),
        f"{run.scores.bleu:.2f}",
        _chance(run.p_bleu),
        f"{run.scores.exact_match:.1f} %",
        *(f"{value:.4g}" for value in run.scores.metrics.values()),
    )


def _chance(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}{'*' if p < SURE else ' '}"


Records = Sequence[Mapping[str, float]]


def records(run: Path) -> Records:
    """Return the records of a run's metrics file, as far as they are complete; none for a weights file."""
    path = run / METRICS
    found: list[Mapping[str, float]] = []
    if not path.is_file():
        return found
    try:
        lines = read_limited(path, MOST_METRICS).splitlines()
    except OSError as error:
        raise BytenmtError(f"{path} cannot be read: {error.strerror}") from None
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:  # the last line of a killed run
            continue
    return found


PANELS = (  # what stands across, what up, and what is made of the first
    ("update", "valid_bits_per_byte", "update", "bits per byte, of training thin", 1.0),
    ("seconds", "valid_bits_per_byte", "minutes", "bits per byte, of training thin", 60.0),
    ("seconds", "valid_chrf", "minutes", "chrF", 60.0),
)


def curves(runs: Mapping[str, Records]) -> Figure:
    """Plot validation scores against updates and against time, a line for each run, with thin lines for
    training.

    There is a panel for everything that any run has measured; names may be of any script.
    """
    from matplotlib.figure import Figure

    from bytenmt.evaluation.drawing import Labels

    labels = Labels.from_texts(runs)
    panels = [panel for panel in PANELS if any(panel[1] in one for made in runs.values() for one in made)]
    made = Figure(figsize=(4.6 * max(1, len(panels)), 4.2), layout="constrained")
    for place, (x, y, across, up, unit) in enumerate(panels, 1):
        axes = made.add_subplot(1, len(panels), place)
        for number, (name, written) in enumerate(runs.items()):
            points = [(one[x] / unit, one[y]) for one in written if y in one]
            if points:
                style: dict[str, Any] = {"color": f"C{number % 10}", "label": labels.legible(name)}
                axes.plot(*zip(*points, strict=True), "o-", markersize=3, linewidth=1.2, **style)
            own = [(one[x] / unit, one["train_bits_per_byte"]) for one in written if _trained(one)]
            if own and y == "valid_bits_per_byte":
                axes.plot(*zip(*own, strict=True), color=f"C{number % 10}", linewidth=0.6, alpha=0.6)
        axes.set(xlabel=across, ylabel=up)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    handles, told = made.axes[0].get_legend_handles_labels() if panels else ([], [])
    font = {"family": labels.families}
    made.legend(handles, told, loc="outside upper center", ncols=3, frameon=False, prop=font)
    return made


def _trained(record: Mapping[str, float]) -> bool:
    return "train_bits_per_byte" in record
