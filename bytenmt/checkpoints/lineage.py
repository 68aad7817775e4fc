"""Start a training from the weights of another run, and record where they came from."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import msgspec
from torch import Tensor

from bytenmt.checkpoints.checkpoint import read_weights
from bytenmt.checkpoints.manifest import FOLDER
from bytenmt.checkpoints.weights import is_weights_file
from bytenmt.config.facts import Ancestor
from bytenmt.config.schema import ModelConfig
from bytenmt.errors import CheckpointError, printable


class Start(NamedTuple):
    """The weights from which a run starts. file: of the weights; lineage: see facts.Facts."""

    file: Path
    tensors: dict[str, Tensor]
    lineage: tuple[Ancestor, ...]


def read_start(path: Path, model: ModelConfig) -> Start:
    """Read the weights of a run folder, its best checkpoint, or of a weights file, for a run of this model.

    Dropout may differ, and n-gram tables may be new. Raises CheckpointError if they belong to another model.
    """
    file, (tensors, config, facts) = read_weights(path)
    changes = {"dropout": model.dropout, "ngram_dropout": model.ngram_dropout}
    if not config.model.ngrams:  # tables begin at zero
        names = ("ngrams", "ngram_rows", "ngram_case")
        changes |= {name: getattr(model, name) for name in names}
    if msgspec.structs.replace(config.model, **changes) != model:
        raise CheckpointError(f"--init-from {path} has another model than the run: use its model section")
    try:
        with open(file, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read ({error.strerror}): start again") from None
    return Start(file, tensors, facts.passed_on(printable(_name(path)), digest))


def _name(path: Path) -> str:
    """Return the name of a run's folder, also for one of its checkpoints, or that of another weights file."""
    whole = path.resolve()
    if is_weights_file(whole) and whole.parent.name == FOLDER:
        whole = whole.parent.parent
    return whole.name
