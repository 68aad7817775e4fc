"""Apply the layers of an encoder to whole sources or, where its look-ahead is bounded, to a source in pieces.

A piece of n columns gives n columns of every layer. Those of a convolution that ends `right` columns to the
right of its own stand so many columns further left: at first they stand before the source, which the mask
shows, and columns outside of the mask after the source push out the last ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bytenmt.layers.attention import source_mask
from bytenmt.layers.embedding import ByteEmbedding
from bytenmt.layers.recurrent import GRU, LSTM
from bytenmt.utf8 import EOS

Centred = Callable[[Tensor, Tensor, int], Tensor]  # see Convolution.centred


class WholeSources:
    """Apply layers to n whole sources. n_before: columns before the first one, 0."""

    n_before = 0

    def pad(self, src: Tensor, src_len: Tensor, real_len: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Return src (n, s) uint8 in `width` columns, and the mask (n, width) of those that are read.

        src_len, real_len (n,) int64: bytes of each row, and columns that are read; if it is not the same
        tensor, EOS stands in the columns between.
        """
        if real_len is not src_len:
            src = F.pad(src, (0, width - src.shape[1]), value=EOS)
            src = torch.where(source_mask(src_len, width), src, EOS)
        return src, source_mask(real_len, width)

    def embed(self, embedding: ByteEmbedding, src: Tensor) -> Tensor:
        """Embed src (n, s) uint8 as (n, s, d_embedding)."""
        e: Tensor = embedding(src)
        return e

    def convolve(
        self, layer: Centred, x: Tensor, mask: Tensor, reach: int, right: int
    ) -> tuple[Tensor, Tensor]:
        """Return layer(x, mask, right) and the mask of its columns.

        reach: columns that the layer reads besides one, `right` of them to the right.
        """
        return layer(x, mask, right), mask

    def scan(self, layer: GRU | LSTM, x: Tensor, zero: Tensor) -> tuple[Tensor, ...]:
        """Return all parts of a recurrent layer's state after each column of x; zero: its first state."""
        return layer.unrolled(x, *[zero] * layer.PARTS)

    def collect(self, name: str, x: Tensor, mask: Tensor, delay: int = 0) -> Tensor:
        """Return the columns of the memory's part `name`, which x (n, s, d) has `delay` columns later."""
        return x[:, delay:] if delay else x  # a slice of all would add gradients in another order


class SourceStream(WholeSources):
    """Apply layers to one source in pieces, each column of an encoder's input once.

    A call of `pad` begins a piece. is_last: whether it is the last one. lookahead: of the encoder. A layer's
    last `reach` inputs, or its state, are kept, and all columns of the memory.
    """

    def __init__(self, lookahead: int) -> None:
        self.is_last, self._lookahead, self._n_read = False, lookahead, 0
        self._kept: dict[Any, tuple[Tensor, ...]] = {}

    def pad(self, src: Tensor, src_len: Tensor, real_len: Tensor, width: int) -> tuple[Tensor, Tensor]:
        self.n_before, self._n_read = self._n_read, self._n_read + src.shape[1]
        mask = src.new_ones(src.shape, dtype=torch.bool)
        if self.is_last:
            n_ends = int(real_len[0]) - self._n_read
            src = F.pad(src, (0, n_ends + self._lookahead), value=EOS)
            mask = F.pad(F.pad(mask, (0, n_ends), value=True), (0, self._lookahead))
        return src, mask

    def embed(self, embedding: ByteEmbedding, src: Tensor) -> Tensor:
        recent = self._kept.get(embedding) or embedding.begin(1, src.device)
        self._kept[embedding] = embedding.advance(recent, src)
        e: Tensor = embedding(src, recent)
        return e

    def convolve(
        self, layer: Centred, x: Tensor, mask: Tensor, reach: int, right: int
    ) -> tuple[Tensor, Tensor]:
        n, left = x.shape[1], reach - right
        before = self._kept.get(layer) or (x.new_zeros(1, reach, x.shape[2]), mask.new_zeros(1, reach))
        x, mask = (torch.cat(parts, dim=1) for parts in zip(before, (x, mask), strict=True))
        self._kept[layer] = x[:, n:], mask[:, n:]
        return layer(x, mask, right)[:, left : left + n], mask[:, left : left + n]

    def scan(self, layer: GRU | LSTM, x: Tensor, zero: Tensor) -> tuple[Tensor, ...]:
        parts = layer.unrolled(x, *self._kept.get(layer, (zero,) * layer.PARTS))
        self._kept[layer] = tuple(part[:, -1] for part in parts)
        return parts

    def collect(self, name: str, x: Tensor, mask: Tensor, delay: int = 0) -> Tensor:
        skipped = max(0, delay - self.n_before)
        new = x[:, skipped:][:, mask[0, skipped:]]
        columns = torch.cat([*self._kept.get(name, ()), new], dim=1)
        self._kept[name] = (columns,)
        return columns


def unchanged(x: Tensor, mask: Tensor, right: int) -> Tensor:
    """Return x: a layer that only waits for columns to its right."""
    return x


WHOLE = WholeSources()
