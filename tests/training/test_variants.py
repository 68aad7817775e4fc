"""Trainings of model variants: stopped and resumed to the bit, with lines decoded on the way; and those
refused that a recurrent ByteNet cannot have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import CPU, assert_same, config, weights

from bytenmt.config.schema import Config
from bytenmt.data.corpus import PairFiles
from bytenmt.errors import BytenmtError
from bytenmt.training.run import train

CONVS2S = {
    "waves": ["positions=sinusoidal", "attention_layers=[2]", "attention_scaling=none"],
    "plain": ["weight_norm=false", "decoder_dilations=[1,3]", "encoder_dilations=[2]"],
    "pooling": ["encoder=pooling", "encoder_layers=[]"],
    "conv": ["encoder=conv", "value_layers=[[12,3]]"],
}
RECURRENT = {"decoder": ["recurrent=decoder"], "both": ["recurrent=both", "dilations=[]", "kernel_width=3"]}
CASES = [("convs2s", settings, ()) for settings in CONVS2S.values()]
CASES += [("bytenet", settings, ()) for settings in RECURRENT.values()]
CASES.append(("convs2s", CONVS2S["conv"], ("train.optimizer=muon",)))
CASES.append(("bytenet", RECURRENT["both"], ("train.optimizer=muon",)))
ALONE = ("model.source=false", "model.recurrent=decoder", "model.dilations=[]", "model.block=relu")
STREAM = ("train.context=0", "train.window=16")


def make_config(arch: str, settings: list[str], more: tuple[str, ...], n_updates: int) -> Config:
    return config(
        arch, "train.schedule=constant", *(f"model.{one}" for one in settings), *more,
        f"train.max_updates={n_updates}",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "settings", "more"), CASES)
def test_resumed_to_the_bit(
    arch: str, settings: list[str], more: tuple[str, ...], texts: dict[str, Any], tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole, make_config(arch, settings, (*more, "train.valid_lines=2"), 6), **texts, device=CPU)
    train(parts, make_config(arch, settings, (*more, "train.valid_lines=2"), 3), **texts, device=CPU)
    train(
        parts,
        make_config(arch, settings, (*more, "train.valid_lines=2"), 6),
        **texts,
        device=CPU,
        resume=True,
    )
    assert_same(weights(whole), weights(parts))


@pytest.mark.slow
def test_a_recurrent_language_model_carries_its_state(texts: dict[str, Any], tmp_path: Path) -> None:
    """The state is carried from window to window and survives a resumption, as in the recurrent
    architectures.
    """
    text = PairFiles(tgt=texts["files"][0].tgt)
    streams: dict[str, Any] = {"files": [text], "valid": text, "device": CPU}
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole, make_config("bytenet", [], (*ALONE, *STREAM), 6), **streams)
    train(parts, make_config("bytenet", [], (*ALONE, *STREAM), 3), **streams)
    train(parts, make_config("bytenet", [], (*ALONE, *STREAM), 6), **streams, resume=True)
    assert_same(weights(whole), weights(parts))
    assert any(name.startswith("trainer.state.") for name in weights(parts))
    with pytest.raises(BytenmtError, match='bytenet with recurrent = "decoder" carries its state'):
        train(tmp_path / "no", make_config("bytenet", [], (*ALONE, "train.context=9"), 3), **streams)
