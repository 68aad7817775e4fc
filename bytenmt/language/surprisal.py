"""Compute and sum up the bits that each byte of a stream costs a language model.

A stream is read in chunks that carry the state, so no context is cut: the chunks change only the
rounding. Memory does not grow. All 256 ids are data there; BOS opens the stream and nothing ends
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.scorer import Scorer, TextScores

CHUNK_BYTES = 1024  # of a stream that a model reads in one call


class Surprisal(NamedTuple):
    """Bytes and their surprisal, -log2 p, under a model."""

    data: npt.NDArray[np.uint8]  # (n,), the bytes
    bits: npt.NDArray[np.float64]  # (n,), -log2 p of each byte
    rank: npt.NDArray[np.int64]  # (n,), number of likelier bytes, and equally likely lower ones

    @staticmethod
    def concatenate(parts: Sequence[Surprisal]) -> Surprisal:
        """Join the bytes, bits and ranks of the parts, at least one, in their order."""
        return Surprisal(*map(np.concatenate, zip(*parts, strict=True)))


def stream_surprisal(
    scorer: Scorer, pieces: Iterable[bytes], chunk: int = CHUNK_BYTES
) -> Iterator[Surprisal]:
    """Yield the surprisal of each byte of a stream under a language model, `chunk` bytes at a time.

    scorer: of the language model; pieces: the bytes of the stream, cut anywhere, which does not
    change the numbers.
    """
    opened = scorer.open_stream()
    for data in rechunk(pieces, chunk):
        yield to_surprisal(data, opened.read(data))


def rechunk(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield a stream, which is cut anywhere, in pieces of `size` bytes; the last may be shorter."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) >= size:
            yield bytes(waiting[:size])
            del waiting[:size]
    if waiting:
        yield bytes(waiting)


def to_surprisal(data: bytes, scores: TextScores) -> Surprisal:
    """Return `data` with its surprisal in bits, from a scorer's natural log-probabilities."""
    return Surprisal(np.frombuffer(data, np.uint8), -scores.log_p / math.log(2), scores.rank)


class PredictionSummary:
    """Accumulates the bits of the bytes of a text and how often a model predicted them."""

    def __init__(self) -> None:
        self.n_bytes = 0
        self._bits = 0.0
        self._n_first = 0  # true bytes that were the likeliest
        self._n_fifth = 0  # true bytes that were among the five likeliest

    def add(self, surprise: Surprisal) -> None:
        """Add bytes, with their bits and ranks, to the sums."""
        self.n_bytes += len(surprise.data)
        self._bits += float(surprise.bits.sum())
        self._n_first += int((surprise.rank == 0).sum())
        self._n_fifth += int((surprise.rank < 5).sum())

    def lines(self) -> Iterator[str]:
        """Yield lines for users: bits per byte, number of bytes, and share of bytes that were the
        likeliest, or among the five likeliest."""
        share = 100 / max(1, self.n_bytes)
        yield f"bits per byte: {self._bits / max(1, self.n_bytes):.4f}"
        yield f"bytes: {self.n_bytes}"
        yield f"the likeliest byte: {share * self._n_first:.2f} %"
        yield f"among the five likeliest: {share * self._n_fifth:.2f} %"


def json_lines(surprise: Surprisal, first: int) -> bytes:
    """Return a line of JSON for each byte: offset (the first: `first`), byte, bits, rank from 1."""
    lines = ""
    numbers = zip(*(part.tolist() for part in surprise), strict=True)
    for offset, (byte, bits, rank) in enumerate(numbers, first):
        lines += f'{{"offset": {offset}, "byte": {byte}, "bits": {bits:.6f}, "rank": {rank + 1}}}\n'
    return lines.encode()
