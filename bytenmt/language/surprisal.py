"""Compute the bits that each byte of a stream costs a language model.

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
    rank: npt.NDArray[np.int64]  # (n,), bytes that were likelier, or as likely and of lower value

    @staticmethod
    def concatenate(parts: Sequence[Surprisal]) -> Surprisal:
        """Concatenate at least one Surprisal."""
        return Surprisal(*map(np.concatenate, zip(*parts, strict=True)))


def stream_surprisal(
    scorer: Scorer, pieces: Iterable[bytes], chunk: int = CHUNK_BYTES
) -> Iterator[Surprisal]:
    """Yield the surprisal of each byte of a stream under a language model, `chunk` bytes at a time.

    pieces: the stream, cut anywhere; the same bytes give the same numbers however they are cut.
    """
    opened = scorer.open_stream()
    for data in rechunk(pieces, chunk):
        yield to_surprisal(data, opened.read(data))


def rechunk(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the same stream in pieces of `size` bytes; the last may be shorter, none is empty."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) >= size:
            yield bytes(waiting[:size])
            del waiting[:size]
    if waiting:
        yield bytes(waiting)


def to_surprisal(data: bytes, scores: TextScores) -> Surprisal:
    """Return bytes with their surprisal in bits, from a scorer's log-probabilities of them."""
    return Surprisal(np.frombuffer(data, np.uint8), -scores.log_p / math.log(2), scores.rank)
