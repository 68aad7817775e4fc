"""The score v^T tanh(q + k) of additive attention over many steps on a CPU, without a tensor of that size.

With E_q = exp(2 q) and E_k = exp(2 k), tanh(q + k) = 1 - 2 / (1 + E_q E_k): the keys' exponentials are taken
once for all steps, a step costs one division an element, and its backward makes the same from the same
again instead of keeping it; the gradients by the keys and v wait for the last step. Exact to rounding in
float32 while |k| stays below LIMIT: where E_q overflows or is zero tanh is 1 or -1 then anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from bytenmt.jit import njit_any_order
from bytenmt.layers.parallel import shares, spread

Array = npt.NDArray[np.float32]
LIMIT = 20.0  # exp(2 k) is far from overflow and from zero, so that no infinity meets a zero


@njit_any_order
def add_scores(q: Array, k: Array, v: Array, scores: Array, first: int, last: int) -> None:
    """scores (n, b, s) of sentences first to last - 1, from v (d,), exponentials q (n, b, d), k (n, s, d)."""
    one, two, zero = np.float32(1), np.float32(2), np.float32(0)
    _, s, d = k.shape
    most = zero
    for c in range(d):
        most += v[c]
    for i in range(first, last):
        for row in range(q.shape[1]):
            for j in range(s):
                total = zero
                for c in range(d):
                    total += np.divide(v[c], one + q[i, row, c] * k[i, j, c])
                scores[i, row, j] = most - two * total


@njit_any_order
def add_query_gradients(
    q: Array, k: Array, v: Array, given: Array, d_q: Array, first: int, last: int
) -> None:
    """From given (n, b, s), the scores' gradient: d_q (n, b, d), the one by q itself, not its exponential."""
    one, four = np.float32(1), np.float32(4)
    _, s, d = k.shape
    slope = np.empty(d, np.float32)
    for i in range(first, last):
        for row in range(q.shape[1]):
            slope[:] = np.float32(0)
            for j in range(s):
                for c in range(d):
                    u = np.divide(one, one + q[i, row, c] * k[i, j, c])
                    slope[c] += given[i, row, j] * (u - u * u)
            for c in range(d):
                d_q[i, row, c] = four * v[c] * slope[c]


@njit_any_order
def add_key_gradients(
    q: Array, k: Array, v: Array, given: Array, d_k: Array, d_v: Array, first: int, last: int
) -> None:
    """From given (n, b, s), the scores' gradient in all steps: d_k (n, s, d), the one by k itself, and adds
    to d_v (d,) the one by v."""
    one, two, four = np.float32(1), np.float32(2), np.float32(4)
    _, s, d = k.shape
    weighted, slope = np.empty(d, np.float32), np.empty(d, np.float32)
    for i in range(first, last):
        for j in range(s):
            weighted[:] = slope[:] = np.float32(0)
            total = np.float32(0)
            for row in range(q.shape[1]):
                g = given[i, row, j]
                total += g
                for c in range(d):
                    u = np.divide(one, one + q[i, row, c] * k[i, j, c])
                    weighted[c] += g * u
                    slope[c] += g * (u - u * u)
            for c in range(d):
                d_k[i, j, c] = four * v[c] * slope[c]
                d_v[c] += total - two * weighted[c]


def applies(keys: Tensor) -> bool:
    """Return whether these keys may take the fused path: float32 or bf16 on a CPU, in range."""
    kind = keys.device.type == "cpu" and keys.dtype in (torch.float32, torch.bfloat16)
    return kind and keys.numel() > 0 and bool(keys.detach().abs().amax() < LIMIT)


class FusedScore:
    """The score of keys (n, s, d) and v (d,), for one run of a loop: shares (n, b, d) -> scores (n, b, s)
    float32."""

    def __init__(self, keys: Tensor, v: Tensor) -> None:
        self.exponentials = (2 * keys.detach().float()).exp().contiguous()
        self.v = v.detach().float().contiguous()
        self.notes: list[tuple[Tensor, Tensor]] = []
        self._token: Tensor = _Gather.apply(keys, v, self)  # type: ignore[no-untyped-call]

    def __call__(self, shares: Tensor) -> Tensor:
        scores: Tensor = _Step.apply(shares, self._token, self)  # type: ignore[no-untyped-call]
        return scores

    def forward(self, q: Tensor) -> Tensor:
        """q (n, b, d): exponentials -> scores (n, b, s)."""
        k = self.exponentials
        scores = q.new_empty(*q.shape[:2], k.shape[1])
        arrays = q.numpy(), k.numpy(), self.v.numpy(), scores.numpy()
        spread(lambda _, first, last: add_scores(*arrays, first, last), len(k))
        return scores

    def backward(self, q: Tensor, given: Tensor) -> Tensor:
        """given (n, b, s): the scores' gradient -> the shares' (n, b, d); what the others need is noted."""
        given = given.float().contiguous()
        self.notes.append((q, given))
        d_q = torch.empty_like(q)
        arrays = q.numpy(), self.exponentials.numpy(), self.v.numpy(), given.numpy(), d_q.numpy()
        spread(lambda _, first, last: add_query_gradients(*arrays, first, last), len(q))
        return d_q

    def gathered(self) -> tuple[Tensor, Tensor]:
        """The gradients by keys and v (float32) of all steps that were noted: a sentence after the other,
        which fits a core's cache, where a step of all sentences does not."""
        q, given = (torch.cat(parts, dim=1) for parts in zip(*self.notes, strict=True))
        self.notes.clear()
        d_keys = torch.empty_like(self.exponentials)
        d_v = self.v.new_zeros(len(shares(len(q))), len(self.v))
        arrays = q.numpy(), self.exponentials.numpy(), self.v.numpy(), given.numpy(), d_keys.numpy()
        of_threads = d_v.numpy()
        spread(lambda i, a, b: add_key_gradients(*arrays, of_threads[i], a, b), len(q))
        return d_keys, d_v.sum(dim=0)


class _Gather(Function):
    """keys, v -> a token that every step takes, so that this backward runs after all of theirs."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, v: Tensor, score: FusedScore) -> Tensor:
        ctx.score, ctx.kinds = score, (keys.dtype, v.dtype)
        return v.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, Tensor, None]:
        d_keys, d_v = ctx.score.gathered()
        return d_keys.to(ctx.kinds[0]), d_v.to(ctx.kinds[1]), None


class _Step(Function):
    """The scores of one step."""

    @staticmethod
    def forward(ctx: Any, shares: Tensor, token: Tensor, score: FusedScore) -> Tensor:
        ctx.score, ctx.kind = score, shares.dtype
        q = (2 * shares.float()).exp().contiguous()
        ctx.save_for_backward(q)
        return score.forward(q)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor, Tensor, None]:
        (q,) = ctx.saved_tensors
        return ctx.score.backward(q, given).to(ctx.kind), given.new_zeros(()), None
