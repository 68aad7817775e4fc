"""The interval of periodic work in training: a number of updates, an int, or seconds, a float."""

from __future__ import annotations

AUTO = "auto"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Timer:
    """Tell when something periodic is due. seconds: training time until now, in all."""

    def __init__(self, interval: float, seconds: float) -> None:
        self._interval, self._seen, self._earliest = interval, seconds, 0.0

    def due(self, update: int, seconds: float) -> bool:
        """Return whether it is due after an update: a multiple of the interval has passed since it was asked
        last, so that a run that goes on needs to remember nothing."""
        if isinstance(self._interval, int):
            return update % self._interval == 0
        if seconds < self._earliest:
            return False
        before, self._seen = self._seen, seconds
        return before // self._interval < seconds // self._interval

    def pass_over(self, seconds: float, pause: float = 0.0) -> None:
        """Ignore multiples of the interval until now, and be due no earlier than `pause` seconds from now."""
        self._seen, self._earliest = seconds, seconds + pause


def interval(value: int | str, auto: float) -> float:
    """Return the interval that a configuration gives, see fields.Interval. auto: what suits the run."""
    if isinstance(value, int):
        return value
    return auto if value == AUTO else float(value[:-1]) * _UNITS[value[-1]]
