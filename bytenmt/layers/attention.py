"""Attention of many queries over one source.

The keys of a sentence are stored once; its hypotheses and steps are just more queries. In shapes: n
sentences, q queries a sentence, s source columns.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bytenmt.layers.deferred_matmul import Product, deferred_product
from bytenmt.layers.fused_additive import FusedScore, can_fuse

# Numbers of the additive score's tanh that are computed at once, unless a single query has more.
MAX_TANH_NUMBERS = 1 << 26


def source_mask(source_len: Tensor, n_columns: int) -> Tensor:
    """Return a mask (n, n_columns) bool that is true for the first source_len (n,) columns."""
    return torch.arange(n_columns, device=source_len.device) < source_len[:, None]


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax of scores (n, q, s) over the s source columns; 0 where masked.

    mask (n, s) or (n, q, s) bool: true for columns to attend to.
    """
    if scores.shape[2] == 0:
        return scores
    if mask.dim() == 2:
        mask = mask[:, None]
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


def attend(
    scores: Tensor, values: Tensor | Product, mask: Tensor, factors: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the attention context (n, q, v), zero if s = 0, and the weights (n, q, s).

    scores (n, q, s): of n sentences, q queries, s source columns. values (n, s, v), or a function
    that returns weights @ values, given weights. mask (n, s) or (n, q, s) bool: true for columns to
    attend to. factors (n, q, s): multiplied with the weights, which then do not sum to 1.
    """
    weights = masked_softmax(scores, mask)
    if factors is not None:
        weights = weights * factors.to(weights.dtype)
    if isinstance(values, Tensor):
        return weights.to(values.dtype) @ values, weights
    return values(weights), weights


def gaussian(distance: Tensor, window: int) -> Tensor:
    """Return exp(-x^2 / (2 sigma^2)) for distances x in bytes, of any shape; sigma = window / 2.

    It weighs columns in local attention (Luong et al. 2015, eq. 10). window: in bytes.
    """
    return torch.exp(-2 * (distance / window).square())


class PredictedPosition(nn.Module):
    """Predicts a source position for each query h: p = S sigma(v . tanh(W h)), S source bytes.

    It is the centre of local attention (Luong et al. 2015, eq. 9). There is no forward: call the
    function that `stepper` returns. d_query: numbers of h.
    """

    def __init__(self, d_query: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_query, d_query, bias=False)  # W_p
        self.v = nn.Parameter(torch.zeros(d_query))  # v_p

    def stepper(self, source_len: Tensor) -> Product:
        """Return the function query (n, q, d) -> position p (n, q), for one loop over target bytes.

        source_len (n,) int64: S, the bytes of each source. p is in float32 or better, since bf16
        cannot count bytes. Gradients of the weights are computed once, after all steps.
        """
        projection = deferred_product(self.hidden.weight)

        def predict(query: Tensor) -> Tensor:
            hidden = torch.tanh(projection(query.flatten(0, 1))).view(query.shape)
            kind = torch.promote_types(hidden.dtype, torch.float32)
            share = torch.sigmoid((hidden.to(kind) * self.v.to(kind)).sum(dim=-1))
            return source_len[:, None] * share

        return predict


class AdditiveScore(nn.Module):
    """The score v^T tanh(W q + k) of additive attention (Bahdanau et al. 2015, appendix).

    q is a query of d_query numbers, k a projected key of d_attention numbers: the caller projects
    keys, because they are the same at every step. With k = U h it is Luong's "concat". There is no
    forward: call the function that `stepper` returns.
    """

    def __init__(self, d_query: int, d_attention: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_query, d_attention, bias=False)
        self.v = nn.Parameter(torch.zeros(d_attention))

    def stepper(self, keys: Tensor) -> Product:
        """Return the function query (n, q, d_query) -> scores (n, q, s), for one loop over steps.

        keys (n, s, d_attention): the projected keys k of n sentences with s source columns.
        Gradients of the weights are computed once, after all steps.
        """
        projection = deferred_product(self.query.weight)
        fused = FusedScore(keys, self.v) if torch.is_grad_enabled() and can_fuse(keys) else None

        def score(query: Tensor) -> Tensor:
            share = projection(query.flatten(0, 1)).view(*query.shape[:2], -1)
            if fused is not None:
                return fused(share)
            together = max(1, MAX_TANH_NUMBERS // max(1, keys.numel()))
            parts = [
                torch.tanh(part[:, :, None] + keys[:, None]) @ self.v
                for part in torch.split(share, together, dim=1)
            ]
            return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

        return score
