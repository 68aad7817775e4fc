"""Attention of many queries over one source, shared by all beams of a sentence.

A sentence's keys stand once; its beams and steps are just more queries.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bytenmt.layers.deferred_matmul import Product, deferred
from bytenmt.layers.fused_additive import FusedScore, applies

NUMBERS = 1 << 26  # of the additive score's sums that are made at once, if one query has not more


def source_mask(source_len: Tensor, n_columns: int) -> Tensor:
    """source_len (n,) -> (n, n_columns) bool, true on real columns."""
    return torch.arange(n_columns, device=source_len.device) < source_len[:, None]


def weigh(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the source: scores (n, q, s), mask (n, s) or (n, q, s) bool, true where there is something
    to attend to -> weights (n, q, s). With s = 0 they are empty, not a softmax over nothing."""
    if scores.shape[2] == 0:
        return scores
    return scores.masked_fill(~(mask if mask.dim() == 3 else mask[:, None]), -torch.inf).softmax(dim=-1)


def attend(
    scores: Tensor, values: Tensor | Product, mask: Tensor, factors: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Softmax over the source, then the weighted sum.

    scores (n, q, s): one row a query; values (n, s, v), or the product with them, where a loop defers their
    gradient; mask: see weigh; factors (n, q, s): of the weights after the softmax, which then do not add up
    to 1. Returns context (n, q, v), zero where s = 0, and weights (n, q, s).
    """
    weights = weigh(scores, mask)
    if factors is not None:
        weights = weights * factors.to(weights.dtype)
    if isinstance(values, Tensor):
        return weights.to(values.dtype) @ values, weights
    return values(weights), weights


def dot_scores(query: Tensor, keys: Tensor) -> Tensor:
    """query (n, q, d), keys (n, s, d) -> scores (n, q, s)."""
    return query @ keys.transpose(1, 2)


def bell(distance: Tensor, window: int) -> Tensor:
    """exp(-x^2 / (2 sigma^2)) of distances x in bytes, any shape, with sigma = window / 2 (Luong et al. 2015,
    eq. 10)."""
    return torch.exp(-2 * (distance / window).square())


class PredictedPosition(nn.Module):
    """p = S sigma(v . tanh(W h)), a place in the source for each query: Luong et al. 2015, eq. 9."""

    def __init__(self, d_query: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_query, d_query, bias=False)  # W_p
        self.v = nn.Parameter(torch.zeros(d_query))  # v_p

    def stepper(self, source_len: Tensor) -> Product:
        """source_len (n,) int64: S -> the prediction as a function, for one run of a loop: query (n, q, d)
        -> p (n, q), in single precision or better, as half of it counts no bytes."""
        projection = deferred(self.hidden.weight)

        def predict(query: Tensor) -> Tensor:
            hidden = torch.tanh(projection(query.flatten(0, 1))).view(query.shape)
            kind = torch.promote_types(hidden.dtype, torch.float32)
            share = torch.sigmoid((hidden.to(kind) * self.v.to(kind)).sum(dim=-1))
            return source_len[:, None] * share

        return predict


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
            together = max(1, NUMBERS // max(1, keys.numel()))
            parts = [
                torch.tanh(part[:, :, None] + keys[:, None]) @ self.v
                for part in torch.split(share, together, dim=1)
            ]
            return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

        return score
