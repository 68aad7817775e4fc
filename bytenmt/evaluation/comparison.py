"""Compare systems on one text: a table with p-values of paired bootstrap, and means over seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from msgspec.structs import replace

from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.weights import LAST, read_header
from bytenmt.checkpoints.weights import METRICS as METRICS_FILE
from bytenmt.config.metrics import DEFAULT_TOKENIZER
from bytenmt.config.schedules import fraction_done, stopped_early
from bytenmt.config.schema import Config
from bytenmt.data.pair_files import PairFiles
from bytenmt.evaluation.scores import line_values, signatures, text_metrics
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


class Training(NamedTuple):
    """The configuration, training text and end of a run, by which runs are compared."""

    config: Config
    text: str  # names and bytes of the files; empty: not recorded
    end: str  # how the training ended; empty: not recorded

    @staticmethod
    def from_model(path: Path, config: Config, facts: Facts) -> Training:
        """Return the training of a model, from the facts that its weights file stores.

        path: its run folder or weights file. config, facts: from the weights file. For a folder the
        end is read from its last checkpoint, as the best one was saved before.
        """
        facts_at_end = read_header(path / LAST)[1] if (path / LAST).is_file() else facts
        return Training(config, _describe_text(facts), _describe_end(config, facts_at_end))


class System(NamedTuple):
    """A row of the comparison: translations of a model, or a file of them, and their scores."""

    name: str
    texts: Sequence[str]  # its translations, a line each
    values: Mapping[str, float]  # scores by metric, such as "chrf"; bits_per_byte where known
    made_with: Sequence[str] = ()  # texts such as "update 900", "engine cpu int8"; or a file
    # Of a model:
    architecture: str = "–"
    n_parameters: int | None = None
    training: Training | None = None
    # Of several systems: by metric, such as "chrf"
    significance: Mapping[str, Significance] = {}

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a JSON object, without its texts.

        For a metric M it has M, the score; M_ci, half of its 95 % confidence interval; M_p, the
        p-value of the difference from the first system.
        """
        tree: dict[str, Any] = {"system": self.name, **self.values, "made_with": self.made_with}
        if self.n_parameters is not None:
            tree |= {"architecture": self.architecture, "parameters": self.n_parameters}
        for name, found in self.significance.items():
            tree[f"{name}_ci"] = found.interval
            if found.p_value is not None:
                tree[f"{name}_p"] = found.p_value
        return tree


def with_significance(
    systems: Sequence[System],
    sources: Sequence[str],
    references: Sequence[str],
    tokenize: str = DEFAULT_TOKENIZER,
) -> list[System]:
    """Return the systems with the significance of their difference from the first one, by metric.

    A single system is returned unchanged. sources, references: lines of the text that all systems
    translate; sources may be empty if no metric reads them. tokenize: BLEU's tokenizer.
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
    """Yield the lines of a table that compares systems: head, rows, means over seeds, legend.

    systems: two or more, from with_significance. tokenize: BLEU's tokenizer.
    """
    head = ["system", "architecture", "parameters", "bits/byte"]
    for metric in text_metrics(tokenize).values():
        head += [metric.name, "p"]
    rows = [head, *(_row(system, tokenize) for system in systems)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, architecture, *numbers in rows:
        words = [name.ljust(widths[0]), architecture.ljust(widths[1])]
        yield "  ".join([*words, *map(str.rjust, numbers, widths[2:])]).rstrip()
    yield from map(str, summarise_seeds(systems))
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
    """Return the comparison as a JSON object: systems, means over seeds, sacreBLEU's signatures.

    systems: one, or several from with_significance. tokenize: BLEU's tokenizer.
    """
    names = signatures(tokenize)
    if len(systems) > 1:
        names = with_resampling(names[0]), with_resampling(names[1])
    return {
        "lines": len(systems[0].texts),
        "chrf_signature": names[0],
        "bleu_signature": names[1],
        "systems": [system.to_dict() for system in systems],
        "seeds": [summary.to_dict() for summary in summarise_seeds(systems)],
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


class SeedSummary(NamedTuple):
    """Models whose configurations differ in their seeds alone, as one result."""

    names: list[str]  # of the models
    means: dict[str, tuple[float, float]]  # (mean, standard deviation) by metric; {}: not pooled
    reason: str = ""  # why they are not pooled

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object: systems, and not_pooled (the reason) or mean and std by metric."""
        tree: dict[str, Any] = {"systems": self.names}
        if self.reason:
            tree["not_pooled"] = self.reason
        for name, (middle, std) in self.means.items():
            tree[name] = {"mean": middle, "std": std}
        return tree

    def __str__(self) -> str:
        names = ", ".join(self.names)
        if self.reason:
            return f"seeds not pooled ({names}): {self.reason}"
        values = [f"{name} {middle:.4g} ± {std:.2g}" for name, (middle, std) in self.means.items()]
        return f"{len(self.names)} seeds ({names}): {', '.join(values)}"


def summarise_seeds(systems: Sequence[System]) -> list[SeedSummary]:
    """Return a summary of each group of two or more models that differ in their seeds alone.

    Their scores are averaged if they had the same training text and the same end of training.
    """
    groups = list[tuple[Config, dict[int, System]]]()  # models by their seeds
    for system in systems:
        if system.training is None:
            continue
        train = system.training.config.train
        config = replace(system.training.config, train=replace(train, seed=0))
        for other, group in groups:
            if config == other and train.seed not in group:
                group[train.seed] = system
                break
        else:
            groups.append((config, {train.seed: system}))
    return [_summary([*group.values()]) for _, group in groups if len(group) > 1]


def _summary(models: Sequence[System]) -> SeedSummary:
    """Return the summary of two or more models."""
    names = [model.name for model in models]
    trainings = [model.training for model in models if model.training is not None]
    texts = [training.text for training in trainings]
    ends = [training.end for training in trainings]
    reason = _difference("other training text", names, texts)
    reason = reason or _difference("another end", names, ends)
    if reason:
        return SeedSummary(names, {}, reason)
    means = {}
    for name in models[0].values:
        values = [model.values[name] for model in models]
        means[name] = mean(values), stdev(values)
    return SeedSummary(names, means)


def _difference(what: str, names: Sequence[str], facts: Sequence[str]) -> str:
    """Return in what models differ; "" if they do not. facts: of each model."""
    if len(set(facts)) == 1 and all(facts):
        return ""
    pairs = zip(names, facts, strict=True)
    parts = [f"{name} {fact or 'not recorded'}" for name, fact in pairs]
    return f"{what}: {'; '.join(parts)}"


def _describe_text(facts: Facts) -> str:
    """Return names and bytes of the files that a model was trained on."""
    if facts.texts:
        return ", ".join(f"{Path(text.path).name} ({text.bytes:,} bytes)" for text in facts.texts)
    if not facts.corpora:
        return ""
    names = ", ".join(map(_describe_files, facts.corpora))
    return f"{names} ({facts.source_bytes or 0:,} and {facts.target_bytes or 0:,} bytes)"


def _describe_files(files: PairFiles) -> str:
    """Return the names of a corpus' files, with its weight if it is not 1."""
    paths = [path for path in (files.src, files.tgt, files.tsv) if path is not None]
    names = " and ".join(path.name for path in paths)
    return names if files.weight == 1 else f"{names} x {files.weight:g}"


def _describe_end(config: Config, facts: Facts) -> str:
    """Return how a training ended: by a limit that is not of time, by early stopping, or where."""
    progress = facts.progress
    if progress is None:
        return ""
    if stopped_early(config.train, progress):
        return "stopped early"
    if fraction_done(replace(config.train, max_minutes=0.0), progress) >= 1:
        return "trained to the end"
    return f"stopped at update {progress.update:,}"
