"""Trainings of a few thousand weights that end in a moment, and what they leave."""

from __future__ import annotations

from pathlib import Path

import torch

from bytenmt.config.schema import Config, load_config
from bytenmt.storage.checkpoint import load_checkpoint

CPU = torch.device("cpu")
SMALL: dict[str, list[str]] = {
    "seq2seq": ["model.d_hidden=16"],
    "bahdanau": ["model.d_hidden=12", "model.d_attention=8", "model.d_maxout=8"],
    "luong": ["model.d_hidden=12"],
    "bytenet": ["model.d_channels=8", "model.n_sets=1", "model.dilations=[1,2]"],
    "convs2s": ["model.encoder_layers=[[12,3]]", "model.decoder_layers=[[12,3],[12,3]]"],
}


def config(arch: str, *settings: str) -> Config:
    """A model of a few thousand weights, with dropout, so that random states matter."""
    common = ["model.d_embedding=8", "model.dropout=0.2", "train.max_tokens=200"]
    common += [
        "train.valid_lines=4",
        "train.save_every=3",
        "train.valid_every=4",
        "train.log_every=1",
        "train.precision=fp32",
    ]
    return load_config(arch, "tiny", "", [*common, *SMALL[arch], *settings])


def weights(run: Path) -> dict[str, torch.Tensor]:
    """All tensors of the last checkpoint."""
    saved = load_checkpoint(run)
    return saved.weights | {f"trainer.{name}": tensor for name, tensor in saved.trainer.items()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def contents(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
