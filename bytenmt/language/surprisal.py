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
from bytenmt.models.base import Model
from bytenmt.utf8 import BOS

CHUNK = 1024  # bytes of a stream that a model reads in one call
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
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    index = truth.long()[:, :, None]
    own = logits.gather(2, index)
    bits = (logits.logsumexp(dim=2) - own[:, :, 0]).double() / math.log(2)
    lower = torch.arange(logits.shape[2], device=logits.device) < index
    return bits, ((logits > own) | (logits == own) & lower).sum(dim=2)
