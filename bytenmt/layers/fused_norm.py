"""Layer norm followed by ReLU, in one pass over the rows, for training on a CPU.

PyTorch's ReLU reads and writes all numbers once more, in the forward and in the backward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from bytenmt.jit import njit_any_order
from bytenmt.layers.deferred_matmul import compute_type
from bytenmt.layers.kernel_helpers import KINDS, Array, as_array, parallel_for, thread_ranges

ZERO = np.float32(0)


def norm_relu(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """Return relu(norm(x)) for x (..., d). Under autocast the fused kernel returns autocast's type."""
    trained = torch.is_grad_enabled() and norm.weight.requires_grad and norm.weight.dtype == torch.float32
    if not (trained and x.device.type == "cpu" and x.dtype in KINDS) or torch.compiler.is_compiling():
        return torch.relu(norm(x))
    y: Tensor = _NormReLU.apply(x, norm.weight, norm.bias, norm.eps)  # type: ignore[no-untyped-call]
    return y


@njit_any_order
def normalise(
    x: Array, gain: Array, bias: Array, epsilon: float, y: Array, moments: Array, first: int, last: int
) -> None:
    """Write y and moments (n, 2), mean and 1 / standard deviation, for rows first to last - 1 of x (n, d)."""
    d = x.shape[1]
    for i in range(first, last):
        mean, square = ZERO, ZERO
        for c in range(d):
            mean += x[i, c]
        mean /= np.float32(d)
        for c in range(d):
            square += (x[i, c] - mean) * (x[i, c] - mean)
        factor = np.float32(1) / np.float32(np.sqrt(square / np.float32(d) + np.float32(epsilon)))
        moments[i, 0], moments[i, 1] = mean, factor
        for c in range(d):
            z = (x[i, c] - mean) * factor * gain[c] + bias[c]
            y[i, c] = ZERO if z < ZERO else z  # a NaN stays one


@njit_any_order
def norm_gradients(
    d_y: Array,
    x: Array,
    gain: Array,
    bias: Array,
    moments: Array,
    d_x: Array,
    d_gain: Array,
    d_bias: Array,
    first: int,
    last: int,
) -> None:
    """Write d_x (n, d), and add to d_gain and d_bias (d,), from d_y (n, d), the gradient with respect to
    y."""
    d = x.shape[1]
    own, scaled = np.empty(d, np.float32), np.empty(d, np.float32)
    for i in range(first, last):
        mean, factor = moments[i, 0], moments[i, 1]
        total, along = ZERO, ZERO
        for c in range(d):
            own[c] = (x[i, c] - mean) * factor
        for c in range(d):
            scaled[c] = ZERO if own[c] * gain[c] + bias[c] <= ZERO else d_y[i, c]
        for c in range(d):
            d_bias[c] += scaled[c]
        for c in range(d):
            d_gain[c] += scaled[c] * own[c]
        for c in range(d):
            scaled[c] *= gain[c]
        for c in range(d):
            total += scaled[c]
            along += scaled[c] * own[c]
        total, along = total / np.float32(d), along / np.float32(d)
        for c in range(d):
            d_x[i, c] = factor * (scaled[c] - total - own[c] * along)


class _NormReLU(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        rows = as_array(x.reshape(-1, x.shape[-1]))
        y = torch.empty(rows.shape)
        moments = torch.empty(len(rows), 2)
        arrays = rows, as_array(gain), as_array(bias), epsilon, y.numpy(), moments.numpy()
        parallel_for(lambda _, first, last: normalise(*arrays, first, last), len(rows))
        ctx.save_for_backward(x, gain, bias, moments)
        return y.view(x.shape).to(compute_type(x[:0]).dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, gain, bias, moments = ctx.saved_tensors
        rows = as_array(x.reshape(-1, x.shape[-1]))
        d_x = torch.empty(rows.shape)
        sums = gain.new_zeros(2, len(thread_ranges(len(rows))), len(gain))
        d_gain, d_bias = sums.numpy()
        d_rows, gain_, bias_ = as_array(d_y.reshape(rows.shape)), as_array(gain), as_array(bias)
        arrays = d_rows, rows, gain_, bias_, moments.numpy(), d_x.numpy()
        parallel_for(lambda i, a, b: norm_gradients(*arrays, d_gain[i], d_bias[i], a, b), len(rows))
        return d_x.view(x.shape).to(x.dtype), *sums.sum(dim=1), None
