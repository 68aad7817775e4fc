"""Updates and times between what a training does now and then."""

import pytest

from bytenmt.config.schema import TrainConfig
from bytenmt.config.spacing import Timer, interval
from bytenmt.errors import ConfigError
from bytenmt.training.run import BY_UPDATES, SAVE_TIME, VALID_TIME, intervals


def test_what_is_given() -> None:
    found = [interval(value, 3) for value in (7, "90s", "2m", "1.5h", "auto")]
    assert found == [7, 90.0, 120.0, 5400.0, 3]
    assert [type(one) for one in found] == [int, float, float, float, int]


def test_timer() -> None:
    """Once for every multiple that has passed since it was asked last, however many; by updates it knows no
    clock."""
    timer = Timer(10.0, 25.0)
    assert [timer.due(0, now) for now in (25.0, 29.9, 30.0, 31.0, 55.0, 56.0, 60.0)] == [
        *(False, False, True, False, True, False, True)
    ]
    timer.pass_over(71.0)
    assert not timer.due(0, 79.0) and timer.due(0, 80.0)
    timer.pass_over(91.0, pause=25.0)
    assert [timer.due(0, now) for now in (100.0, 115.9, 116.0, 119.0, 120.0)] == [
        *(False, False, True, False, True)
    ], "what is due in the pause comes right after it"
    by_updates = Timer(3, 0.0)
    assert [by_updates.due(update, 1e9) for update in range(1, 7)] == [False, False, True] * 2


def test_what_suits_the_run() -> None:
    """Times where its limit is one; updates where all else is counted in them, or validations are."""
    assert intervals(TrainConfig()) == (BY_UPDATES, BY_UPDATES)
    assert intervals(TrainConfig(max_minutes=5.0)) == (VALID_TIME, SAVE_TIME)
    assert intervals(TrainConfig(max_minutes=5.0, patience=2)) == (BY_UPDATES, SAVE_TIME)
    assert intervals(TrainConfig(max_minutes=5.0, schedule="plateau")) == (BY_UPDATES, SAVE_TIME)
    assert intervals(TrainConfig(max_minutes=5.0, patience=2, valid_every=9))[0] == 9
    with pytest.raises(ConfigError, match="plateau schedule count"):
        intervals(TrainConfig(schedule="plateau", valid_every="5m"))
