"""GRU and LSTM: a step of one row, and scans over the sources of many sentences at once.

Sentences stand one after another without padding, longer ones first, so that at every position the sentences
that still have a byte come first. Compiled as part of interpreter.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.barrier import barrier
from bytenmt.decoding.cpu.kernels.elementwise import (
    add,
    add_product,
    gru_keep,
    gru_take,
    lstm_step,
    multiply,
    sigmoid,
)
from bytenmt.decoding.cpu.kernels.instructions import (
    ModelBuffers,
    Rows,
    ThreadContext,
    copy,
    linear,
    padded,
    thread_range,
    zero,
)
from bytenmt.jit import compiled

NONE: Any = np.int64(0)  # no base; for a plain 0 products would be compiled once more


@compiled
def gru_reset(rs: int, gates: int, h: int, n: int) -> None:
    """Execute a GRU's reset gate for one row: gates[:n] = r = sigma(gates[:n]), then rs = r * h."""
    sigmoid(gates, gates, n)
    multiply(rs, gates, h, n)


@compiled
def gru_update(h: int, gates: int, u: int, n: int, flags: int) -> None:
    """Set h to the new state of a GRU for one row. Addresses: h and u of n numbers, gates of 3n.

    gates: r, then the input's share of z and of g before sigma and tanh. u: the state's share of g.
    flags: bit 0: r resets u, bit 1: z takes the new value, see layers.recurrent.GRU.
    """
    g = gates + 8 * n
    if flags & 1:
        add_product(g, g, gates, u, n)
    else:
        add(g, g, u, n)
    if flags & 2:
        gru_take(h, gates + 4 * n, g, h, n)
    else:
        gru_keep(h, gates + 4 * n, g, h, n)


@compiled
def gru_scan(
    model: ModelBuffers, rows: Rows, ctx: ThreadContext, d: int, d_stride: int, x: int, x_stride: int, h: int,
    stride: int, w: int, v: int, s: int, t: int, n: int, backwards: int, flags: int,
) -> None:  # fmt: skip
    """Execute Op.GRU_SCAN: run a GRU over all bytes of the sources. Addresses: d: the states. x: the input's
    share of the gates. h: the scratch register with the parts h, u (2n), r h and g, each padded to whole
    panels. w, v, s, t: offsets of weights and scales, see Field. flags: GruFlag."""
    wide, wider = 4 * padded(n), 4 * padded(2 * n)
    u, rs, g = h + wide, h + wide + wider, h + 2 * wide + wider
    n_sentences = len(rows.slot)
    first, last = thread_range(n_sentences, ctx)
    for row in range(first, last):
        zero(h + 4 * row * stride, n)
    if not barrier(ctx.barrier, ctx.n_threads):
        return
    for step in range(max_length(rows)):
        active = n_active(rows, step)
        linear(model, ctx, u, stride, h, stride, active, w, s, 2 * n, n, NONE, NONE)
        if not barrier(ctx.barrier, ctx.n_threads):
            return
        first, last = thread_range(active, ctx)
        for row in range(first, last):
            gates = x + 4 * x_stride * row_index(rows, row, step, backwards)
            add(gates, gates, u + 4 * row * stride, 2 * n)
            gru_reset(rs + 4 * row * stride, gates, h + 4 * row * stride, n)
        if not barrier(ctx.barrier, ctx.n_threads):
            return
        linear(model, ctx, g, stride, h if flags & 1 else rs, stride, active, v, t, n, n, NONE, NONE)
        if not barrier(ctx.barrier, ctx.n_threads):
            return
        for row in range(first, last):
            here = row_index(rows, row, step, backwards)
            gru_update(h + 4 * row * stride, x + 4 * x_stride * here, g + 4 * row * stride, n, flags)
            copy(d + 4 * d_stride * here, h + 4 * row * stride, n)
        if not barrier(ctx.barrier, ctx.n_threads):
            return


@compiled
def lstm_scan(
    model: ModelBuffers, rows: Rows, ctx: ThreadContext, d: int, d_stride: int, x: int, x_stride: int, h: int,
    stride: int, w: int, s: int, n: int, backwards: int,
) -> None:  # fmt: skip
    """Execute Op.LSTM_SCAN: run an LSTM over all bytes of the sources; arguments as of gru_scan. h: the
    scratch register with the parts h, c and u (4n), each padded to whole panels."""
    c, u = h + 4 * padded(n), h + 8 * padded(n)
    first, last = thread_range(len(rows.slot), ctx)
    for row in range(first, last):
        zero(h + 4 * row * stride, n)
        zero(c + 4 * row * stride, n)
    if not barrier(ctx.barrier, ctx.n_threads):
        return
    for step in range(max_length(rows)):
        active = n_active(rows, step)
        linear(model, ctx, u, stride, h, stride, active, w, s, 4 * n, n, NONE, NONE)
        if not barrier(ctx.barrier, ctx.n_threads):
            return
        first, last = thread_range(active, ctx)
        for row in range(first, last):
            here = row_index(rows, row, step, backwards)
            gates = x + 4 * x_stride * here
            add(gates, gates, u + 4 * row * stride, 4 * n)
            lstm_step(h + 4 * row * stride, c + 4 * row * stride, gates, n)
            copy(d + 4 * d_stride * here, h + 4 * row * stride, n)
        if not barrier(ctx.barrier, ctx.n_threads):
            return


@compiled
def max_length(rows: Rows) -> int:
    """Return the columns (bytes read) of the longest sentence, which comes first; 0 without sentences."""
    return int(rows.first[1]) if len(rows.slot) else 0


@compiled
def n_active(rows: Rows, step: int) -> int:
    """Return how many sentences, the first ones, are longer than `step` columns."""
    n = len(rows.slot)
    while n > 0 and rows.first[n] - rows.first[n - 1] <= step:
        n -= 1
    return n


@compiled
def row_index(rows: Rows, sentence: int, step: int, backwards: int) -> int:
    """Return the row of column `step` of a sentence, counted from the end if backwards."""
    return int(rows.first[sentence + 1]) - 1 - step if backwards else int(rows.first[sentence]) + step
