"""The byte embedding that all architectures share, position embeddings and the output layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.layers.ngram_tables import NgramTables, RecentBytes, first_bytes
from bytenmt.utf8 import N_IDS


class ByteEmbedding(nn.Module):
    """A vector for each of the 256 ids, one table for source and target; with `ngrams`, plus those of the
    n-grams that end there.

    A text is read in pieces of any length: `recent` holds the bytes before a piece. A decoder keeps it in its
    state: begin, advance, reorder and rewind are what its start, forward, reorder and rewind do with it.
    """

    def __init__(self, d_embedding: int, std: float = 0.1, ngrams: NgramTables | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(N_IDS, d_embedding) * std)
        self.ngrams = ngrams

    def forward(self, ids: Tensor, recent: RecentBytes = ()) -> Tensor:
        """ids (rows, t) uint8 -> (rows, t, d_embedding); recent: the bytes before them, (): a text begins."""
        e = F.embedding(ids.int(), self.weight)
        if self.ngrams is None:
            return e
        before = recent or self.begin(len(ids), ids.device)
        added: Tensor = self.ngrams(ids, before[0])
        return e + added

    def begin(self, rows: int, device: torch.device, drafted: int = 0) -> RecentBytes:
        """The recent bytes before a text; drafted: bytes that rewind may take back."""
        return () if self.ngrams is None else (first_bytes(rows, drafted, device),)

    @staticmethod
    def advance(recent: RecentBytes, ids: Tensor) -> RecentBytes:
        """After ids (rows, t) uint8 more."""
        return tuple(torch.cat([part, ids], dim=1)[:, -part.shape[1] :] for part in recent)

    @staticmethod
    def reorder(recent: RecentBytes, parents: Tensor) -> RecentBytes:
        """Row i goes on from row parents[i]; parents (rows,) int64."""
        return tuple(part[parents] for part in recent)

    @staticmethod
    def rewind(recent: RecentBytes, columns: Tensor) -> RecentBytes:
        """Before the last columns (rows,) int64 of each row. What was forgotten is not read again before as
        many bytes have come."""

        def earlier(part: Tensor) -> Tensor:
            at = torch.arange(part.shape[1], device=part.device) - columns[:, None]
            return part.gather(1, at.clamp(min=0))

        return tuple(map(earlier, recent))


class PositionEmbedding(nn.Module):
    """Learned absolute positions; all positions past the table share its last row, so none overflows."""

    def __init__(self, n_positions: int, d_embedding: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_positions, d_embedding) * 0.1)

    def forward(self, positions: Tensor) -> Tensor:
        """positions int64, any shape -> (..., d_embedding)."""
        return F.embedding(positions.clamp(max=len(self.weight) - 1), self.weight)


class SinusoidalPositions(nn.Module):
    """Positions as waves (Vaswani et al. 2017, section 3.5), in the size in which learned ones begin.

        p_(j,2i) = sin(j / 10000^(2i / d)) 0.1 sqrt(2),  p_(j,2i+1) the same of cos

    In float64, neither a parameter nor in a file: computed wherever the model is built. All positions past
    the table share its last row, as in PositionEmbedding.
    """

    table: Tensor

    def __init__(self, n_positions: int, d_embedding: int) -> None:
        super().__init__()
        at = torch.arange(n_positions, dtype=torch.float64)[:, None]
        rates = 10_000.0 ** -(torch.arange(0, d_embedding, 2, dtype=torch.float64) / d_embedding)
        waves = torch.stack([torch.sin(at * rates), torch.cos(at * rates)], dim=2).flatten(1)
        self.register_buffer("table", waves[:, :d_embedding] * (0.1 * 2**0.5), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """positions int64, any shape -> (..., d_embedding)."""
        return F.embedding(positions.clamp(max=len(self.table) - 1), self.table)


class OutputLayer(nn.Module):
    """A decoder's last channels -> logits of the 256 ids.

    Tied, the byte embedding's table is the weight, behind a projection where the widths differ.
    """

    def __init__(self, d_input: int, embedding: ByteEmbedding, tie: bool, bias: bool = True) -> None:
        super().__init__()
        d_embedding = embedding.weight.shape[1]
        self.projection = nn.Linear(d_input, d_embedding) if tie and d_input != d_embedding else None
        self.weight = embedding.weight if tie else nn.Parameter(torch.empty(N_IDS, d_input))
        if not tie:
            nn.init.normal_(self.weight, std=d_input**-0.5)
        self.bias = nn.Parameter(torch.zeros(N_IDS)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x (rows, t, d_input) -> logits (rows, t, 256)."""
        if self.projection is not None:
            x = self.projection(x)
        return F.linear(x, self.weight, self.bias)
