"""Compare systems on one text: a table with p-values of paired bootstrap, and means over seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import msgspec

from bytenmt.checkpoints.weights import METRICS
from bytenmt.config.schema import Config
from bytenmt.evaluation.by_length import Bucket
from bytenmt.evaluation.scores import TextScores

N_SAMPLES = 1000  # of the paired bootstrap
SURE = 0.05  # p below which a difference is marked
HEAD = ("system", "architecture", "parameters", "bits/byte", "chrF", "p", "BLEU", "p", "exact match")


class System(NamedTuple):
    """A model, or a text by somebody else, with the scores of its translations."""

    name: str
    texts: Sequence[str]
    scores: TextScores
    made_with: Sequence[str] = ()  # fingerprint of the configuration, update, precision, engine
    buckets: Sequence[Bucket] = ()  # scores by source length, where they are asked for
    # Of a model:
    architecture: str = "–"
    n_parameters: int | None = None
    bits_per_byte: float | None = None  # of the references
    config: Config | None = None  # without_seed
    # Of all but the first system, how likely the difference from the first one is chance:
    p_chrf: float | None = None
    p_bleu: float | None = None

    def measures(self) -> dict[str, float]:
        """Return its scores by name."""
        named = {"chrf": self.scores.chrf, "bleu": self.scores.bleu, "exact_match": self.scores.exact_match}
        bits = {} if self.bits_per_byte is None else {"bits_per_byte": self.bits_per_byte}
        return bits | named | self.scores.metrics

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        values: dict[str, Any] = {"system": self.name, **self.measures(), "made_with": self.made_with}
        if self.n_parameters is not None:
            values |= {"architecture": self.architecture, "parameters": self.n_parameters}
        if self.p_chrf is not None:
            values |= {"chrf_p": self.p_chrf, "bleu_p": self.p_bleu}
        return values | ({"by_length": [one.to_dict() for one in self.buckets]} if self.buckets else {})


def without_seed(config: Config) -> Config:
    """Return a configuration with seed 0."""
    return msgspec.structs.replace(config, train=msgspec.structs.replace(config.train, seed=0))


def over_seeds(systems: Sequence[System]) -> list[tuple[list[str], dict[str, tuple[float, float]]]]:
    """Return the names of runs that differ in their seeds alone, with the mean and the sample standard
    deviation of each score; of configurations with two runs or more."""
    groups: list[list[System]] = []
    for one in (system for system in systems if system.config is not None):
        same = next((group for group in groups if group[0].config == one.config), None)
        if same is None:
            groups.append(same := [])
        same.append(one)
    found = []
    for same in (group for group in groups if len(group) > 1):
        values = {name: [one.measures()[name] for one in same] for name in same[0].measures()}
        found.append(([one.name for one in same], {name: (mean(v), stdev(v)) for name, v in values.items()}))
    return found


def with_significance(
    systems: Sequence[System], references: Sequence[str], tokenize: str = "13a"
) -> list[System]:
    """Return the systems with the p-values of their differences from the first one, by sacreBLEU's paired
    bootstrap (Koehn 2004). Equal translations have p = 1. tokenize: see text_scores.
    """
    first, *others = systems
    if not others:
        return [first]
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    named: list[tuple[str, Sequence[str]]] = [(one.name, list(one.texts)) for one in systems]
    metrics = {"chrf": CHRF(), "bleu": BLEU(tokenize=tokenize)}
    _, results = PairedTest(named, metrics, [list(references)], "bs", N_SAMPLES)()
    chrf, bleu = (
        [getattr(one, "p_value", None) for one in column]
        for key, column in results.items()
        if key != "System"
    )
    compared = [
        other._replace(p_chrf=1.0, p_bleu=1.0)
        if list(other.texts) == list(first.texts)  # sacreBLEU's p of equal texts is the smallest possible
        else other._replace(p_chrf=p_chrf, p_bleu=p_bleu)
        for other, p_chrf, p_bleu in zip(others, chrf[1:], bleu[1:], strict=True)
    ]
    return [first, *compared]


def table(systems: Sequence[System]) -> Iterator[str]:
    """Yield a head, a line for each system, and a legend. Metrics of plugins have a column each."""
    rows = [(*HEAD, *systems[0].scores.metrics), *map(_row, systems)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, architecture, *numbers in rows:
        words = [name.ljust(widths[0]), architecture.ljust(widths[1])]
        yield "  ".join([*words, *map(str.rjust, numbers, widths[2:])]).rstrip()
    for names, of_seeds in over_seeds(systems):
        told = ", ".join(f"{name} {middle:.4g} ± {spread:.2g}" for name, (middle, spread) in of_seeds.items())
        yield f"{len(names)} seeds ({', '.join(names)}): {told}"
    scores = systems[0].scores
    yield ""
    yield f"{len(systems[0].texts)} lines  {scores.chrf_signature}  {scores.bleu_signature}"
    yield f"p: how likely the difference from the first system is chance, by paired bootstrap; * below {SURE}"


def _row(system: System) -> tuple[str, ...]:
    scores = system.scores
    return (
        system.name,
        system.architecture,
        "–" if system.n_parameters is None else f"{system.n_parameters:,}",
        "–" if system.bits_per_byte is None else f"{system.bits_per_byte:.4f}",
        f"{scores.chrf:.2f}",
        _chance(system.p_chrf),
        f"{scores.bleu:.2f}",
        _chance(system.p_bleu),
        f"{scores.exact_match:.1f} %",
        *(f"{value:.4g}" for value in scores.metrics.values()),
    )


def _chance(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}{'*' if p < SURE else ' '}"


def to_dict(systems: Sequence[System]) -> dict[str, Any]:
    """Return the scores of all systems as JSON values."""
    scores = systems[0].scores
    return {
        "lines": len(systems[0].texts),
        "chrf_signature": scores.chrf_signature,
        "bleu_signature": scores.bleu_signature,
        "systems": [system.to_dict() for system in systems],
        "seeds": [
            {"systems": names} | {name: {"mean": m, "std": s} for name, (m, s) in of_seeds.items()}
            for names, of_seeds in over_seeds(systems)
        ],
    }


def read_metrics(run: Path) -> list[Mapping[str, float]]:
    """Return the records that a run folder's training has logged, as far as they are complete; none where
    there is no log."""
    path = run / METRICS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    records = []
    for line in lines:
        try:
            records.append(json.loads(line))
        except ValueError:  # the last line of a killed run
            continue
    return records
