"""Attention of many queries over one source, shared by all beams of a sentence.

A sentence's keys stand once; its beams and steps are just more queries. Knows no model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bytenmt.layers.deferred_matmul import Product, deferred
from bytenmt.layers.fused_additive import FusedScore, applies


def source_mask(source_len: Tensor, n_columns: int) -> Tensor:
    """source_len (n,) -> (n, n_columns) bool, true on real columns."""
    return torch.arange(n_columns, device=source_len.device) < source_len[:, None]


def attend(scores: Tensor, values: Tensor | Product, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax over the source, then the weighted sum.

    scores (n, q, s): one row a query; values (n, s, v), or the product with them, where a loop defers their
    gradient; mask (n, s) bool, true on real columns. Returns context (n, q, v) and weights (n, q, s). With
    s = 0 the weights are empty and the context is zero, not a softmax over nothing.
    """
    weights = scores
    if scores.shape[2] > 0:
        weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(dim=-1)
    if isinstance(values, Tensor):
        return weights.to(values.dtype) @ values, weights
    return values(weights), weights


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

    def stepper(self, keys: Tensor) -> Product:
        """keys (n, s, d_attention) -> the score as a function, for one run of a loop: query (n, q, d_query)
        -> scores (n, q, s)."""
        projection = deferred(self.query.weight)
        fused = FusedScore(keys, self.v) if torch.is_grad_enabled() and applies(keys) else None

        def score(query: Tensor) -> Tensor:
            share = projection(query.flatten(0, 1)).view(*query.shape[:2], -1)
            if fused is not None:
                return fused(share)
            return torch.tanh(share[:, :, None] + keys[:, None]) @ self.v

        return score
