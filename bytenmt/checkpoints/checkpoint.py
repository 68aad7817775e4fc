"""Save and load the checkpoints of a run folder, which holds the last one and the weights of the best one.

    config.toml, metrics.jsonl
    last.safetensors, best.safetensors      weights, with configuration and facts: files like any other model
    trainer.safetensors                     all that a resume needs, written last

Every file is replaced atomically. If the process is killed between two of them, the run goes on from the
older trainer.safetensors and writes the others again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor

from bytenmt.architectures.base import Model, persistent_buffers
from bytenmt.architectures.parameters import NGRAM_TABLES, buffer_kinds, module_tensors, parameter_shapes
from bytenmt.architectures.registry import build_model
from bytenmt.architectures.section import ModelSection, architecture
from bytenmt.atomic_file import SUFFIX, replace_synced
from bytenmt.checkpoints.admission import TYPES_OF_BUFFERS
from bytenmt.checkpoints.tensor_file import Array, Entry, serialise
from bytenmt.checkpoints.tensor_file import write_atomically as write_atomically
from bytenmt.checkpoints.weights import (
    BEST,
    CONFIG,
    LAST,
    METRICS,
    TRAINER,
    StoredWeights,
    Which,
    metadata,
    read_file,
    read_run,
    restored,
    with_all_rows,
    without_zero_rows,
)
from bytenmt.checkpoints.weights import has_checkpoint as has_checkpoint
from bytenmt.checkpoints.weights import is_weights_file as is_weights_file
from bytenmt.checkpoints.weights import read_config as read_config
from bytenmt.checkpoints.weights import read_weights as read_contents
from bytenmt.config.facts import Facts
from bytenmt.config.schema import Config, ModelConfig
from bytenmt.errors import CheckpointError, ConfigError

MODEL = "model."  # before the names of weights in the trainer's file
Weights = tuple[dict[str, Tensor], Config, Facts]  # of a weights file
NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Saved(NamedTuple):
    """A checkpoint to resume from, with tensors on the CPU.

    weights: those that are being trained; trainer: see save_checkpoint.
    """

    update: int
    weights: dict[str, Tensor]
    trainer: dict[str, Tensor]
    config: Config
    facts: Facts


class Loaded(NamedTuple):
    """A model in evaluation mode, on its device, with its configuration and facts."""

    model: Model[Any, Any]
    config: Config
    facts: Facts


def save_checkpoint(
    run: Path,
    update: int,
    weights: Mapping[str, Tensor],
    trainer: Mapping[str, Tensor],
    config: Config,
    facts: Facts,
    *,
    best: bool,
    trained: Mapping[str, Tensor] | None = None,
) -> None:
    """Save the weights, also as the best ones if they are, and the trainer's state.

    facts: their update is set to this one. trained: the weights that are being trained, where `weights` are
    their average. Raises CheckpointError if the disk is full or cannot be written to.
    """
    facts = msgspec.structs.replace(facts, update=update)
    files = {name: dict(weights) for name in ([LAST, BEST] if best else [LAST])}
    model = {f"{MODEL}{name}": tensor for name, tensor in _stored(trained or weights).items()}
    try:
        run.mkdir(parents=True, exist_ok=True)
        for name, tensors in files.items():
            header = metadata(config, facts, "weights")
            replace_synced(run / name, serialise(_entries(_stored(tensors)), header))
        header = metadata(config, facts, "trainer")
        replace_synced(run / TRAINER, serialise(_entries({**model, **trainer}), header))
        for name in ("*.safetensors", CONFIG, METRICS):
            for left in run.glob(f".{name}.*{SUFFIX}"):  # by a killed process
                left.unlink()
    except OSError as error:
        raise CheckpointError(
            f"cannot save the checkpoint of update {update} in {run}: {error.strerror}"
        ) from None


def write_weights(path: Path, tensors: Mapping[str, Tensor], config: Config, facts: Facts) -> None:
    """Write a weights file that no run's index names. Raises CheckpointError."""
    try:
        replace_synced(path, serialise(_entries(_stored(tensors)), metadata(config, facts, "weights")))
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None


def load_checkpoint(run: Path) -> Saved:
    """Load the checkpoint of a run folder to resume from. Raises CheckpointError."""
    if not (run / TRAINER).is_file() and has_checkpoint(run):
        raise CheckpointError(
            f"{run} is of version 0.1: begin another run with its weights, --init-from {run}"
        )
    saved = read_file(run / TRAINER, "trainer")
    model, trainer = {}, {}
    for name, array in saved.arrays.items():
        if name.startswith(MODEL):
            model[name.removeprefix(MODEL)] = array
        else:
            trainer[name] = array
    return Saved(
        saved.facts.update or 0, _tensors(with_all_rows(model)), _tensors(trainer), saved.config, saved.facts
    )


def read_weights(path: Path, which: Which = "best") -> tuple[Path, Weights]:
    """Read the weights of a run folder or of a weights file as tensors; return its path and contents.

    Converted weights become float32 again. Raises CheckpointError; see weights.read_weights.
    """
    file, contents = read_contents(path, which)
    return file, (_tensors(restored(contents.arrays)), contents.config, contents.facts)


def read_start(path: Path, model: ModelConfig) -> tuple[Path, dict[str, Tensor]]:
    """Read the weights of a run folder, its best checkpoint, or of a weights file, for a run of this model.

    Dropout may differ, and n-gram tables may be new. Raises CheckpointError if they belong to another model.
    """
    file, (tensors, config, _) = read_weights(path)
    changes = {"dropout": model.dropout, "ngram_dropout": model.ngram_dropout}
    if not config.model.ngrams:  # tables begin at zero
        names = ("ngrams", "ngram_rows", "ngram_case")
        changes |= {name: getattr(model, name) for name in names}
    if msgspec.structs.replace(config.model, **changes) != model:
        raise CheckpointError(f"--init-from {path} has another model than the run: use its model section")
    return file, tensors


def _stored(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a model's tensors as they are stored, see weights.without_zero_rows."""
    table = tensors.get(NGRAM_TABLES)
    if table is None:
        return dict(tensors)
    arrays = without_zero_rows({NGRAM_TABLES: table.detach().cpu().numpy()})
    return {**tensors, **_tensors(arrays)}


def _entries(tensors: Mapping[str, Tensor]) -> dict[str, Entry]:
    """Return tensors of the types in NAMES as entries of a file; each is copied from its device when it is
    written."""

    def flat(tensor: Tensor) -> Array:
        return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()

    return {
        name: Entry(NAMES[tensor.dtype], tuple(tensor.shape), partial(flat, tensor))
        for name, tensor in tensors.items()
    }


def _tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """Return the arrays of a file as tensors over the same memory."""
    return {
        name: torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        if array.dtype == np.uint16
        else torch.from_numpy(array)
        for name, array in arrays.items()
    }


def weights(model: Model[Any, Any]) -> dict[str, Tensor]:
    """Return a model's parameters and persistent buffers by name, a shared one once."""
    return {**dict(model.named_parameters()), **persistent_buffers(model)}


def check_can_be_stored(model: Model[Any, Any], config: ModelSection) -> None:
    """Raise ConfigError, which names a tensor, where the model's checkpoints could not be read again."""
    own, name = module_tensors(model), architecture(config)
    shapes = {**own.parameters, **{key: kind.shape for key, kind in own.buffers.items()}}
    expected = {**parameter_shapes(config), **{key: kind.shape for key, kind in buffer_kinds(config).items()}}
    for key, shape in shapes.items():
        if key not in expected:
            raise ConfigError(
                f"{name} has the tensor {key}, which its program does not read: give"
                f" has_unread_tensors=True in its line of ARCHITECTURES"
            )
        if shape != expected[key]:
            raise ConfigError(
                f"the program of {name} reads {key} as {expected[key]}, but the module has the shape {shape}:"
                f" correct write_program"
            )
    for key in expected.keys() - shapes.keys():
        raise ConfigError(
            f"the program of {name} reads {key}, which the module does not have: correct write_program"
        )
    for key, kind in own.buffers.items():
        if kind.dtype not in TYPES_OF_BUFFERS:
            raise ConfigError(
                f"the buffer {key} of {name} is {kind.dtype}, which checkpoints do not store: make it"
                f" float32, or register it with persistent=False"
            )


def load_weights(model: Model[Any, Any], tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy tensors into a model of the same shapes. Raises CheckpointError, which names the path.

    Where they have no buffers, as in files of earlier versions, those of the model stay.
    """
    own = weights(model)
    if not tensors.keys() & persistent_buffers(model).keys():
        own = dict(model.named_parameters())
    wrong = sorted(
        name
        for name in own.keys() | tensors.keys()
        if name not in own or name not in tensors or own[name].shape != tensors[name].shape
    )
    if wrong:
        raise CheckpointError(
            f"{path} does not fit the model: {len(wrong)} tensors differ, first {wrong[0]!r}; it has"
            f" another architecture or size"
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])


def load_run(path: Path, device: torch.device, which: Which = "best") -> Loaded:
    """Load the model of a run folder, by default of its best checkpoint, or of a weights file."""
    file, contents = read_run(path, which)
    return Loaded(build(contents, file).to(device).eval(), contents.config, contents.facts)


def build(contents: StoredWeights, file: Path) -> Model[Any, Any]:
    """Build the model of a weights file, on the CPU. Raises CheckpointError."""
    model = build_model(contents.config.model)
    load_weights(model, _tensors(restored(contents.arrays)), file)
    return model


def load_embedding(model: Model[Any, Any], path: Path) -> None:
    """Initialise a model's byte embedding from another run, of any architecture, or from a weights file."""
    table = read_weights(path)[1][0].get("embedding.weight")
    own = model.embedding.weight
    if table is None or table.shape != own.shape:
        got = "none" if table is None else f"width {table.shape[1]}"
        raise CheckpointError(
            f"--init-embedding {path}: its table has {got}, this model's has width {own.shape[1]};"
            " use a run of the same preset"
        )
    with torch.no_grad():
        own.copy_(table)
