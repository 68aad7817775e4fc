"""The interval of periodic work in training: a number of updates, or of minutes."""

from __future__ import annotations

from typing import NamedTuple

AUTO = "auto"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


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
    """Return the interval that a configuration gives, see fields.Interval. auto: what suits the run."""
    if isinstance(value, int):
        return Spacing(updates=value)
    return auto if value == AUTO else Spacing(seconds=float(value[:-1]) * _UNITS[value[-1]])
