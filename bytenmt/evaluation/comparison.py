"""Compare systems on one text: a table with p-values of paired bootstrap, and means over seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from msgspec.structs import replace

from bytenmt.checkpoints.weights import METRICS
from bytenmt.config.schema import Config
from bytenmt.evaluation.scores import TextScores

SURE = 0.05  # p below which a difference is marked
HEAD = (
    "system",
    "architecture",
    "parameters",
    "bits/byte",
    "chrF",
    "p",
    "BLEU",
    "p",
    "exact match",
)


class System(NamedTuple):
    """A row of the comparison: the translations of a model, or of another system's file, and their
    scores."""

    name: str
    texts: Sequence[str]  # its translations, a line each
    scores: TextScores  # of these against the references
    made_with: Sequence[str] = ()  # fingerprint of the configuration, update, precision, engine
    # Of a model:
    architecture: str = "–"
    n_parameters: int | None = None
    bits_per_byte: float | None = None  # of the references
    config: Config | None = None
    p_chrf: float | None = (
        None  # p-value of the difference from the first system in chrF; None for the first
    )
    p_bleu: float | None = None  # the same in BLEU

    def measures(self) -> dict[str, float]:
        """Return its scores by name: bits per byte if known, chrF, BLEU, exact match."""
        named = {
            "chrf": self.scores.chrf,
            "bleu": self.scores.bleu,
            "exact_match": self.scores.exact_match,
        }
        bits = {} if self.bits_per_byte is None else {"bits_per_byte": self.bits_per_byte}
        return bits | named

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a JSON object, p-values included."""
        values: dict[str, Any] = {
            "system": self.name,
            **self.measures(),
            "made_with": self.made_with,
        }
        if self.n_parameters is not None:
            values |= {"architecture": self.architecture, "parameters": self.n_parameters}
        if self.p_chrf is not None:
            values |= {"chrf_p": self.p_chrf, "bleu_p": self.p_bleu}
        return values


def summarise_seeds(
    systems: Sequence[System],
) -> list[tuple[list[str], dict[str, tuple[float, float]]]]:
    """Group the models that differ in their seeds, and in nothing else; return each group of two or
    more.

    A group is the names of its systems, and the mean and sample standard deviation of each score by
    its name.
    """
    groups: list[
        tuple[Config, dict[int, System]]
    ] = []  # with seed 0, and the systems by their seeds
    for system in systems:
        if system.config is not None:
            seed, train = system.config.train.seed, replace(system.config.train, seed=0)
            config = replace(system.config, train=train)
            same = [by_seed for other, by_seed in groups if other == config and seed not in by_seed]
            if same:
                same[0][seed] = system
            else:
                groups.append((config, {seed: system}))
    summaries = []
    for group in ([*by_seed.values()] for _, by_seed in groups if len(by_seed) > 1):
        names = [system.name for system in group]
        values = {
            name: [system.measures()[name] for system in group] for name in group[0].measures()
        }
        summaries.append((names, {name: (mean(v), stdev(v)) for name, v in values.items()}))
    return summaries


def with_significance(
    systems: Sequence[System], references: Sequence[str], tokenize: str = "13a"
) -> list[System]:
    """Return the systems with p_chrf and p_bleu set: p-values of their differences from the first
    system.

    They are by sacreBLEU's paired bootstrap (Koehn 2004); equal translations have p = 1. tokenize:
    see text_scores.
    """
    first, *others = systems
    if not others:
        return [first]
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    named: list[tuple[str, Sequence[str]]] = [
        (system.name, list(system.texts)) for system in systems
    ]
    metrics = {"chrf": CHRF(), "bleu": BLEU(tokenize=tokenize)}
    _, results = PairedTest(named, metrics, [list(references)], "bs")()
    chrf, bleu = (
        [getattr(system, "p_value", None) for system in column]
        for key, column in results.items()
        if key != "System"
    )
    compared = [
        other._replace(  # sacreBLEU's p of equal scores is the smallest possible
            p_chrf=1.0 if other.scores.chrf == first.scores.chrf else p_chrf,
            p_bleu=1.0 if other.scores.bleu == first.scores.bleu else p_bleu,
        )
        for other, p_chrf, p_bleu in zip(others, chrf[1:], bleu[1:], strict=True)
    ]
    return [first, *compared]


def table(systems: Sequence[System]) -> Iterator[str]:
    """Yield the lines of a table for people: a head, a line for each system, means over seeds, a
    legend."""
    rows = [HEAD, *map(_row, systems)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, architecture, *numbers in rows:
        words = [name.ljust(widths[0]), architecture.ljust(widths[1])]
        yield "  ".join([*words, *map(str.rjust, numbers, widths[2:])]).rstrip()
    for names, of_seeds in summarise_seeds(systems):
        told = ", ".join(
            f"{name} {middle:.4g} ± {spread:.2g}" for name, (middle, spread) in of_seeds.items()
        )
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
    )


def _chance(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}{'*' if p < SURE else ' '}"


def to_dict(systems: Sequence[System]) -> dict[str, Any]:
    """Return the whole comparison as a JSON object: systems, means over seeds, sacreBLEU's
    signatures."""
    scores = systems[0].scores
    return {
        "lines": len(systems[0].texts),
        "chrf_signature": scores.chrf_signature,
        "bleu_signature": scores.bleu_signature,
        "systems": [system.to_dict() for system in systems],
        "seeds": [
            {"systems": names} | {name: {"mean": m, "std": s} for name, (m, s) in of_seeds.items()}
            for names, of_seeds in summarise_seeds(systems)
        ],
    }


def read_metrics(run: Path) -> list[Mapping[str, float]]:
    """Read the records that training has logged in a run folder, but incomplete lines; [] without a
    log."""
    path = run / METRICS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    records = []
    for line in lines:
        with suppress(ValueError):  # the last line of a killed run
            records.append(json.loads(line))
    return records
