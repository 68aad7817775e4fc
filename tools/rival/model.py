"""A subword Transformer of PyTorch's own layers: pre-norm, tied embeddings, sinusoidal positions.

Vaswani et al. 2017, but with layer norms before the sublayers and after both stacks (pre-norm). One
table embeds sources and targets and is the output layer. Positions are encoded as in CTranslate2,
which runs the trained model: counted from 1, sines before cosines.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

# SentencePiece's default ids.
UNK = 0
BOS = 1
EOS = 2
MAX_PIECES = 1024  # maximum length of a source or a target


class TransformerShape(NamedTuple):
    """Vocabulary size, width, inner width, layers of each stack, heads and dropout."""

    n_pieces: int
    d_model: int
    d_inner: int
    layers: int
    decoder_layers: int
    heads: int
    dropout: float


class Transformer(nn.Module):
    """An encoder and a decoder."""

    positions: Tensor

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.shape = shape
        d = shape.d_model
        sizes = (d, shape.heads, shape.d_inner, shape.dropout)
        encoder = nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=True)
        decoder = nn.TransformerDecoderLayer(*sizes, batch_first=True, norm_first=True)
        self.embedding = nn.Embedding(shape.n_pieces, d)
        self.encoder = nn.TransformerEncoder(
            encoder, shape.layers, nn.LayerNorm(d), enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(decoder, shape.decoder_layers, nn.LayerNorm(d))
        for layer in (*self.encoder.layers, *self.decoder.layers):
            # The paper has no dropout of inner units, which would take a quarter of the time.
            layer.dropout = nn.Identity()
        self.dropout = nn.Dropout(shape.dropout)
        self.register_buffer("positions", sinusoids(MAX_PIECES, d), persistent=False)
        for parameter in self.parameters():  # PyTorch's stacks start as copies of one layer
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)

    def encode(self, source: Tensor, padding: Tensor) -> Tensor:
        """Encode a source (n, s), int64 ids with EOS last, to (n, s, d).

        padding (n, s) bool: true at padding.
        """
        encoded: Tensor = self.encoder(self._embed(source), src_key_padding_mask=padding)
        return encoded

    def decode(self, target: Tensor, encoded: Tensor, padding: Tensor) -> Tensor:
        """Return the decoder states (n, t, d) of a target (n, t), int64 ids with BOS first.

        encoded, padding: of the source, as in encode.
        """
        t = target.shape[1]
        decoded: Tensor = self.decoder(
            self._embed(target),
            encoded,
            tgt_mask=torch.ones(t, t, dtype=torch.bool).triu(1),
            tgt_is_causal=True,
            memory_key_padding_mask=padding,
        )
        return decoded

    def logits(self, decoded: Tensor) -> Tensor:
        """Return the logits (..., n_pieces) of decoder states (..., d)."""
        return nn.functional.linear(decoded, self.embedding.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        d = self.embedding.embedding_dim
        embedded = self.embedding(ids) * math.sqrt(d)
        dropped: Tensor = self.dropout(embedded + self.positions[: ids.shape[1]])
        return dropped


def sinusoids(n: int, d: int) -> Tensor:
    """Return the encodings (n, d) of positions 1 to n: d/2 sines of falling frequency, d/2 cosines.

    Frequencies fall from 1 to 1/10,000.
    """
    half = d // 2
    frequencies = torch.exp(torch.arange(half) * (-math.log(10_000) / max(1, half - 1)))
    angles = torch.arange(1, n + 1)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def stacked_projections(model: Transformer) -> dict[nn.Parameter, int]:
    """Return hidden matrices with the number of their projections: 3 for query, key and value."""
    return {
        parameter: 3 if name.endswith("in_proj_weight") else 1
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1 and parameter is not model.embedding.weight
    }
