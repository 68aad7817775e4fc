"""Save and load the checkpoints of a run folder: the last one, and the weights of the best one.

    config.toml, metrics.jsonl          for people and for plots
    last.safetensors, best.safetensors  weights, with configuration and facts, like any model file
    trainer.pt                          all that a resume needs, by torch.save, written last

Every file is replaced atomically. If the process is killed between two of them, the run goes on
from the older trainer.pt and writes the others again.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.architectures.parameters import parameter_shapes
from bytenmt.architectures.registry import build_model
from bytenmt.architectures.section import ModelSection, architecture
from bytenmt.atomic_file import SUFFIX, write_atomically
from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.weights import (
    BEST,
    CONFIG,
    LAST,
    METRICS,
    TRAINER,
    Array,
    StoredWeights,
    metadata_of,
    parse_metadata,
    read_run,
    restore_weights,
    without_zero_rows,
    write_weights_file,
)
from bytenmt.config.schema import Config, ModelConfig
from bytenmt.errors import BytenmtError, CheckpointError, ConfigError

LOCK = "training.lock"  # in a run folder, while a training writes there


class TrainerCheckpoint(NamedTuple):
    """All that a run is resumed from, the contents of trainer.pt; its tensors are on the CPU."""

    update: int  # the number of the update after which it was saved
    weights: dict[str, Tensor]  # by parameter name: the trained ones, not their moving average
    trainer: dict[str, Any]  # the state dicts of the optimisers, the moving average and so on
    config: Config
    facts: Facts  # about the training, such as its progress and its files


@contextmanager
def training_lock(run: Path) -> Iterator[None]:
    """Lock the run folder against other trainings while the context is open.

    The folder is created if it is missing. Raises BytenmtError if another training has the lock.
    """
    lock = FileLock(run / LOCK, timeout=0)
    try:
        run.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise BytenmtError(f"another process is training {run}: give -o another folder") from None
    except OSError as error:
        raise BytenmtError(f"cannot write into {run}: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            (run / LOCK).unlink()
        lock.release()


def save_checkpoint(
    run: Path,
    update: int,
    weights: Mapping[str, Tensor],
    trainer: Mapping[str, Any],
    config: Config,
    facts: Facts,
    *,
    best: bool,
    trained: Mapping[str, Tensor] | None = None,
) -> None:
    """Write last.safetensors, with `best` also best.safetensors, and trainer.pt into a run folder.

    update: the number of the last update. weights: tensors that translation uses, such as moving
    averages; trained: those that are being trained, None if they are the same; trainer: what else a
    resume needs, such as state dicts: tensors, numbers, texts, lists and dictionaries of them;
    facts: about the training, stored with `update`. Raises CheckpointError if the disk is full or
    cannot be written to.
    """
    facts = msgspec.structs.replace(facts, update=update)
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot write into {run}: {error.strerror}") from None
    write_weights(run / LAST, weights, config, facts)
    if best:
        write_weights(run / BEST, weights, config, facts)
    arrays = {name: _array(tensor) for name, tensor in (trained or weights).items()}
    model = {name: torch.from_numpy(array) for name, array in without_zero_rows(arrays).items()}
    metadata = metadata_of(config, facts)
    file = io.BytesIO()
    torch.save({"metadata": metadata, "weights": model, "trainer": dict(trainer)}, file)
    write_atomically(run / TRAINER, file.getbuffer())
    for name in (CONFIG, METRICS, BEST, LAST, TRAINER):
        for left in run.glob(f".{name}.*{SUFFIX}"):  # by a killed process
            left.unlink()


def write_weights(path: Path, tensors: Mapping[str, Tensor], config: Config, facts: Facts) -> None:
    """Write tensors of a model, by name, as a weights file in float32, with config and facts.

    Raises CheckpointError if the file cannot be written.
    """
    arrays = {name: _array(tensor.float()) for name, tensor in tensors.items()}  # also float64's
    write_weights_file(path, without_zero_rows(arrays), config, facts)


def _array(tensor: Tensor) -> Array:
    """Return a tensor as a NumPy array."""
    return tensor.detach().cpu().numpy()


def load_checkpoint(run: Path) -> TrainerCheckpoint:
    """Load trainer.pt, the checkpoint from which the training of a run folder is resumed.

    Raises CheckpointError if it is missing or damaged.
    """
    file = run / TRAINER
    try:
        saved = torch.load(file, map_location="cpu", weights_only=True)
        metadata = saved["metadata"]
        model = saved["weights"]
        trainer = saved["trainer"]
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing") from None
    except Exception as error:  # of the archive, of what is in it, of PyTorch
        raise CheckpointError(f"{file} is damaged ({' '.join(str(error).split()):.200})") from None
    config, facts, _ = parse_metadata(metadata, file)
    arrays = {name: tensor.numpy() for name, tensor in model.items()}
    return TrainerCheckpoint(facts.update or 0, _tensors(arrays), trainer, config, facts)


def read_initial_weights(path: Path, model: ModelConfig) -> tuple[Path, dict[str, Tensor]]:
    """Read initial weights for a new run; return the path of their file and the tensors.

    path: a run folder, of which the best weights are read, or a weights file. model: the model
    section of the new run's configuration. Raises CheckpointError if it is not that of the weights:
    dropout alone may differ, and n-gram tables be new.
    """
    file, stored = read_run(path)
    names = ["dropout"]
    if not stored.config.model.ngrams:  # tables begin at zero
        names += ["ngrams", "ngram_rows", "ngram_word_rows", "ngram_case"]
    changes = {name: getattr(model, name) for name in names}
    if msgspec.structs.replace(stored.config.model, **changes) != model:
        raise CheckpointError(
            f"--init-from {path} has another model than the run: use its model section"
        )
    return file, _tensors(stored.arrays)


def _tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """Return stored weights as tensors."""
    return {name: torch.from_numpy(array) for name, array in restore_weights(arrays).items()}


def model_tensors(model: Model[Any, Any]) -> dict[str, Tensor]:
    """Return a model's parameters by name, without buffers; a shared parameter occurs once."""
    return dict(model.named_parameters())


def check_can_be_stored(model: Model[Any, Any], config: ModelSection) -> None:
    """Raise ConfigError, which names a tensor, for a model whose checkpoints could not be read.

    Its program (the model as a list of instructions, for decoding) must read all parameters of the
    module, and buffers must not be persistent. config: the model section of its configuration.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in model_tensors(model).items()}
    wrong = {name for name, _ in shapes.items() ^ parameter_shapes(config).items()}
    wrong |= model.state_dict().keys() - dict(model.named_parameters(remove_duplicate=False)).keys()
    if wrong:
        raise ConfigError(
            f"{architecture(config)}: {min(wrong)} cannot be stored: write_program must read all"
            " parameters of the module, in their shapes, and buffers need persistent=False"
        )


def load_weights(model: Model[Any, Any], tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy tensors by name into a model's parameters.

    path: of their file, for messages. Raises CheckpointError if names or shapes differ.
    """
    parameters = model_tensors(model)
    if _shapes(parameters) != _shapes(tensors):
        raise CheckpointError(f"{path} does not fit the model: it has another architecture or size")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Return the shape of each tensor."""
    return {name: tensor.shape for name, tensor in tensors.items()}


def build_from_weights(contents: StoredWeights, file: Path) -> Model[Any, Any]:
    """Build a PyTorch model on the CPU, in training mode, from the contents of a weights file.

    file: its path, for messages. Raises CheckpointError where the weights do not fit.
    """
    model = build_model(contents.config.model)
    load_weights(model, _tensors(contents.arrays), file)
    return model
