"""Test the variants of Luong's attention: location, windows, Gaussians, all columns at once, and none."""

from typing import Any

import invariants
import pytest
import torch
from invariants import VARIANTS, assert_same, build
from torch import Tensor

SMALL = VARIANTS["luong-local-p"] | {"score": "general"}
LENGTHS = [14, 3, 9]
T = 10  # target bytes


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    """Three sources of LENGTHS and as many targets."""
    return (*invariants.some_sources(LENGTHS), invariants.some_inputs(3, T))


def model_with(**options: Any) -> Any:
    """A model with these options beside those of SMALL, and large weights."""
    return build(SMALL | options, seed=6, scale=1.0)


def given_the_same(other: Any, **options: Any) -> Any:
    """Another model with the weights that it shares with a given one."""
    model = model_with(**options)
    model.load_state_dict(other.state_dict(), strict=False)
    return model


@torch.no_grad()
def weights_of(model: Any) -> Tensor:
    """Attention's weights (3, T, longest source), in the text's order."""
    src, src_len, tgt = inputs()
    memory = model.encode(src, src_len)
    found: Tensor = model.forward_aligned(tgt, memory, model.start(memory))[2][1]
    return found


def by_location(**options: Any) -> Any:
    return model_with(
        attention="global", attention_window=0, **{"score": "location", "n_locations": 7} | options
    )


def test_locations_are_one_softmax() -> None:
    """The rows add up to 1, over the source's bytes that there is a score for; a softmax of a softmax is
    nearly even: no weight is e times another."""
    once, twice = by_location(), by_location(location_softmax="twice")
    for weights in map(weights_of, (once, twice)):
        assert_same(weights.sum(dim=-1), torch.ones(3, T).double(), "sums")
        for row, length in zip(weights, LENGTHS, strict=True):
            assert bool((row[:, : min(7, length)] > 0).all()) and not bool(row[:, min(7, length) :].any())
    ratios = [(row.max() / row.min()).item() for row in (weights_of(m)[0, :, :7] for m in (once, twice))]
    assert ratios[0] > 20 and ratios[1] < 2.719


def test_a_gaussian_after_the_softmax_is_another_one_than_inside() -> None:
    """After it the weights fade and are not normalised again: the same softmax times exp(-2 x^2 / D^2) of the
    distance x. Inside a distant byte's score goes to 0, and they add up to 1."""
    plain = model_with(gaussian="inside", input_feeding=False)
    after = given_the_same(plain, gaussian="after", input_feeding=False)
    auto = given_the_same(plain, input_feeding=False)
    assert torch.equal(weights_of(after), weights_of(auto))
    inside, faded = weights_of(plain), weights_of(after)
    assert_same(inside.sum(dim=-1), torch.ones(3, T).double(), "sums inside")
    sums = faded.sum(dim=-1)
    assert bool((sums < 0.999).any()) and bool((sums > 0).all()) and bool((sums <= 1 + 1e-12).all())
    assert float((inside - faded).abs().max()) > 0.05


LOCATION = {"score": "location", "n_locations": 7, "attention": "local-m"}


@pytest.mark.parametrize(
    ("options", "learnt"),
    [
        ({"gaussian": "after"}, ["position.hidden.weight", "position.v"]),
        ({"gaussian": "inside"}, ["position.hidden.weight", "position.v"]),
        (LOCATION, ["location.weight"]),
        (LOCATION | {"location_softmax": "twice", "input_feeding": False}, ["location.weight"]),
    ],
)
def test_where_to_look_is_learnt(options: dict[str, Any], learnt: list[str]) -> None:
    """The gradients are the change of the loss; W_p's and v_p's, where no byte enters or leaves a window, are
    through the Gaussian alone."""
    model = model_with(**{"attention_window": 4} | options)
    src, src_len, tgt = inputs()

    def loss() -> Tensor:
        memory = model.encode(src, src_len)
        return model(tgt, memory, model.start(memory))[0].log_softmax(dim=-1)[..., 70].sum()

    loss().backward()
    for parameter in map(model.decoder.get_parameter, learnt):
        assert float(parameter.grad.abs().max()) > 1e-3
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for i in range(0, len(flat), 5):
            values = []
            for step in (1e-6, -1e-6):
                flat[i] += step
                with torch.no_grad():
                    values.append(float(loss()))
                flat[i] -= step
            assert float(gradient[i]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4, abs=1e-6)


def test_additive_scores_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computing the scores in parts, to limit memory, gives the same scores."""
    model = build(VARIANTS["luong-concat"])
    expected = invariants.whole(model, *inputs())
    monkeypatch.setattr("bytenmt.layers.attention.NUMBERS", 1)
    assert_same(invariants.whole(model, *inputs()), expected, "parts")
