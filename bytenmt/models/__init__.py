"""The five architectures by name."""

from __future__ import annotations

from typing import Any

from bytenmt.config.schema import ModelConfig, architecture
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


def build_model(config: ModelConfig) -> Model[Any, Any]:
    """A freshly initialised model of the configured architecture."""
    model: Model[Any, Any] = MODELS[architecture(config)](config)
    return model
