"""Updates and times between what a training does now and then."""

from __future__ import annotations

import pytest

from bytenmt.config.schema import TrainConfig
from bytenmt.config.spacing import Spacing, Timer, spacing
from bytenmt.errors import ConfigError
from bytenmt.training.run import BY_UPDATES, SAVE_TIME, VALID_TIME, spacings


def test_what_is_given() -> None:
    auto = Spacing(updates=3)
    found = [spacing(value, auto) for value in (7, "90s", "2m", "1.5h", "auto")]
    times = [Spacing(seconds=seconds) for seconds in (90, 120, 5400)]
    assert found == [Spacing(updates=7), *times, auto]


def test_timer() -> None:
    """Once for every multiple that has passed since it was asked last, however many; by updates it knows no
    clock."""
    timer = Timer(Spacing(seconds=10), 25.0)
    assert [timer.due(0, now) for now in (25.0, 29.9, 30.0, 31.0, 55.0, 56.0, 60.0)] == [
        *(False, False, True, False, True, False, True)
    ]
    timer.pass_over(71.0)
    assert not timer.due(0, 79.0) and timer.due(0, 80.0)
    timer.pass_over(91.0, pause=25.0)
    assert [timer.due(0, now) for now in (100.0, 115.9, 116.0, 119.0, 120.0)] == [
        *(False, False, True, False, True)
    ], "what is due in the pause comes right after it"
    by_updates = Timer(Spacing(updates=3), 0.0)
    assert [by_updates.due(update, 1e9) for update in range(1, 7)] == [False, False, True] * 2


def test_what_suits_the_run() -> None:
    """Times where its limit is one; updates where all else is counted in them, or validations are."""
    assert spacings(TrainConfig()) == (BY_UPDATES, BY_UPDATES)
    assert spacings(TrainConfig(max_minutes=5.0)) == (VALID_TIME, SAVE_TIME)
    assert spacings(TrainConfig(max_minutes=5.0, patience=2)) == (BY_UPDATES, SAVE_TIME)
    assert spacings(TrainConfig(max_minutes=5.0, schedule="plateau")) == (BY_UPDATES, SAVE_TIME)
    assert spacings(TrainConfig(max_minutes=5.0, patience=2, valid_every=9))[0] == Spacing(updates=9)
    with pytest.raises(ConfigError, match="plateau schedule count"):
        spacings(TrainConfig(schedule="plateau", valid_every="5m"))
