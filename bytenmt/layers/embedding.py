"""The byte embedding that all architectures share, position embeddings and the output layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.layers.ngram_tables import NgramTables, RecentBytes
from bytenmt.utf8 import N_IDS


class ByteEmbedding(nn.Module):
    """The embedding of the 256 byte ids, shared by source and target.

    std: of the initial vectors. ngrams: tables whose vectors of n-grams are added; None: none. A
    text may be read in parts: a decoder keeps `recent`, the last bytes before a part, in its state.
    It gets it from `start` at the start of a text and from `advance` after each part.
    """

    def __init__(
        self, d_embedding: int, std: float = 0.1, ngrams: NgramTables | None = None
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(N_IDS, d_embedding) * std)
        self.ngrams = ngrams

    def forward(self, ids: Tensor, recent: RecentBytes = ()) -> Tensor:
        """Embed ids (rows, t) uint8 as (rows, t, d_embedding).

        recent: the last bytes before them, from `start` or `advance`; () at the start of a text.
        """
        e = F.embedding(ids.int(), self.weight)
        if self.ngrams is not None:
            e = e + self.ngrams(ids, recent or self.start(len(ids), ids.device))
        return e

    def start(self, rows: int, device: torch.device) -> RecentBytes:
        """Return `recent` for the start of texts (`rows` of them), all BOS; () without n-grams."""
        return () if self.ngrams is None else self.ngrams.start(rows, device)

    def advance(self, recent: RecentBytes, ids: Tensor) -> RecentBytes:
        """Return the last bytes read (`recent`) after ids (rows, t) uint8, given those before."""
        if self.ngrams is None:
            return ()
        last = torch.cat([recent[0], ids], dim=1)[:, -recent[0].shape[1] :]
        return last, *(self.ngrams.prefix_hashes(ids, before)[:, -1] for before in recent[1:])


class PositionEmbedding(nn.Module):
    """Learned embeddings of absolute positions, int64 of any shape, counted from 0.

    n_positions: rows of the table; later positions share its last row.
    """

    weight: Tensor  # (positions, d_embedding)

    def __init__(self, n_positions: int, d_embedding: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_positions, d_embedding) * 0.1)

    def forward(self, positions: Tensor) -> Tensor:
        """Embed positions, int64 of any shape, as (..., d_embedding)."""
        return F.embedding(positions.clamp(max=len(self.weight) - 1), self.weight)


class SinusoidalPositions(PositionEmbedding):
    """Sinusoidal position embeddings (Vaswani et al. 2017, section 3.5), not learned.

        p_(j,2i) = sin(j / 10000^(2i / d)) 0.1 sqrt(2),  p_(j,2i+1) the same of cos

    Their size is that of initial learned ones. The table (n_positions, d_embedding) is float64 and
    not stored in weights files; later positions share its last row.
    """

    def __init__(self, n_positions: int, d_embedding: int) -> None:
        nn.Module.__init__(self)
        positions = torch.arange(n_positions, dtype=torch.float64)[:, None]
        rates = 10_000.0 ** -(torch.arange(0, d_embedding, 2, dtype=torch.float64) / d_embedding)
        angles = positions * rates
        waves = torch.stack([torch.sin(angles), torch.cos(angles)], dim=2).flatten(1)
        self.register_buffer("weight", waves[:, :d_embedding] * (0.1 * 2**0.5), persistent=False)


class OutputLayer(nn.Module):
    """Maps a decoder's last layer to the logits of the 256 byte ids, by a linear map."""

    def __init__(self, d_input: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(N_IDS, d_input))
        nn.init.normal_(self.weight, std=d_input**-0.5)
        self.bias = nn.Parameter(torch.zeros(N_IDS)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Map x (rows, t, d_input) to logits (rows, t, 256)."""
        return F.linear(x, self.weight, self.bias)
