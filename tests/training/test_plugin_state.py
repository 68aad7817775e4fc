"""Optimizers, schedules, metrics, loss terms and augmentations of plugins: state, rates, and bad results."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from heard import Heard
from small_runs import CPU, assert_same, config, weights

from bytenmt import plugins
from bytenmt.checkpoints.weights import BEST, read_run
from bytenmt.errors import BytenmtError, ConfigError, DataError
from bytenmt.plugins import (
    SCORE_NAMES,
    register_augmentation,
    register_loss_term,
    register_metric,
    register_optimizer,
    register_schedule,
)
from bytenmt.training import run as training
from bytenmt.training.run import Meter, train


@pytest.fixture(autouse=True)
def removed_afterwards() -> Iterator[None]:
    """Remove what a test has registered."""
    before = [set(registry) for registry in plugins.REGISTRIES]
    yield
    for registry, names in zip(plugins.REGISTRIES, before, strict=True):
        for name in set(registry) - names:
            registry.remove(name)


class Counting(torch.optim.Optimizer):
    """An optimizer whose steps depend on plain numbers and integers, of parameters and of groups."""

    def __init__(self, groups: list[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, {"lr": lr, "k": 0, "weight_sum": 0.0, "is_warm": False})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["k"] += 1
            group["weight_sum"] += group["lr"] / group["k"]
            group["is_warm"] = group["k"] > 2
            for p in group["params"]:
                state = self.state[p]
                state["n"] = state.get("n", 0) + 1
                state["age"] = state.get("age", torch.zeros((), dtype=torch.int64)) + (1 << 24) + 1
                if p.grad is not None:
                    factor = group["weight_sum"] / (state["n"] + float(state["age"] % 5) + group["is_warm"])
                    p.sub_(p.grad, alpha=factor)


@pytest.mark.slow
def test_plain_numbers_of_an_optimizer_are_resumed_exactly(tmp_path: Path, texts: dict[str, Any]) -> None:
    register_optimizer("counting", lambda groups, train: Counting(groups, train.lr))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for run, limit in ((whole, 6), (parts, 3), (parts, 6)):
        settings = ("train.optimizer=counting", "train.schedule=constant", f"train.max_updates={limit}")
        train(run, config("luong", *settings), **texts, device=CPU, resume=run == parts)
    assert_same(weights(whole), weights(parts))
    saved = weights(whole)
    assert saved["trainer.optimizer.group.0.k:number"] == 6 and saved["trainer.optimizer.0.n:number"] == 6
    assert saved["trainer.optimizer.0.age"] == 6 * ((1 << 24) + 1)


def test_other_state_of_an_optimizer_is_refused(tmp_path: Path, texts: dict[str, Any]) -> None:
    """The training ends after its first update."""

    class Listing(Counting):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step()
            self.state[self.param_groups[0]["params"][0]]["history"] = [1]

    register_optimizer("listing", lambda groups, train: Listing(groups, train.lr))
    settings = config("luong", "train.optimizer=listing", "train.max_updates=2")
    with pytest.raises(ConfigError, match="history is of the type list"):
        train(tmp_path / "run", settings, **texts, device=CPU)
    assert not (tmp_path / "run" / BEST).exists()


def test_groups_keep_their_share_of_the_rate(tmp_path: Path, texts: dict[str, Any]) -> None:
    """The schedule multiplies each group's rate."""
    rates: list[list[float]] = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            rates.append([group["lr"] for group in self.param_groups])
            super().step()

    def build(groups: list[dict[str, Any]], train: Any) -> torch.optim.Optimizer:
        groups[0]["lr"] = 10 * train.lr
        return Watched(groups, lr=train.lr)

    register_optimizer("watched", build)
    register_schedule("half", lambda train, progress: 0.5)
    settings = (
        "train.optimizer=watched",
        "train.schedule=half",
        "train.warmup_updates=1",
        "train.max_updates=1",
    )
    train(tmp_path / "run", config("luong", *settings), **texts, device=CPU)
    assert rates == [[pytest.approx(0.01), pytest.approx(0.001)]]


def one_after_the_other(values: Sequence[float]) -> Any:
    """A metric that has these values at the validations of a run."""
    left = iter(values)
    return lambda texts, truth: next(left, math.nan)


@pytest.mark.slow
@pytest.mark.parametrize("is_higher_better", [True, False])
def test_nan_is_never_the_best(tmp_path: Path, texts: dict[str, Any], is_higher_better: bool) -> None:
    """A number is better than NaN, at the first validation or later; NaN counts for the patience."""
    for name, values, best, last in (
        ("first", [math.nan, 2.0, math.nan, math.nan], 2, 4),
        ("never", [math.nan, math.nan, math.nan], None, 2),
    ):
        register_metric(name, one_after_the_other(values), is_higher_better)
        settings = [f"train.metric={name}", "train.valid_lines=2", "train.patience=2"]
        settings += ["train.valid_every=1", "train.max_updates=9", "train.schedule=constant"]
        heard = Heard()
        outcome = train(tmp_path / name, config("luong", *settings), **texts, device=CPU, reporter=heard)
        assert outcome.update == last and (tmp_path / name / BEST).exists() == (best is not None)
        assert best is None or read_run(tmp_path / name)[1].facts.update == best
    assert any("every validation's never was NaN" in line for line in heard.lines)


def test_the_names_of_scores_are_reserved() -> None:
    for name in SCORE_NAMES:
        with pytest.raises(ValueError, match=f"'{name}' is reserved"):
            register_metric(name, lambda texts, truth: 0.0)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ((b"a\nb", b"c"), "has a line break"),
        ((b"\xff", b"c"), "is not valid UTF-8"),
        (("a", "b"), "is not a source and a target as bytes"),
        (None, "is not a source and a target as bytes"),
    ],
)
def test_a_bad_augmentation_is_one_line(
    tmp_path: Path, texts: dict[str, Any], returned: Any, message: str
) -> None:
    register_augmentation("bad", lambda source, target, random: returned)
    with pytest.raises(DataError, match=f"data.augment.bad returned .*{message}: correct the plugin"):
        train(
            tmp_path / "run",
            config("luong", "data.augment.bad=1.0", "train.max_updates=2"),
            **texts,
            device=CPU,
        )


def test_a_run_that_diverges_ends(
    tmp_path: Path, texts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is NaN, or stays higher than that of any model that learns; what was saved stands."""
    register_loss_term("nan", lambda x: x.logits.sum() * math.nan)
    register_schedule("broken", lambda train, progress: math.nan)
    register_optimizer("wild", lambda groups, train: torch.optim.SGD(groups, lr=1e30))
    monkeypatch.setattr(training, "MOST_UPDATES", 4)
    common = ["train.clip_norm=0.0", "train.warmup_updates=2", "train.max_updates=9"]
    for settings, message in (
        (["train.loss_terms.nan=0.1"], "diverged"),
        (["train.schedule=broken"], "train.schedule = broken returned nan after update 1"),
        (["train.optimizer=wild", "train.save_every=9"], "diverged .*; nothing has been saved"),
        (["train.optimizer=wild", "train.save_every=1"], "diverged .*; the last checkpoint is kept"),
    ):
        run = tmp_path / "-".join(settings)
        with pytest.raises(BytenmtError, match=message):
            train(run, config("luong", *common, *settings), **texts, device=CPU)
    read = Meter.read
    monkeypatch.setattr(Meter, "read", lambda self, nats: read(self, nats) | {"train_bits_per_byte": 16.5})
    with pytest.raises(BytenmtError, match=r"diverged \(16.5 bits a byte\).*the last checkpoint is kept"):
        train(tmp_path / "high", config("luong", "train.max_updates=9"), **texts, device=CPU)


def test_records_of_nan_are_json(tmp_path: Path, texts: dict[str, Any]) -> None:
    """A metric that is NaN is null in metrics.jsonl."""
    register_metric("nothing", lambda texts, truth: math.nan)
    settings = ("train.metric=nothing", "train.valid_lines=1", "train.max_updates=1")
    train(tmp_path / "run", config("luong", *settings), **texts, device=CPU)
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert records[-1]["valid_nothing"] is None
