"""The checkpoints of a run folder: two files each, and one small pointer, renamed last, that names them.

    config.toml, metrics.jsonl
    checkpoints.json                                    what is kept, with the SHA-256 of every file
    checkpoints/update-00000500.safetensors             weights, configuration and facts
    checkpoints/update-00000500.trainer.safetensors     what a resume needs besides

A kill at any moment leaves a pointer whose files are whole: a file that it names is never written to,
and what it does not name is cleared by the next save. Knows nothing of what a trainer keeps.
"""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor

from bytenmt.config import Config, architecture, config_tree, parse_config
from bytenmt.errors import CheckpointError, ConfigError
from bytenmt.models import build_model
from bytenmt.models.base import Model
from bytenmt.pointer import (
    CONFIG,
    FOLDER,
    FORMAT,
    Kept,
    Pointer,
    clear,
    in_free_slot,
    nearest,
    read_pointer,
    rotated,
    take_back,
    write_pointer,
)
from bytenmt.pointer import has_checkpoint as has_checkpoint
from bytenmt.tensorfile import (
    Stored,
    damage,
    pack,
    read_tensors,
    replace_synced,
    sync_folder,
    temporary,
    write_synced,
)
from bytenmt.tensorfile import write_atomically as write_atomically

Which = Literal["best", "last"]
Contents = tuple[dict[str, Tensor], Config, dict[str, Any]]  # of a file


class Saved(NamedTuple):
    """One checkpoint read back, all that save_checkpoint was given; tensors on the CPU."""

    update: int
    weights: dict[str, Tensor]
    trainer: dict[str, Tensor]
    config: Config
    facts: dict[str, Any]


class Loaded(NamedTuple):
    """A model ready to use: in evaluation mode, on its device. facts: what was saved beside the weights
    (update, bits_per_byte, …)."""

    model: Model[Any, Any]
    config: Config
    facts: dict[str, Any]


def save_checkpoint(
    run: Path,
    update: int,
    weights: Mapping[str, Tensor],
    trainer: Mapping[str, Tensor],
    config: Config,
    facts: Mapping[str, Any],
    *,
    keep: int,
    best: bool,
) -> None:
    """Save a checkpoint, keep the last `keep` and the best one, and delete the others.

    best: this one is the best so far. facts: JSON values; "update" is added. Checkpoints of later updates
    belong to a future that was given up: they go. Raises CheckpointError where the disk is full or cannot
    be written to; the checkpoints saved before stand then, and nothing else is left behind.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}, expected at least 1")
    before = read_pointer(run) if has_checkpoint(run) else None
    facts = {**facts, "update": update}
    folder = run / FOLDER
    temporaries = [temporary(folder / f"update-{update:08d}.{holds}") for holds in ("weights", "trainer")]
    named: list[Path] = []
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            sync_folder(run)
        kept = Kept(
            update,
            weights=write_synced(temporaries[0], pack(weights, _metadata(config, facts, "weights"))),
            trainer=write_synced(temporaries[1], pack(trainer, _metadata(config, facts, "trainer"))),
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


def _metadata(config: Config, facts: Mapping[str, Any], holds: str) -> dict[str, str]:
    """What a file tells of itself; holds: "weights" or "trainer"; facts: JSON values."""
    as_text = {"config": json.dumps(config_tree(config)), "facts": json.dumps(dict(facts))}
    return {"format": FORMAT, "holds": holds, **as_text}


def write_weights(
    path: Path, tensors: Mapping[str, Tensor], config: Config, facts: Mapping[str, Any]
) -> None:
    """A weights file outside of any run's pointer. Raises CheckpointError."""
    try:
        replace_synced(path, pack(tensors, _metadata(config, facts, "weights")))
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
    weights, config, facts = _read(folder / kept.weights_name(), "weights", kept.weights, advice)
    trainer = _read(folder / kept.trainer_name(), "trainer", kept.trainer, advice)[0]
    return Saved(update, weights, trainer, config, facts)


def _read(path: Path, holds: str, stored: Stored | None, advice: str) -> Contents:
    """A file of weights or trainer state, checked against what was written where that is known; advice:
    for the user whose file is no good."""
    problem = damage(path, stored) if stored else None if path.is_file() else "is missing"
    if problem:
        raise CheckpointError(f"{path} {problem}: {advice}")
    try:
        tensors, told = read_tensors(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or cut off ({error}): {advice}") from None
    if told.get("format") == "bytenmt 1":
        raise CheckpointError(f"{path} was written by an older version of bytenmt: train it again")
    if told.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a bytenmt checkpoint: its format is {told.get('format')!r}")
    if told.get("holds") != holds:
        raise CheckpointError(f"{path} holds {told.get('holds')}, expected {holds}: {advice}")
    try:
        return tensors, parse_config(json.loads(told["config"])), json.loads(told["facts"])
    except (ConfigError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: its configuration cannot be read: {error}") from None


def is_weights_file(path: Path) -> bool:
    """By its name: a weights file, there or not, and no run folder."""
    return path.suffix == ".safetensors" and not path.is_dir()


def read_weights(path: Path, which: Which = "best") -> tuple[Path, Contents]:
    """The weights of a run folder, or of a weights file: its path and contents. Raises CheckpointError.

    which: where none was validated yet, the best is the last. A file that its run's pointer names is
    checked against it; another one has only its own structure.
    """
    if is_weights_file(path):
        return path, _read(path, "weights", _stored(path), "use another checkpoint")
    pointer = read_pointer(path)
    while True:
        try:
            return _read_kept(path, pointer, which)
        except CheckpointError:
            now = read_pointer(path)
            if now == pointer:
                raise
            pointer = now  # training went on meanwhile and deleted the older file


def _read_kept(run: Path, pointer: Pointer, which: Which) -> tuple[Path, Contents]:
    """The best or last weights that a pointer names."""
    update = pointer.last if which == "last" or pointer.best is None else pointer.best
    names = {kept.update: kept.weights_name() for kept in pointer.kept}
    stored = next(kept.weights for kept in pointer.kept if kept.update == update)
    path = run / FOLDER / names.pop(update)
    advice = "no other checkpoint is kept: train again"
    if names:
        advice = f"give -m {run / FOLDER / names[nearest(list(names), update)]}"
    return path, _read(path, "weights", stored, advice)


def _stored(path: Path) -> Stored | None:
    """What a run's pointer, where there is one, says of a weights file."""
    file = path.resolve()
    with contextlib.suppress(CheckpointError):  # a damaged pointer is no reason to refuse a file
        for kept in read_pointer(file.parent.parent).kept if file.parent.name == FOLDER else []:
            if kept.weights_name() == file.name:
                return kept.weights
    return None


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


def read_config(run: Path) -> Config:
    """The resolved configuration of a run folder."""
    path = run / CONFIG
    if not path.is_file():
        raise CheckpointError(f"{run} is not a run folder: it has no {CONFIG}")
    try:
        return parse_config(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def load_run(path: Path, device: torch.device, which: Which = "best") -> Loaded:
    """The model of a run folder, its best checkpoint unless told otherwise, or of a weights file."""
    config = None if is_weights_file(path) else read_config(path)
    file, (tensors, saved, facts) = read_weights(path, which)
    if config is not None and saved.model != config.model:
        arch, expected = (architecture(c.model) for c in (saved, config))
        raise CheckpointError(
            f"{file} holds another model ({arch}) than {path / CONFIG} describes ({expected}):"
            " put the file back where it came from"
        )
    model = build_model(saved.model)
    load_weights(model, tensors, file)
    return Loaded(model.to(device).eval(), config or saved, facts)


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
