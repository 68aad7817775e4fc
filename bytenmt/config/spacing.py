"""The interval of periodic work in training: a number of updates, or of minutes."""

from __future__ import annotations

import re
from typing import NamedTuple

from bytenmt.config.bounds import MOST

AUTO = "auto"
EXPECTED = "expected a number of updates such as 500, a time such as 90s, 2m or 1h, or auto"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh])")


class Spacing(NamedTuple):
    """updates, or seconds, from one time to the next; the other one is 0."""

    updates: int = 0
    seconds: float = 0.0


class Timer:
    """Tell when something periodic is due. seconds: training time until now, in all."""

    def __init__(self, spacing: Spacing, seconds: float) -> None:
        self._spacing, self._seen, self._earliest = spacing, seconds, 0.0

    def due(self, update: int, seconds: float) -> bool:
        """Return whether it is due after an update: a multiple of the spacing has passed since it was asked
        last, so that a run that goes on needs to remember nothing."""
        if self._spacing.updates:
            return update % self._spacing.updates == 0
        if seconds < self._earliest:
            return False
        before, self._seen = self._seen, seconds
        return before // self._spacing.seconds < seconds // self._spacing.seconds

    def pass_over(self, seconds: float, pause: float = 0.0) -> None:
        """Ignore multiples of the spacing until now, and be due no earlier than `pause` seconds from now."""
        self._seen, self._earliest = seconds, seconds + pause


def spacing(value: int | str, auto: Spacing) -> Spacing:
    """Return the interval that a configuration gives. auto: the one that suits the run. Raises ValueError."""
    if value == AUTO:
        return auto
    if isinstance(value, int) and value > 0:
        return Spacing(updates=value)
    text = str(value)
    found = _TIME.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < seconds <= MOST:
        raise ValueError(f"{text[:20]!r}{'…' * (len(text) > 20)}: {EXPECTED}")
    return Spacing(seconds=seconds)


def check_spacing(name: str, value: int | str) -> None:
    """Raise ValueError, which begins with the name, where it is none."""
    try:
        spacing(value, Spacing(1))
    except ValueError as error:
        raise ValueError(f"{name} is {error}") from None
