"""Attention of one row over the columns of its sentence in the encoder's memory, or over a window
of them.

Compiled as part of interpreter.py. The scores of a row are stored in the scratch memory of its
thread. Scores of a query and every column, and weighted sums of columns, read several columns side
by side, so that what they share is read once; a column's score has the same bits whatever stands
beside it. Arguments named d, query, scores and centre are addresses; see program.instructions.Op
for the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from bytenmt.decoding.cpu.kernels.decoder_memory import (
    KEYS,
    VALUES,
    item_address,
    item_column,
    item_scales,
)
from bytenmt.decoding.cpu.kernels.elementwise import (
    exp_sum,
    multiply,
    reduce_kernel,
    row_max,
    scale,
    softmax,
)
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
from bytenmt.decoding.cpu.kernels.simd import (
    FEATURES,
    FLOAT,
    INT16,
    INT32,
    VECTOR,
    Builder,
    Value,
    broadcast,
    call,
    const_int,
    emit_function,
    load_part,
    loop,
    loop_with_tail,
    multiply_add,
    pointer,
    prefetch,
    splat,
    store_part,
)
from bytenmt.jit import compiled, inlined

AFTER, INSIDE = 1, 2  # see program.instructions.GaussianUse
N_SIDE_BY_SIDE = 4  # columns that are read side by side, while the next ones are prefetched
_SCORE_VECTOR = ir.VectorType(FLOAT, N_SIDE_BY_SIDE)


def _prefetch_next(b: Builder, columns: Sequence[Value], size: Value, index: Value) -> None:
    """Prefetch the columns that will be read after these."""
    ahead = b.add(b.mul(size, const_int(N_SIDE_BY_SIDE)), b.mul(index, const_int(4)))
    for column in columns:
        prefetch(b, b.add(column, ahead))


def _lane_indices(lanes: Iterable[int]) -> Value:
    """Return a constant vector of lane numbers for shuffle_vector."""
    indices = list(lanes)
    return ir.Constant(ir.VectorType(INT32, len(indices)), indices)


def _product(b: Builder, sum_: Value, x: Value, y: Value) -> Value:
    return multiply_add(b, x, y, sum_)


def _additive(b: Builder, sum_: Value, k: Value, q: Value, v: Value) -> Value:
    """Return sum_ - v / (1 + qk): half of v tanh(a + b) = v - 2 v / (1 + qk), without the constant
    v."""
    return b.fsub(sum_, b.fdiv(v, multiply_add(b, q, k, splat(1.0))))


def _approximate_additive(b: Builder, sum_: Value, k: Value, q: Value, v: Value) -> Value:
    """Compute `_additive` with 14 bits of the quotient, for models in int8."""
    arguments = [multiply_add(b, q, k, splat(1.0)), splat(0.0), ir.Constant(INT16, -1)]
    quotient = call(b, "llvm.x86.avx512.rcp14.ps.512", VECTOR, arguments)
    return multiply_add(b, b.fsub(splat(-0.0), v), quotient, sum_)


def _column_addresses(
    b: Builder, first: Value, n: Value, columns: Value, size: Value
) -> list[Value]:
    """Return the addresses of N_SIDE_BY_SIDE columns from `first` on; the last of n is repeated."""
    last = b.sub(n, const_int(1))
    places = [b.add(first, const_int(j)) for j in range(N_SIDE_BY_SIDE)]
    places = [b.select(b.icmp_signed("<", place, last), place, last) for place in places]
    return [b.add(columns, b.mul(place, size)) for place in places]


def _sum_halves(b: Builder, x: Value, y: Value | None, width: int) -> Value:
    """For each group of `width` lanes in x and y, add its second half to its first."""
    n_lanes = x.type.count * (1 if y is None else 2)
    low = [part + lane for part in range(0, n_lanes, width) for lane in range(width // 2)]
    other = ir.Constant(x.type, ir.Undefined) if y is None else y
    halves = [
        b.shuffle_vector(x, other, _lane_indices(lane + k for lane in low)) for k in (0, width // 2)
    ]
    return b.fadd(*halves)


def _reduce_four(b: Builder, sums: Sequence[Value]) -> Value:
    """Return the sums of the lanes of four vectors, added in the order of simd.reduce_lanes."""
    low, high = (_sum_halves(b, sums[k], sums[k + 1], 16) for k in (0, 2))
    return _sum_halves(b, _sum_halves(b, _sum_halves(b, low, high, 8), None, 4), None, 2)


def _score_kernel(n_queries: int, compute: Callable[..., Value], factor: float = 1.0) -> Any:
    """Return a kernel (scores, queries …, columns, size, n, width) that scores n columns.

    scores[j] = factor times the sum that compute(builder, sum, column, *queries) accumulates over
    the `width` numbers of column j. Columns are `size` bytes apart.
    """

    def generate(b: Builder, scores: Value, *rest: Value) -> None:
        queries, (columns, size, n, width) = rest[:n_queries], rest[n_queries:]

        def four(first: Value) -> list[Value]:
            sources = _column_addresses(b, first, n, columns, size)

            def step(place: Value, n_left: Value | None, *sums: Value) -> list[Value]:
                loaded = [load_part(b, x, place, n_left) for x in queries]
                _prefetch_next(b, sources, size, place)
                return [
                    compute(b, sum_, load_part(b, source, place, n_left), *loaded)
                    for sum_, source in zip(sums, sources, strict=True)
                ]

            sums = loop_with_tail(b, width, [splat(0.0)] * N_SIDE_BY_SIDE, step)
            count = broadcast(b, b.trunc(b.sub(n, first), INT32))
            lane_indices = _lane_indices(range(N_SIDE_BY_SIDE))
            lanes = b.icmp_signed("<", lane_indices, b.shuffle_vector(count, count, lane_indices))
            four_scores = b.bitcast(pointer(b, scores, FLOAT, first), _SCORE_VECTOR.as_pointer())
            scaled = b.fmul(
                _reduce_four(b, sums), ir.Constant(_SCORE_VECTOR, [factor] * N_SIDE_BY_SIDE)
            )
            arguments = [scaled, four_scores, ir.Constant(INT32, 4), lanes]
            call(b, f"llvm.masked.store.v{N_SIDE_BY_SIDE}f32.p0", ir.VoidType(), arguments)
            return []

        loop(b, n, N_SIDE_BY_SIDE, [], four)

    return emit_function(5 + n_queries, 0, generate)


def _weighted_kernel() -> Any:
    """Return a kernel (y, x, size, weights, n, width): y (width,) += the sum of weights[j] x[j]
    over n columns.

    Columns are `size` bytes apart; they are added in their order.
    """

    def generate(
        b: Builder, y: Value, x: Value, size: Value, weights: Value, n: Value, width: Value
    ) -> None:
        def some(first: Value, n_columns: int) -> list[Value]:
            columns = [b.add(first, const_int(j)) for j in range(n_columns)]
            factors = [broadcast(b, b.load(pointer(b, weights, FLOAT, j))) for j in columns]
            sources = [b.add(x, b.mul(j, size)) for j in columns]

            def step(place: Value, n_left: Value | None) -> list[Value]:
                _prefetch_next(b, sources, size, place)
                total = load_part(b, y, place, n_left)
                for source, factor in zip(sources, factors, strict=True):
                    total = multiply_add(b, load_part(b, source, place, n_left), factor, total)
                store_part(b, total, y, place, n_left)
                return []

            return loop_with_tail(b, width, [], step)

        end = b.sub(n, const_int(N_SIDE_BY_SIDE - 1))
        reached = loop(b, end, N_SIDE_BY_SIDE, [], lambda first: some(first, N_SIDE_BY_SIDE))[0]
        loop(b, n, 1, [], lambda first: some(first, 1), reached)

    return emit_function(6, 0, generate)


dot = reduce_kernel(2, 0, _product)  # (x, y, n) -> x . y
dot_columns = _score_kernel(1, _product)  # (scores, x, columns, size, n, width): x . column
# (scores, q, v, columns, size, n, width): v . (tanh(a + b) - 1) from q = exp(2 a) and columns of
# exp(2 b), where neither overflows. The sum of v that is missing does not change the softmax.
additive_columns = _score_kernel(2, _additive, 2.0)
additive_columns_int8 = _score_kernel(
    2, _approximate_additive if FEATURES.get("avx512f") else _additive, 2.0
)
add_weighted = _weighted_kernel()


@compiled
def write_centre(model: ModelBuffers, slot: int, position: int, bound: int, d: int) -> None:
    """Execute Op.CENTRE: store a row's position at d, at most that of the last column (see
    n_visible)."""
    store_float(d, 0, np.float32(min(position, n_visible(model, slot, bound) - 1)))


@compiled
def predict_centre(
    model: ModelBuffers, slot: int, a: int, v: int, n: int, bound: int, d: int
) -> None:
    """Execute Op.PREDICT_CENTRE: store a row's centre of attention, n_visible * sigmoid(a . v), at
    d. a, v: addresses of n numbers."""
    share = np.float32(1) / np.float32(1 + math.exp(-dot(a, v, n)))
    store_float(d, 0, np.float32(np.float32(n_visible(model, slot, bound)) * share))


@inlined
def attend_dot(
    model: ModelBuffers, ctx: ThreadContext, slot: int, d: int, width: int, query: int, k: int, v: int, root:
    int, centre: int, window: int, bell: int,
) -> None:  # fmt: skip
    """Execute Op.ATTEND_DOT (dot-product attention) for a row. width: of the result, at d. k, v:
    items of the memory. root: multiply it by the root of the source length. centre: address of the
    window's centre.
    window: columns on each side of it, 0: all columns. bell: see program.instructions.GaussianUse.
    """
    first, last = window_range(n_visible(model, slot, 0), centre, window)
    n_query = model.items[k, 1]
    if model.items[k, 2] == KEYS:
        room = ctx.scratch + 4 * padded(last)
        scales = item_scales(model, slot, k)
        linear_row(
            query, item_address(model, slot, k), n_query, ctx.scratch, last, False, scales, room
        )
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
    """Execute Op.ATTEND_ADDITIVE (additive attention) for a row; arguments as of attend_dot. The
    query is overwritten. w: offset, in bytes, of the vector that the tanh of query + key is
    multiplied by."""
    first, last = window_range(n_visible(model, slot, 0), centre, window)
    n_query, weights = model.items[k, 1], model.weights + w
    keys = item_column(model, slot, k, first)
    exp_double(query, query, n_query)
    if model.precision == INT8:
        additive_columns_int8(ctx.scratch, query, weights, keys, 4 * n_query, last - first, n_query)
    else:
        additive_columns(ctx.scratch, query, weights, keys, 4 * n_query, last - first, n_query)
    if bell == INSIDE:  # the scores are multiplied before the softmax: they need the sum of v, too
        sum_of_v = np.float32(0)
        for i in range(n_query):
            sum_of_v += load_float(weights, i)
        for i in range(last - first):
            store_float(ctx.scratch, i, load_float(ctx.scratch, i) + sum_of_v)
    weighted_mean(model, ctx.scratch, slot, first, last, v, width, 1.0, d, centre, window, bell)


@compiled
def attend_location(
    model: ModelBuffers, ctx: ThreadContext, slot: int, d: int, width: int, scores: int, bound: int, v: int,
    twice: int, centre: int, window: int, bell: int,
) -> None:  # fmt: skip
    """Execute Op.ATTEND_LOCATION for a row: attention whose scores, one a column, are given at an
    address; other arguments as of attend_dot. bound: number of scores. twice: whether they pass two
    softmaxes."""
    first, last = window_range(n_visible(model, slot, bound), centre, window)
    if last > first:
        copy(ctx.scratch, scores + 4 * first, last - first)
        if twice:
            softmax(ctx.scratch, ctx.scratch, last - first)
    weighted_mean(model, ctx.scratch, slot, first, last, v, width, 1.0, d, centre, window, bell)


@compiled
def n_visible(model: ModelBuffers, slot: int, bound: int) -> int:
    """Return how many source columns a row may attend to: at most `bound`, unless that is 0."""
    n: int = model.columns[slot]
    return min(n, bound) if bound else n


@compiled
def window_range(n: int, centre: int, window: int) -> tuple[int, int]:
    """Return the range of columns (first, last + 1), of n, that are at most `window` from the
    centre.

    centre: address of a float32. Window 0 means all; so does NaN there, which makes their Gaussians
    NaN.
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
    """Store at d factor times the mean of the columns of item v, weighted by the softmax of the
    scores.

    The scores, which begin with that of column `first`, are replaced by the weights times the
    factor. d is zero if there are no columns. bell: whether and where a Gaussian applies, see
    instructions.GaussianUse.
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
    """Multiply n numbers x by a Gaussian around index `centre` with the standard deviation window /
    2."""
    for j in range(n):
        distance = (j - centre) / window
        store_float(x, j, np.float32(load_float(x, j) * math.exp(-2 * distance * distance)))
