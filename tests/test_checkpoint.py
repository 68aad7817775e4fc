"""Checkpoints: written whole or not at all, and refused by name when they are not what they should be."""

from pathlib import Path

import pytest
import torch

from bytenmt import checkpoint
from bytenmt.checkpoint import load_run, load_tensors, save_tensors, weights, write_atomically
from bytenmt.config import Config, config_toml, load_config
from bytenmt.errors import CheckpointError
from bytenmt.models import build_model

CPU = torch.device("cpu")


def make_run(run: Path, arch: str = "bytenet", *settings: str) -> Config:
    run.mkdir()
    config = load_config(arch, "tiny", "", settings)
    (run / "config.toml").write_text(config_toml(config))
    save_tensors(run / "best.safetensors", weights(build_model(config.model)), config, {"update": 3})
    return config


@pytest.mark.parametrize("tie", ["false", "true"])
def test_a_run_comes_back(tmp_path: Path, tie: str) -> None:
    """The same weights, tied ones still tied, in evaluation mode, with its configuration and facts."""
    config = make_run(tmp_path / "run", "bytenet", f"model.tie_embedding={tie}")
    loaded = load_run(tmp_path / "run", CPU)
    assert (loaded.config, loaded.facts, loaded.model.training) == (config, {"update": 3}, False)
    saved = load_tensors(tmp_path / "run" / "best.safetensors")[0]
    for name, tensor in weights(loaded.model).items():
        assert torch.equal(tensor, saved[name])
    tied = loaded.model.decoder.output.weight is loaded.model.embedding.weight
    assert tied == (tie == "true")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_cut_off_checkpoint_is_refused(tmp_path: Path, share: float) -> None:
    """However much of it is left."""
    make_run(tmp_path / "run")
    path = tmp_path / "run" / "best.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CheckpointError, match="best.safetensors is damaged or cut off"):
        load_run(tmp_path / "run", CPU)


def test_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    """Another architecture, another size, another program's file, another format."""
    make_run(tmp_path / "run")
    make_run(tmp_path / "other", "convs2s")
    own = tmp_path / "run" / "best.safetensors"
    own.write_bytes((tmp_path / "other" / "best.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match=r"another model \(convs2s\).*bytenet"):
        load_run(tmp_path / "run", CPU)
    config = load_config("bytenet", "tiny", "", [])
    larger = load_config("bytenet", "tiny", "", ["model.d_channels=100"])
    save_tensors(own, weights(build_model(larger.model)), config, {})
    with pytest.raises(CheckpointError, match="does not fit the model"):
        load_run(tmp_path / "run", CPU)
    own.write_bytes(__import__("safetensors.torch").torch.save({"a": torch.zeros(2)}))
    with pytest.raises(CheckpointError, match="not a bytenmt checkpoint"):
        load_run(tmp_path / "run", CPU)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk between the first byte and the last: the old file stands and nothing lies about."""
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
