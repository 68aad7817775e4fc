"""The numbers that options may have: one place for the commands, the configuration and the Python interface.

What lies outside would overflow, never end, or say nothing; NaN lies in no range. Imports nothing but errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bytenmt.errors import SettingError

MOST = 10**9  # of bytes, lines, updates: more than anybody has
MOST_SEED = 2**63 - 1  # what TOML, NumPy and PyTorch all take


class Bounds(NamedTuple):
    """low to high, both included; open: but not low itself. whole: whole numbers only."""

    low: float
    high: float
    open: bool = False
    whole: bool = True

    def hold(self, value: object) -> bool:
        """Return whether a value is a number within the bounds."""
        if not isinstance(value, int if self.whole else int | float) or isinstance(value, bool):
            return False
        return self.low <= value <= self.high and not (self.open and value == self.low)

    def __str__(self) -> str:
        if self.whole:
            return f"a whole number from {int(self.low)} to {int(self.high):,}"
        return f"a number {'above' if self.open else 'from'} {self.low:g} to {self.high:g}"


def real(low: float, high: float, open: bool = False) -> Bounds:
    """Bounds of numbers that need not be whole."""
    return Bounds(low, high, open, whole=False)


BEAM = Bounds(1, 1000)  # the work of a step grows with its square
THREADS = Bounds(1, 256)  # thousands are more than PyTorch can be given: OpenMP then ends the program
BATCH = Bounds(1, 1024)  # sentences side by side, where a step is measured
LENGTH_PENALTY = real(0, 10)
WEIGHT = real(0.001, 1000)  # of a corpus; with less an epoch is empty

N_BYTES = Bounds(0, 10**7)  # of a text that is drawn

# By the names of schema.TrainConfig, for those that are options too.
TRAINING: Mapping[str, Bounds] = {
    "lr": real(0, 1000, open=True),
    "max_tokens": Bounds(1, MOST),
    "update_freq": Bounds(1, 512),  # batches: no limit ends an update in its middle
    "max_updates": Bounds(0, MOST),
    "max_epochs": real(0, MOST),
    "max_minutes": real(0, MOST),  # 0 is no limit, as an option it would say nothing
    "patience": Bounds(0, MOST),
    "seed": Bounds(0, MOST_SEED),
}


def check(values: Mapping[str, object], bounds: Mapping[str, Bounds]) -> None:
    """Raise SettingError, naming it, for a value outside its bounds."""
    for name, value in values.items():
        if name in bounds and not bounds[name].hold(value):
            shown = repr(value)
            raise SettingError(f"{name} is {shown[:40]}{'…' * (len(shown) > 40)}, expected {bounds[name]}")
