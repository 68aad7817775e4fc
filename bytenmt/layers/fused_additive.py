"""The score v^T tanh(q + k) of additive attention for training on a CPU.

No tanh values are stored.
With E_q = exp(2 q) and E_k = exp(2 k), tanh(q + k) = 1 - 2 / (1 + E_q E_k). The exponentials of the
keys are computed once for all steps, so that a step costs one division per element. The backward
pass recomputes it; the gradients of the keys and of v are computed after the last step. Exact up to
float32 rounding while |k| is below MAX_KEY: where E_q overflows or is zero, tanh is 1 or -1 anyway.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bytenmt.jit import njit_any_order
from bytenmt.layers.deferred_matmul import Deferred
from bytenmt.layers.kernel_helpers import parallel_for, thread_ranges

Array = npt.NDArray[np.float32]
# Below this absolute value of a key exp(2 k) is far from overflow and from zero: no infinity ever
# meets a zero.
MAX_KEY = 20.0
ONE = np.float32(1)  # with a Python 1, Numba would compute in float64
TWO = np.float32(2)
FOUR = np.float32(4)


@njit_any_order
def add_scores(q: Array, k: Array, v: Array, scores: Array, first: int, last: int) -> None:
    """Overwrite scores (n, b, s) with v . tanh(query + key), for sentences first to last - 1.

    n sentences have b queries and s keys each. q (n, b, d) and k (n, s, d) hold exp(2 query) and
    exp(2 key); v (d,).
    """
    zero = np.float32(0)
    _, s, d = k.shape
    most = zero
    for c in range(d):
        most += v[c]
    for i in range(first, last):
        for row in range(q.shape[1]):
            for j in range(s):
                total = zero
                for c in range(d):
                    total += np.divide(v[c], ONE + q[i, row, c] * k[i, j, c])
                scores[i, row, j] = most - TWO * total


@njit_any_order
def add_query_gradients(
    q: Array, k: Array, v: Array, d_scores: Array, d_q: Array, first: int, last: int
) -> None:
    """Overwrite d_q (n, b, d) with the gradient of the queries, for sentences first to last - 1.

    d_scores (n, b, s): the gradient of the scores. q (n, b, d) and k (n, s, d) hold exp(2 query)
    and exp(2 key); v (d,): see add_scores.
    """
    _, s, d = k.shape
    slope = np.empty(d, np.float32)
    for i in range(first, last):
        for row in range(q.shape[1]):
            slope[:] = np.float32(0)
            for j in range(s):
                for c in range(d):
                    u = np.divide(ONE, ONE + q[i, row, c] * k[i, j, c])
                    slope[c] += d_scores[i, row, j] * (u - u * u)
            for c in range(d):
                d_q[i, row, c] = FOUR * v[c] * slope[c]


@njit_any_order
def add_key_gradients(
    q: Array, k: Array, v: Array, d_scores: Array, d_k: Array, d_v: Array, first: int, last: int
) -> None:
    """Overwrite d_k (n, s, d) with the gradient of the keys, and add that of v to d_v (d,).

    This is done for sentences first to last - 1. q (n, b, d) and d_scores (n, b, s): exp(2 query)
    and the gradient of the scores, for the queries of all steps. k (n, s, d): exp(2 key). v (d,):
    see add_scores.
    """
    _, s, d = k.shape
    weighted = np.empty(d, np.float32)
    slope = np.empty(d, np.float32)
    for i in range(first, last):
        for j in range(s):
            weighted[:] = slope[:] = np.float32(0)
            total = np.float32(0)
            for row in range(q.shape[1]):
                g = d_scores[i, row, j]
                total += g
                for c in range(d):
                    u = np.divide(ONE, ONE + q[i, row, c] * k[i, j, c])
                    weighted[c] += g * u
                    slope[c] += g * (u - u * u)
            for c in range(d):
                d_k[i, j, c] = FOUR * v[c] * slope[c]
                d_v[c] += total - TWO * weighted[c]


def can_fuse(keys: Tensor) -> bool:
    """Return whether FusedScore can take keys: float32 or bf16, on a CPU, |key| < MAX_KEY (20)."""
    has_kind = keys.device.type == "cpu" and keys.dtype in (torch.float32, torch.bfloat16)
    return has_kind and keys.numel() > 0 and bool(keys.detach().abs().amax() < MAX_KEY)


class FusedScore(Deferred):
    """The function query -> additive attention scores v . tanh(query + key), for one loop of steps.

    keys (n, s, d), v (d,): their gradients are computed once, after all steps. A call takes
    projected queries (n, b, d) and returns scores (n, b, s) float32.
    """

    def __init__(self, keys: Tensor, v: Tensor) -> None:
        self.exponentials = (2 * keys.detach().float()).exp().contiguous()
        self.v = v.detach().float().contiguous()
        super().__init__(keys, v)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores (n, b, s) of projected queries x (n, b, d), and exp(2 x) for `backward`."""
        q = (2 * x.float()).exp().contiguous()
        k = self.exponentials
        scores = q.new_empty(*q.shape[:2], k.shape[1])
        arrays = q.numpy(), k.numpy(), self.v.numpy(), scores.numpy()
        parallel_for(lambda _, first, last: add_scores(*arrays, first, last), len(k))
        return scores, q

    def backward(self, saved: Tensor, d_y: Tensor) -> Tensor:
        """Return the gradient of the queries (n, b, d), given d_y (n, b, s), that of the scores.

        saved: exp(2 x) from `forward`. Both arguments are recorded for `gather`.
        """
        d_scores = d_y.float().contiguous()
        self.notes.append((saved, d_scores))
        d_q = torch.empty_like(saved)
        arrays = (
            saved.numpy(),
            self.exponentials.numpy(),
            self.v.numpy(),
            d_scores.numpy(),
            d_q.numpy(),
        )
        parallel_for(lambda _, first, last: add_query_gradients(*arrays, first, last), len(saved))
        return d_q

    def gather(self) -> tuple[Tensor, ...]:
        """Return the gradients of keys (n, s, d) and v (d,), float32, summed over all steps."""
        # Sentence by sentence, each of which fits a core's cache, while a step of all does not.
        q, d_scores = (torch.cat(parts, dim=1) for parts in zip(*self.notes, strict=True))
        d_keys = torch.empty_like(self.exponentials)
        d_v = self.v.new_zeros(len(thread_ranges(len(q))), len(self.v))
        arrays = (
            q.numpy(),
            self.exponentials.numpy(),
            self.v.numpy(),
            d_scores.numpy(),
            d_keys.numpy(),
        )
        d_v_by_thread = d_v.numpy()
        parallel_for(lambda i, a, b: add_key_gradients(*arrays, d_v_by_thread[i], a, b), len(q))
        return d_keys, d_v.sum(dim=0)
