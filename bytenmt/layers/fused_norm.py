"""Layer norm followed by ReLU, in one pass over the rows, for training on a CPU.

Under autocast PyTorch's norm reads and writes float32, and its ReLU reads and writes once more.
Here a row is read once, computed in float32, and written in the type in which the next product
reads it.
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
from bytenmt.layers.kernel_helpers import (
    KINDS,
    Array,
    as_array,
    narrow,
    parallel_for,
    thread_ranges,
    widen,
)

ZERO = np.float32(0)


def norm_relu(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """Return relu(norm(x)) for x (..., d), by the fused kernel when training on a CPU.

    Otherwise PyTorch computes it. Under autocast the fused kernel's result has autocast's dtype.
    """
    trained = (
        torch.is_grad_enabled() and norm.weight.requires_grad and norm.weight.dtype == torch.float32
    )
    if not (trained and x.device.type == "cpu" and x.dtype in KINDS):
        return torch.relu(norm(x))
    y: Tensor = _NormReLU.apply(x, norm.weight, norm.bias, norm.eps)  # type: ignore[no-untyped-call]
    return y


@njit_any_order
def normalise(
    x: Array,
    gain: Array,
    bias: Array,
    epsilon: float,
    y: Array,
    moments: Array,
    first: int,
    last: int,
) -> None:
    """Overwrite y (n, d) with ReLU(layer norm(x)), in rows first to last - 1 of x (n, d).

    gain, bias (d,), epsilon: of the layer norm. moments (n, 2): overwritten with mean and
    1 / standard deviation of these rows.
    """
    d = x.shape[1]
    row = np.empty(d, np.float32)
    for i in range(first, last):
        mean = ZERO
        for c in range(d):
            row[c] = widen(x[i, c])
        for c in range(d):
            mean += row[c]
        mean /= np.float32(d)
        square = ZERO
        for c in range(d):
            square += (row[c] - mean) * (row[c] - mean)
        factor = np.float32(1) / np.float32(np.sqrt(square / np.float32(d) + np.float32(epsilon)))
        moments[i, 0] = mean
        moments[i, 1] = factor
        for c in range(d):
            z = (row[c] - mean) * factor * gain[c] + bias[c]
            y[i, c] = narrow(ZERO if z < ZERO else z, y[0, 0])  # a NaN stays one


@njit_any_order
def norm_gradients(
    d_y: Array,
    x: Array,
    gain: Array,
    y: Array,
    moments: Array,
    d_x: Array,
    d_gain: Array,
    d_bias: Array,
    first: int,
    last: int,
) -> None:
    """Overwrite d_x (n, d) with the gradient of x for y = ReLU(layer norm(x)), in some rows.

    These are rows first to last - 1; their share is added to the gradients d_gain and d_bias (d,).
    d_y (n, d): the gradient of y. moments (n, 2): mean and 1 / standard deviation of the rows.
    """
    d = x.shape[1]
    of_row = np.empty(d, np.float32)
    scaled = np.empty(d, np.float32)
    for i in range(first, last):
        mean = moments[i, 0]
        factor = moments[i, 1]
        total = ZERO
        along = ZERO
        for c in range(d):
            of_row[c] = (widen(x[i, c]) - mean) * factor
        for c in range(d):
            scaled[c] = widen(d_y[i, c]) * (ZERO if widen(y[i, c]) <= ZERO else np.float32(1))
        for c in range(d):
            d_bias[c] += scaled[c]
        for c in range(d):
            d_gain[c] += scaled[c] * of_row[c]
        for c in range(d):
            scaled[c] *= gain[c]
        for c in range(d):
            total += scaled[c]
            along += scaled[c] * of_row[c]
        total /= np.float32(d)
        along /= np.float32(d)
        for c in range(d):
            d_x[i, c] = narrow(factor * (scaled[c] - total - of_row[c] * along), d_x[0, 0])


class _NormReLU(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        rows = x.detach().reshape(-1, x.shape[-1]).contiguous()
        y = rows.new_empty(rows.shape, dtype=compute_type(rows[:0]).dtype)
        moments = rows.new_empty(len(rows), 2, dtype=torch.float32)
        gain = gain.detach()
        bias = bias.detach()
        arrays = (
            as_array(rows),
            as_array(gain),
            as_array(bias),
            epsilon,
            as_array(y),
            as_array(moments),
        )
        parallel_for(lambda _, first, last: normalise(*arrays, first, last), len(rows))
        ctx.save_for_backward(rows, gain, y, moments)
        ctx.shape = x.shape
        return y.view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        rows, gain, y, moments = ctx.saved_tensors
        d_x = torch.empty_like(rows)
        sums = gain.new_zeros(2, len(thread_ranges(len(rows))), len(gain))
        arrays = (
            as_array(d_y.reshape(rows.shape).contiguous()),
            as_array(rows),
            as_array(gain),
            as_array(y),
            as_array(moments),
            as_array(d_x),
        )
        d_gain, d_bias = sums.numpy()
        parallel_for(lambda i, a, b: norm_gradients(*arrays, d_gain[i], d_bias[i], a, b), len(rows))
        return d_x.view(ctx.shape), *sums.sum(dim=1), None
