"""Plugins: Python files of a user that add loss terms, schedules, metrics and architectures.

When it is imported, a plugin puts entries into the dictionaries of this module, such as
`SCHEDULES["half"] = lambda train, progress: 0.5`, or calls
`bytenmt.architectures.registry.register`. It is named by `--plugin`, which every command has. Child
processes import the same plugins. docs/for-researchers.md has an example of each kind. The
package's own schedules and metrics are in the same dictionaries (config/schedules.py,
config/metrics.py).
"""

from __future__ import annotations

import math
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    import torch

ENVIRONMENT = "BYTENMT_PLUGINS"  # the plugins of --plugin, a line each, for child processes
# The end of a message about an unknown name.
NEEDS_PLUGIN = "one of a plugin needs `--plugin FILE.py`, or its import"

# `train.loss_terms.NAME = WEIGHT` adds the term NAME, a function of training.losses.LossInputs, to
# the loss of every batch. It returns a scalar: a sum over the batch's target bytes, in nats, not a
# mean, so that batches can be split among processes.
LOSS_TERMS: dict[str, Callable[[Any], torch.Tensor]] = {}

# Learning-rate schedules, the values of `train.schedule`. A schedule is a function of
# config.train_section.TrainConfig and checkpoints.facts.Progress alone, so that a resumed run is
# the same, and returns the factor of train.lr after the warm-up. An entry of a plugin replaces one
# of the package that has the same name.
SCHEDULES: dict[str, Callable[[Any, Any], float]] = {}


class Metric(NamedTuple):
    """A measure of translations, by which training selects weights and `evaluate` compares models.

    The value of a text is `combine` of the numbers of its lines (line_values). The paired
    significance test resamples these numbers, so that a costly metric visits each line once.
    """

    name: str  # for people, in tables
    is_higher_better: bool
    # Takes sources, translations and references; returns a list or array with a number, or a row of
    # numbers, for each line. None: measured by the model itself, without translations.
    line_values: Callable[[Sequence[str], Sequence[str], Sequence[str]], Any] | None = None
    # Returns the value of a text from the array of its lines' numbers; by default their mean.
    combine: Callable[[Any], float] = lambda values: float(values.mean())
    template: str = "{:.2f}"  # how a value is printed

    def is_better(self, value: float, best: float | None) -> bool:
        """Return whether value is better than best, which may be None (none yet); NaN never is."""
        if best is None:
            return not math.isnan(value)
        return value > best if self.is_higher_better else value < best


# Metrics of a validation, the values of `train.metric`; each is valid_NAME in metrics.jsonl, and a
# column of `evaluate`.
METRICS: dict[str, Metric] = {}


def load_plugins(files: Iterable[str] = ()) -> None:
    """Import the plugins of a user, and before them those that the parent process has imported.

    files: paths of Python files. Child processes that load plugins import the same ones. A plugin
    is imported only once. Raises BytenmtError for one that is missing or cannot be imported.
    """
    inherited = os.environ.get(ENVIRONMENT, "").splitlines()
    paths = dict.fromkeys([*inherited, *(str(Path(file).resolve()) for file in files)])
    for path in paths:
        _import(path)
    if paths:
        os.environ[ENVIRONMENT] = "\n".join(paths)


def _import(path: str) -> None:
    """Import a Python file as the module of its name. Raises BytenmtError."""
    name = Path(path).stem
    if name in sys.modules:
        if Path(getattr(sys.modules[name], "__file__", None) or "").resolve() != Path(path):
            raise BytenmtError(f"--plugin {path}: another module is named {name}: rename the file")
        return
    try:
        spec = spec_from_file_location(name, path, loader=SourceFileLoader(name, path))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        place = f" (line {lines[-1]})" if lines else ""
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise BytenmtError(f"--plugin {path}: {text}{place}") from error
