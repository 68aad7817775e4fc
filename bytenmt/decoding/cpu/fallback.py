"""Decode with NumPy until JIT compilation finishes, then switch to the compiled engine; readers likewise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from bytenmt.decoding.interface import Engine, Hypothesis, Request
from bytenmt.decoding.reading import Attention, Reader, Reading, Stream, Weights

FEW, CHUNK_BYTES = 16, 256  # texts, and bytes of a stream, between calls of `ready`

Target = TypeVar("Target")
Result = TypeVar("Result")


class EngineProxy:
    """An engine that forwards all calls to another one, which subclasses may replace."""

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
    """An engine that uses `now` until `ready()`, and then the result of `later()`.

    Once `ready` returns True, no more sentences are admitted to `now`; it is replaced when it is empty.
    """

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


class _Switch(Generic[Target]):
    """An object that is replaced when `ready()`: `target` is `now`, and then the result of `later()`."""

    def __init__(self, now: Target, later: Callable[[], Target], ready: Callable[[], bool]) -> None:
        self.target, self._later, self._ready = now, later, ready
        self.is_final = False

    def update(self) -> bool:
        """Replace the target if it is time; return whether it was replaced by this call."""
        if self.is_final or not self._ready():
            return False
        self.target, self.is_final = self._later(), True
        return True

    def map_parts(self, n: int, function: Callable[[Target, slice], list[Result]]) -> list[Result]:
        """Return the results of function(target, part) for n items, in small parts until the target is
        final."""
        results: list[Result] = []
        while len(results) < n:
            self.update()
            end = n if self.is_final else len(results) + FEW
            results += function(self.target, slice(len(results), end))
        return results


class FallbackReader:
    """A reading.Reader that uses `now` until `ready()`, and then the result of `later()`."""

    def __init__(self, now: Reader, later: Callable[[], Reader], ready: Callable[[], bool]) -> None:
        self._reader, self._ready = _Switch(now, later, ready), ready
        self._later = later

    def stream(self) -> Stream:
        return _FallbackStream(self._reader.target.stream(), lambda: self._later().stream(), self._ready)

    def texts(self, sources: Sequence[bytes] | None, texts: Sequence[bytes]) -> list[Reading]:
        def read(reader: Reader, part: slice) -> list[Reading]:
            return reader.texts(None if sources is None else sources[part], texts[part])

        return self._reader.map_parts(len(texts), read)


class _FallbackStream:
    """A reading.Stream that is replaced; the new one first reads all bytes that the old one has read."""

    def __init__(self, now: Stream, later: Callable[[], Stream], ready: Callable[[], bool]) -> None:
        self._stream = _Switch(now, later, ready)
        self._already_read = bytearray()

    def read(self, data: bytes) -> Reading:
        parts, at = list[Reading](), 0
        while at < len(data):
            if self._stream.update() and self._already_read:
                self._stream.target.read(bytes(self._already_read))
                self._already_read.clear()
            end = len(data) if self._stream.is_final else at + CHUNK_BYTES
            parts.append(self._stream.target.read(data[at:end]))
            if not self._stream.is_final:
                self._already_read += data[at:end]
            at = end
        log_p, rank = zip(*parts, strict=True)
        return Reading(np.concatenate(log_p), np.concatenate(rank))


class FallbackAttention:
    """A reading.Attention that uses `now` until `ready()`, and then the result of `later()`."""

    def __init__(self, now: Attention, later: Callable[[], Attention], ready: Callable[[], bool]) -> None:
        self._attention = _Switch(now, later, ready)

    def layers(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[dict[int, Weights]]:
        return self._attention.map_parts(len(pairs), lambda attention, part: attention.layers(pairs[part]))
