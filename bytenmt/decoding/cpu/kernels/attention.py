"""Attend from one row to the columns of its sentence in the encoder's memory, or to a window of
them.

Compiled as part of interpreter.py. The scores of a row are stored in the scratch memory of its
thread.
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
from bytenmt.decoding.cpu.kernels.decoder_memory import item_address, item_column, item_scales
from bytenmt.decoding.cpu.kernels.elementwise import exp_sum, multiply, row_max, scale, softmax
from bytenmt.decoding.cpu.kernels.gemm import linear_row
from bytenmt.decoding.cpu.kernels.instructions import (
    K,
    M,
    N,
    S,
    T,
    V,
    W,
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
from bytenmt.decoding.search.state import Ints
from bytenmt.jit import compiled, inlined
from bytenmt.program.instructions import GaussianUse


@compiled
def write_centre(code: Ints, model: ModelBuffers, slot: int, position: int, d: Address) -> None:
    """Store the middle of local attention's window at d: a row's position in its text, float32.

    It is at most the last source column that the row may attend to. code (fields,): the instruction
    Op.CENTRE. slot: index of the row's sentence in the batch.
    """
    store_float(d, 0, np.float32(min(position, n_visible(model, slot, code[M]) - 1)))


@compiled
def predict_centre(code: Ints, model: ModelBuffers, slot: int, d: Address, a: Address) -> None:
    """Store the predicted middle of local attention's window, n sigma(w . a), at address d.

    n: source columns that the row may attend to. code (fields,): the instruction Op.PREDICT_CENTRE.
    a: address of the row's input. slot: index of its sentence in the batch.
    """
    product = dot(a, model.weights + code[W], code[N])
    share = np.float32(1) / np.float32(1 + math.exp(-product))
    store_float(d, 0, np.float32(np.float32(n_visible(model, slot, code[M])) * share))


@inlined
def attend_dot(
    code: Ints,
    model: ModelBuffers,
    ctx: ThreadContext,
    slot: int,
    d: Address,
    query: Address,
    centre: Address,
) -> None:
    """Store dot-product attention's weighted mean of the values at d, for one row.

    code (fields,): the instruction Op.ATTEND_DOT, which says where the encoder memory has keys and
    values. slot: index of the row's sentence in the batch. query: address of the row's query.
    centre: address of the middle of local attention's window, float32.
    """
    k = code[M]
    first, last = window_range(n_visible(model, slot, 0), centre, code[S])
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
    if code[K] != 0:
        factor = math.sqrt(model.source_len[slot])
    weighted_mean(code, model, ctx.scratch, slot, first, last, factor, d, centre)


@inlined
def attend_additive(
    code: Ints,
    model: ModelBuffers,
    ctx: ThreadContext,
    slot: int,
    d: Address,
    query: Address,
    centre: Address,
) -> None:
    """Store additive attention's weighted mean of the values at d, for one row.

    Scores are w . tanh(query + key). code (fields,): the instruction Op.ATTEND_ADDITIVE, which says
    where w, keys and values are. slot: index of the row's sentence in the batch. query, centre:
    addresses of the row's query, which is overwritten, and of the middle of a local window.
    """
    k = code[M]
    first, last = window_range(n_visible(model, slot, 0), centre, code[S])
    n_query = model.items[k, 1]
    weights = model.weights + code[W]
    keys = item_column(model, slot, k, first)
    exp_double(query, query, n_query)
    if model.precision == INT8:
        additive_columns_int8(ctx.scratch, query, weights, keys, 4 * n_query, last - first, n_query)
    else:
        additive_columns(ctx.scratch, query, weights, keys, 4 * n_query, last - first, n_query)
    if code[T] == GaussianUse.INSIDE:  # the scores are multiplied: they need the sum of v, too
        sum_of_v = np.float32(0)
        for i in range(n_query):
            sum_of_v += load_float(weights, i)
        for i in range(last - first):
            store_float(ctx.scratch, i, load_float(ctx.scratch, i) + sum_of_v)
    weighted_mean(code, model, ctx.scratch, slot, first, last, 1.0, d, centre)


@compiled
def attend_location(
    code: Ints,
    model: ModelBuffers,
    ctx: ThreadContext,
    slot: int,
    d: Address,
    scores: Address,
    centre: Address,
) -> None:
    """Store the mean of attention's values at d, weighted by the softmax of a row's given scores.

    code (fields,): the instruction Op.ATTEND_LOCATION. slot: index of the row's sentence in the
    batch. scores: address of the row's scores, one for each source column. centre: address of the
    middle of local attention's window, float32.
    """
    first, last = window_range(n_visible(model, slot, code[M]), centre, code[S])
    if last > first:
        copy(ctx.scratch, scores + 4 * first, last - first)
        if code[K] != 0:
            softmax(ctx.scratch, ctx.scratch, last - first)
    weighted_mean(code, model, ctx.scratch, slot, first, last, 1.0, d, centre)


@compiled
def n_visible(model: ModelBuffers, slot: int, bound: int) -> int:
    """Return how many source columns a row may attend to: at most `bound`, 0 for no bound."""
    n = int(model.columns[slot])
    return min(n, bound) if bound else n


@compiled
def window_range(n: int, centre: Address, reach: int) -> tuple[int, int]:
    """Return the range (first, last + 1) of the columns, of n, that local attention sees.

    centre: address of a number, the middle of the window. reach: columns on each side of it; 0: all
    columns are seen. NaN at the centre means all columns, too, which makes their Gaussians NaN.
    """
    if reach == 0:
        return 0, n
    p = load_float(centre, 0)
    if math.isnan(p):
        return 0, n
    return max(0, int(math.ceil(p - reach))), min(n, int(math.floor(p + reach)) + 1)


@inlined
def weighted_mean(
    code: Ints,
    model: ModelBuffers,
    scores: Address,
    slot: int,
    first: int,
    last: int,
    factor: float,
    d: Address,
    centre: Address,
) -> None:
    """Store at d the mean of attention's values, weighted by the softmax of scores, times factor.

    code (fields,): the attention instruction. scores: address of the scores of source columns
    `first` to last - 1, which are replaced by the weights times the factor. Without columns d is
    zero. slot: index of the sentence in the batch. centre: address of the middle of the Gaussian by
    which the instruction may multiply scores or weights.
    """
    width = code[N]
    v = code[V]
    zero(d, width)
    n = last - first
    if n <= 0:
        return
    if code[T] == GaussianUse.INSIDE:
        apply_gaussian(scores, n, load_float(centre, 0) - first, code[S])
    share_of_one = np.float32(factor) / exp_sum(scores, scores, n, row_max(scores, n))
    if code[T] == GaussianUse.AFTER:
        apply_gaussian(scores, n, load_float(centre, 0) - first, code[S])
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
