"""Texts as streams of bytes: the windows of them that a language model learns from, in order.

All bytes are data; there are no lines. BOS opens a stream, nothing ends it. An epoch is drawn from
the seed and its number only, so that a run can resume at any batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.utf8 import BOS

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]


class WindowBatch(NamedTuple):
    """A batch for a language model, or one process' share of it: n pieces of t bytes of text."""

    read: Bytes  # (n, t) uint8: the model's input, the byte before each of truth, or BOS
    truth: Bytes  # (n, t) uint8: the bytes to be predicted
    # (n,) int64: bytes at the beginning of each row that are context and have no loss
    skipped: Indices
    # whether a recurrent model starts anew, instead of with its states after the last batch
    fresh: bool
    epoch_batches: int = 0  # the number of batches in the epoch

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of (sentences, target bytes, source bytes): 0, the bytes with a loss, 0."""
        return 0, self.truth.size - int(self.skipped.sum()), 0


class Streams:
    """Concatenated texts, read as a circle, from which windows of bytes are cut at any position."""

    def __init__(self, texts: Sequence[Bytes]) -> None:
        """texts: (size,) uint8 each, at least one byte."""
        self.texts = texts
        self.ends = np.cumsum([len(text) for text in texts])
        self.n_bytes = int(self.ends[-1])

    def window(
        self, starts: Indices, width: int, skipped: Indices, fresh: bool, open_all: bool
    ) -> WindowBatch:
        """Return a batch of n windows: the `width` bytes from each position in `starts` on.

        starts (n,) int64: positions in the concatenated texts, whose last byte is followed by the
        first. skipped (n,) int64: bytes at the beginning of each window that have no loss. fresh:
        whether a recurrent model starts with a new state. The model's input before the first byte
        of a text is BOS; open_all: it is also BOS at the beginning of every window.
        """
        rows = [self._bytes(start - 1, width + 1) for start in starts.tolist()]
        both = np.stack(rows) if rows else np.zeros((0, width + 1), np.uint8)
        read = both[:, :-1].copy()
        for begin in [0, *self.ends[:-1].tolist()]:
            column = (begin - starts) % self.n_bytes
            inside = np.flatnonzero(column < width)
            read[inside, column[inside]] = BOS
        if open_all:
            read[:, 0] = BOS
        return WindowBatch(read, both[:, 1:], skipped, fresh)

    def _bytes(self, start: int, n: int) -> Bytes:
        """Return n bytes from `start` on, across the texts' ends."""
        pieces = []
        while n > 0:
            start %= self.n_bytes
            index = int(np.searchsorted(self.ends, start, side="right"))
            text = self.texts[index]
            place = start - int(self.ends[index]) + len(text)
            piece = text[place : place + n]
            pieces.append(piece)
            start += len(piece)
            n -= len(piece)
        return np.concatenate(pieces)


def serial_windows(
    streams: Streams,
    n_rows: int,
    own_rows: range,
    width: int,
    seed: int,
    epoch: int,
    first: int = 0,
) -> Iterator[WindowBatch]:
    """Yield the batches of an epoch for recurrent models: the next `width` bytes of each row.

    n_rows: rows of a batch, of all processes. Each row continues where it ended in the batch
    before. The rows begin at evenly spaced positions, with an offset drawn from `seed` and `epoch`,
    and with BOS and a new state. own_rows: the rows of this process among the n_rows; first: the
    number, from 0, of the first batch to yield. The streams must have n_rows * width bytes or more.
    """
    each = streams.n_bytes // n_rows
    offset = int(_generator(seed, epoch).integers(streams.n_bytes))
    starts = offset + each * np.array(own_rows, dtype=np.int64)
    nothing = np.zeros(len(starts), np.int64)
    n_batches = each // width
    for index in range(first, n_batches):
        window = streams.window(starts + index * width, width, nothing, index == 0, index == 0)
        yield window._replace(epoch_batches=n_batches)


def shuffled_windows(
    streams: Streams,
    n_rows: int,
    own_rows: range,
    context: int,
    width: int,
    seed: int,
    epoch: int,
    first: int = 0,
) -> Iterator[WindowBatch]:
    """Yield the batches of an epoch for convolutional models, which keep no state between them.

    A batch has n_rows windows, of all processes, in an order drawn from `seed` and `epoch`; the
    last batch may have fewer. A window is `context` bytes that are only read, and `width` bytes
    that have a loss; in the first window of a text all bytes have one. own_rows: the rows of this
    process among a batch's n_rows; first: the number, from 0, of the first batch to yield. Every
    text must have context + width bytes or more.
    """
    generator = _generator(seed, epoch)
    window_starts = []
    skipped = []
    for text, end in zip(streams.texts, streams.ends.tolist(), strict=True):
        begin = end - len(text)
        offset = int(generator.integers(width))
        starts = np.arange(begin + offset, end - context - width + 1, width)
        starts = starts[starts > begin]
        last = end - context - width
        covered = (int(starts[-1]) if len(starts) else begin) + context + width
        # the window of the bytes at the end, however few
        rest = np.array([last] if covered < end else [], np.int64)
        window_starts += [np.array([begin]), starts, rest]
        skipped += [np.zeros(1, np.int64), np.full(len(starts), context), covered - rest]
    all_starts = np.concatenate(window_starts)
    context_of = np.concatenate(skipped)
    order = generator.permutation(len(all_starts))
    for first_row in range(first * n_rows, len(all_starts), n_rows):
        rows = order[first_row : first_row + n_rows][own_rows.start :: own_rows.step]
        window = streams.window(all_starts[rows], context + width, context_of[rows], True, False)
        yield window._replace(epoch_batches=-(-len(all_starts) // n_rows))


def _generator(seed: int, epoch: int) -> np.random.Generator:
    return np.random.default_rng([seed, epoch, 0x57])
