"""The parameters told from a configuration are those of the model that PyTorch builds, and what they need."""

from __future__ import annotations

import pytest
import torch
from variants import OPTIONS

from bytenmt.config.presets import PRESETS
from bytenmt.config.schema import Config, load_config, parse_config
from bytenmt.models import build_model
from bytenmt.models.tree import tensors
from bytenmt.storage.needs import decoder_weights, receptive_field, state_bytes, step_cost
from bytenmt.storage.parameters import is_matrix, n_parameters, parameter_shapes


def check_parameters(config: Config) -> None:
    with torch.device("meta"):
        model = build_model(config.model)
    built = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert parameter_shapes(config.model) == built
    assert n_parameters(config.model) == sum(parameter.numel() for parameter in model.parameters())
    assert not model.state_dict().keys() - built.keys() - {"decoder.output.weight"}  # a tied one


@pytest.mark.parametrize("name", OPTIONS)
def test_names_and_shapes_are_those_of_the_model(name: str) -> None:
    """Every architecture with every option."""
    check_parameters(parse_config({"model": OPTIONS[name]}))


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("source", ["true", "false"])
def test_presets_too(preset: str, source: str) -> None:
    """Of every size, with a source and without."""
    for arch in PRESETS[preset]:
        check_parameters(load_config(arch, preset, "", ["model.source=false"] if source == "false" else []))


@pytest.mark.parametrize("name", OPTIONS)
def test_a_step_costs_what_the_model_says(name: str) -> None:
    """At sources of any length."""
    config = parse_config({"model": OPTIONS[name]}).model
    with torch.device("meta"):
        model = build_model(config)
    assert decoder_weights(config) == model.decoder_weights()
    assert receptive_field(config) == model.receptive_field()
    for source_bytes in (0, 1, 7, 100, 10_000):
        assert step_cost(config, source_bytes) == model.step_cost(source_bytes)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_state_is_as_large_as_it_says(name: str) -> None:
    """All that a row's state keeps as numbers."""
    config = parse_config({"model": OPTIONS[name]})
    model = build_model(config.model)
    ids = torch.zeros(1, 0 if not config.model.source else 1, dtype=torch.uint8)
    state = model.start(model.encode(ids, torch.full((1,), ids.shape[1])))
    numbers = sum(part.numel() for part in tensors(state) if part.is_floating_point())
    assert state_bytes(config.model) == 4 * numbers


def test_tables_and_vectors_are_no_matrices() -> None:
    """What stays float32 in a converted file."""
    shapes = parameter_shapes(load_config("convs2s", "small", "", []).model)
    others = {name for name, shape in shapes.items() if not is_matrix(name, shape)}
    assert {"embedding.weight", "target_positions.weight", "encoder.positions.weight"} <= others
    assert all(
        len(shapes[name]) == 1 or name.endswith(("embedding.weight", "positions.weight")) for name in others
    )
