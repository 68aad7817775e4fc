"""The steps of a GRU and of an LSTM for training on a CPU, each a single autograd function.

On a few dozen rows, PyTorch spends more time on launching operations than on computing them, autograd adds as
much again, and a GRU step has a dozen operations. Here the products with the state are PyTorch's, the
elementwise work between them is one pass over the rows, and gradients of the matrices are deferred.
recurrent.py has the equations and is the reference. Results are equal up to rounding, which is float32's
here, while autocast rounds every operation to bf16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from bytenmt.jit import njit_any_order
from bytenmt.layers.deferred_matmul import DeferredProduct, Product
from bytenmt.layers.kernel_helpers import KINDS, Array, as_array, narrow, sigmoid, tanh, widen

ONE = np.float32(1)


def fusible(product: Product) -> TypeGuard[DeferredProduct]:
    """Return whether a fused cell can use a deferred product: with gradients, CPU, float32 or bf16."""
    return (
        isinstance(product, DeferredProduct)
        and product.matrix.device.type == "cpu"
        and product.matrix.dtype in KINDS
    )


@njit_any_order
def gru_gates(x: Array, u: Array, h: Array, rz: Array, reset: Array) -> None:
    """Overwrite rz (rows, 2 d), a GRU's gates r and z, and reset (rows, d) = r * h.

    x (rows, 3 d), u (rows, 2 d): products of the input and of the state with the weights of r, z (and g).
    h (rows, d): the state.
    """
    rows, d = h.shape
    for i in range(rows):
        for c in range(2 * d):
            rz[i, c] = sigmoid(widen(x[i, c]) + widen(u[i, c]))
        for c in range(d):
            reset[i, c] = narrow(rz[i, c] * widen(h[i, c]), reset[i, c])


@njit_any_order
def gru_state(x: Array, u: Array, h: Array, rz: Array, g: Array, new: Array, after: bool, take: bool) -> None:
    """Overwrite g, the GRU's candidate, and new, its new state (rows, d). x, h, rz: see gru_gates.

    u (rows, d): the state's product for g. after: whether r multiplies u, instead of the state before the
    product. take: whether z weighs g instead of the old state, see recurrent.GRU.
    """
    rows, d = h.shape
    for i in range(rows):
        for c in range(d):
            share = widen(u[i, c]) * (rz[i, c] if after else ONE)
            g[i, c] = tanh(widen(x[i, 2 * d + c]) + share)
        for c in range(d):
            z, before = rz[i, d + c], widen(h[i, c])
            moved = (z if take else ONE - z) * (g[i, c] - before)
            new[i, c] = narrow(before + moved, new[i, c])


@njit_any_order
def gru_state_gradients(
    d_new: Array, h: Array, rz: Array, g: Array, d_x: Array, d_h: Array, take: bool
) -> None:
    """Overwrite the parts of d_x (rows, 3 d) for z and g, and d_h (rows, d) without the part through gates.

    d_new (rows, d): the gradient with respect to the new state.
    """
    rows, d = h.shape
    for i in range(rows):
        for c in range(d):
            z = rz[i, d + c]
            share = z if take else ONE - z
            slope = ONE - g[i, c] * g[i, c]
            d_x[i, 2 * d + c] = narrow(widen(d_new[i, c]) * share * slope, d_x[0, 0])
        for c in range(d):
            z, difference = rz[i, d + c], g[i, c] - widen(h[i, c])
            y = widen(d_new[i, c]) * (difference if take else -difference)
            d_x[i, d + c] = narrow(y * z * (ONE - z), d_x[0, 0])
        for c in range(d):
            z = rz[i, d + c]
            d_h[i, c] = narrow(widen(d_new[i, c]) * (ONE - z if take else z), d_h[0, 0])


@njit_any_order
def gru_reset_gradients(d_reset: Array, other: Array, rz: Array, d_x: Array, d_other: Array) -> None:
    """Overwrite the part of d_x (rows, 3 d) for r, and add r * d_reset to d_other (rows, d).

    d_reset (rows, d): the gradient of r * other; rz: see gru_gates.
    """
    rows, d = other.shape
    for i in range(rows):
        for c in range(d):
            r = rz[i, c]
            d_x[i, c] = narrow(widen(d_reset[i, c]) * widen(other[i, c]) * r * (ONE - r), d_x[0, 0])
        for c in range(d):
            d_other[i, c] = narrow(widen(d_other[i, c]) + widen(d_reset[i, c]) * rz[i, c], d_other[0, 0])


class GRUProducts(NamedTuple):
    """The products and conventions of a fused GRU step, see recurrent.GRU."""

    gates: DeferredProduct  # with U_r, U_z
    candidate: DeferredProduct  # with U_g
    after: bool  # reset = "after"
    take: bool  # update = "take"


def fused_gru(cell: GRUProducts) -> Callable[..., tuple[Tensor, ...]]:
    """Return the function (x, h) -> (new h,), a GRU step for one run of a loop; see GRU.stepper."""
    tokens = cell.gates.token, cell.candidate.token
    return lambda x, h: (_GRUStep.apply(x, h, *tokens, cell),)  # type: ignore[no-untyped-call]


class _GRUStep(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h: Tensor, gates: Tensor, candidate: Tensor, cell: GRUProducts
    ) -> Tensor:
        x, h, read = x.contiguous(), h.contiguous(), h.to(cell.gates.matrix.dtype)
        rz = h.new_empty(len(h), 2 * h.shape[1], dtype=torch.float32)
        g = h.new_empty(h.shape, dtype=torch.float32)
        new, reset = h.new_empty(h.shape, dtype=torch.promote_types(x.dtype, h.dtype)), torch.empty_like(read)
        x_, h_, rz_ = as_array(x), as_array(h), as_array(rz)
        gru_gates(x_, as_array(read @ cell.gates.matrix.mT), h_, rz_, as_array(reset))
        u = (read if cell.after else reset) @ cell.candidate.matrix.mT
        gru_state(x_, as_array(u), h_, rz_, as_array(g), as_array(new), cell.after, cell.take)
        ctx.save_for_backward(h, read, rz, g, u if cell.after else reset)
        ctx.cell, ctx.kind = cell, x.dtype
        return new

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_new: Tensor) -> tuple[Tensor | None, ...]:
        h, read, rz, g, last = ctx.saved_tensors
        cell, d = ctx.cell, h.shape[1]
        d_x, d_h = read.new_empty(len(h), 3 * d), torch.empty_like(h)
        rz_, d_x_, d_h_ = as_array(rz), as_array(d_x), as_array(d_h)
        gru_state_gradients(
            as_array(d_new.contiguous()), as_array(h), rz_, as_array(g), d_x_, d_h_, cell.take
        )
        d_rz, d_g = d_x[:, : 2 * d], d_x[:, 2 * d :]
        if cell.after:  # g = tanh(x_g + r * last)
            d_u = torch.zeros_like(last)
            gru_reset_gradients(as_array(d_g), as_array(last), rz_, d_x_, as_array(d_u))
            d_h += cell.candidate.backward(read, d_u)
        else:  # last = r * h
            d_last = cell.candidate.backward(last, d_g)
            gru_reset_gradients(as_array(d_last), as_array(h), rz_, d_x_, d_h_)
        d_h += cell.gates.backward(read, d_rz)
        token = rz.new_zeros(())
        return d_x.to(ctx.kind), d_h, token, token, None


@njit_any_order
def lstm_state(x: Array, u: Array, c: Array, gates: Array, new_c: Array, tanh_c: Array, new_h: Array) -> None:
    """Overwrite gates (rows, 4 d), i, f, g, o, and new_c, tanh_c and new_h (rows, d) of an LSTM step.

    x, u (rows, 4 d): the products of the input and of the state with the weights. c (rows, d): the cells.
    """
    rows, d = c.shape
    cell = np.empty(d, np.float32)  # loops that write a single array are vectorised
    for i in range(rows):
        for j in range(2 * d):
            gates[i, j] = sigmoid(widen(x[i, j]) + widen(u[i, j]))
        for j in range(d):
            gates[i, 2 * d + j] = tanh(widen(x[i, 2 * d + j]) + widen(u[i, 2 * d + j]))
        for j in range(d):
            gates[i, 3 * d + j] = sigmoid(widen(x[i, 3 * d + j]) + widen(u[i, 3 * d + j]))
        for j in range(d):
            cell[j] = gates[i, d + j] * widen(c[i, j]) + gates[i, j] * gates[i, 2 * d + j]
        for j in range(d):
            new_c[i, j] = narrow(cell[j], new_c[0, 0])
        for j in range(d):
            tanh_c[i, j] = tanh(cell[j])
        for j in range(d):
            new_h[i, j] = narrow(gates[i, 3 * d + j] * tanh_c[i, j], new_h[0, 0])


@njit_any_order
def lstm_gradients(
    d_new_h: Array, d_new_c: Array, c: Array, gates: Array, tanh_c: Array, d_x: Array, d_c: Array
) -> None:
    """Overwrite d_x (rows, 4 d), the gradient of the gates before activation, and d_c (rows, d), of c.

    d_new_h, d_new_c (rows, d): gradients of the new state and cell; others: see lstm_state."""
    rows, d = c.shape
    cell = np.empty(d, np.float32)  # loops that write a single array are vectorised
    for row in range(rows):
        for j in range(d):
            o, t = gates[row, 3 * d + j], tanh_c[row, j]
            cell[j] = widen(d_new_c[row, j]) + widen(d_new_h[row, j]) * o * (ONE - t * t)
        for j in range(d):
            i = gates[row, j]
            d_x[row, j] = narrow(cell[j] * gates[row, 2 * d + j] * i * (ONE - i), d_x[0, 0])
        for j in range(d):
            f = gates[row, d + j]
            d_x[row, d + j] = narrow(cell[j] * widen(c[row, j]) * f * (ONE - f), d_x[0, 0])
        for j in range(d):
            g = gates[row, 2 * d + j]
            d_x[row, 2 * d + j] = narrow(cell[j] * gates[row, j] * (ONE - g * g), d_x[0, 0])
        for j in range(d):
            o = gates[row, 3 * d + j]
            d_x[row, 3 * d + j] = narrow(widen(d_new_h[row, j]) * tanh_c[row, j] * o * (ONE - o), d_x[0, 0])
        for j in range(d):
            d_c[row, j] = narrow(cell[j] * gates[row, d + j], d_c[0, 0])


def fused_lstm(recurrent: DeferredProduct) -> Callable[..., tuple[Tensor, ...]]:
    """Return the function (x, h, c) -> (new h, new c), an LSTM step for one run of a loop; see LSTM.stepper.

    recurrent: the product with U.
    """
    return lambda x, h, c: _LSTMStep.apply(x, h, c, recurrent.token, recurrent)  # type: ignore[no-untyped-call]


class _LSTMStep(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h: Tensor, c: Tensor, token: Tensor, recurrent: DeferredProduct
    ) -> tuple[Tensor, Tensor]:
        x, c, read = x.contiguous(), c.contiguous(), h.to(recurrent.matrix.dtype)
        gates = c.new_empty(len(c), 4 * c.shape[1], dtype=torch.float32)
        tanh_c = c.new_empty(c.shape, dtype=torch.float32)
        new_c = torch.empty_like(c, dtype=torch.promote_types(x.dtype, c.dtype))
        new_h = torch.empty_like(new_c)
        before = as_array(x), as_array(read @ recurrent.matrix.mT), as_array(c)
        lstm_state(*before, *(as_array(output) for output in (gates, new_c, tanh_c, new_h)))
        ctx.save_for_backward(read, c, gates, tanh_c)
        ctx.recurrent, ctx.kinds = recurrent, (x.dtype, h.dtype)
        return new_h, new_c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_new_h: Tensor, d_new_c: Tensor) -> tuple[Tensor | None, ...]:
        read, c, gates, tanh_c = ctx.saved_tensors
        d_x, d_c = read.new_empty(gates.shape), torch.empty_like(c)
        inputs = d_new_h.contiguous(), d_new_c.contiguous(), c, gates, tanh_c
        lstm_gradients(*(as_array(tensor) for tensor in (*inputs, d_x, d_c)))
        d_h = ctx.recurrent.backward(read, d_x).to(ctx.kinds[1])
        return d_x.to(ctx.kinds[0]), d_h, d_c, gates.new_zeros(()), None
