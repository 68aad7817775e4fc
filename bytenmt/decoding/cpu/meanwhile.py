"""An engine that answers while the kernels of this one are compiled, and hands over to it.

Knows engines by their interface; knows neither kernels nor PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable

from bytenmt.decoding.interface import Engine, Hypothesis, Request


class Meanwhile:
    """The Engine protocol by `now`, until `ready()` and no sentence is running; then by what `later` makes,
    an engine of the same capacity. Once it is ready nothing more is admitted by `now`."""

    def __init__(self, now: Engine, later: Callable[[], Engine], ready: Callable[[], bool]) -> None:
        self.capacity = now.capacity
        self._engine = now
        self._later: Callable[[], Engine] | None = later
        self._ready = ready

    def room(self) -> int:
        """Sentences that `admit` would take now."""
        if self._later is None or not self._ready():
            return self._engine.room()
        if self._engine.room() < self.capacity:
            return 0
        self._engine, self._later = self._later(), None
        return self._engine.room()

    def admit(self, requests: list[Request]) -> list[int]:
        """Encode the sources and begin; at most room() of them. Returns a handle for each."""
        return self._engine.admit(requests)

    def advance(self, n_steps: int) -> None:
        """n steps of all sentences that are not done."""
        self._engine.advance(n_steps)

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        """Handles and hypotheses of the sentences done since the last call; their places are free again."""
        return self._engine.finished()

    def drop(self, handle: int) -> None:
        """Let go of a sentence that has not been told by `finished`."""
        self._engine.drop(handle)

    def so_far(self, handle: int) -> bytes:
        """The bytes that a running sentence will surely begin with."""
        return self._engine.so_far(handle)
