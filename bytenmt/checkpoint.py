"""Weights and trainer state on disk: safetensors with the configuration inside, written atomically.

A run folder holds `config.toml`, `metrics.jsonl`, `best.safetensors` and `last.safetensors` (weights),
and `trainer.safetensors` (all that a resume needs, weights included, in one file, so that no moment of a
kill leaves halves that do not fit together).
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bytenmt.config import Config, architecture, config_tree, parse_config
from bytenmt.errors import CheckpointError, ConfigError
from bytenmt.models import build_model
from bytenmt.models.base import Model

FORMAT = "bytenmt 1"
CONFIG, METRICS = "config.toml", "metrics.jsonl"
BEST, LAST, TRAINER = "best.safetensors", "last.safetensors", "trainer.safetensors"


class Loaded(NamedTuple):
    """A model ready to use: in evaluation mode, on its device. facts: what was saved beside the weights
    (update, bits_per_byte, …)."""

    model: Model[Any, Any]
    config: Config
    facts: dict[str, Any]


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary name, sync, rename: a reader sees the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None


def save_tensors(path: Path, tensors: Mapping[str, Tensor], config: Config, facts: Mapping[str, Any]) -> None:
    """One safetensors file with the configuration and facts (JSON values) in its metadata."""
    metadata = {
        "format": FORMAT,
        "config": json.dumps(config_tree(config)),
        "facts": json.dumps(dict(facts)),
    }
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, safetensors.torch.save(on_cpu, metadata))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], Config, dict[str, Any]]:
    """The inverse of save_tensors. Raises CheckpointError for a file that is missing, cut off or foreign."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint; a run folder of `bytenmt train` is expected")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or cut off ({error}): use another checkpoint") from None
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a bytenmt checkpoint: its format is {metadata.get('format')!r}")
    try:
        config = parse_config(json.loads(metadata["config"]))
    except (ConfigError, KeyError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: its configuration cannot be read: {error}") from None
    return tensors, config, json.loads(metadata["facts"])


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


def load_run(run: Path, device: torch.device, which: str = BEST) -> Loaded:
    """The model of a run folder, its best checkpoint unless told otherwise."""
    config = read_config(run)
    path = run / which
    if not path.is_file():
        raise CheckpointError(f"{run} has no {which} yet: training has not saved anything there")
    tensors, saved, facts = load_tensors(path)
    if saved.model != config.model:
        arch, expected = (architecture(c.model) for c in (saved, config))
        raise CheckpointError(
            f"{path} holds another model ({arch}) than {run / CONFIG} describes ({expected}):"
            " put the file back where it came from"
        )
    model = build_model(config.model)
    load_weights(model, tensors, path)
    return Loaded(model.to(device).eval(), config, facts)


def load_embedding(model: Model[Any, Any], run: Path) -> None:
    """Start a model's byte embedding from the table of another run, of any architecture."""
    path = run / BEST
    table = load_tensors(path)[0].get("embedding.weight")
    own = model.embedding.weight
    if table is None or table.shape != own.shape:
        got = "none" if table is None else f"width {table.shape[1]}"
        raise CheckpointError(
            f"--init-embedding {run}: its table has {got}, this model's has width {own.shape[1]};"
            " use a run of the same preset"
        )
    with torch.no_grad():
        own.copy_(table)


def append_metrics(run: Path, record: Mapping[str, Any]) -> None:
    """One JSON line at the end of metrics.jsonl."""
    with open(run / METRICS, "ab") as file:
        file.write(msgspec.json.encode(record) + b"\n")


def cut_metrics(run: Path, update: int) -> None:
    """Keep the records up to an update: a resumed run writes the later ones again."""
    path = run / METRICS
    if path.is_file():
        kept = []
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                if line.endswith(b"\n") and json.loads(line)["update"] <= update:
                    kept.append(line)
            except (ValueError, KeyError):  # the last line of a killed run
                continue
        write_atomically(path, b"".join(kept))
