"""Recurrences: a step of one row, and whole sources of many sentences at once.

Sentences stand one after another without padding, longer ones first: at every position those that still
have a byte are the first rows. Compiled without a cache of its own, as part of interpreter.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.elementwise import (
    add,
    add_product,
    gru_keep,
    gru_take,
    lstm_step,
    multiply,
    sigmoid,
)
from bytenmt.decoding.cpu.kernels.instructions import Crew, Model, Rows, copy, meet, product, share, zero
from bytenmt.decoding.cpu.kernels.panels import PANEL
from bytenmt.jit import compiled

NONE: Any = np.int64(0)  # no base; for a plain 0 products would be compiled once more


@compiled
def gru_reset(rs: int, gates: int, h: int, n: int) -> None:
    """A row: r = sigma(gates[:n]), rs = r h."""
    sigmoid(gates, gates, n)
    multiply(rs, gates, h, n)


@compiled
def gru_new(h: int, gates: int, u: int, n: int, flags: int) -> None:
    """A row: h = the new state; gates: r, then z and g's share of the input before their functions; u: g's
    share of the state."""
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
    model: Model, rows: Rows, crew: Crew, d: int, d_stride: int, x: int, x_stride: int, h: int, stride: int,
    w: int, v: int, s: int, t: int, n: int, backwards: int, flags: int,
) -> None:  # fmt: skip
    """Op.GRU_SCAN; h: of the scratch register, whose parts are h, u (2n), r h and g, in whole panels."""
    wide, wider = 4 * padded(n), 4 * padded(2 * n)
    u, rs, g = h + wide, h + wide + wider, h + 2 * wide + wider
    n_sentences = len(rows.place)
    first, last = share(n_sentences, crew)
    for row in range(first, last):
        zero(h + 4 * row * stride, n)
    if not meet(crew):
        return
    for at in range(longest(rows)):
        active = still(rows, at)
        product(model, crew, u, stride, h, stride, active, w, s, 2 * n, n, NONE, NONE)
        if not meet(crew):
            return
        first, last = share(active, crew)
        for row in range(first, last):
            gates = x + 4 * x_stride * column(rows, row, at, backwards)
            add(gates, gates, u + 4 * row * stride, 2 * n)
            gru_reset(rs + 4 * row * stride, gates, h + 4 * row * stride, n)
        if not meet(crew):
            return
        product(model, crew, g, stride, h if flags & 1 else rs, stride, active, v, t, n, n, NONE, NONE)
        if not meet(crew):
            return
        for row in range(first, last):
            here = column(rows, row, at, backwards)
            gru_new(h + 4 * row * stride, x + 4 * x_stride * here, g + 4 * row * stride, n, flags)
            copy(d + 4 * d_stride * here, h + 4 * row * stride, n)
        if not meet(crew):
            return


@compiled
def lstm_scan(
    model: Model, rows: Rows, crew: Crew, d: int, d_stride: int, x: int, x_stride: int, h: int, stride: int,
    w: int, s: int, n: int, backwards: int,
) -> None:  # fmt: skip
    """Op.LSTM_SCAN; h: of the scratch register, whose parts are h, c and u (4n), in whole panels."""
    c, u = h + 4 * padded(n), h + 8 * padded(n)
    first, last = share(len(rows.place), crew)
    for row in range(first, last):
        zero(h + 4 * row * stride, n)
        zero(c + 4 * row * stride, n)
    if not meet(crew):
        return
    for at in range(longest(rows)):
        active = still(rows, at)
        product(model, crew, u, stride, h, stride, active, w, s, 4 * n, n, NONE, NONE)
        if not meet(crew):
            return
        first, last = share(active, crew)
        for row in range(first, last):
            here = column(rows, row, at, backwards)
            gates = x + 4 * x_stride * here
            add(gates, gates, u + 4 * row * stride, 4 * n)
            lstm_step(h + 4 * row * stride, c + 4 * row * stride, gates, n)
            copy(d + 4 * d_stride * here, h + 4 * row * stride, n)
        if not meet(crew):
            return


@compiled
def padded(width: int) -> int:
    """Floats of whole panels."""
    return (width + PANEL - 1) // PANEL * PANEL


@compiled
def longest(rows: Rows) -> int:
    """Columns of the longest sentence, which comes first."""
    return int(rows.first[1]) if len(rows.place) else 0


@compiled
def still(rows: Rows, at: int) -> int:
    """How many sentences have a column of this position: the first ones."""
    n = len(rows.place)
    while n > 0 and rows.first[n] - rows.first[n - 1] <= at:
        n -= 1
    return n


@compiled
def column(rows: Rows, sentence: int, at: int, backwards: int) -> int:
    """The row of a sentence's column number `at`, counted from the end if backwards."""
    return int(rows.first[sentence + 1]) - 1 - at if backwards else int(rows.first[sentence]) + at
