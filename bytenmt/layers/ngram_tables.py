"""Tables of hashed byte n-grams: a lexical memory that is added to the byte embedding.

    e_i = E[x_i] + sum over n of T_n[hash(x_{i-n+1} … x_i)]

T_n (rows, d) holds a vector for every hash value of the last n bytes (ngram_hash.py); different n-grams may
share a row. All T_n start at zero. Hash embeddings are of Svenstrup et al. 2017 (1709.03933), those of byte
n-grams of the byte latent transformer (Pagnoni et al. 2024, 2412.09871, section 3.2.1).

An update reads few of the rows, so a gradient of the size of the tables would be almost all zeros: backward
collects the gradients of the rows that were read, and training/row_adam.py updates those alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.layers.dropout import drop
from bytenmt.ngram_hash import MIX, N_BYTES, PER_ORDER, SPREAD, WORD
from bytenmt.splitmix import signed

# The last bytes that a decoder has read, (rows, 8) uint8, the newest last; () without tables.
RecentBytes = tuple[Tensor, ...]


class RowGradients(NamedTuple):
    """The gradient of one look-up at t positions.

    rows (t, orders) int64: rows that were summed. factors (t, orders) or None: their factors, of n-gram
    dropout. gradient (t, d): of the sum.
    """

    rows: Tensor
    factors: Tensor | None
    gradient: Tensor


class NgramTables(nn.Module):
    """The tables T_n of `orders`, growing numbers from 1 to 8.

    n_rows: of each table, a power of two; d_embedding: numbers of a row. dropout: the chance that a look-up,
    one order at one position, reads zero in training; the others are scaled up. fold_case: hash A to Z as a
    to z, so that an n-gram has one row in all its ASCII capitals.
    weight (orders * n_rows, d_embedding): one table under the other. gradients: of the rows that were read
    since the list was last emptied; `weight.grad` stays None.
    """

    def __init__(
        self,
        d_embedding: int,
        orders: Sequence[int],
        n_rows: int,
        dropout: float = 0.0,
        fold_case: bool = False,
    ) -> None:
        super().__init__()
        self.orders, self.n_rows, self.dropout, self.fold_case = tuple(orders), n_rows, dropout, fold_case
        self.weight = nn.Parameter(torch.zeros(len(self.orders) * n_rows, d_embedding))
        self.gradients: list[RowGradients] = []

    def forward(self, ids: Tensor, recent: Tensor) -> Tensor:
        """Embed the n-grams that end at ids (rows, t) uint8: (rows, t, d_embedding).

        recent (rows, 8) uint8: the bytes before them.
        """
        rows = self.row_numbers(ids, recent).flatten(0, 1)
        factors = None
        if self.training and self.dropout:
            ones = torch.ones(rows.shape, dtype=self.weight.dtype, device=rows.device)
            factors = drop(ones, self.dropout, training=True)
        summed: Tensor = _SumRows.apply(  # type: ignore[no-untyped-call]
            self.weight, rows, factors, self.gradients
        )
        return summed.view(*ids.shape, -1)

    def row_numbers(self, ids: Tensor, recent: Tensor) -> Tensor:
        """Return the rows of `weight` that each byte reads: (rows, t, orders) int64.

        Arguments: see forward.
        """
        t = ids.shape[1]
        text = torch.cat([recent, ids], dim=1)
        if self.fold_case:
            text = torch.where((text >= ord("A")) & (text <= ord("Z")), text + 32, text)
        text = text.long()
        key, mask, numbers = torch.zeros_like(text[:, N_BYTES:]), 0, []
        for n in range(1, max(self.orders) + 1):
            begin = N_BYTES + 1 - n
            key = key | text[:, begin : begin + t] << (8 * (n - 1))
            mask = mask << 8 | 0xFF
            if n in self.orders:
                h = (key ^ signed(n * PER_ORDER & WORD)) * signed(SPREAD)
                h = (h ^ ((h >> 32) & 0xFFFFFFFF)) * signed(MIX)
                # A shift of int64 repeats the sign bit; mask all but the k highest bits.
                numbers.append((h >> (64 - self.n_rows.bit_length() + 1)) & (self.n_rows - 1))
        return torch.stack(numbers, dim=-1) + torch.arange(len(numbers), device=ids.device) * self.n_rows


class _SumRows(torch.autograd.Function):
    """Sum the rows (t, orders) of weight (v, d), times factors (t, orders) or None; return (t, d).

    The backward pass appends RowGradients to a list instead of computing a gradient of the weight.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, rows: Tensor, factors: Tensor | None, gradients: list[RowGradients]
    ) -> Tensor:
        ctx.rows, ctx.factors, ctx.gradients = rows, factors, gradients
        return F.embedding_bag(rows, weight, mode="sum", per_sample_weights=factors)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, None]:
        ctx.gradients.append(RowGradients(ctx.rows, ctx.factors, gradient.contiguous()))
        return None, None, None, None
