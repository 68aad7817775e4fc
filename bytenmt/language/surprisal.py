"""Compute the bits that each byte of a stream, or of given translations, costs a model.

A stream is read in chunks that carry the state, so no context is cut: the chunks change only the rounding.
Memory does not grow. All 256 ids are data there; BOS opens the stream and nothing ends it. In translations
each line ends with EOS, as in `evaluate`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.data.corpus import ParallelCorpus
from bytenmt.decoding.reading import Reader, Reading
from bytenmt.utf8 import EOS

CHUNK = 1024  # bytes of a stream that a model reads in one call
WINDOWS_AT_ONCE = 1 << 14  # bytes of windows that are read side by side
LINES_AT_ONCE = 1000  # of translations; their surprises are in memory


class Surprise(NamedTuple):
    """The cost of bytes.

    data (n,) uint8: the bytes; bits (n,) float64: -log2 p of each; rank (n,) int64: the number of bytes that
    were likelier, or as likely and of lower value.

    In translations the end of a line is EOS, which UTF-8 never contains; in a stream that id is a byte.
    """

    data: npt.NDArray[np.uint8]
    bits: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int64]

    @staticmethod
    def joined(parts: Sequence[Surprise]) -> Surprise:
        """Concatenate parts; at least one."""
        data, bits, rank = zip(*parts, strict=True)
        return Surprise(np.concatenate(data), np.concatenate(bits), np.concatenate(rank))

    def cut(self, n: int) -> tuple[Surprise, Surprise]:
        """Return the first n bytes and the rest."""
        data, bits, rank = self
        return Surprise(data[:n], bits[:n], rank[:n]), Surprise(data[n:], bits[n:], rank[n:])


def stream(reader: Reader, pieces: Iterable[bytes], chunk: int = CHUNK) -> Iterator[Surprise]:
    """Yield the cost of each byte of a stream, `chunk` bytes at a time.

    pieces: the stream, cut anywhere; the same bytes give the same numbers however they are cut.
    """
    opened = reader.stream()
    for data in recut(pieces, chunk):
        yield surprise(data, opened.read(data))


class Windowed:
    """The cost of a stream in windows of `size` bytes that are read independently of each other.

    A byte is predicted from the bytes before it in its window and the one byte before that, as in nanoGPT's
    estimate of its loss, which draws such windows at random. The model starts each window with BOS, which
    opens every stream; the first window has nothing else before it and the last one may be shorter.
    """

    def __init__(self, reader: Reader, size: int) -> None:
        self._reader, self._size = reader, size
        self._waiting = bytearray()
        self._before = b""  # the byte before what waits
        self._bits, self._n_bytes = 0.0, 0

    def add(self, data: bytes) -> None:
        """Read the next bytes."""
        self._waiting += data
        at_once = max(1, WINDOWS_AT_ONCE // self._size) * self._size
        while len(self._waiting) >= at_once:
            self._read(at_once)

    def lines(self) -> Iterator[str]:
        """Yield the bits per byte as a line, after the end of the stream."""
        if self._waiting:
            self._read(len(self._waiting))
        bits = self._bits / max(1, self._n_bytes)
        nats = bits * math.log(2)
        yield f"bits per byte, in windows of {self._size} read anew: {bits:.4f} ({nats:.4f} nats a byte)"

    def _read(self, n_bytes: int) -> None:
        """Read the windows of the first n_bytes of the buffer."""
        data = bytes(self._waiting[:n_bytes])
        windows = [data[at : at + self._size] for at in range(0, n_bytes, self._size)]
        before = [self._before, *(window[-1:] for window in windows)]
        readings = self._reader.texts(None, [b + window for b, window in zip(before, windows, strict=False)])
        for window, reading in zip(windows, readings, strict=True):
            self._bits -= float(reading.log_p[-len(window) :].sum()) / math.log(2)
        self._n_bytes += n_bytes
        self._before = data[-1:]
        del self._waiting[:n_bytes]


def recut(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Cut the same bytes into pieces of `size`; the last one may be shorter, none is empty."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        whole = len(waiting) - len(waiting) % size
        for start in range(0, whole, size):
            yield bytes(waiting[start : start + size])
        del waiting[:whole]
    if waiting:
        yield bytes(waiting)


def translations(reader: Reader, corpus: ParallelCorpus) -> Iterator[Surprise]:
    """Yield the cost of each byte of given translations and of the end of each, some lines at a time,
    in order.
    """
    for first in range(0, len(corpus), LINES_AT_ONCE):
        some = range(first, min(first + LINES_AT_ONCE, len(corpus)))
        texts = [corpus.target(k) + bytes([EOS]) for k in some]
        readings = reader.texts([corpus.source(k) for k in some], texts)
        yield Surprise.joined([surprise(*one) for one in zip(texts, readings, strict=True)])


def surprise(data: bytes, reading: Reading) -> Surprise:
    """Return the cost of these bytes from a reading."""
    return Surprise(np.frombuffer(data, np.uint8), -reading.log_p / math.log(2), reading.rank)
