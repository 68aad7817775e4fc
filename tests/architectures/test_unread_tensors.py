"""Architectures whose module has tensors that its program does not read, or others.

Tests checkpoints/checkpoint.py, which refuses to store them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import CPU, forget_architecture
from torch import nn

from bytenmt.architectures.luong.config import LuongConfig
from bytenmt.architectures.luong.model import Luong
from bytenmt.architectures.luong.program import write_program
from bytenmt.architectures.model_program import ModelProgram, ModelWriter
from bytenmt.architectures.registry import register
from bytenmt.checkpoints.weights import read_run
from bytenmt.config.schema import load_config
from bytenmt.errors import BytenmtError
from bytenmt.training.run import train

SIZES = {"model": {"d_embedding": 8, "d_hidden": 12, "dropout": 0.2}}


class HeadedConfig(LuongConfig, frozen=True, kw_only=True, tag="headed"):
    """The configuration of Headed."""


class Headed(Luong):
    """A model with an auxiliary head, which decoding does not need."""

    def __init__(self, config: HeadedConfig) -> None:
        super().__init__(config)
        self.extra = nn.Linear(3, 3)
        self.register_buffer("scratch", torch.zeros(1), persistent=False)


class Counting(Luong):
    """A model with a persistent buffer."""

    def __init__(self, config: HeadedConfig) -> None:
        super().__init__(config)
        self.register_buffer("n_updates", torch.zeros(()))


def contradictory(config: HeadedConfig, writer: ModelWriter) -> ModelProgram:
    raise ValueError("hidden is 3 x 4")


def reads(name: str) -> Callable[[Any, ModelWriter], ModelProgram]:
    """Return a writer whose program also reads a vector of four numbers."""

    def write(config: HeadedConfig, writer: ModelWriter) -> ModelProgram:
        writer.encode.vector(name, 4)
        return write_program(config, writer)

    return write


def run_training(model: Any, program: Any, folder: Path, texts: dict[str, Any]) -> None:
    """Register an architecture, train it for an update, and forget it."""
    register(HeadedConfig, model, {"small": SIZES}, program)
    limits = ["train.max_tokens=200", "train.valid_lines=2", "train.max_updates=1"]
    try:
        train(folder, load_config("headed", None, limits), **texts, device=CPU)
        if program is None:
            assert "extra.weight" in read_run(folder)[1].arrays
    finally:
        forget_architecture("headed")


@pytest.mark.slow
def test_without_a_program_all_parameters_are_stored(tmp_path: Path, texts: dict[str, Any]) -> None:
    run_training(Headed, None, tmp_path / "run", texts)


@pytest.mark.parametrize(
    ("model", "program", "message"),
    [
        (Headed, write_program, r"extra\.bias cannot be stored"),
        (Luong, reads("nothing"), "nothing cannot be stored"),
        (Luong, reads("keys.bias"), r"keys\.bias cannot be stored"),
        (Counting, write_program, "n_updates cannot be stored.*persistent=False"),
        (Counting, None, "n_updates cannot be stored"),
        (Luong, contradictory, "hidden is 3 x 4"),
    ],
)
def test_what_could_not_be_read_again_is_refused(
    tmp_path: Path, texts: dict[str, Any], model: Any, program: Any, message: str
) -> None:
    with pytest.raises(BytenmtError, match=message) as error:
        run_training(model, program, tmp_path / "run", texts)
    assert "\n" not in str(error.value)
