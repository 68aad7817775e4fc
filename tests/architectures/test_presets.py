"""Sizes of the presets.

Tests architectures/presets.py (PRESETS, WITHOUT_SOURCE) and config/schema.py (fingerprint).
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from bytenmt.architectures.base import Model
from bytenmt.architectures.convs2s.config import ConvS2SConfig
from bytenmt.architectures.parameters import decoder_weights
from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import ARCHITECTURES, build_model
from bytenmt.architectures.seq2seq.config import Seq2SeqConfig
from bytenmt.config.schema import fingerprint, load_config
from bytenmt.training.arguments import configuration

# Decoder weights of each preset.
NOMINAL = {"tiny": 0.6e6, "small": 3e6, "base": 10e6, "fast": 3.3e6, "large": 25e6}


def on_meta(arch: str, preset: str, *settings: str) -> Model[Any, Any]:
    """A preset's model without its numbers."""
    with torch.device("meta"):
        return build_model(load_config(arch, preset, settings).model)


@pytest.mark.slow
@pytest.mark.parametrize("preset", NOMINAL)
def test_decoder_weights(preset: str) -> None:
    """All within 20 % of each other and of the preset's nominal size, with a source and without;
    tiny never above a million, base without a source at most 11 million in all. One width of
    embeddings, so that a table can be handed from one model to another."""
    weights, widths = {}, set()
    for arch in ARCHITECTURES:
        model, alone = on_meta(arch, preset), on_meta(arch, preset, "model.source=false")
        weights[arch] = decoder_weights(model.config)
        assert weights[arch] == pytest.approx(NOMINAL[preset], rel=0.2), arch
        assert decoder_weights(alone.config) == pytest.approx(NOMINAL[preset], rel=0.2), arch
        assert preset != "base" or sum(p.numel() for p in alone.parameters()) <= 11e6
        widths |= {model.config.d_embedding, alone.config.d_embedding}
    assert max(weights.values()) <= 1.2 * min(weights.values()) and len(widths) == 1
    assert preset != "tiny" or max(weights.values()) <= 1e6


@pytest.mark.slow
@pytest.mark.parametrize("preset", NOMINAL)
@pytest.mark.parametrize("arch", ["convs2s", "bytenet"])
def test_receptive_field_is_wide_enough_for_bytes(arch: str, preset: str) -> None:
    """At least 60 bytes; of tiny's ConvS2S, which attends and whose few layers are wide, 25."""
    field = on_meta(arch, preset).config.receptive_field
    assert field is not None and field >= (25 if (arch, preset) == ("convs2s", "tiny") else 60)


@pytest.mark.slow
def test_papers_receptive_fields() -> None:
    """ByteNet's formula 1 + sum (k-1) r over 6 sets of 1..16; ConvS2S' 13 layers of kernel 3."""
    assert on_meta("bytenet", "paper").config.receptive_field == 373
    assert on_meta("convs2s", "paper").config.receptive_field == 27
    assert on_meta("luong", "paper").config.receptive_field is None


def test_chos_model_is_that_of_1406_1078() -> None:
    """Version 3: reset before the product in the encoder, after it and with the context in the
    decoder; 500 maxout units; the source read forwards, and seen at every step."""
    model = on_meta("seq2seq", "paper")
    config = model.config
    assert isinstance(config, Seq2SeqConfig) and config.reset_context
    assert config.encoder_options.reset == "before" and config.decoder_options.reset == "after"
    assert config.context == "every_step" and not config.reverse_source
    assert dict(model.named_parameters())["decoder.output.weight"].shape == (256, 500)


def test_the_fingerprint_is_that_of_all_settings() -> None:
    configs = [load_config("luong", "tiny", [f"train.seed={seed}"]) for seed in (7, 8, 7)]
    first, second, third = map(fingerprint, configs)
    assert first == third != second


def test_dilations_of_a_preset_go_with_its_layers() -> None:
    """Other layers are not dilated, unless their dilations are given too."""
    layers = "model.decoder_layers=[[8,3],[8,3]]"
    for settings, expected in (
        ([], (1, 2, 4, 8)),
        ([layers], ()),
        ([layers, "model.decoder_dilations=[1,3]"], (1, 3)),
    ):
        model = load_config("convs2s", "tiny", settings).model
        assert isinstance(model, ConvS2SConfig) and model.decoder_dilations == expected


def test_presets_are_not_shared() -> None:
    before = repr(PRESETS)
    load_config("convs2s", "tiny", ["train.lr=0.5", "model.dropout=0.9"])
    assert repr(PRESETS) == before


RECIPES = {
    "seq2seq": ("adadelta", 1.0, "constant"),
    "bahdanau": ("adadelta", 1.0, "constant"),
    "luong": ("sgd", 100.0, "halving"),
    "bytenet": ("adamw", 3e-4, "constant"),
    "convs2s": ("nag", 0.25, "plateau"),
    "transformer": ("adamw", 7e-4, "inverse_sqrt"),
}


@pytest.mark.parametrize("arch", RECIPES)
def test_a_paper_is_trained_as_it_was(arch: str) -> None:
    """Its optimiser, rate and schedule, without decay, for any device; without a source none of
    these is taken over."""
    train = load_config(arch, "paper", []).train
    assert (train.optimizer, train.lr, train.schedule) == RECIPES[arch]
    assert train.weight_decay == 0.0
    on_gpu = configuration(Path("new"), False, arch, "paper", None, {}, on_gpu=True)
    assert on_gpu.train == train
    alone = load_config(arch, "paper", ["model.source=false"]).train
    assert (alone.optimizer, alone.lr, alone.schedule) == ("adamw", 3e-4, "cosine")
    assert (alone.max_updates, alone.max_epochs, alone.weight_decay) == (20_000, 0.0, 0.01)
