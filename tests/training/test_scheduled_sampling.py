"""Scheduled sampling (Bengio et al. 2015): its decays, the bytes that are read, and a resume in between."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import invariants
import pytest
import torch
from small_runs import CPU, assert_same, config, weights
from torch import Tensor

from bytenmt.checkpoints.manifest import METRICS
from bytenmt.config.schema import TrainConfig
from bytenmt.training import losses, translation_objective
from bytenmt.training.losses import draw_inputs, true_share
from bytenmt.training.run import train

DECAY = ["train.scheduled_sampling=linear", "train.sampling_slope=0.125", "train.sampling_floor=0.25"]
DECAY += ["train.own_bytes=drawn", "train.schedule='constant'"]


def shares_of(kind: Any, **options: Any) -> list[float]:
    """The share before each of 2,001 updates."""
    return [true_share(TrainConfig(scheduled_sampling=kind, **options), i) for i in range(2001)]


@pytest.mark.parametrize(("k", "slope", "floor"), [(0.0, 0.001, 0.0), (0.75, 0.002, 0.125), (1.5, 0.01, 0.0)])
def test_linear_decay(k: float, slope: float, floor: float) -> None:
    """max(floor, k - slope i), in exact fractions; k above 1 holds it at 1 for a while, and 0 is 1."""
    share = Fraction(k or 1.0)
    for found in shares_of("linear", sampling_k=k, sampling_slope=slope, sampling_floor=floor):
        expected = float(max(Fraction(floor), min(Fraction(1), share)))
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
        share -= Fraction(slope)


@pytest.mark.parametrize(("k", "floor"), [(0.999, 0.0), (0.5, 0.0), (0.99, 0.25)])
def test_exponential_decay(k: float, floor: float) -> None:
    """k^i as a running product, in 28 digits."""
    share = Decimal(1)
    for found in shares_of("exponential", sampling_k=k, sampling_floor=floor):
        assert found == pytest.approx(max(floor, float(share)), rel=1e-9)
        share *= Decimal(k)


@pytest.mark.parametrize(("k", "floor"), [(1.0, 0.0), (200.0, 0.0), (50.0, 0.1)])
def test_inverse_sigmoid_decay(k: float, floor: float) -> None:
    """k / (k + e^(i / k)), in 28 digits, where e^(1 / k) is multiplied up; half where i = k ln k."""
    grown, step = Decimal(1), (1 / Decimal(k)).exp()
    for found in shares_of("inverse_sigmoid", sampling_k=k, sampling_floor=floor):
        expected = Decimal(k) / (Decimal(k) + grown)
        assert found == pytest.approx(max(floor, float(expected)), rel=1e-9, abs=1e-300)
        grown *= step
    if k == 200:
        assert true_share(TrainConfig(scheduled_sampling="inverse_sigmoid", sampling_k=k), 1060) == (
            pytest.approx(0.5, abs=1e-3)
        )


def test_a_decay_never_overflows() -> None:
    """After any number of updates."""
    for kind, k in (("exponential", 0.5), ("inverse_sigmoid", 1.0)):
        options: Any = {"scheduled_sampling": kind, "sampling_k": k}
        assert 0 <= true_share(TrainConfig(**options), 10**9) < 1e-200
        assert true_share(TrainConfig(**options, sampling_floor=0.5), 10**9) == 0.5


@pytest.mark.parametrize("name", ["seq2seq-cho", "seq2seq-lstm", "bahdanau", "luong", "convs2s"])
def test_each_byte_that_is_read_is_the_true_one_or_the_models_own(name: str) -> None:
    """An own byte is the likeliest after all that was read before it, own bytes among it: teacher forcing of
    what was drawn tells each of them. Their share is what it should be."""
    model = invariants.make(name)
    src, src_len = invariants.some_sources([5, 9, 3, 7, 2, 4, 4, 8])
    true = invariants.some_inputs(8, 30)
    torch.manual_seed(0)
    with torch.no_grad():
        drawn = draw_inputs(model, model.encode(src, src_len), true, 0.6)
    likeliest = invariants.whole(model, src, src_len, drawn)[:, :-1].argmax(dim=-1).to(torch.uint8)
    own = drawn[:, 1:] == likeliest
    assert torch.equal(drawn[:, 0], true[:, 0])
    assert bool((own | (drawn[:, 1:] == true[:, 1:])).all())
    assert float(own.float().mean()) == pytest.approx(0.4, abs=0.1)
    before = invariants.whole(model, src, src_len, true)[:, :-1].argmax(dim=-1)
    assert not torch.equal(
        before.to(torch.uint8)[own], likeliest[own]
    )  # not of the true bytes: no two passes


def test_bytes_are_drawn_as_the_model_predicts_them() -> None:
    """The first own byte of many rows has the frequencies of the predictions."""
    model = invariants.make("bahdanau")
    with torch.no_grad():
        model.decoder.output.weight.mul_(2)  # type: ignore[union-attr, operator]
    src, src_len = invariants.some_sources([5] * 4000)
    src[:] = src[0]
    true = invariants.some_inputs(4000, 2)
    torch.manual_seed(0)
    with torch.no_grad():
        drawn = draw_inputs(model, model.encode(src, src_len), true, 0.0, "drawn")[:, 1]
    expected = invariants.whole(model, src[:1], src_len[:1], true[:1, :1])[0, 0].softmax(dim=-1)
    found = torch.bincount(drawn.int(), minlength=256) / len(drawn)
    assert float((found - expected).abs().max()) < 5 * (0.25 / len(drawn)) ** 0.5
    assert float(expected.max()) < 0.9 and len(drawn.unique()) > 5


def heard_shares(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of shares with which draw_inputs is called from now on."""
    asked: list[float] = []

    def draw(model: Any, memory: Any, target_in: Tensor, ratio: float, kind: str) -> Tensor:
        asked.append(ratio)
        return losses.draw_inputs(model, memory, target_in, ratio, kind)

    monkeypatch.setattr(translation_objective, "draw_inputs", draw)
    return asked


@pytest.mark.slow
def test_a_resume_goes_on_with_the_decay(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped and resumed, the decay goes on where it was: each update's share, all weights to the last bit,
    and what the metrics tell."""
    asked, whole, parts = heard_shares(monkeypatch), tmp_path / "whole", tmp_path / "parts"
    train(whole, config("seq2seq", *DECAY, "train.max_updates=8"), **texts, device=CPU)
    # The first update reads true bytes alone: nothing is drawn for it.
    assert asked == [0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.25]
    for limit in (3, 8):
        longer = config("seq2seq", *DECAY, f"train.max_updates={limit}")
        train(parts, longer, **texts, device=CPU, resume=limit == 8)
    assert asked[7:] == asked[:7]
    assert_same(weights(whole), weights(parts))
    records = [json.loads(line) for line in (parts / METRICS).read_text().splitlines()]
    told = {record["update"]: record["true_share"] for record in records}
    assert told[3] == 0.625 and told[8] == 0.25
