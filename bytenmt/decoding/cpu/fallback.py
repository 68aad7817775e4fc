"""What answers while the kernels of the CPU engine are compiled, and hands over to it.

`Relay` is an engine that passes on what it is asked to another one. Knows engines and readers by their
interfaces; knows neither kernels nor PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from bytenmt.decoding.interface import Engine, Hypothesis, Request
from bytenmt.decoding.reading import Attention, Reader, Reading, Stream, Weights

FEW, PIECE = 16, 256  # texts, and bytes of a stream, that are read until `ready` is asked again

One = TypeVar("One")
Found = TypeVar("Found")


class EngineProxy:
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


class FallbackEngine(EngineProxy):
    """By `now`, until `ready()` and no sentence is running; then by what `later` makes. Once it is ready
    nothing more is admitted by `now`."""

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
        self.capacity = self._engine.capacity
        return self._engine.room()


class _Switch(Generic[One]):
    """`now`, until `ready()`; then what `later` makes."""

    def __init__(self, now: One, later: Callable[[], One], ready: Callable[[], bool]) -> None:
        self.one, self._later, self._ready = now, later, ready
        self.final = False

    def look(self) -> bool:
        """Whether it is the later one from here on for the first time."""
        if self.final or not self._ready():
            return False
        self.one, self.final = self._later(), True
        return True

    def in_parts(self, n: int, ask: Callable[[One, slice], list[Found]]) -> list[Found]:
        """What is found of n things, few at a time as long as there is something to wait for."""
        found: list[Found] = []
        while len(found) < n:
            self.look()
            found += ask(self.one, slice(len(found), n if self.final else len(found) + FEW))
        return found


class FallbackReader:
    """See reading.Reader."""

    def __init__(self, now: Reader, later: Callable[[], Reader], ready: Callable[[], bool]) -> None:
        self._reader, self._ready = _Switch(now, later, ready), ready
        self._later = later

    def stream(self) -> Stream:
        return _FallbackStream(self._reader.one.stream(), lambda: self._later().stream(), self._ready)

    def texts(self, sources: Sequence[bytes] | None, texts: Sequence[bytes]) -> list[Reading]:
        def ask(reader: Reader, part: slice) -> list[Reading]:
            return reader.texts(None if sources is None else sources[part], texts[part])

        return self._reader.in_parts(len(texts), ask)


class _FallbackStream:
    """See reading.Stream. The later one reads first what the other one has read."""

    def __init__(self, now: Stream, later: Callable[[], Stream], ready: Callable[[], bool]) -> None:
        self._stream = _Switch(now, later, ready)
        self._behind = bytearray()

    def read(self, data: bytes) -> Reading:
        parts, at = list[Reading](), 0
        while at < len(data):
            if self._stream.look() and self._behind:
                self._stream.one.read(bytes(self._behind))
                self._behind.clear()
            end = len(data) if self._stream.final else at + PIECE
            parts.append(self._stream.one.read(data[at:end]))
            if not self._stream.final:
                self._behind += data[at:end]
            at = end
        log_p, rank = zip(*parts, strict=True)
        return Reading(np.concatenate(log_p), np.concatenate(rank))


class FallbackAttention:
    """See reading.Attention."""

    def __init__(self, now: Attention, later: Callable[[], Attention], ready: Callable[[], bool]) -> None:
        self._attention = _Switch(now, later, ready)

    def layers(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[dict[int, Weights]]:
        return self._attention.in_parts(len(pairs), lambda one, part: one.layers(pairs[part]))
