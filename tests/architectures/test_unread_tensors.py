"""Architectures whose module has parameters and buffers that its program does not read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import CPU, assert_same, forget_architecture, weights
from torch import Tensor, nn

from bytenmt.api.runs import Run
from bytenmt.architectures.luong.config import LuongConfig
from bytenmt.architectures.luong.model import Luong
from bytenmt.architectures.luong.program import write_program
from bytenmt.architectures.model_program import ModelProgram, ModelWriter
from bytenmt.architectures.registry import register
from bytenmt.checkpoints.checkpoint import read_weights
from bytenmt.checkpoints.quantize import convert
from bytenmt.config.schema import Config, load_config
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError
from bytenmt.training.run import train
from tools.average import average

SIZES = {"model": {"d_embedding": 8, "d_hidden": 12, "dropout": 0.2}}
BUFFERS = {"n_updates", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "mask", "table"}


class HeadedConfig(LuongConfig, frozen=True, kw_only=True, tag="headed"):
    """The configuration of Headed."""


class Headed(Luong):
    """A model with an auxiliary head and buffers, which decoding does not need."""

    def __init__(self, config: HeadedConfig) -> None:
        super().__init__(config)
        self.extra = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("n_updates", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.full((2, 2), -torch.inf).triu(1))
        self.register_buffer("table", torch.arange(6.0).view(2, 3) / 7)
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, tgt: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        if self.training:
            self.n_updates += 1
            self.norm(self.extra(torch.randn(4, 3)))
        return super().forward(tgt, memory, state)


@pytest.fixture
def headed() -> Iterator[None]:
    """The architecture, registered for the length of a test."""
    register(HeadedConfig, Headed, {"small": SIZES}, write_program)
    yield
    forget_architecture("headed")


def config(*settings: str) -> Config:
    common = ["train.max_tokens=200", "train.valid_lines=2", "train.valid_every=2", "train.precision=fp32"]
    return load_config("headed", None, [*common, "train.max_updates=2", *settings])


@pytest.mark.slow
def test_they_are_stored_and_restored(headed: None, tmp_path: Path, texts: dict[str, Any]) -> None:
    """A resumed run has the buffers of an uninterrupted one; all that reads a run reads this one."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for run, limit in ((whole, 6), (parts, 3), (parts, 6)):
        settings = [f"train.max_updates={limit}", "train.ema=0.9", "train.schedule=constant"]
        train(run, config(*settings), **texts, device=CPU, resume=run == parts)
    assert_same(weights(whole), weights(parts))
    saved = read_weights(whole, "last")[1][0]
    assert saved.keys() >= BUFFERS | {"extra.weight"} and "scratch" not in saved
    assert saved["n_updates"] == 6 == saved["norm.num_batches_tracked"]
    assert saved["norm.running_mean"].abs().sum() > 0
    model = Run(whole).model()
    assert {name for name, _ in model.named_buffers()} == BUFFERS | {"scratch"}
    train(tmp_path / "own", config("train.max_updates=1"), **texts, device=CPU, init_from=whole)
    average([whole], tmp_path / "mean.safetensors")
    assert read_weights(tmp_path / "mean.safetensors")[1][0]["n_updates"] == 6
    for precision in ("fp32", "int8"):
        convert(whole, tmp_path / f"{precision}.safetensors", precision)
        converted = read_weights(tmp_path / f"{precision}.safetensors")[1][0]
        assert_same(
            {name: converted[name] for name in BUFFERS},
            {name: read_weights(whole)[1][0][name] for name in BUFFERS},
        )
    for file in ("whole", "own", "mean.safetensors", "int8.safetensors"):
        for engine in ("torch", "numba") if file == "whole" else ("torch",):
            assert Translator.load(tmp_path / file, engine=engine, device="cpu", max_len_b=3).translate(
                ["a b"]
            )


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("extra.bias", (4,), r"reads extra\.bias as \(4,\), but the module has the shape \(3,\)"),
        ("nothing", (4,), "reads nothing as .*, but the module has no such tensor"),
        ("norm.running_mean", (4,), r"but the module has the shape \(3,\)"),
        ("", (), "hidden is 3 x 4"),
    ],
)
def test_a_program_that_reads_other_tensors(
    tmp_path: Path, texts: dict[str, Any], name: str, shape: tuple[int, ...], message: str
) -> None:
    def wrong(config: HeadedConfig, writer: ModelWriter) -> ModelProgram:
        if name:
            writer.encode.vector(name, *shape)
        else:
            raise ValueError("hidden is 3 x 4")
        return write_program(config, writer)

    register(HeadedConfig, Headed, {"small": SIZES}, wrong)
    try:
        with pytest.raises(BytenmtError, match=message) as error:
            train(tmp_path / "run", config(), **texts, device=CPU)
        assert "\n" not in str(error.value)
    finally:
        forget_architecture("headed")
