"""Compare systems on one text: a table with p-values of paired bootstrap, and means over seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bytenmt.checkpoints.weights import METRICS as METRICS_FILE
from bytenmt.config.metrics import DEFAULT_TOKENIZER
from bytenmt.evaluation.scores import line_values, signatures, text_metrics
from bytenmt.evaluation.seeds import SeedSummary, Trained, Training, summarise_seeds
from bytenmt.evaluation.significance import (
    N_RESAMPLES,
    PairedBootstrap,
    Significance,
    with_resampling,
)

SIGNIFICANCE_LEVEL = 0.05  # p below which a difference is marked
LEGEND = (
    f"±: half of the 95 % confidence interval, by bootstrap ({N_RESAMPLES:,} resamples). p: roughly"
    " the probability that chance makes a difference from the first system at least as large as"
    f" this one, if both were the same process (paired bootstrap); * below {SIGNIFICANCE_LEVEL}:"
    " the difference is probably not chance, which says nothing about its size."
)


class System(NamedTuple):
    """A row of the comparison: translations of a model, or a file of them, and their scores."""

    name: str
    texts: Sequence[str]  # its translations, a line each
    # Values against the references by the names of text_metrics, and bits_per_byte where known
    values: Mapping[str, float]
    made_with: Sequence[str] = ()  # fingerprint of the configuration, update, precision, engine
    # Of a model:
    architecture: str = "–"
    n_parameters: int | None = None
    training: Training | None = None
    # Of several systems: by the names of text_metrics
    significance: Mapping[str, Significance] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a JSON object, p-values included."""
        tree: dict[str, Any] = {"system": self.name, **self.values, "made_with": self.made_with}
        if self.n_parameters is not None:
            tree |= {"architecture": self.architecture, "parameters": self.n_parameters}
        for name, found in self.significance.items():
            tree[f"{name}_ci"] = found.interval
            if found.p_value is not None:
                tree[f"{name}_p"] = found.p_value
        return tree


def seed_summaries(systems: Sequence[System]) -> list[SeedSummary]:
    """Return the summaries of the models among the systems, see seeds.summarise_seeds."""
    models = [
        Trained(system.name, system.training, system.values)
        for system in systems
        if system.training is not None
    ]
    return summarise_seeds(models)


def with_significance(
    systems: Sequence[System],
    sources: Sequence[str],
    references: Sequence[str],
    tokenize: str = DEFAULT_TOKENIZER,
) -> list[System]:
    """Return the systems with their significance, against the first one, in each metric; a single
    system is returned unchanged.

    sources: empty if none of the metrics reads them; tokenize: see text_metrics.
    """
    if len(systems) < 2:
        return list(systems)
    bootstrap = PairedBootstrap(len(references))
    found: list[dict[str, Significance]] = [{} for _ in systems]
    for name, metric in text_metrics(tokenize).items():
        first, *others = (
            line_values(metric, sources, system.texts, references) for system in systems
        )
        compared = bootstrap.compare(metric, first, others)
        for by_name, significance in zip(found, compared, strict=True):
            by_name[name] = significance
    pairs = zip(systems, found, strict=True)
    return [system._replace(significance=by_name) for system, by_name in pairs]


def table(systems: Sequence[System], tokenize: str = DEFAULT_TOKENIZER) -> Iterator[str]:
    """Yield the lines of a table for people: head, systems, means over seeds, legend.

    systems: from with_significance.
    """
    head = ["system", "architecture", "parameters", "bits/byte"]
    for metric in text_metrics(tokenize).values():
        head += [metric.name, "p"]
    rows = [head, *(_row(system, tokenize) for system in systems)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, architecture, *numbers in rows:
        words = [name.ljust(widths[0]), architecture.ljust(widths[1])]
        yield "  ".join([*words, *map(str.rjust, numbers, widths[2:])]).rstrip()
    yield from map(str, seed_summaries(systems))
    yield ""
    yield "  ".join([f"{len(systems[0].texts)} lines", *map(with_resampling, signatures(tokenize))])
    yield LEGEND


def _row(system: System, tokenize: str) -> list[str]:
    """Return the cells of a system's line in the table."""
    n_parameters = "–" if system.n_parameters is None else f"{system.n_parameters:,}"
    bits = system.values.get("bits_per_byte")
    cells = [system.name, system.architecture, n_parameters]
    cells.append("–" if bits is None else f"{bits:.4f}")
    for name, metric in text_metrics(tokenize).items():
        value = metric.template.format(system.values[name])
        interval, p_value = system.significance[name][1:]
        cells.append(f"{value} ± {interval:.1f}")
        mark = "*" if p_value is not None and p_value < SIGNIFICANCE_LEVEL else " "
        cells.append("" if p_value is None else f"{p_value:.3f}{mark}")
    return cells


def to_dict(systems: Sequence[System], tokenize: str = DEFAULT_TOKENIZER) -> dict[str, Any]:
    """Return the comparison as a JSON object: systems, means over seeds, sacreBLEU's signatures."""
    names = signatures(tokenize)
    if len(systems) > 1:
        names = with_resampling(names[0]), with_resampling(names[1])
    return {
        "lines": len(systems[0].texts),
        "chrf_signature": names[0],
        "bleu_signature": names[1],
        "systems": [system.to_dict() for system in systems],
        "seeds": [summary.to_dict() for summary in seed_summaries(systems)],
    }


def read_metrics(run: Path) -> list[Mapping[str, float]]:
    """Read the complete records that training has logged in a run folder; [] without a log."""
    path = run / METRICS_FILE
    if not path.is_file():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):  # the last line of a killed run
            records.append(json.loads(line))
    return records
