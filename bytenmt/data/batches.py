"""Assemble the bytes of batches as NumPy arrays, some batches ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.data.epoch_plan import EpochPlan
from bytenmt.jit import njit
from bytenmt.utf8 import BOS, EOS, PAD

if TYPE_CHECKING:
    from bytenmt.data.corpus import ParallelCorpus

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]

PREFETCH = 4  # batches that are assembled ahead
CACHE_LINE = 64  # bytes


class Batch(NamedTuple):
    """A padded batch of n sentence pairs, or one process' share of it, where n may be 0."""

    source: Bytes  # (n, s) uint8: bytes, EOS, PAD
    source_len: Indices  # (n,) int64: bytes and EOS
    target: Bytes  # (n, t + 1) uint8: BOS, bytes, EOS, PAD
    target_len: Indices  # (n,) int64: bytes and EOS, as many as BOS and bytes

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[bytes, bytes]]) -> Batch:
        """Pad (source, target) pairs, bytes without EOS, to a batch."""
        parts = list[Any]()
        for side, first in ((0, b""), (1, bytes([BOS]))):
            lengths = np.array([len(pair[side]) + 1 for pair in pairs], np.int64)
            width = int(lengths.max(initial=0)) + len(first)
            rows = [
                (first + pair[side] + bytes([EOS])).ljust(width, bytes([PAD])) for pair in pairs
            ]
            parts += [
                np.frombuffer(bytearray().join(rows), np.uint8).reshape(len(pairs), width),
                lengths,
            ]
        return cls(*parts)

    def pairs(self) -> list[tuple[bytes, bytes]]:
        """Return the source and target of each row, without BOS, EOS and PAD."""
        return [
            (source[: n_source - 1].tobytes(), target[1:n_target].tobytes())
            for source, n_source, target, n_target in zip(*self, strict=True)
        ]

    @property
    def counts(self) -> tuple[int, int, int]:
        """The number of sentence pairs, of target bytes and of source bytes; the bytes include EOS."""
        return len(self.target_len), int(self.target_len.sum()), int(self.source_len.sum())

    @property
    def target_in(self) -> Bytes:
        """The decoder's input, (n, t) uint8: BOS and the bytes; after shorter sentences EOS and
        PAD."""
        return self.target[:, :-1]

    @property
    def target_out(self) -> Bytes:
        """The bytes to be predicted at each position of target_in, (n, t) uint8: bytes, EOS, PAD."""
        return self.target[:, 1:]


@njit
def _fill_rows(
    data: Bytes, starts: Indices, ends: Indices, rows: Indices, first: int, out: Bytes
) -> int:
    """Write lines of a text into rows of out (n, width), each byte of a row once.

    starts (k,) int64: where each line begins in data; ends (n,) int64: bytes with EOS of each row;
    rows (k,): the row of each line. first: 1 puts BOS in front, 0 nothing; EOS follows, then PAD.
    The returned number has no meaning.
    """
    # Lines lie all over the memory: ask for all of them first, so that the waits overlap.
    touched = 0
    for k in range(len(starts)):
        for place in range(starts[k], starts[k] + ends[rows[k]] - 1, CACHE_LINE):
            touched ^= data[place]
    for k in range(len(starts)):
        length, row = ends[rows[k]] - 1, out[rows[k]]
        if first:
            row[0] = BOS
        # Views, because Numba asks of each index that it computes whether it counts from the end.
        line, body, rest = (
            data[starts[k] : starts[k] + length],
            row[first:],
            row[first + length + 1 :],
        )
        for place in range(len(line)):
            body[place] = line[place]
        body[length] = EOS
        for place in range(len(rest)):
            rest[place] = PAD
    return touched


def assemble(corpus: ParallelCorpus, indices: Indices) -> Batch:
    """Return the padded batch of some pairs of a corpus with a source.

    indices (n,) int64: which of the corpus' pairs, row by row. Sources and targets are padded to
    the longest of them, EOS included.
    """
    source_len = corpus.source_lengths[indices].astype(np.int64) + 1
    target_len = corpus.target_lengths[indices].astype(np.int64) + 1
    widths = [int(lens.max(initial=0)) for lens in (source_len, target_len)]
    source = np.empty((len(indices), widths[0]), np.uint8)
    target = np.empty((len(indices), widths[1] + 1), np.uint8)
    sides = (source_len, 0, source), (target_len, 1, target)
    changed = [corpus.changed.get(index) for index in indices.tolist()] if corpus.changed else []
    part_of = np.searchsorted(corpus.bounds, indices, side="right") - 1
    part_of[[row for row, pair in enumerate(changed) if pair is not None]] = -1  # in no part's text
    for p, part in enumerate(corpus.parts):
        rows = np.flatnonzero(part_of == p)
        lines = corpus.lines[indices[rows]]
        for text, (ends, first, out) in zip((part.src, part.tgt), sides, strict=True):
            if len(rows) and text is not None:
                _fill_rows(text.data, text.starts[lines], ends, rows, first, out)
    rows = np.flatnonzero(part_of < 0)
    for side, (ends, first, out) in enumerate(sides):
        data = np.frombuffer(b"".join(pair[side] for pair in changed if pair is not None), np.uint8)
        starts = np.cumsum([0, *(ends[rows] - 1)])[:-1]
        if len(rows):
            _fill_rows(data, starts, ends, rows, first, out)
    return Batch(source, source_len, target, target_len)


def batches(
    corpus: ParallelCorpus,
    plan: EpochPlan,
    first: int = 0,
    *,
    share: tuple[int, int] = (0, 1),
    change: Callable[[Batch, int], Batch] | None = None,
) -> Iterator[Batch]:
    """Yield the batches of a plan from batch `first` on; a thread assembles a few of them ahead.

    share (rank, size): yield of each batch only the rows rank, rank + size, …; they may be none.
    change: called by the thread with each batch (this share of it) and its number, returns the
    batch to use instead. An error of the thread is raised here; the thread ends with the iterator.
    """
    rank, size = share

    def make(index: int) -> Batch:
        batch = assemble(corpus, plan.batch(index)[rank::size])
        return batch if change is None else change(batch, index)

    thread = ThreadPoolExecutor(1, "batches")
    try:
        waiting: deque[Future[Batch]] = deque()
        for index in range(first, plan.n_batches):
            waiting.append(thread.submit(make, index))
            if len(waiting) > PREFETCH:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        thread.shutdown(cancel_futures=True)
