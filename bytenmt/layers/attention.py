"""Attention of many queries over one source, shared by all beams of a sentence.

A sentence's keys stand once; its beams and steps are just more queries. Knows no model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def source_mask(source_len: Tensor, n_columns: int) -> Tensor:
    """source_len (n,) -> (n, n_columns) bool, true on real columns."""
    return torch.arange(n_columns, device=source_len.device) < source_len[:, None]


def attend(scores: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax over the source, then the weighted sum.

    scores (n, q, s): one row a query; values (n, s, v); mask (n, s) bool, true on real columns.
    Returns context (n, q, v) and weights (n, q, s). With s = 0 the context is zero, not a softmax over
    nothing.
    """
    if scores.shape[2] == 0:
        return scores.new_zeros(*scores.shape[:2], values.shape[2]), scores
    weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(dim=-1)
    return weights.to(values.dtype) @ values, weights


def dot_scores(query: Tensor, keys: Tensor) -> Tensor:
    """query (n, q, d), keys (n, s, d) -> scores (n, q, s)."""
    return query @ keys.transpose(1, 2)


class AdditiveScore(nn.Module):
    """e = v^T tanh(W q + k): Bahdanau et al. 2015 (appendix), and Luong's "concat" with k = U h.

    The keys arrive projected, because they are the same at every step.
    """

    def __init__(self, d_query: int, d_attention: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_query, d_attention, bias=False)
        self.v = nn.Parameter(torch.zeros(d_attention))

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (n, q, d_query), keys (n, s, d_attention) -> scores (n, q, s)."""
        return torch.tanh(self.query(query)[:, :, None] + keys[:, None]) @ self.v
