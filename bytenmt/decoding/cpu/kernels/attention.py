"""Attend from one row to the columns of its sentence in the encoder's memory, or to a window of
them.

Compiled as part of interpreter.py. The scores of a row are stored in the scratch memory of its
thread.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bytenmt.decoding.cpu.kernels.columns import (
    add_weighted,
    additive_columns,
    additive_columns_int8,
    dot,
    dot_columns,
)
from bytenmt.decoding.cpu.kernels.decoder_memory import item_address, item_column, item_scales
from bytenmt.decoding.cpu.kernels.elementwise import (
    exp_sum,
    multiply,
    row_max,
    scale,
    softmax,
)
from bytenmt.decoding.cpu.kernels.gemm import linear_row
from bytenmt.decoding.cpu.kernels.instructions import (
    copy,
    exp_double,
    fill,
    load_float,
    padded,
    store_float,
    zero,
)
from bytenmt.decoding.cpu.kernels.panels import INT8
from bytenmt.decoding.cpu.records import KEYS, VALUES, Address, ModelBuffers, ThreadContext
from bytenmt.jit import compiled, inlined
from bytenmt.program.instructions import GaussianUse

GAUSSIAN_AFTER = int(GaussianUse.AFTER)
GAUSSIAN_INSIDE = int(GaussianUse.INSIDE)


class Window(NamedTuple):
    """The columns that local attention sees, and where its Gaussian applies."""

    centre: Address  # of a number, the middle of the window
    reach: int  # columns on each side of the centre; 0: all columns are seen
    gaussian: int  # see program.instructions.GaussianUse


@compiled
def write_centre(model: ModelBuffers, slot: int, position: int, bound: int, d: Address) -> None:
    """Execute Op.CENTRE: store a row's position at d, at most that of the last column (see
    n_visible)."""
    store_float(d, 0, np.float32(min(position, n_visible(model, slot, bound) - 1)))


@compiled
def predict_centre(
    model: ModelBuffers, slot: int, a: Address, v: Address, n: int, bound: int, d: Address
) -> None:
    """Execute Op.PREDICT_CENTRE: store a row's centre of attention, n_visible * sigmoid(a . v), at
    d. a, v: n numbers each."""
    share = np.float32(1) / np.float32(1 + math.exp(-dot(a, v, n)))
    store_float(d, 0, np.float32(np.float32(n_visible(model, slot, bound)) * share))


@inlined
def attend_dot(
    model: ModelBuffers,
    ctx: ThreadContext,
    slot: int,
    d: Address,
    width: int,
    query: Address,
    k: int,
    v: int,
    root: int,
    window: Window,
) -> None:
    """Execute Op.ATTEND_DOT (dot-product attention) for a row.

    width: of the result, at d. k, v: items of the memory. root: whether the result is multiplied by
    the square root of the source length.
    """
    first, last = window_range(n_visible(model, slot, 0), window.centre, window.reach)
    n_query = model.items[k, 1]
    if model.items[k, 2] == KEYS:
        room = ctx.scratch + 4 * padded(last)
        keys = item_address(model, slot, k)
        scales = item_scales(model, slot, k)
        linear_row(query, keys, n_query, ctx.scratch, last, False, scales, room)
    else:
        keys = item_column(model, slot, k, first)
        dot_columns(ctx.scratch, query, keys, 4 * n_query, last - first, n_query)
    factor = 1.0
    if root:
        factor = math.sqrt(model.source_len[slot])
    weighted_mean(model, ctx.scratch, slot, first, last, v, width, factor, d, window)


@inlined
def attend_additive(
    model: ModelBuffers,
    ctx: ThreadContext,
    slot: int,
    d: Address,
    width: int,
    query: Address,
    w: int,
    k: int,
    v: int,
    window: Window,
) -> None:
    """Execute Op.ATTEND_ADDITIVE (additive attention) for a row; arguments are those of attend_dot.

    The query is overwritten. w: offset, in bytes, of the vector that the tanh of query + key is
    multiplied by.
    """
    first, last = window_range(n_visible(model, slot, 0), window.centre, window.reach)
    n_query = model.items[k, 1]
    weights = model.weights + w
    keys = item_column(model, slot, k, first)
    exp_double(query, query, n_query)
    if model.precision == INT8:
        additive_columns_int8(ctx.scratch, query, weights, keys, 4 * n_query, last - first, n_query)
    else:
        additive_columns(ctx.scratch, query, weights, keys, 4 * n_query, last - first, n_query)
    if window.gaussian == GAUSSIAN_INSIDE:  # the scores are multiplied: they need the sum of v, too
        sum_of_v = np.float32(0)
        for i in range(n_query):
            sum_of_v += load_float(weights, i)
        for i in range(last - first):
            store_float(ctx.scratch, i, load_float(ctx.scratch, i) + sum_of_v)
    weighted_mean(model, ctx.scratch, slot, first, last, v, width, 1.0, d, window)


@compiled
def attend_location(
    model: ModelBuffers,
    ctx: ThreadContext,
    slot: int,
    d: Address,
    width: int,
    scores: Address,
    bound: int,
    v: int,
    twice: int,
    window: Window,
) -> None:
    """Execute Op.ATTEND_LOCATION for a row: attention with given scores, one a column; other
    arguments are those of attend_dot.

    bound: number of scores. twice: whether they pass two softmaxes.
    """
    first, last = window_range(n_visible(model, slot, bound), window.centre, window.reach)
    if last > first:
        copy(ctx.scratch, scores + 4 * first, last - first)
        if twice:
            softmax(ctx.scratch, ctx.scratch, last - first)
    weighted_mean(model, ctx.scratch, slot, first, last, v, width, 1.0, d, window)


@compiled
def n_visible(model: ModelBuffers, slot: int, bound: int) -> int:
    """Return how many source columns a row may attend to: at most `bound`, unless that is 0."""
    n: int = model.columns[slot]
    return min(n, bound) if bound else n


@compiled
def window_range(n: int, centre: Address, reach: int) -> tuple[int, int]:
    """Return the range of columns (first, last + 1), of n, in a window; see Window.

    NaN at the centre means all columns, too, which makes their Gaussians NaN.
    """
    if reach == 0:
        return 0, n
    p = load_float(centre, 0)
    if math.isnan(p):
        return 0, n
    return max(0, int(math.ceil(p - reach))), min(n, int(math.floor(p + reach)) + 1)


@inlined
def weighted_mean(
    model: ModelBuffers,
    scores: Address,
    slot: int,
    first: int,
    last: int,
    v: int,
    width: int,
    factor: float,
    d: Address,
    window: Window,
) -> None:
    """Store at d factor times the mean of the columns of item v, weighted by the softmax of the
    scores.

    The scores, which begin with that of column `first`, are replaced by the weights times the
    factor. d is zero if there are no columns.
    """
    zero(d, width)
    n = last - first
    if n <= 0:
        return
    if window.gaussian == GAUSSIAN_INSIDE:
        apply_gaussian(scores, n, load_float(window.centre, 0) - first, window.reach)
    share_of_one = np.float32(factor) / exp_sum(scores, scores, n, row_max(scores, n))
    if window.gaussian == GAUSSIAN_AFTER:
        apply_gaussian(scores, n, load_float(window.centre, 0) - first, window.reach)
    scale(scores, scores, n, share_of_one)
    if model.items[v, 2] == VALUES:
        weights = scores + 4 * padded(n)
        sums = weights + 4 * padded(n)
        room = sums + 4 * padded(width)
        multiply(weights, scores, item_scales(model, slot, v), n)
        fill(sums, padded(width), 1.0)
        linear_row(weights, item_address(model, slot, v), n, sums, width, True, sums, room)
        copy(d, sums, width)
    else:
        add_weighted(d, item_column(model, slot, v, first), 4 * width, scores, n, width)


@compiled
def apply_gaussian(x: Address, n: int, centre: float, reach: int) -> None:
    """Multiply n numbers x by a Gaussian around index `centre` with the standard deviation reach /
    2."""
    for j in range(n):
        distance = (j - centre) / reach
        store_float(x, j, np.float32(load_float(x, j) * math.exp(-2 * distance * distance)))
