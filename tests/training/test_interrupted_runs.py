"""Trainings that an earlier commit has interrupted are resumed as that commit would have resumed them.

tests/files/interrupted_runs.tar.xz was written by commit 8763f62: a translation run (n-gram tables, Muon,
moving average, noise and copying) and a language model, both saved after two updates; the texts that they
learn; and the weights that the same commit had after resuming them up to the fifth update.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import bytenmt
from bytenmt.checkpoints.weights import read_run

ARCHIVE = Path(__file__).parents[1] / "files" / "interrupted_runs.tar.xz"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["luong", "seq2seq"])
def test_an_earlier_interrupted_training_is_resumed(name: str, tmp_path: Path) -> None:
    """On one machine the bits are the same; another processor may sum in another order, hence a tolerance a
    thousand times smaller than the step of one update."""
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(tmp_path, filter="data")
    texts = tmp_path / "texts"
    files: dict[str, Any] = {"text": texts / "train.de", "valid_text": texts / "train.de"}
    if name == "luong":
        files = {"src": texts / "train.en", "tgt": texts / "train.de"}
        files |= {"valid_src": texts / "train.en", "valid_tgt": texts / "train.de"}
    options: dict[str, Any] = {"max_updates": 5, "log_every": 1, "precision": "fp32", "seed": 5}
    bytenmt.train(tmp_path / name, resume=True, device="cpu", threads=1, **files, **options)
    expected = load_file(tmp_path / f"{name}-whole.safetensors")
    weights = load_file(next((tmp_path / name / "checkpoints").glob("update-00000005.safetensors")))
    assert weights.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(weights[key], tensor, rtol=1e-5, atol=2e-7, msg=key)
    assert read_run(tmp_path / name)[1].facts.update == 5
