"""The interval of periodic work in training: a number of updates, an int, or seconds, a float."""

from __future__ import annotations

AUTO = "auto"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Timer:
    """Tell when periodic work of a training, such as a validation, is due."""

    def __init__(self, interval: float, seconds: float) -> None:
        """interval: an int counts updates, a float seconds; seconds: training time until now, in all."""
        self._interval, self._seen, self._earliest = interval, seconds, 0.0

    def due(self, update: int, seconds: float) -> bool:
        """Return whether the work is due after an update. seconds: training time until now.

        It is due at multiples of an interval of updates, or where a multiple of an interval of seconds has
        passed since the last call; so a resumed run needs to remember nothing.
        """
        if isinstance(self._interval, int):
            return update % self._interval == 0
        if seconds < self._earliest:
            return False
        before, self._seen = self._seen, seconds
        return before // self._interval < seconds // self._interval

    def pass_over(self, seconds: float, pause: float = 0.0) -> None:
        """Skip what became due until now, and be due no earlier than `pause` seconds from now; an interval
        of updates is not affected. seconds: training time until now."""
        self._seen, self._earliest = seconds, seconds + pause


def interval(value: int | str, auto: float) -> float:
    """Convert an interval of a configuration: a number of updates stays an int, a time such as "90s", "2m" or
    "1h" becomes seconds as a float, and "auto" becomes the argument `auto`."""
    if isinstance(value, int):
        return value
    return auto if value == AUTO else float(value[:-1]) * _UNITS[value[-1]]
