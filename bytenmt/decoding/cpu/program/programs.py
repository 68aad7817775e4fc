"""Which architectures have a program, and how a model's weights become one. Compiles nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bytenmt.config.schema import ModelConfig, architecture
from bytenmt.decoding.cpu.program.bytenet import bytenet
from bytenmt.decoding.cpu.program.convs2s import convs2s
from bytenmt.decoding.cpu.program.instructions import Tensors
from bytenmt.decoding.cpu.program.packed_model import PackedModel
from bytenmt.decoding.cpu.program.recurrent import bahdanau, luong
from bytenmt.decoding.cpu.program.seq2seq import seq2seq

PROGRAMS: Mapping[str, Callable[[Tensors, Any, str], PackedModel]] = {
    "seq2seq": seq2seq,
    "bahdanau": bahdanau,
    "luong": luong,
    "bytenet": bytenet,
    "convs2s": convs2s,
}


def has_program(config: ModelConfig) -> bool:
    """Whether the CPU engine can run a model."""
    return architecture(config) in PROGRAMS


def pack_model(tensors: Tensors, config: ModelConfig, precision: str) -> PackedModel:
    """A model's weights (float32, by its parameters' names) ready to run, in one of interface.PRECISIONS."""
    return PROGRAMS[architecture(config)](tensors, config, precision)
