"""Plugins: Python files of a user that add to the package, and the registries that they add to.

When it is imported, a plugin puts functions into the registries of this module, as in
`SCHEDULES["half"] = lambda train, progress: 0.5`, or calls `bytenmt.architectures.registry.register`. It is
named by `--plugin`, which every command has. Child processes import the same plugins. Its own options are
keys of `train.options`. docs/for-researchers.md has an example of each kind.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    import random

    import torch

# Types of the entries, which describe their arguments and results.
LossTerm = Callable[[Any], "torch.Tensor"]  # (training.losses.LossInputs)
Schedule = Callable[[Any, Any], float]  # (config.schema.TrainConfig, config.facts.Progress)
# (parameter groups, config.schema.TrainConfig)
OptimizerBuilder = Callable[[list[dict[str, Any]], Any], "torch.optim.Optimizer"]
Augmentation = Callable[[bytes, bytes, "random.Random"], tuple[bytes, bytes]]  # (source, target, generator)

ENVIRONMENT = "BYTENMT_PLUGINS"  # the plugins of --plugin, a line each, for child processes
T = TypeVar("T")


class Metric(NamedTuple):
    """A measure of translations."""

    score: Callable[[Sequence[str], Sequence[str]], float]  # (hypotheses, references), a line each
    higher_is_better: bool = True  # so that validation can choose the best checkpoint


class Registry(dict[str, T]):
    """A dict of the objects of one kind that plugins have added, by name.

    kind: their kind in words. built_in: names that the package itself has, which are no keys. reserved: names
    that no entry may have. Setting an entry raises ValueError for a name that is taken, reserved or no
    identifier.
    """

    def __init__(self, kind: str, built_in: Sequence[str] = (), reserved: Sequence[str] = ()) -> None:
        super().__init__()
        self.kind, self.built_in, self.reserved = kind, tuple(built_in), tuple(reserved)

    def __setitem__(self, name: str, entry: T) -> None:
        if name in self.names:
            raise ValueError(f"there is a {self.kind} {name!r} already")
        if name in self.reserved:
            raise ValueError(f"the name {name!r} is reserved for scores of the package: choose another")
        if not name.replace("-", "_").isidentifier():
            raise ValueError(f"{name!r} is no name for a {self.kind}: expected letters, digits, - and _")
        super().__setitem__(name, entry)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, those of the package first."""
        return self.built_in + tuple(self)


# `train.loss_terms.NAME = WEIGHT` adds the term NAME to the loss of every batch. It returns a scalar: a sum
# over the batch's target bytes, in nats, not a mean, so that batches can be split among processes.
LOSS_TERMS: Registry[LossTerm] = Registry("loss term")

# Learning rate schedules, values of `train.schedule`. One returns the factor of train.lr after the warm-up: a
# function of its arguments alone, so that a resumed run is the same.
SCHEDULES: Registry[Schedule] = Registry(
    "schedule", ("cosine", "linear", "inverse_sqrt", "constant", "wsd", "plateau")
)

# Values of `train.optimizer`. Each parameter group has its weight_decay. Before every update each group's lr
# is set to the scheduled rate, times the ratio of the group's own lr to train.lr. Checkpoints keep tensors
# and numbers of the optimizer's state and groups.
OPTIMIZERS: Registry[OptimizerBuilder] = Registry("optimizer", ("adamw", "muon", "nag", "sgd", "adadelta"))

# `data.augment.NAME = SHARE` applies the augmentation NAME to that share of the training pairs. It is given
# UTF-8 and a random number generator of the pair, and returns the new pair; if that is longer than
# data.max_source_bytes or max_target_bytes, the pair stays unchanged.
AUGMENTATIONS: Registry[Augmentation] = Registry("augmentation")

# Measures of translations in validation and `evaluate`, and values of `train.metric`. The reserved names
# stand beside metrics in metrics.jsonl, and in the JSON of `evaluate`.
METRICS: Registry[Metric] = Registry(
    "metric",
    built_in=("bits_per_byte", "chrf"),
    reserved=(
        *("bleu", "exact_match", "chrf_p", "bleu_p"),
        *("system", "made_with", "architecture", "parameters"),
    ),
)


def load_plugins(files: Iterable[str]) -> None:
    """Import plugins, each a Python file, and have child processes import them too.

    A plugin that has been imported is not imported again. Raises BytenmtError, in one line, for one that is
    missing or cannot be imported.
    """
    load_inherited_plugins()
    for file in files:
        path = str(Path(file).resolve())
        _import(path)
        inherited = os.environ.get(ENVIRONMENT, "").splitlines()
        os.environ[ENVIRONMENT] = "\n".join(dict.fromkeys([*inherited, path]))


@cache
def load_inherited_plugins() -> None:
    """Import the plugins that the parent process named in the environment, once a process."""
    for path in os.environ.get(ENVIRONMENT, "").splitlines():
        _import(path)


def _import(path: str) -> None:
    """Import a Python file as the module of its name. Raises BytenmtError."""
    name = Path(path).stem
    if name in sys.modules:
        return
    try:
        spec = spec_from_file_location(name, path, loader=SourceFileLoader(name, path))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        place = f" (line {frames[-1].lineno})" if frames else ""
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise BytenmtError(f"--plugin {path}: {text}{place}") from error
