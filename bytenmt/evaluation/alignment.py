"""Which source character each output character was made from: the attention's weights, folded from bytes.

The weights come from one teacher-forced pass of the PyTorch model over a text that any engine has found.
Knows the models with attention by their contract; does not know how text is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bytenmt.storage.checkpoint import load_run
from bytenmt.utf8 import BOS, EOS, PAD

CELLS = 1 << 22  # weights of a batch, padding counted
MOST_ROWS = 64


class Attentive(Protocol):
    """A model with attention; see models.base.Model."""

    def encode(self, src: Tensor, src_len: Tensor) -> Any: ...

    def start(self, memory: Any, beam: int = 1) -> Any: ...

    def alignment(self, tgt: Tensor, memory: Any, state: Any) -> Tensor:
        """tgt (n, t) uint8, the decoder's input, from `state` on -> (n, t, s): how much the prediction after
        each byte attends to each source byte, EOS included; padded columns 0. Mean over layers."""
        ...

    def alignments(self, tgt: Tensor, memory: Any, state: Any) -> dict[int, Tensor]:
        """The same of each layer that attends, by its number, counted from 1."""
        ...


class Link(NamedTuple):
    """An output character and the source character that it attends to most. bytes, chars: where each begins
    and ends (not included) in its text; weight: the attention's share, mean over the output's bytes."""

    bytes: tuple[int, int]
    chars: tuple[int, int]
    source_bytes: tuple[int, int]
    source_chars: tuple[int, int]
    weight: float

    def shifted(self, n_bytes: int, n_chars: int, source_bytes: int, source_chars: int) -> Link:
        """The same in texts that have so much before these."""
        return Link(
            _moved(self.bytes, n_bytes),
            _moved(self.chars, n_chars),
            _moved(self.source_bytes, source_bytes),
            _moved(self.source_chars, source_chars),
            self.weight,
        )


def _moved(span: tuple[int, int], by: int) -> tuple[int, int]:
    return span[0] + by, span[1] + by


@dataclass(frozen=True, eq=False)
class Aligner:
    """Models with attention, in evaluation mode on a device; of several, the mean of their weights."""

    models: Sequence[Attentive]
    device: torch.device

    @classmethod
    def load(cls, files: Sequence[Path], device: str) -> Aligner:
        """That of weights files of architectures with attention."""
        models = [load_run(file, torch.device(device)).model for file in files]
        return cls([cast(Attentive, model) for model in models], torch.device(device))

    def weights(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[npt.NDArray[np.float32]]:
        """(source, text) without EOS -> for each (bytes of the text, bytes of the source + 1): a row for each
        byte that was predicted, a column for each source byte and its EOS. Where nothing was, as for an empty
        line, no model is asked."""
        asked = [i for i in range(len(pairs)) if pairs[i][1]]
        order = sorted(asked, key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
        found: dict[int, npt.NDArray[np.float32]] = {}
        for batch in _batches(order, pairs):
            sources = [pairs[i][0] + bytes([EOS]) for i in batch]
            texts = [bytes([BOS]) + pairs[i][1][:-1] for i in batch]
            src_len = torch.tensor([len(source) for source in sources], device=self.device)
            src, tgt = self._rows(sources), self._rows(texts)
            with torch.no_grad():
                total: Tensor | None = None
                for model in self.models:
                    memory = model.encode(src, src_len)
                    own = model.alignment(tgt, memory, model.start(memory)).float()
                    total = own if total is None else total + own
            assert total is not None
            mean = (total / len(self.models)).cpu().numpy()
            for row, i in enumerate(batch):
                found[i] = mean[row, : len(pairs[i][1]), : len(sources[row])]
        nothing = (np.zeros((0, len(source) + 1), np.float32) for source, _ in pairs)
        return [found.get(i, empty) for i, empty in enumerate(nothing)]

    def by_layer(self, source: bytes, text: bytes) -> dict[int, npt.NDArray[np.float32]]:
        """The weights of the first model's layers for one pair without EOS, each as `weights` has them."""
        src, tgt = self._rows([source + bytes([EOS])]), self._rows([bytes([BOS]) + text[:-1]])
        with torch.no_grad():
            memory = self.models[0].encode(src, torch.tensor([src.shape[1]], device=self.device))
            layers = self.models[0].alignments(tgt, memory, self.models[0].start(memory))
        return {number: weights[0].float().cpu().numpy() for number, weights in layers.items()}

    def links(self, lines: Sequence[Sequence[tuple[bytes, bytes, bytes]]]) -> list[list[Link]]:
        """For each line, whose pieces are (source, text, joint), the links of the pieces one after another;
        the joint stands behind the piece in the source and in the text, and has no link."""
        pairs = [(source, text) for line in lines for source, text, _ in line]
        weights = iter(self.weights(pairs))
        found = []
        for line in lines:
            links: list[Link] = []
            at = (0, 0, 0, 0)
            for source, text, joint in line:
                links += [link.shifted(*at) for link in fold(next(weights), source, text)]
                whole = (text + joint, source + joint)
                sizes = [size for part in whole for size in (len(part), len(part.decode()))]
                at = (at[0] + sizes[0], at[1] + sizes[1], at[2] + sizes[2], at[3] + sizes[3])
            found.append(links)
        return found

    def _rows(self, texts: Sequence[bytes]) -> Tensor:
        """(n, longest) uint8 on the device, padded."""
        width = max(map(len, texts))
        rows = bytearray(b"".join(text.ljust(width, bytes([PAD])) for text in texts))
        return torch.frombuffer(rows, dtype=torch.uint8).view(len(texts), width).to(self.device)


def fold(weights: npt.NDArray[np.float32], source: bytes, text: bytes) -> list[Link]:
    """weights (bytes of the text, bytes of the source + 1) -> a link for each character of the text; none
    where the source is empty. A source character's weight is the sum over its bytes."""
    source_spans, spans = _characters(source), _characters(text)
    if not source_spans or not spans:
        return []
    means = by_character(weights, source, text)[:, :-1]
    best = means.argmax(axis=1).tolist()
    return [
        Link(span, (k, k + 1), source_spans[j], (j, j + 1), round(float(means[k, j]), 6))
        for k, (span, j) in enumerate(zip(spans, best, strict=True))
    ]


def by_character(weights: npt.NDArray[np.float32], source: bytes, text: bytes) -> npt.NDArray[np.float64]:
    """weights (bytes of the text, bytes of the source + 1) -> (characters of the text, those of the source
    + 1): the sum over a source character's bytes, the mean over those of the text's, which is not empty."""
    source_starts = [start for start, _ in _characters(source)]
    of_source = np.add.reduceat(weights, [*source_starts, len(source)], axis=1)
    starts, ends = zip(*_characters(text), strict=True)
    sizes = np.array(ends) - np.array(starts)
    means: npt.NDArray[np.float64] = np.add.reduceat(of_source, starts, axis=0) / sizes[:, None]
    return means


def _characters(text: bytes) -> list[tuple[int, int]]:
    """Where each character of valid UTF-8 begins and ends."""
    starts = [i for i, byte in enumerate(text) if byte & 0xC0 != 0x80]
    return list(zip(starts, [*starts[1:], len(text)], strict=False))


def _batches(order: Sequence[int], pairs: Sequence[tuple[bytes, bytes]]) -> Iterator[list[int]]:
    """Pairs, in this order, so many together that their padded weights fit."""
    batch: list[int] = []
    longest = (0, 0)
    for i in order:
        source, text = pairs[i]
        longest = (max(longest[0], len(source) + 1), max(longest[1], len(text)))
        if batch and (len(batch) == MOST_ROWS or (len(batch) + 1) * longest[0] * longest[1] > CELLS):
            yield batch
            batch, longest = [], (len(source) + 1, len(text))
        batch.append(i)
    if batch:
        yield batch
