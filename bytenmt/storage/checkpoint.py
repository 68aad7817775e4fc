"""The checkpoints of a run folder: two files each, and one small pointer, renamed last, that names them.

    config.toml, metrics.jsonl
    checkpoints.json                                    what is kept, with the SHA-256 of every file
    checkpoints/update-00000500.safetensors             weights, configuration and facts
    checkpoints/update-00000500.trainer.safetensors     what a resume needs besides

A kill at any moment leaves a pointer whose files are whole: a file that it names is never written to,
and what it does not name is cleared by the next save.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.architectures.parameters import NGRAM_TABLES
from bytenmt.architectures.registry import build_model
from bytenmt.atomic_file import replace_synced, sync_folder, temporary
from bytenmt.config.facts import Facts
from bytenmt.config.schema import Config
from bytenmt.errors import CheckpointError
from bytenmt.storage.manifest import (
    FOLDER,
    SavedCheckpoint,
    clear,
    in_free_slot,
    nearest,
    read_pointer,
    rotated,
    take_back,
    write_pointer,
)
from bytenmt.storage.manifest import has_checkpoint as has_checkpoint
from bytenmt.storage.tensor_file import (
    Array,
    Entry,
    serialised,
    write_synced,
)
from bytenmt.storage.tensor_file import write_atomically as write_atomically
from bytenmt.storage.weights import (
    StoredWeights,
    Which,
    metadata,
    read_file,
    read_run,
    restored,
    with_all_rows,
    without_zero_rows,
)
from bytenmt.storage.weights import is_weights_file as is_weights_file
from bytenmt.storage.weights import read_config as read_config
from bytenmt.storage.weights import read_weights as read_contents

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
    """One checkpoint read back, all that save_checkpoint was given; tensors on the CPU."""

    update: int
    weights: dict[str, Tensor]
    trainer: dict[str, Tensor]
    config: Config
    facts: Facts


class Loaded(NamedTuple):
    """A model ready to use: in evaluation mode, on its device."""

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
    keep: int,
    best: bool,
) -> None:
    """Save a checkpoint, keep the last `keep` and the best one, and delete the others.

    best: this one is the best so far. facts: of any update, which becomes this one. Checkpoints of later
    updates belong to a future that was given up: they go. Raises CheckpointError where the disk is full or
    cannot be written to; the checkpoints saved before stand then, and nothing else is left behind.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}, expected at least 1")
    before = read_pointer(run) if has_checkpoint(run) else None
    facts = msgspec.structs.replace(facts, update=update)
    folder = run / FOLDER
    temporaries = [temporary(folder / f"update-{update:08d}.{holds}") for holds in ("weights", "trainer")]
    named: list[Path] = []
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            sync_folder(run)
        kept = SavedCheckpoint(
            update,
            weights=write_synced(
                temporaries[0], serialised(_entries(_stored(weights)), metadata(config, facts, "weights"))
            ),
            trainer=write_synced(
                temporaries[1], serialised(_entries(trainer), metadata(config, facts, "trainer"))
            ),
            facts=facts,
        )
        kept = in_free_slot(before, kept)
        named = [folder / kept.weights_name(), folder / kept.trainer_name()]
        for source, target in zip(temporaries, named, strict=True):
            os.replace(source, target)
        sync_folder(folder)
        pointer = rotated(before, kept, keep, best)
        write_pointer(run, pointer)
    except OSError as error:
        take_back(run, [*temporaries, *named])
        stands = f"; that of update {before.last} stands" if before else ""
        raise CheckpointError(
            f"cannot save the checkpoint of update {update} in {run}: {error.strerror}{stands}"
        ) from None
    clear(run, pointer)


def write_weights(path: Path, tensors: Mapping[str, Tensor], config: Config, facts: Facts) -> None:
    """A weights file outside of any run's pointer. Raises CheckpointError."""
    try:
        replace_synced(path, serialised(_entries(_stored(tensors)), metadata(config, facts, "weights")))
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None


def load_checkpoint(run: Path, update: int | None = None) -> Saved:
    """A checkpoint to go on from, the last one unless told otherwise. Raises CheckpointError where it is
    not kept or not what was written, and tells which other one can be used."""
    pointer = read_pointer(run)
    update = pointer.last if update is None else update
    others = [kept.update for kept in pointer.kept if kept.trainer and kept.update != update]
    kept = pointer.find(update)
    if kept is None or kept.trainer is None:
        what = "no checkpoint" if kept is None else "only the weights"
        updates = ", ".join(map(str, others))
        raise CheckpointError(f"{run} keeps {what} of update {update}: --resume-from takes one of {updates}")
    advice = "no other checkpoint is kept: train again"
    if others:
        other = nearest(others, update)
        place = "before" if other < update else "after"
        advice = f"--resume-from {other} goes on from the one {place} it"
        advice += f" (kept: {', '.join(map(str, others))})" if len(others) > 1 else ""
    folder = run / FOLDER
    saved = read_file(folder / kept.weights_name(), "weights", kept.weights, advice)
    trainer = read_file(folder / kept.trainer_name(), "trainer", kept.trainer, advice)
    return Saved(
        update, _tensors(with_all_rows(saved.arrays)), _tensors(trainer.arrays), saved.config, saved.facts
    )


def read_weights(path: Path, which: Which = "best") -> tuple[Path, Weights]:
    """The weights of a run folder, or of a weights file, as tensors: its path and contents. Those of
    a converted file are float32 again. Raises CheckpointError; see weights.read_weights."""
    file, contents = read_contents(path, which)
    return file, (_tensors(restored(contents.arrays)), contents.config, contents.facts)


def _stored(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A model's tensors -> as they are stored, see weights.without_zero_rows."""
    table = tensors.get(NGRAM_TABLES)
    if table is None:
        return dict(tensors)
    arrays = without_zero_rows({NGRAM_TABLES: table.detach().cpu().numpy()})
    return {**tensors, **_tensors(arrays)}


def _entries(tensors: Mapping[str, Tensor]) -> dict[str, Entry]:
    """Tensors of any shape, device and layout, of the types in NAMES, as a file's entries: each is copied
    from its device when it is written."""

    def flat(tensor: Tensor) -> Array:
        return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()

    return {
        name: Entry(NAMES[tensor.dtype], tuple(tensor.shape), partial(flat, tensor))
        for name, tensor in tensors.items()
    }


def _tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """The arrays of a file as tensors over the same memory."""
    return {
        name: torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        if array.dtype == np.uint16
        else torch.from_numpy(array)
        for name, array in arrays.items()
    }


def weights(model: Model[Any, Any]) -> dict[str, Tensor]:
    """A model's parameters by name, a shared one once."""
    return dict(model.named_parameters())


def load_weights(model: Model[Any, Any], tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy tensors into a model of the same shape; path is for the error's text."""
    own = weights(model)
    wrong = sorted(
        name
        for name in own.keys() | tensors.keys()
        if name not in own or name not in tensors or own[name].shape != tensors[name].shape
    )
    if wrong:
        raise CheckpointError(
            f"{path} does not fit the model: {len(wrong)} tensors differ, first {wrong[0]!r};"
            " it belongs to another architecture or size"
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])


def load_run(path: Path, device: torch.device, which: Which = "best") -> Loaded:
    """The model of a run folder, its best checkpoint unless told otherwise, or of a weights file."""
    file, contents = read_run(path, which)
    return Loaded(build(contents, file).to(device).eval(), contents.config, contents.facts)


def build(contents: StoredWeights, file: Path) -> Model[Any, Any]:
    """The model of a weights file, on the CPU. Raises CheckpointError."""
    model = build_model(contents.config.model)
    load_weights(model, _tensors(restored(contents.arrays)), file)
    return model


def load_embedding(model: Model[Any, Any], path: Path) -> None:
    """Start a model's byte embedding from the table of another run, of any architecture, or of a weights
    file."""
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
