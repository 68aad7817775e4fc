"""Character prediction: how many bits each byte of a stream, or of given translations, costs a model.

A stream goes through `forward` in chunks and carries the state, so that no context is cut: how it is cut
changes nothing but the rounding. Memory does not grow with it. All 256 ids are data there, BOS only opens it
and nothing ends it. Of translations each line ends with EOS, as in `evaluate`. Knows models by their
contract; knows no files and prints nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bytenmt.data.batches import batches, epoch_plan
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.device import to_device
from bytenmt.models.base import Model, normalised, of_bytes
from bytenmt.utf8 import BOS

CHUNK = 1024  # bytes of a stream that a model reads in one call
WINDOWS_AT_ONCE = 1 << 14  # bytes of windows that are read side by side
LINES_AT_ONCE = 1000  # of translations; their surprises are in memory


class Surprise(NamedTuple):
    """What bytes cost. data (n,) uint8: the bytes; bits (n,) float64: -log2 p of each; rank (n,) int64: how
    many bytes were likelier, or as likely and of lower value.

    Of translations an end of line stands as EOS, which UTF-8 never holds; in a stream that id is a byte.
    """

    data: npt.NDArray[np.uint8]
    bits: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int64]

    @staticmethod
    def joined(parts: Sequence[Surprise]) -> Surprise:
        """One behind the other, at least one."""
        data, bits, rank = zip(*parts, strict=True)
        return Surprise(np.concatenate(data), np.concatenate(bits), np.concatenate(rank))

    def cut(self, n: int) -> tuple[Surprise, Surprise]:
        """The first n bytes and the others."""
        data, bits, rank = self
        return Surprise(data[:n], bits[:n], rank[:n]), Surprise(data[n:], bits[n:], rank[n:])


class Predictor:
    """A model that reads one stream, from its start on; without a source.

    model: in evaluation mode on the device, in the precision in which it shall compute.
    """

    def __init__(self, model: Model[Any, Any], device: torch.device) -> None:
        self._model, self._device = model, device
        with torch.no_grad():
            self._memory = model.encode(
                torch.zeros(1, 0, dtype=torch.uint8, device=device),
                torch.zeros(1, dtype=torch.int64, device=device),
            )
            self._state = model.start(self._memory)
        self._last = BOS

    @torch.no_grad()
    def read(self, data: bytes) -> Surprise:
        """What the next bytes cost, at least one, in one call of the model."""
        truth = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(self._device)[None]
        read = torch.cat([torch.full_like(truth[:, :1], self._last), truth[:, :-1]], dim=1)
        logits, self._state = self._model(read, self._memory, self._state)
        self._last = data[-1]
        bits, rank = surprise(logits, truth)
        return Surprise(np.frombuffer(data, np.uint8), bits[0].cpu().numpy(), rank[0].cpu().numpy())


def stream(
    model: Model[Any, Any], pieces: Iterable[bytes], device: torch.device, chunk: int = CHUNK
) -> Iterator[Surprise]:
    """What each byte of a stream costs, `chunk` bytes at a time.

    pieces: the stream, cut anyhow; the same bytes give the same numbers however they come.
    """
    predictor = Predictor(model, device)
    for data in recut(pieces, chunk):
        yield predictor.read(data)


class Windowed:
    """What a stream costs in windows of `size` bytes side by side, each read anew: a byte of a window is
    predicted from those before it in the window and the one byte before that, as in nanoGPT's estimate of its
    loss, which draws such windows at random.

    The model starts each with BOS, which opens every stream; the first window has nothing else before it and
    the last one may be shorter. model: as Predictor's.
    """

    def __init__(self, model: Model[Any, Any], device: torch.device, size: int) -> None:
        self._model, self._device, self._size = model, device, size
        self._waiting = bytearray()
        self._before: int | None = None  # the byte before what waits
        self._bits, self._n_bytes = 0.0, 0

    def add(self, data: bytes) -> None:
        """The next bytes."""
        self._waiting += data
        at_once = max(1, WINDOWS_AT_ONCE // self._size) * self._size
        while len(self._waiting) >= at_once:
            self._read(at_once // self._size, self._size)

    def lines(self) -> Iterator[str]:
        """For people; the stream has ended."""
        while len(self._waiting) >= self._size:
            self._read(len(self._waiting) // self._size, self._size)
        if self._waiting:
            self._read(1, len(self._waiting))
        bits = self._bits / max(1, self._n_bytes)
        nats = bits * math.log(2)
        yield f"bits per byte, in windows of {self._size} read anew: {bits:.4f} ({nats:.4f} nats a byte)"

    @torch.no_grad()
    def _read(self, n: int, size: int) -> None:
        """n windows of those that wait. A first one is read alone: nothing stands before it."""
        n = n if self._before is not None else 1
        data = bytes(self._waiting[: n * size])
        truth = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(self._device).view(n, size)
        before = [] if self._before is None else [self._before, *data[size - 1 : -1 : size]]
        context = torch.tensor(before, dtype=torch.uint8, device=self._device).view(n, -1)
        opened = torch.full((n, 1), BOS, dtype=torch.uint8, device=self._device)
        memory = self._model.encode(
            torch.zeros(n, 0, dtype=torch.uint8, device=self._device),
            torch.zeros(n, dtype=torch.int64, device=self._device),
        )
        read = torch.cat([opened, context, truth[:, :-1]], dim=1)
        logits, _ = self._model(read, memory, self._model.start(memory))
        self._bits += float(surprise(logits[:, -size:], truth)[0].sum())
        self._n_bytes += len(data)
        self._before = data[-1]
        del self._waiting[: len(data)]


def recut(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of `size`, the last one shorter, none empty."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        whole = len(waiting) - len(waiting) % size
        for start in range(0, whole, size):
            yield bytes(waiting[start : start + size])
        del waiting[:whole]
    if waiting:
        yield bytes(waiting)


def translations(
    model: Model[Any, Any], corpus: ParallelCorpus, device: torch.device, max_tokens: int = 16_000
) -> Iterator[Surprise]:
    """What each byte of given translations costs, and the end of each, some lines at a time, in their order.

    max_tokens: bytes a batch, padding counted.
    """
    for first in range(0, len(corpus), LINES_AT_ONCE):
        some = slice(first, first + LINES_AT_ONCE)
        lengths = corpus.source_lengths[some], corpus.target_lengths[some]
        plan = epoch_plan(*lengths, max_tokens, seed=0, epoch=0, shuffle=False)
        plan = plan._replace(order=plan.order + first)
        found: dict[int, Surprise] = {}
        for index, batch in enumerate(batches(corpus, plan)):
            on = to_device(batch, device)
            with torch.no_grad():
                memory = model.encode(on.source, on.source_len)
                logits, _ = model(on.target_in, memory, model.start(memory))
                bits, rank = (part.cpu().numpy() for part in surprise(logits, on.target_out))
            for row, line in enumerate(plan.batch(index).tolist()):
                real = slice(int(batch.target_len[row]))
                found[line] = Surprise(batch.target_out[row, real], bits[row, real], rank[row, real])
        yield Surprise.joined([found[line] for line in sorted(found)])


def surprise(logits: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """logits (rows, t, 256), truth (rows, t) uint8 -> bits (rows, t) float64, rank (rows, t) int64."""
    bits = -of_bytes(normalised(logits), truth).double() / math.log(2)
    own = of_bytes(logits, truth)[:, :, None]
    lower = torch.arange(logits.shape[2], device=logits.device) < truth[:, :, None]
    return bits, ((logits > own) | (logits == own) & lower).sum(dim=2)
