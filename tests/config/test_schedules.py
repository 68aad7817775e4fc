"""config.schedules: learning-rate schedules, and the ends of a run."""

import math
from typing import Any

import pytest

from bytenmt.checkpoints.facts import Progress
from bytenmt.config.schedules import fraction_done, lr_factor, stopped_early
from bytenmt.config.train_section import TrainConfig
from bytenmt.plugins import SCHEDULES


def factor(update: int, seconds: float = 0.0, standstills: int = 0, **settings: Any) -> float:
    train = TrainConfig(warmup_updates=10, **settings)
    return lr_factor(train, Progress(update=update, seconds=seconds, standstills=standstills))


def test_schedules() -> None:
    assert factor(0, schedule="constant") == pytest.approx(0.1)
    assert factor(500, schedule="constant") == 1.0
    assert factor(39, schedule="inverse_sqrt") == pytest.approx(0.5)
    assert factor(500, schedule="cosine", max_updates=1000) == pytest.approx(0.5)
    by_time = factor(100, 45.0, schedule="cosine", max_updates=1000, max_minutes=1)
    assert by_time == pytest.approx(0.5 * (1 + math.cos(math.pi * 0.75)))
    assert factor(250, schedule="linear", max_updates=1000) == 0.75
    for update, expected in ((790, 1.0), (850, 0.75), (1000, 0.0)):
        found = factor(update, schedule="wsd", max_updates=1000, decay_share=0.2)
        assert found == pytest.approx(expected)
    for update, expected in ((799, 1.0), (800, 0.5), (899, 0.5), (900, 0.25), (1199, 1 / 16)):
        assert factor(update, schedule="halving", max_updates=1200) == expected
    assert factor(500, standstills=2, schedule="plateau", plateau_factor=0.5) == 0.25
    assert factor(4, standstills=2, schedule="plateau") == pytest.approx(0.5)  # still warming up


def test_a_schedule_of_a_plugin_goes_before_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEDULES, "constant", lambda train, progress: progress.update / 1000)
    assert (factor(4, schedule="constant"), factor(500, schedule="constant")) == (0.5, 0.5)


def test_ends() -> None:
    assert fraction_done(TrainConfig(max_updates=0), Progress(update=10**6)) == 0.0
    limits = TrainConfig(max_updates=10, max_minutes=1)
    assert fraction_done(limits, Progress(update=5, seconds=45)) == 0.75
    assert stopped_early(TrainConfig(), Progress(waited=1000)) == ""
    assert stopped_early(TrainConfig(patience=3), Progress(waited=2)) == ""
    assert "3 validations" in stopped_early(TrainConfig(patience=3), Progress(waited=3))
    plateau = TrainConfig(schedule="plateau", plateau_factor=0.1, min_lr=1e-2)
    assert stopped_early(plateau, Progress(standstills=2)) == ""
    assert "min_lr" in stopped_early(plateau, Progress(standstills=3))
