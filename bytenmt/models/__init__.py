"""The architectures by name, and `register`, which adds one: see docs/adding-an-architecture.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bytenmt.config import registry
from bytenmt.config.schema import ModelConfig, ModelSection, architecture
from bytenmt.models.bahdanau import Bahdanau
from bytenmt.models.base import Model
from bytenmt.models.bytenet import ByteNet
from bytenmt.models.convs2s import ConvS2S
from bytenmt.models.luong import Luong
from bytenmt.models.seq2seq import Seq2Seq

MODELS: dict[str, Any] = {
    "seq2seq": Seq2Seq,
    "bahdanau": Bahdanau,
    "luong": Luong,
    "bytenet": ByteNet,
    "convs2s": ConvS2S,
}


def register(
    section: type[ModelSection],
    model: Callable[[Any], Model[Any, Any]],
    presets: Mapping[str, Mapping[str, Any]],
) -> None:
    """Add an architecture: all that reads configurations and weights knows it from then on, and every engine
    that runs a model runs it; the CPU engine, which needs a program, leaves it to plain PyTorch.

    section: its configuration, a frozen ModelSection with a tag, which is the architecture's name; model:
    makes it of one; presets: see registry.register. Raises ValueError for a name that is taken.
    """
    registry.register(section, presets)
    MODELS[str(section.__struct_config__.tag)] = model


def build_model(config: ModelConfig) -> Model[Any, Any]:
    """A freshly initialised model of the configured architecture."""
    model: Model[Any, Any] = MODELS[architecture(config)](config)
    return model
