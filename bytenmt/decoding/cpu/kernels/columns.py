"""Score the columns of an attention memory, and sum them with weights.

Several columns are read side by side, so that what they share is read once; a column's score has
the same bits whatever stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llvmlite import ir

from bytenmt.decoding.cpu.kernels.elementwise import reduce_kernel
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
    if y is None:
        n_lanes = x.type.count
        other = ir.Constant(x.type, ir.Undefined)
    else:
        n_lanes = 2 * x.type.count
        other = y
    low = [part + lane for part in range(0, n_lanes, width) for lane in range(width // 2)]
    high = [lane + width // 2 for lane in low]
    return b.fadd(
        b.shuffle_vector(x, other, _lane_indices(low)),
        b.shuffle_vector(x, other, _lane_indices(high)),
    )


def _reduce_four(b: Builder, sums: Sequence[Value]) -> Value:
    """Return the sums of the lanes of four vectors, added in the order of simd.reduce_lanes."""
    low = _sum_halves(b, sums[0], sums[1], 16)
    high = _sum_halves(b, sums[2], sums[3], 16)
    return _sum_halves(b, _sum_halves(b, _sum_halves(b, low, high, 8), None, 4), None, 2)


def _score_kernel(n_queries: int, compute: Callable[..., Value], factor: float = 1.0) -> Any:
    """Return a kernel (scores, queries …, columns, size, n, width) that scores n columns.

    scores[j] = factor times the sum that compute(builder, sum, column, *queries) accumulates over
    the `width` numbers of column j. Columns are `size` bytes apart.
    """

    def generate(b: Builder, scores: Value, *rest: Value) -> None:
        queries = rest[:n_queries]
        columns, size, n, width = rest[n_queries:]

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
# Scores of additive attention, v . tanh(a + b), for each column: (scores, q, v, columns, size, n,
# width). q is exp(2 a) and a column is exp(2 b), where neither overflows. Computes
# v . (tanh(a + b) - 1): the missing constant, the sum of v, does not change the softmax.
additive_columns = _score_kernel(2, _additive, 2.0)
additive_columns_int8 = additive_columns
if FEATURES.get("avx512f"):
    additive_columns_int8 = _score_kernel(2, _approximate_additive, 2.0)
add_weighted = _weighted_kernel()
