"""The steps of a GRU and of an LSTM for training on a CPU, each a single autograd function.

On a few dozen rows, PyTorch spends more time on launching operations than on computing them, autograd adds as
much again, and a GRU step has a dozen operations. Here the products with the state are PyTorch's, the
elementwise work between them is one pass over the rows, and gradients of the matrices are deferred.
recurrent.py has the equations and is the reference. Results are equal up to rounding, which is float32's
here, while autocast rounds every operation to bf16.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from bytenmt.jit import njit_any_order
from bytenmt.layers.deferred_matmul import DeferredProduct, Product
from bytenmt.layers.kernel_helpers import KINDS, Array, as_array, sigmoid, tanh

ONE = np.float32(1)


def fusible(product: Product) -> TypeGuard[DeferredProduct]:
    """Return whether a cell with this product may be fused: in training on a CPU, in float32 or bf16."""
    return (
        isinstance(product, DeferredProduct)
        and product.matrix.device.type == "cpu"
        and product.matrix.dtype in KINDS
        and not torch.compiler.is_compiling()
    )


@njit_any_order
def gru_gates(x: Array, u: Array, h: Array, rz: Array, reset: Array) -> None:
    """Write the gates rz (rows, 2 d) and reset (rows, d) = r * h.

    x (rows, 3 d), u (rows, 2 d): the products of the input and of the state with the weights. h (rows, d).
    """
    rows, d = h.shape
    for i in range(rows):
        for c in range(2 * d):
            rz[i, c] = sigmoid(x[i, c] + u[i, c])
        for c in range(d):
            reset[i, c] = rz[i, c] * h[i, c]


@njit_any_order
def gru_state(x: Array, u: Array, h: Array, rz: Array, g: Array, new: Array, after: bool, take: bool) -> None:
    """Write g and the new state (rows, d).

    u (rows, d): the state's product for g. after: whether r multiplies u, instead of the state before the
    product. take: whether z weighs g instead of the old state, see recurrent.GRU.
    """
    rows, d = h.shape
    for i in range(rows):
        for c in range(d):
            share = u[i, c] * (rz[i, c] if after else ONE)
            g[i, c] = tanh(x[i, 2 * d + c] + share)
        for c in range(d):
            z = rz[i, d + c]
            new[i, c] = h[i, c] + (z if take else ONE - z) * (g[i, c] - h[i, c])


@njit_any_order
def gru_state_gradients(
    d_new: Array, h: Array, rz: Array, g: Array, d_x: Array, d_h: Array, take: bool
) -> None:
    """Write the parts of d_x (rows, 3 d) for z and g, and d_h (rows, d) without the part through the gates.

    d_new (rows, d): the gradient with respect to the new state.
    """
    rows, d = h.shape
    for i in range(rows):
        for c in range(d):
            z = rz[i, d + c]
            d_x[i, 2 * d + c] = d_new[i, c] * (z if take else ONE - z) * (ONE - g[i, c] * g[i, c])
        for c in range(d):
            z, difference = rz[i, d + c], g[i, c] - h[i, c]
            d_x[i, d + c] = d_new[i, c] * (difference if take else -difference) * z * (ONE - z)
        for c in range(d):
            z = rz[i, d + c]
            d_h[i, c] = d_new[i, c] * (ONE - z if take else z)


@njit_any_order
def gru_reset_gradients(d_reset: Array, other: Array, rz: Array, d_x: Array, d_other: Array) -> None:
    """Write the part of d_x for r, and add to d_other (rows, d). d_reset (rows, d): gradient of r * other."""
    rows, d = other.shape
    for i in range(rows):
        for c in range(d):
            r = rz[i, c]
            d_x[i, c] = d_reset[i, c] * other[i, c] * r * (ONE - r)
        for c in range(d):
            d_other[i, c] += d_reset[i, c] * rz[i, c]


class FusedGRU:
    """A GRU step for one run of a loop, see GRU.stepper.

    gates, candidate: products with U_r, U_z and with U_g.
    """

    def __init__(self, gates: DeferredProduct, candidate: DeferredProduct, after: bool, take: bool) -> None:
        self.gates, self.candidate, self.after, self.take = gates, candidate, after, take

    def __call__(self, x: Tensor, h: Tensor) -> Tensor:
        """Return the new state; see GRU.stepper."""
        tokens = self.gates.token, self.candidate.token
        new: Tensor = _GRUStep.apply(x, h, *tokens, self)  # type: ignore[no-untyped-call]
        return new


class _GRUStep(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor, gates: Tensor, candidate: Tensor, cell: FusedGRU) -> Tensor:
        (rows, d), read = h.shape, h.to(cell.gates.matrix.dtype)
        rz, reset, g, new = (torch.empty(rows, width) for width in (2 * d, d, d, d))
        x_, h_ = as_array(x), as_array(h)
        gru_gates(x_, as_array(read @ cell.gates.matrix.mT), h_, rz.numpy(), reset.numpy())
        multiplied = read if cell.after else reset.to(read.dtype)
        u = (multiplied @ cell.candidate.matrix.mT).float()
        gru_state(x_, u.numpy(), h_, rz.numpy(), g.numpy(), new.numpy(), cell.after, cell.take)
        ctx.save_for_backward(h, read, rz, g, u if cell.after else multiplied)
        ctx.cell, ctx.kind = cell, x.dtype
        return new.to(torch.promote_types(x.dtype, h.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_new: Tensor) -> tuple[Tensor | None, ...]:
        h, read, rz, g, last = ctx.saved_tensors
        cell, kind, (rows, d) = ctx.cell, read.dtype, h.shape
        d_x, d_h = torch.empty(rows, 3 * d), torch.empty(rows, d)
        h_, rz_, d_x_, d_h_ = as_array(h), rz.numpy(), d_x.numpy(), d_h.numpy()
        gru_state_gradients(as_array(d_new), h_, rz_, g.numpy(), d_x_, d_h_, cell.take)
        d_g = d_x[:, 2 * d :]
        if cell.after:  # g = tanh(x_g + r * last)
            d_u = torch.zeros(rows, d)
            gru_reset_gradients(as_array(d_g), last.numpy(), rz_, d_x_, d_u.numpy())
            d_h += cell.candidate.backward(read, d_u.to(kind))
        else:  # g = tanh(x_g + U_g last), last = r * h
            d_last = cell.candidate.backward(last, d_g.to(kind))
            gru_reset_gradients(as_array(d_last), h_, rz_, d_x_, d_h_)
        d_h += cell.gates.backward(read, d_x[:, : 2 * d].to(kind))
        token = rz.new_zeros(())
        return d_x.to(ctx.kind), d_h.to(h.dtype), token, token, None


@njit_any_order
def lstm_state(x: Array, u: Array, c: Array, gates: Array, new_c: Array, tanh_c: Array, new_h: Array) -> None:
    """Write the gates i, f, g, o (rows, 4 d), and the new cells, their tanh and the new state (rows, d).

    x, u (rows, 4 d): the products of the input and of the state with the weights. c (rows, d): the cells.
    """
    rows, d = c.shape
    for i in range(rows):  # loops that write a single array are vectorised
        for j in range(2 * d):
            gates[i, j] = sigmoid(x[i, j] + u[i, j])
        for j in range(2 * d, 3 * d):
            gates[i, j] = tanh(x[i, j] + u[i, j])
        for j in range(3 * d, 4 * d):
            gates[i, j] = sigmoid(x[i, j] + u[i, j])
        for j in range(d):
            new_c[i, j] = gates[i, d + j] * c[i, j] + gates[i, j] * gates[i, 2 * d + j]
        for j in range(d):
            tanh_c[i, j] = tanh(new_c[i, j])
        for j in range(d):
            new_h[i, j] = gates[i, 3 * d + j] * tanh_c[i, j]


@njit_any_order
def lstm_gradients(
    d_new_h: Array, d_new_c: Array, c: Array, gates: Array, tanh_c: Array, d_x: Array, d_c: Array
) -> None:
    """Write the gradients of an LSTM cell: d_x (rows, 4 d) of its gates before activation, d_c (rows, d).

    d_new_h, d_new_c (rows, d): gradients of the new state and cell."""
    rows, d = c.shape
    cell = np.empty(d, np.float32)  # the gradient of the new cell, all ways
    for row in range(rows):  # loops that write a single array are vectorised
        for j in range(d):
            o, t = gates[row, 3 * d + j], tanh_c[row, j]
            cell[j] = d_new_c[row, j] + d_new_h[row, j] * o * (ONE - t * t)
        for j in range(d):
            i = gates[row, j]
            d_x[row, j] = cell[j] * gates[row, 2 * d + j] * i * (ONE - i)
        for j in range(d):
            f = gates[row, d + j]
            d_x[row, d + j] = cell[j] * c[row, j] * f * (ONE - f)
        for j in range(d):
            g = gates[row, 2 * d + j]
            d_x[row, 2 * d + j] = cell[j] * gates[row, j] * (ONE - g * g)
        for j in range(d):
            o = gates[row, 3 * d + j]
            d_x[row, 3 * d + j] = d_new_h[row, j] * tanh_c[row, j] * o * (ONE - o)
        for j in range(d):
            d_c[row, j] = cell[j] * gates[row, d + j]


class FusedLSTM:
    """An LSTM step for one run of a loop, see LSTM.stepper. recurrent: the product with U."""

    def __init__(self, recurrent: DeferredProduct) -> None:
        self.recurrent = recurrent

    def __call__(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new state and cells; see LSTM.stepper."""
        h, c = _LSTMStep.apply(x, h, c, self.recurrent.token, self.recurrent)  # type: ignore[no-untyped-call]
        return h, c


class _LSTMStep(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h: Tensor, c: Tensor, token: Tensor, recurrent: DeferredProduct
    ) -> tuple[Tensor, Tensor]:
        (rows, d), read = c.shape, h.to(recurrent.matrix.dtype)
        gates, new_c, tanh_c, new_h = (torch.empty(rows, width) for width in (4 * d, d, d, d))
        before = as_array(x), as_array(read @ recurrent.matrix.mT), as_array(c)
        lstm_state(*before, gates.numpy(), new_c.numpy(), tanh_c.numpy(), new_h.numpy())
        ctx.save_for_backward(read, c, gates, tanh_c)
        ctx.recurrent, ctx.kinds = recurrent, (x.dtype, h.dtype, c.dtype)
        kind = torch.promote_types(x.dtype, c.dtype)
        return new_h.to(kind), new_c.to(kind)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_new_h: Tensor, d_new_c: Tensor) -> tuple[Tensor | None, ...]:
        read, c, gates, tanh_c = ctx.saved_tensors
        d_x, d_c = torch.empty(gates.shape), torch.empty(c.shape)
        outputs = as_array(d_new_h), as_array(d_new_c)
        lstm_gradients(*outputs, as_array(c), gates.numpy(), tanh_c.numpy(), d_x.numpy(), d_c.numpy())
        d_h = ctx.recurrent.backward(read, d_x.to(read.dtype))
        gradients = (part.to(kind) for part, kind in zip((d_x, d_h, d_c), ctx.kinds, strict=True))
        return *gradients, gates.new_zeros(()), None
