"""A model made wider: the same function in a preset's sizes, and what cannot be made so is told in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_up_engine import make_run, small_config, small_model

from bytenmt.architectures.base import Model
from bytenmt.checkpoints.checkpoint import load_run, weights, write_weights
from bytenmt.config.facts import Facts
from bytenmt.config.schema import (
    parse_config,
)
from bytenmt.config.tree import (
    preset_tree,
)
from bytenmt.utf8 import BOS, EOS
from tools.bench import widen  # noqa: E402

CPU = torch.device("cpu")
KERNEL = "model.kernel_width=3"
BYTENET = ("model.d_channels=12", "model.n_sets=2", "model.dilations=[1,4]", "model.d_embedding=10", KERNEL)
CONVS2S = ("model.decoder_layers=[[12,7],[12,7]]", "model.d_embedding=10", "model.n_positions=9")
SOURCE = "model.encoder_layers=[[8,7],[8,7],[8,7]]"
ALONE = "model.source=false"
KINDS = {
    "bytenet": ("bytenet", BYTENET),
    "bytenet-alone": ("bytenet", (*BYTENET, ALONE, 'model.block="relu"')),
    "bytenet-add": (
        "bytenet",
        (*BYTENET, 'model.stacking="add"', "model.n_encoder_sets=1", "model.encoder_dilations=[2,16,8]"),
    ),
    "bytenet-shallow": ("bytenet", (*BYTENET, "model.n_decoder_sets=1")),
    "multiplicative": ("bytenet", (*BYTENET, 'model.block="multiplicative"')),
    "multiplicative-alone": ("bytenet", (*BYTENET, ALONE)),
    "convs2s": ("convs2s", (*CONVS2S, SOURCE)),
    "convs2s-alone": ("convs2s", (*CONVS2S, ALONE, "model.encoder_layers=[]")),
    "convs2s-tied": ("convs2s", (*CONVS2S, SOURCE, "model.tie_embedding=true")),
}
TEXT = "what all of them read: 한국어, ä, \x00".encode()


@torch.no_grad()
def logits(model: Model[Any, Any]) -> np.ndarray:
    """(2, bytes + 1, 256) after two sources of different lengths, where the model has them."""
    longer, shorter = [*TEXT[:24], EOS], [*TEXT[-9:], EOS]
    src = torch.tensor([longer, shorter + [0] * (len(longer) - len(shorter))], dtype=torch.uint8)
    src_len = torch.tensor([len(longer), len(shorter)])
    if not model.config.source:
        src, src_len = src[:, :0], src_len * 0
    memory = model.encode(src, src_len)
    return model(torch.tensor([[BOS, *TEXT]] * 2, dtype=torch.uint8), memory, model.start(memory))[0].numpy()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_wider_model_computes_what_it_did(tmp_path: Path, kind: str, capsys: Any) -> None:
    """Random weights, biases and norms, through the file that it writes."""
    arch, settings = KINDS[kind]
    run, output = tmp_path / "run.safetensors", tmp_path / "wide.safetensors"
    model = small_model(arch, 1, *settings).float()
    with torch.no_grad():
        for name, length in model.named_parameters():
            if name.endswith(".g"):
                length *= 5  # or what a first layer does hardly reaches the logits
    write_weights(run, weights(model), small_config(arch, *settings), Facts(update=70))
    widen.main([str(run), "-o", str(output), "--preset", "small"])
    before, after = load_run(run, CPU), load_run(output, CPU)
    expected, found = logits(before.model), logits(after.model)
    assert expected.std(axis=1).min() > 0.1  # over the text
    assert np.abs(found - expected).max() < 1e-4 * max(1, np.abs(expected).max())

    wanted = parse_config(preset_tree(arch, "small", "alone" not in kind)).model
    got = after.config.model
    assert got.d_embedding == wanted.d_embedding
    if arch == "convs2s":
        assert (got.encoder_layers, got.decoder_layers) == (wanted.encoder_layers, wanted.decoder_layers)
    else:
        assert got.decoder_schedule == wanted.decoder_schedule
        assert got.encoder_schedule == (wanted.encoder_schedule if got.source else ())
        assert 0 <= wanted.d_channels - got.d_channels < 12 and got.d_channels % 12 == 0
    assert after.config.train == before.config.train and after.facts == before.facts
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and "apart" in told.err


@pytest.mark.parametrize(
    ("arch", "settings", "line"),
    [
        ("luong", (), "a luong cannot be made wider: give a run of bytenet or convs2s"),
        ("bytenet", ("model.d_channels=200", KERNEL), "preset small has 160 channels, the run 200"),
        ("bytenet", ("model.dilations=[1,3]", KERNEL), "preset small has encoder dilations [1, 2, 4,"),
        ("bytenet", ("model.kernel_width=5",), "preset small has kernels of 3, the run 5"),
        ("bytenet", ("model.tie_embedding=true", KERNEL), "the run ties its output layer"),
        ("convs2s", ("model.d_embedding=300",), "preset small has embeddings of 128, the run 300"),
        ("convs2s", ("model.weight_norm=false",), "a run with weight_norm = False cannot be made wider"),
        (
            "convs2s",
            ("model.encoder_layers=[[8,7]]",),
            "the run's decoder layers differ in width",
        ),
        (
            "convs2s",
            ("model.decoder_layers=[[8,5]]", "model.encoder_layers=[[8,7]]"),
            "preset small has 11 decoder layers of [128, 7], the run 1 decoder layers of [8, 5]",
        ),
    ],
)
def test_what_cannot_be_made_wider_is_told_in_a_line(
    tmp_path: Path, arch: str, settings: tuple[str, ...], line: str
) -> None:
    run, output = make_run(tmp_path / "run", arch, 1, settings), tmp_path / "wide.safetensors"
    with pytest.raises(SystemExit) as error:
        widen.main([str(run), "-o", str(output), "--preset", "small"])
    assert str(error.value).startswith(f"Error: {line}") and "\n" not in str(error.value)
    assert not output.exists()


@pytest.mark.parametrize(
    ("run", "output", "line"),
    [
        ("run", "wide", "give a name that ends in .safetensors"),
        ("run", "run/checkpoints.json/wide.safetensors", "cannot be created"),
        ("nothing", "wide.safetensors", "nothing is not a run folder"),
    ],
)
def test_a_wrong_name_is_told_in_a_line(tmp_path: Path, run: str, output: str, line: str) -> None:
    make_run(tmp_path / "run", "bytenet", 1)
    with pytest.raises(SystemExit) as error:
        widen.main([str(tmp_path / run), "-o", str(tmp_path / output), "--preset", "small"])
    assert line in str(error.value) and "\n" not in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
