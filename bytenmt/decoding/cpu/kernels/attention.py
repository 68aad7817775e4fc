"""Attention of one row over the columns of its sentence in the encoder's memory, or over a window of them.

Compiled as part of interpreter.py. The scores of a row are stored in the scratch memory of its thread.
Arguments named d, query, scores and centre are addresses; see program.instructions.Op for the others.
"""

from __future__ import annotations

import math

import numpy as np

from bytenmt.decoding.cpu.kernels.columns import (
    add_weighted,
    additive_columns,
    additive_columns_int8,
    dot,
    dot_columns,
)
from bytenmt.decoding.cpu.kernels.decoder_memory import (
    KEYS,
    VALUES,
    item_address,
    item_column,
    item_scales,
)
from bytenmt.decoding.cpu.kernels.elementwise import exp_sum, multiply, row_max, scale, softmax
from bytenmt.decoding.cpu.kernels.gemm import linear_row
from bytenmt.decoding.cpu.kernels.instructions import (
    ModelBuffers,
    ThreadContext,
    copy,
    exp_double,
    fill,
    load_float,
    padded,
    store_float,
    zero,
)
from bytenmt.decoding.cpu.kernels.panels import INT8
from bytenmt.jit import compiled, inlined

AFTER, INSIDE = 1, 2  # see program.instructions.Bell


@compiled
def write_centre(model: ModelBuffers, slot: int, position: int, bound: int, d: int) -> None:
    """Execute Op.CENTRE for a row: d = the position, at most that of the last column."""
    store_float(d, 0, np.float32(min(position, n_visible(model, slot, bound) - 1)))


@compiled
def predict_centre(model: ModelBuffers, slot: int, a: int, v: int, n: int, bound: int, d: int) -> None:
    """Execute Op.PREDICT_CENTRE for a row: d = n_columns sigmoid(a . v)."""
    share = np.float32(1) / np.float32(1 + math.exp(-dot(a, v, n)))
    store_float(d, 0, np.float32(np.float32(n_visible(model, slot, bound)) * share))


@inlined
def attend_dot(
    model: ModelBuffers, ctx: ThreadContext, slot: int, d: int, width: int, query: int, k: int, v: int, root:
    int, centre: int, window: int, bell: int,
) -> None:  # fmt: skip
    """Execute Op.ATTEND_DOT for a row. centre: address of the window's centre."""
    first, last = window_range(n_visible(model, slot, 0), centre, window)
    n_query = model.items[k, 1]
    if model.items[k, 2] == KEYS:
        room = ctx.scratch + 4 * padded(last)
        scales = item_scales(model, slot, k)
        linear_row(query, item_address(model, slot, k), n_query, ctx.scratch, last, False, scales, room)
    else:
        keys = item_column(model, slot, k, first)
        dot_columns(ctx.scratch, query, keys, 4 * n_query, last - first, n_query)
    factor = math.sqrt(model.source_len[slot]) if root else 1.0
    weighted_mean(model, ctx.scratch, slot, first, last, v, width, factor, d, centre, window, bell)


@inlined
def attend_additive(
    model: ModelBuffers, ctx: ThreadContext, slot: int, d: int, width: int, query: int, w: int, k: int, v:
    int, centre: int, window: int, bell: int,
) -> None:  # fmt: skip
    """Execute Op.ATTEND_ADDITIVE for a row; overwrites the query."""
    first, last = window_range(n_visible(model, slot, 0), centre, window)
    n_query, weights = model.items[k, 1], model.weights + w
    keys = item_column(model, slot, k, first)
    exp_double(query, query, n_query)
    if model.precision == INT8:
        additive_columns_int8(ctx.scratch, query, weights, keys, 4 * n_query, last - first, n_query)
    else:
        additive_columns(ctx.scratch, query, weights, keys, 4 * n_query, last - first, n_query)
    weighted_mean(model, ctx.scratch, slot, first, last, v, width, 1.0, d, centre, window, bell)


@compiled
def attend_location(
    model: ModelBuffers, ctx: ThreadContext, slot: int, d: int, width: int, scores: int, bound: int, v: int,
    twice: int, centre: int, window: int, bell: int,
) -> None:  # fmt: skip
    """Execute Op.ATTEND_LOCATION for a row."""
    first, last = window_range(n_visible(model, slot, bound), centre, window)
    if last > first:
        copy(ctx.scratch, scores + 4 * first, last - first)
        if twice:
            softmax(ctx.scratch, ctx.scratch, last - first)
    weighted_mean(model, ctx.scratch, slot, first, last, v, width, 1.0, d, centre, window, bell)


@compiled
def n_visible(model: ModelBuffers, slot: int, bound: int) -> int:
    """Return how many columns a row may attend to: at most `bound`, unless that is 0."""
    n: int = model.columns[slot]
    return min(n, bound) if bound else n


@compiled
def window_range(n: int, centre: int, window: int) -> tuple[int, int]:
    """Return the range of columns (first, last + 1), of n, that are at most `window` from the centre.

    All of them for window 0, and where the centre is NaN, which makes their Gaussians NaN.
    """
    if window == 0:
        return 0, n
    p = load_float(centre, 0)
    if math.isnan(p):
        return 0, n
    return max(0, int(math.ceil(p - window))), min(n, int(math.floor(p + window)) + 1)


@inlined
def weighted_mean(
    model: ModelBuffers, scores: int, slot: int, first: int, last: int, v: int, width: int, factor: float, d:
    int, centre: int, window: int, bell: int,
) -> None:  # fmt: skip
    """Set d = factor times the mean of the columns of item v, weighted by the softmax of the scores.

    The scores, which begin with that of column `first`, are replaced by the weights times the factor. d is
    zero if there are no columns. bell: whether and where a Gaussian applies, see program.instructions.Bell.
    """
    zero(d, width)
    n = last - first
    if n <= 0:
        return
    if bell == INSIDE:
        apply_gaussian(scores, n, load_float(centre, 0) - first, window)
    share_of_one = np.float32(factor) / exp_sum(scores, scores, n, row_max(scores, n))
    if bell == AFTER:
        apply_gaussian(scores, n, load_float(centre, 0) - first, window)
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
def apply_gaussian(x: int, n: int, centre: float, window: int) -> None:
    """Multiply n numbers x by a Gaussian around index `centre` with the standard deviation window / 2."""
    for j in range(n):
        distance = (j - centre) / window
        store_float(x, j, np.float32(load_float(x, j) * math.exp(-2 * distance * distance)))
