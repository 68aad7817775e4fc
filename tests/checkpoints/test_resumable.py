"""A resumed job must be the one that was begun."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from bytenmt.checkpoints import resumable
from bytenmt.checkpoints.resumable import check_same_job
from bytenmt.errors import BytenmtError


def test_the_example_runs() -> None:
    assert doctest.testmod(resumable) == (0, 1)


@pytest.mark.parametrize(
    ("begun", "now", "message"),
    [
        ({"beam": 1}, {}, "started with beam 1, not None"),
        ({}, {"seed": 3}, "started with seed None, not 3"),
        ({"models": ["a", "b"]}, {"models": ["a"]}, "started with another model:"),
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, "started with a 1, not 2"),
    ],
)
def test_a_difference_is_named(begun: dict[str, object], now: dict[str, object], message: str) -> None:
    """The first by name; a list is not shown."""
    with pytest.raises(BytenmtError, match=message):
        check_same_job(Path("out"), begun, now, "or anew")


def test_the_same_job_goes_on() -> None:
    check_same_job(Path("out"), {"a": 1, "b": [2]}, {"b": [2], "a": 1}, "or anew")
