"""Parameters and costs from a configuration are those of the model that PyTorch builds.

Tests architectures/parameters.py (parameter_shapes, n_parameters, is_matrix, state_bytes,
step_cost).
"""

from typing import Any

import pytest
import torch
from fast_variants import by_variant
from variants import OPTIONS

from bytenmt.architectures.parameters import (
    decoder_weights,
    model_program,
    n_parameters,
    parameter_shapes,
    state_bytes,
    step_cost,
)
from bytenmt.architectures.registry import build_model
from bytenmt.architectures.section import architecture
from bytenmt.architectures.tensor_tree import tensors
from bytenmt.config.schema import parse_config
from bytenmt.program.writer import WeightSink, parameter


def attention_products(config: Any, source_bytes: int) -> int:
    """The multiply-accumulates of a step's attentions, by the papers' equations: a score of each
    column that is seen, and a sum of as many values."""
    arch = architecture(config)
    if not config.source:
        return 0
    if arch == "bahdanau":
        return source_bytes * (config.d_attention + 2 * config.d_hidden)
    if arch == "convs2s":
        return 2 * source_bytes * config.d_embedding * sum(config.attends)
    if arch != "luong" or config.attention == "off":
        return 0
    seen = min(source_bytes, 2 * config.window + 1) if config.is_local else source_bytes
    if config.score == "location":  # its scores are a product of the decoder's
        return min(seen, config.n_locations) * config.d_hidden
    return 2 * seen * config.d_hidden


@by_variant("name", OPTIONS)
def test_what_is_told_is_the_models(name: str) -> None:
    """Names, shapes and costs, at sources of any length, are the module's."""
    config = parse_config({"model": OPTIONS[name]}).model
    with torch.device("meta"):
        model = build_model(config)
    built = {name: tuple(part.shape) for name, part in model.named_parameters()}
    assert parameter_shapes(config) == built
    assert n_parameters(config) == sum(part.numel() for part in model.parameters())
    assert not model.state_dict().keys() - built.keys() - {"decoder.output.weight"}  # a tied one
    assert decoder_weights(config) == sum(part.numel() for part in model.decoder.parameters())
    program = model_program(config)
    if program is None:
        return
    nothing = (
        torch.zeros(1, 0, dtype=torch.uint8, device="meta"),
        torch.zeros(1, dtype=torch.int64, device="meta"),
    )
    state = tensors(model.start(model.encode(*nothing)))
    assert state_bytes(program) == 4 * sum(
        part.numel() for part in state if part.is_floating_point()
    )
    matrices = sum(part.numel() for part in model.decoder.parameters() if part.dim() > 1)
    for source_bytes in (0, 1, 7, 100, 10_000):
        assert step_cost(config, source_bytes) == matrices + attention_products(
            config, source_bytes
        )


def test_a_program_that_contradicts_itself_is_refused() -> None:
    """A parameter has one shape."""
    weights = WeightSink()
    weights.vector(parameter("bias", 3))
    with pytest.raises(ValueError, match="bias is read as"):
        weights.matrix(parameter("bias", 3, 1))
