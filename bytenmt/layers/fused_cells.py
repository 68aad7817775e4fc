"""The loops of a GRU and of an LSTM for training on a CPU, each a single autograd function.

On a few dozen rows, PyTorch spends more time on launching operations than on computing them,
autograd adds as much again, and a GRU step has a dozen operations. Here a run of any number of
steps is one operation: in its loop the products with the state are PyTorch's, the elementwise work
between them is one pass over the rows, and the gradients of the matrices are one product over all
steps. recurrent.py has the equations and is the reference. Results are equal up to rounding, which
is float32's here, while autocast rounds every operation to bf16.
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

ONE = np.float32(1)  # with a Python 1, Numba would compute in float64


def fusible(product: Product) -> TypeGuard[DeferredProduct]:
    """Return whether fused_gru and fused_lstm take a product: a DeferredProduct on a CPU, in fp32
    or bf16."""
    return (
        isinstance(product, DeferredProduct)
        and product.matrix.device.type == "cpu"
        and product.matrix.dtype in KINDS
    )


@njit_any_order
def gru_gates(x: Array, u: Array, h: Array, rz: Array, reset: Array) -> None:
    """Overwrite rz (rows, 2 d) with a GRU's gates r and z, and reset (rows, d) with r * h.

    x (rows, 3 d): products of the input with the weights of r, z and g, biases included. u (rows,
    2 d): products of the state with those of r and z. h (rows, d): the state.
    """
    rows, d = h.shape
    for i in range(rows):
        for c in range(2 * d):
            rz[i, c] = sigmoid(widen(x[i, c]) + widen(u[i, c]))
        for c in range(d):
            reset[i, c] = narrow(rz[i, c] * widen(h[i, c]), reset[i, c])


@njit_any_order
def gru_state(
    x: Array, u: Array, h: Array, rz: Array, g: Array, new: Array, after: bool, take: bool
) -> None:
    """Overwrite g (rows, d) with a GRU's candidate, and new (rows, d) with its new state.

    x (rows, 3 d): the input's products for r, z, g. h (rows, d): the old state. rz (rows, 2 d): the
    gates r and z. u (rows, d): the state's product for g, U_g h if `after`, to be multiplied by r
    here, otherwise U_g (r * h). take: new = (1 - z) * h + z * g instead of z * h + (1 - z) * g.
    """
    rows, d = h.shape
    for i in range(rows):
        for c in range(d):
            share = widen(u[i, c]) * (rz[i, c] if after else ONE)
            g[i, c] = tanh(widen(x[i, 2 * d + c]) + share)
        for c in range(d):
            z = rz[i, d + c]
            before = widen(h[i, c])
            moved = (z if take else ONE - z) * (g[i, c] - before)
            new[i, c] = narrow(before + moved, new[i, c])


@njit_any_order
def gru_state_gradients(
    d_new: Array, h: Array, rz: Array, g: Array, d_x: Array, d_h: Array, take: bool
) -> None:
    """Backpropagate through a GRU's weighted sum of old state h and candidate g, to d_x and d_h.

    d_new, d_h (rows, d): the gradient of the new state is their sum. d_h is then overwritten with
    the part of the old state's gradient that the sum gives; the caller adds the parts through the
    gates and g. d_x (rows, 3 d): gradients of r, z and g before activation, of which those of z and
    g are overwritten. rz (rows, 2 d): r and z. take: whether z weighs g instead of h.
    """
    rows, d = h.shape
    total = np.empty(d, np.float32)  # loops that write a single array are vectorised
    for i in range(rows):
        for c in range(d):
            total[c] = widen(d_new[i, c]) + widen(d_h[i, c])
        for c in range(d):
            z = rz[i, d + c]
            share = z if take else ONE - z
            slope = ONE - g[i, c] * g[i, c]
            d_x[i, 2 * d + c] = narrow(total[c] * share * slope, d_x[0, 0])
        for c in range(d):
            z = rz[i, d + c]
            difference = g[i, c] - widen(h[i, c])
            y = total[c] * (difference if take else -difference)
            d_x[i, d + c] = narrow(y * z * (ONE - z), d_x[0, 0])
        for c in range(d):
            z = rz[i, d + c]
            d_h[i, c] = narrow(total[c] * (ONE - z if take else z), d_h[0, 0])


@njit_any_order
def gru_reset_gradients(
    d_reset: Array, other: Array, rz: Array, d_x: Array, d_other: Array
) -> None:
    """Backpropagate through a GRU's product r * other of the reset gate, to d_x and d_other.

    d_reset (rows, d): the gradient of the product. other (rows, d): the factor of r, the state or
    its product with weights. d_x (rows, 3 d): the first d columns are overwritten with the gradient
    of r before activation. d_other (rows, d): r * d_reset is added. rz (rows, 2 d): r and z.
    """
    rows, d = other.shape
    for i in range(rows):
        for c in range(d):
            r = rz[i, c]
            d_x[i, c] = narrow(widen(d_reset[i, c]) * widen(other[i, c]) * r * (ONE - r), d_x[0, 0])
        for c in range(d):
            d_other[i, c] = narrow(
                widen(d_other[i, c]) + widen(d_reset[i, c]) * rz[i, c], d_other[0, 0]
            )


class GRUProducts(NamedTuple):
    """The products with the state, and the conventions, of a fused GRU step."""

    gates: DeferredProduct  # of the state with U_r and U_z, the weights of the gates
    candidate: DeferredProduct  # of the state with U_g, the weights of the candidate
    after: bool  # whether the candidate reads r * (U_g h) instead of U_g (r * h)
    take: bool  # whether the state becomes (1 - z) * h + z * g instead of z * h + (1 - z) * g


def fused_gru(cell: GRUProducts) -> Callable[..., tuple[Tensor, ...]]:
    """Return the function (x, h) -> (h after each step,), a GRU as a single autograd function.

    x (t, rows, 3 d): the input's products for r, z, g, with biases. h (rows, d): the first state.
    """
    tokens = cell.gates.token, cell.candidate.token
    return lambda x, h: (_GRURun.apply(x, h, *tokens, cell),)  # type: ignore[no-untyped-call]


class _GRURun(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h: Tensor, gates: Tensor, candidate: Tensor, cell: GRUProducts
    ) -> Tensor:
        steps = len(x)
        rows, d = h.shape
        to_gates = cell.gates.matrix.mT
        to_candidate = cell.candidate.matrix.mT
        states, reads = _states(h, steps, torch.promote_types(x.dtype, h.dtype), to_gates.dtype)
        rz, g = (h.new_empty(steps, rows, width, dtype=torch.float32) for width in (2 * d, d))
        # The second product's input r * h or, with `after`, its output, which r multiplies.
        inner = to_gates.new_empty(steps, rows, d)
        product = to_gates.new_empty(rows, 2 * d)
        spare = to_gates.new_empty(rows, d)
        arrays = map(as_array, (x.contiguous(), states, rz, g, inner, product, spare))
        x_, states_, rz_, g_, inner_, product_, spare_ = arrays
        for t in range(steps):
            torch.mm(reads[t], to_gates, out=product)
            if cell.after:
                gru_gates(x_[t], product_, states_[t], rz_[t], spare_)
                torch.mm(reads[t], to_candidate, out=inner[t])
                u = inner_[t]
            else:
                gru_gates(x_[t], product_, states_[t], rz_[t], inner_[t])
                torch.mm(inner[t], to_candidate, out=spare)
                u = spare_
            gru_state(x_[t], u, states_[t], rz_[t], g_[t], states_[t + 1], cell.after, cell.take)
            _copy(states, reads, t + 1)
        ctx.save_for_backward(states, reads, rz, g, inner)
        ctx.cell = cell
        ctx.kind = x.dtype
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor | None, ...]:
        states, reads, rz, g, inner = ctx.saved_tensors
        cell = ctx.cell
        steps, rows, d = g.shape
        gates = cell.gates.matrix
        candidate = cell.candidate.matrix
        d_x = reads.new_empty(steps, rows, 3 * d)
        d_h = torch.zeros_like(states[0])
        d_u = reads.new_zeros(steps * cell.after, rows, d)
        d_inner = reads.new_empty(rows, d)
        arrays = map(
            as_array, (d_states.contiguous(), states, rz, g, inner, d_x, d_h, d_u, d_inner)
        )
        d_states_, states_, rz_, g_, inner_, d_x_, d_h_, d_u_, d_inner_ = arrays
        for t in reversed(range(steps)):
            gru_state_gradients(d_states_[t], states_[t], rz_[t], g_[t], d_x_[t], d_h_, cell.take)
            d_rz, d_g = torch.split(d_x[t], [2 * d, d], dim=1)
            if cell.after:  # g = tanh(x_g + r * inner)
                gru_reset_gradients(d_x_[t, :, 2 * d :], inner_[t], rz_[t], d_x_[t], d_u_[t])
                d_h += d_u[t] @ candidate
            else:  # inner = r * h
                torch.mm(d_g, candidate, out=d_inner)
                gru_reset_gradients(d_inner_, states_[t], rz_[t], d_x_[t], d_h_)
            d_h += d_rz @ gates
        d_gates, d_candidate = torch.split(d_x, [2 * d, d], dim=2)
        cell.gates.note(reads[:steps].flatten(0, 1), d_gates.flatten(0, 1))
        if cell.after:
            cell.candidate.note(reads[:steps].flatten(0, 1), d_u.flatten(0, 1))
        else:
            cell.candidate.note(inner.flatten(0, 1), d_candidate.flatten(0, 1))
        token = rz.new_zeros(())
        return d_x.to(ctx.kind), d_h, token, token, None


def _states(h: Tensor, steps: int, kind: torch.dtype, read: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return memory for the states (steps + 1, rows, d) of a run, and for what products read.

    The run begins with h (rows, d). kind, read: types of the states and of the products' inputs;
    the memory is one tensor if they are the same.
    """
    states = h.new_empty(steps + 1, *h.shape, dtype=kind)
    reads = states
    if read != kind:
        reads = h.new_empty(states.shape, dtype=read)
    states[0] = h
    reads[0] = h
    return states, reads


def _copy(states: Tensor, reads: Tensor, t: int) -> None:
    """Copy the state t of `states` into `reads`; see _states."""
    if reads is not states:
        reads[t] = states[t]


@njit_any_order
def lstm_state(
    x: Array, u: Array, c: Array, gates: Array, new_c: Array, tanh_c: Array, new_h: Array
) -> None:
    """Compute an LSTM step: overwrite gates (rows, 4 d) and new_c, tanh_c and new_h (rows, d).

    x, u (rows, 4 d): the products of the input and of the state with the weights. c (rows, d): the
    old cells. gates: i, f, g, o after activation. tanh_c: tanh of the new cells, new_c.
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
    d_new_h: Array,
    d_h: Array,
    d_new_c: Array,
    d_c: Array,
    c: Array,
    gates: Array,
    tanh_c: Array,
    d_x: Array,
) -> None:
    """Overwrite d_x (rows, 4 d) and d_c (rows, d) with the gradients of an LSTM step.

    The gradient of the new state is d_new_h + d_h (rows, d), that of the new cells d_new_c + d_c
    before the call. After it d_x has the gradient of the gates before activation, d_c that of the
    old cells. c (rows, d): the old cells. gates (rows, 4 d): i, f, g, o. tanh_c: tanh of new cells.
    """
    rows, d = c.shape
    state = np.empty(d, np.float32)  # see lstm_state
    cell = np.empty(d, np.float32)
    for row in range(rows):
        for j in range(d):
            state[j] = widen(d_new_h[row, j]) + widen(d_h[row, j])
        for j in range(d):
            o = gates[row, 3 * d + j]
            t = tanh_c[row, j]
            cell[j] = widen(d_new_c[row, j]) + widen(d_c[row, j]) + state[j] * o * (ONE - t * t)
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
            d_x[row, 3 * d + j] = narrow(state[j] * tanh_c[row, j] * o * (ONE - o), d_x[0, 0])
        for j in range(d):
            d_c[row, j] = narrow(cell[j] * gates[row, d + j], d_c[0, 0])


def fused_lstm(recurrent: DeferredProduct) -> Callable[..., tuple[Tensor, ...]]:
    """Return the function (x, h, c) -> (h, c after each step), an LSTM as one autograd function.

    x (t, rows, 4 d): the input's products for i, f, g, o, with biases. h, c (rows, d): the first
    state and cells. recurrent: the product of the state with its weights.
    """
    return lambda *inputs: _LSTMRun.apply(*inputs, recurrent.token, recurrent)  # type: ignore[no-untyped-call]


class _LSTMRun(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h: Tensor, c: Tensor, token: Tensor, recurrent: DeferredProduct
    ) -> tuple[Tensor, Tensor]:
        steps = len(x)
        rows, d = c.shape
        matrix = recurrent.matrix.mT
        kind = torch.promote_types(x.dtype, c.dtype)
        states, reads = _states(h, steps, kind, matrix.dtype)
        cells, _ = _states(c, steps, kind, kind)
        gates = c.new_empty(steps, rows, 4 * d, dtype=torch.float32)
        tanh_c = c.new_empty(steps, rows, d, dtype=torch.float32)
        product = matrix.new_empty(rows, 4 * d)
        arrays = map(as_array, (x.contiguous(), product, states, cells, gates, tanh_c))
        x_, product_, states_, cells_, gates_, tanh_c_ = arrays
        for t in range(steps):
            torch.mm(reads[t], matrix, out=product)
            outputs = gates_[t], cells_[t + 1], tanh_c_[t], states_[t + 1]
            lstm_state(x_[t], product_, cells_[t], *outputs)
            _copy(states, reads, t + 1)
        ctx.save_for_backward(reads, cells, gates, tanh_c)
        ctx.recurrent = recurrent
        ctx.kinds = (x.dtype, h.dtype)
        return states[1:], cells[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor, d_cells: Tensor) -> tuple[Tensor | None, ...]:
        reads, cells, gates, tanh_c = ctx.saved_tensors
        matrix = ctx.recurrent.matrix
        steps, rows, d = tanh_c.shape
        d_x = reads.new_empty(gates.shape)
        d_h = reads.new_zeros(rows, d)
        d_c = torch.zeros_like(cells[0])
        given = d_states.contiguous(), d_cells.contiguous(), cells, gates, tanh_c, d_x, d_h, d_c
        d_states_, d_cells_, cells_, gates_, tanh_c_, d_x_, d_h_, d_c_ = map(as_array, given)
        for t in reversed(range(steps)):
            gradients = d_states_[t], d_h_, d_cells_[t], d_c_
            lstm_gradients(*gradients, cells_[t], gates_[t], tanh_c_[t], d_x_[t])
            torch.mm(d_x[t], matrix, out=d_h)
        ctx.recurrent.note(reads[:steps].flatten(0, 1), d_x.flatten(0, 1))
        return d_x.to(ctx.kinds[0]), d_h.to(ctx.kinds[1]), d_c, gates.new_zeros(()), None
