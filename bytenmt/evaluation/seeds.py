"""Pool models that differ in their seeds alone: means, or the reason why they are not pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from msgspec.structs import replace

from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.weights import LAST, read_header
from bytenmt.config.schedules import fraction_done, stopped_early
from bytenmt.config.schema import Config
from bytenmt.data.pair_files import PairFiles


class Training(NamedTuple):
    """The configuration, training text and end of a run, by which runs are compared."""

    config: Config
    text: str  # names and bytes of the files; empty: not recorded
    end: str  # how the training ended; empty: not recorded

    @staticmethod
    def from_model(path: Path, config: Config, facts: Facts) -> Training:
        """Return the training of a model. path: its run folder or weights file; facts: of the file.

        The end of a run folder is that of its last checkpoint, which the best one need not tell.
        """
        facts_at_end = read_header(path / LAST)[1] if (path / LAST).is_file() else facts
        return Training(config, _describe_text(facts), _describe_end(config, facts_at_end))


class Trained(NamedTuple):
    """A trained model with its values."""

    name: str
    training: Training
    values: Mapping[str, float]  # by the names of metrics


class SeedSummary(NamedTuple):
    """Models whose configurations differ in their seeds alone, as one result."""

    names: list[str]  # of the models
    # Mean and sample standard deviation of each value; empty if they are not pooled
    means: dict[str, tuple[float, float]]
    reason: str = ""  # why they are not pooled

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a JSON object."""
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


def summarise_seeds(models: Sequence[Trained]) -> list[SeedSummary]:
    """Return a summary of each group of two or more models that differ in their seeds alone.

    They are pooled if they had the same texts and the same end of training.
    """
    groups: list[tuple[Config, dict[int, Trained]]] = []  # models by their seeds
    for model in models:
        seed = model.training.config.train.seed
        config = _without_seed(model.training.config)
        for config_of_group, group in groups:
            if seed not in group and config == config_of_group:
                group[seed] = model
                break
        else:
            groups.append((config, {seed: model}))
    return [_summary([*group.values()]) for _, group in groups if len(group) > 1]


def _without_seed(config: Config) -> Config:
    return replace(config, train=replace(config.train, seed=0))


def _summary(models: Sequence[Trained]) -> SeedSummary:
    """Return the summary of two or more models."""
    names = [model.name for model in models]
    texts = {model.name: model.training.text for model in models}
    ends = {model.name: model.training.end for model in models}
    reason = _difference("other training text", texts) or _difference("another end", ends)
    if reason:
        return SeedSummary(names, {}, reason)
    means = {}
    for name in models[0].values:
        values = [model.values[name] for model in models]
        means[name] = mean(values), stdev(values)
    return SeedSummary(names, means)


def _difference(what: str, facts: Mapping[str, str]) -> str:
    """Return in what models differ; "" if they do not. facts: of each model by its name."""
    if len(set(facts.values())) == 1 and all(facts.values()):
        return ""
    parts = [f"{name} {fact or 'not recorded'}" for name, fact in facts.items()]
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
