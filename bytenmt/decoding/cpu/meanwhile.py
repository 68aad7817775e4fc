"""Engines that pass on what they are asked to another one, and among them the one that answers while the
kernels of this engine are compiled.

Knows engines by their interface; knows neither kernels nor PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable

from bytenmt.decoding.interface import Engine, Hypothesis, Request


class Relay:
    """The Engine protocol by another engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.capacity = engine.capacity

    def room(self) -> int:
        return self._engine.room()

    def admit(self, requests: list[Request]) -> list[int]:
        return self._engine.admit(requests)

    def advance(self, n_steps: int) -> None:
        self._engine.advance(n_steps)

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        return self._engine.finished()

    def drop(self, handle: int) -> None:
        self._engine.drop(handle)

    def so_far(self, handle: int) -> bytes:
        return self._engine.so_far(handle)


class Meanwhile(Relay):
    """By `now`, until `ready()` and no sentence is running; then by what `later` makes, an engine of the same
    capacity. Once it is ready nothing more is admitted by `now`."""

    def __init__(self, now: Engine, later: Callable[[], Engine], ready: Callable[[], bool]) -> None:
        super().__init__(now)
        self._later: Callable[[], Engine] | None = later
        self._ready = ready

    def room(self) -> int:
        if self._later is None or not self._ready():
            return self._engine.room()
        if self._engine.room() < self.capacity:
            return 0
        self._engine, self._later = self._later(), None
        return self._engine.room()
