"""Assemble the bytes of batches as NumPy arrays, some batches ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.data.epoch_plan import EpochPlan
from bytenmt.jit import njit
from bytenmt.utf8 import BOS, EOS, PAD

if TYPE_CHECKING:
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.data.text_file import TextFile

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]

N_AHEAD = 4  # batches that are assembled ahead
CACHE_LINE_BYTES = 64


class Batch(NamedTuple):
    """A padded batch of n sentence pairs, or one process' share of it, where n may be 0."""

    source: Bytes  # (n, s) uint8: bytes, EOS, PAD
    source_len: Indices  # (n,) int64: bytes and EOS
    target: Bytes  # (n, t + 1) uint8: BOS, bytes, EOS, PAD
    target_len: Indices  # (n,) int64: bytes and EOS, as many as BOS and bytes

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[bytes, bytes]]) -> Batch:
        """Pad (source, target) pairs, bytes without EOS, to a batch."""
        source, source_len = _padded([source for source, _ in pairs], b"")
        target, target_len = _padded([target for _, target in pairs], bytes([BOS]))
        return cls(source, source_len, target, target_len)

    def pairs(self) -> list[tuple[bytes, bytes]]:
        """Return the source and target of each row, without BOS, EOS and PAD."""
        return [
            (source[: n_source - 1].tobytes(), target[1:n_target].tobytes())
            for source, n_source, target, n_target in zip(*self, strict=True)
        ]

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of sentence pairs, target bytes and source bytes, with EOS."""
        return len(self.target_len), int(self.target_len.sum()), int(self.source_len.sum())

    @property
    def target_in(self) -> Bytes:
        """The decoder's input, (n, t) uint8: BOS and bytes; after shorter sentences EOS, PAD."""
        return self.target[:, :-1]

    @property
    def target_out(self) -> Bytes:
        """The bytes to be predicted after those of target_in, (n, t) uint8: bytes, EOS, PAD."""
        return self.target[:, 1:]


def _padded(texts: Sequence[bytes], first: bytes) -> tuple[Bytes, Indices]:
    """Return texts as rows (n, width) of `first`, bytes, EOS, PAD, and the bytes with EOS (n,)."""
    lengths = np.array([len(text) + 1 for text in texts], np.int64)
    width = int(lengths.max(initial=0)) + len(first)
    rows = [(first + text + bytes([EOS])).ljust(width, bytes([PAD])) for text in texts]
    return np.frombuffer(bytearray().join(rows), np.uint8).reshape(len(texts), width), lengths


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
        for place in range(starts[k], starts[k] + ends[rows[k]] - 1, CACHE_LINE_BYTES):
            touched ^= data[place]
    for k in range(len(starts)):
        length = ends[rows[k]] - 1
        row = out[rows[k]]
        if first:
            row[0] = BOS
        # Views, because Numba asks of each index that it computes whether it counts from the end.
        line = data[starts[k] : starts[k] + length]
        body = row[first:]
        rest = row[first + length + 1 :]
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
    source = _Side.from_lengths(corpus.source_lengths[indices], 0)
    target = _Side.from_lengths(corpus.target_lengths[indices], 1)
    part_of = np.searchsorted(corpus.bounds, indices, side="right") - 1
    if corpus.changed:
        # 1) pairs that an augmentation has changed, which are in no part's text
        changed = [corpus.changed.get(index) for index in indices.tolist()]
        rows = np.array([row for row, pair in enumerate(changed) if pair is not None], np.int64)
        part_of[rows] = -1
        source.fill_texts(rows, [pair[0] for pair in changed if pair is not None])
        target.fill_texts(rows, [pair[1] for pair in changed if pair is not None])
    # 2) the others, from the files of each part
    for p, part in enumerate(corpus.parts):
        rows = np.flatnonzero(part_of == p)
        lines = corpus.lines[indices[rows]]
        source.fill_lines(rows, part.src, lines)
        target.fill_lines(rows, part.tgt, lines)
    return Batch(source.ids, source.lengths, target.ids, target.lengths)


class _Side(NamedTuple):
    """One side of a batch while it is assembled."""

    lengths: Indices  # (n,) int64: bytes and EOS
    n_first: int  # bytes in front of the text: 1 of a target, BOS, else 0
    ids: Bytes  # (n, n_first + longest) uint8: what is filled

    @classmethod
    def from_lengths(cls, lengths: Lengths, n_first: int) -> _Side:
        """Return a side with room for texts of these lengths (n,), without EOS."""
        with_end = lengths.astype(np.int64) + 1
        width = int(with_end.max(initial=0)) + n_first
        return cls(with_end, n_first, np.empty((len(lengths), width), np.uint8))

    def fill_lines(self, rows: Indices, text: TextFile | None, lines: Lengths) -> None:
        """Write lines (k,) of a text into rows (k,); nothing where there is no text."""
        if len(rows) and text is not None:
            starts = text.starts[lines]
            _fill_rows(text.data, starts, self.lengths, rows, self.n_first, self.ids)

    def fill_texts(self, rows: Indices, texts: Sequence[bytes]) -> None:
        """Write texts into rows (k,)."""
        if len(rows):
            data = np.frombuffer(b"".join(texts), np.uint8)
            starts = np.cumsum([0, *(self.lengths[rows] - 1)])[:-1]
            _fill_rows(data, starts, self.lengths, rows, self.n_first, self.ids)


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
            if len(waiting) > N_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        thread.shutdown(cancel_futures=True)
