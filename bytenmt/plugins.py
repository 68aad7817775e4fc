"""Plugins: Python files of a user that add loss terms, schedules and architectures to the package.

When it is imported, a plugin puts functions into the dictionaries of this module, as in
`SCHEDULES["half"] = lambda train, progress: 0.5`, or calls
`bytenmt.architectures.registry.register`. It is named by `--plugin`, which every command has. Child
processes import the same plugins. docs/for-researchers.md has an example of each kind.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    import torch

ENVIRONMENT = "BYTENMT_PLUGINS"  # the plugins of --plugin, a line each, for child processes

# `train.loss_terms.NAME = WEIGHT` adds the term NAME, a function of training.losses.LossInputs, to
# the loss of every batch. It returns a scalar: a sum over the batch's target bytes, in nats, not a
# mean, so that batches can be split among processes.
LOSS_TERMS: dict[str, Callable[[Any], torch.Tensor]] = {}

# Learning rate schedules, values of `train.schedule` besides those of the package, which an entry
# of the same name replaces. One is a function of config.schema.TrainConfig and
# checkpoints.facts.Progress alone, so that a resumed run is the same, and returns the factor of train.lr
# after the warm-up.
SCHEDULES: dict[str, Callable[[Any, Any], float]] = {}


def load_plugins(files: Iterable[str] = ()) -> None:
    """Import plugins, each a Python file, and those that the parent process has imported; child
    processes import them too.

    A plugin that has been imported is not imported again. Raises BytenmtError, in one line, for one
    that is missing or cannot be imported.
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
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path
        ]
        place = f" (line {frames[-1].lineno})" if frames else ""
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise BytenmtError(f"--plugin {path}: {text}{place}") from error
