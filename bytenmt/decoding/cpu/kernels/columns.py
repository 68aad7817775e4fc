"""Attention kernels over columns of the encoder's memory, in float32 or bfloat16, called by address.

Scores of a query and every column, and weighted sums of columns. Several columns are read side by side, so
that what they share is read once; a column's score has the same bits whatever stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from llvmlite import ir

from bytenmt.decoding.cpu.kernels.elementwise import reduce_kernel
from bytenmt.decoding.cpu.kernels.simd import (
    BF16_PAIRS,
    FEATURES,
    FLOAT,
    INT16,
    INT32,
    LANES,
    NATIVE_BF16,
    VECTOR,
    Builder,
    Value,
    broadcast,
    call,
    const_int,
    emit_function,
    lane_mask,
    load,
    load_bf16,
    loop,
    loop_with_tail,
    masked_load,
    masked_load_bf16,
    masked_store,
    multiply_add,
    pointer,
    prefetch,
    splat,
    store,
)

N_SIDE_BY_SIDE = 4  # columns that are read side by side, while the next ones are prefetched
_SCORE_VECTOR = ir.VectorType(FLOAT, N_SIDE_BY_SIDE)
_PAIR_BITS = ir.VectorType(INT16, 2 * LANES)


class _Fp32Columns:
    """Load float32 columns. n_left: None for full vectors, else how many numbers are left of a column."""

    n_numbers: ClassVar[int] = LANES  # loaded at once
    n_bytes: ClassVar[int] = 4  # of one number of a column

    def load_query(self, b: Builder, x: Value, index: Value, n_left: Value | None) -> Value:
        """Load numbers, float32, that every column is combined with."""
        return load(b, x, index) if n_left is None else masked_load(b, x, index, lane_mask(b, n_left))

    def load_column(self, b: Builder, x: Value, index: Value, n_left: Value | None) -> Value:
        """Load numbers of a column."""
        return self.load_query(b, x, index, n_left)

    def prefetch_next(self, b: Builder, columns: Sequence[Value], size: Value, index: Value) -> None:
        """Prefetch the columns that will be read after these."""
        ahead = b.add(b.mul(size, const_int(N_SIDE_BY_SIDE)), b.mul(index, const_int(self.n_bytes)))
        for column in columns:
            prefetch(b, b.add(column, ahead))


class _Bf16Columns(_Fp32Columns):
    """Load bfloat16 columns as float32."""

    n_bytes = 2

    def load_column(self, b: Builder, x: Value, index: Value, n_left: Value | None) -> Value:
        if n_left is None:
            return load_bf16(b, x, index)
        return masked_load_bf16(b, x, index, lane_mask(b, n_left))


class _Bf16PairColumns(_Bf16Columns):
    """Load pairs of bfloat16 numbers for the dot product instruction, twice as many at once."""

    n_numbers = 2 * LANES

    def load_query(self, b: Builder, x: Value, index: Value, n_left: Value | None) -> Value:
        low = super().load_query(b, x, index, n_left)
        high = super().load_query(
            b, x, b.add(index, const_int(LANES)), None if n_left is None else _n_beyond(b, n_left)
        )
        return call(b, "llvm.x86.avx512bf16.cvtne2ps2bf16.512", BF16_PAIRS, [high, low])

    def load_column(self, b: Builder, x: Value, index: Value, n_left: Value | None) -> Value:
        return b.bitcast(_load_pair_bits(b, x, index, n_left), BF16_PAIRS)


def _load_pair_bits(b: Builder, x: Value, index: Value, n_left: Value | None) -> Value:
    """Load 32 numbers of 16 bits; zeros after the last one."""
    at = b.bitcast(pointer(b, x, INT16, index), _PAIR_BITS.as_pointer())
    if n_left is None:
        return b.load(at, align=2)
    lanes = b.shuffle_vector(
        lane_mask(b, n_left), lane_mask(b, _n_beyond(b, n_left)), _lane_indices(range(2 * LANES))
    )
    arguments = [at, ir.Constant(INT32, 2), lanes, ir.Constant(_PAIR_BITS, [0] * (2 * LANES))]
    return call(b, f"llvm.masked.load.v{2 * LANES}i16.p0", _PAIR_BITS, arguments)


def _lane_indices(lanes: Iterable[int]) -> Value:
    """Return a constant vector of lane numbers for shuffle_vector."""
    indices = list(lanes)
    return ir.Constant(ir.VectorType(INT32, len(indices)), indices)


def _n_beyond(b: Builder, n_left: Value) -> Value:
    """Return how many numbers there are after the first 16, at least 0."""
    rest = b.sub(n_left, const_int(LANES))
    return b.select(b.icmp_signed(">", rest, const_int(0)), rest, const_int(0))


def _product(b: Builder, sum_: Value, x: Value, y: Value) -> Value:
    return multiply_add(b, x, y, sum_)


def _product_of_pairs(b: Builder, sum_: Value, x: Value, y: Value) -> Value:
    return call(b, "llvm.x86.avx512bf16.dpbf16ps.512", VECTOR, [sum_, x, y])


def _additive(b: Builder, sum_: Value, k: Value, q: Value, v: Value) -> Value:
    """Return sum_ - v / (1 + qk): half of v tanh(a + b) = v - 2 v / (1 + qk), without the constant v."""
    return b.fsub(sum_, b.fdiv(v, multiply_add(b, q, k, splat(1.0))))


def _approximate_additive(b: Builder, sum_: Value, k: Value, q: Value, v: Value) -> Value:
    """Compute `_additive` with 14 bits of the quotient, more than the bits of a bfloat16 column."""
    arguments = [multiply_add(b, q, k, splat(1.0)), splat(0.0), ir.Constant(INT16, -1)]
    quotient = call(b, "llvm.x86.avx512.rcp14.ps.512", VECTOR, arguments)
    return multiply_add(b, b.fsub(splat(-0.0), v), quotient, sum_)


def _column_addresses(b: Builder, first: Value, n: Value, columns: Value, size: Value) -> list[Value]:
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
    halves = [b.shuffle_vector(x, other, _lane_indices(lane + k for lane in low)) for k in (0, width // 2)]
    return b.fadd(*halves)


def _reduce_four(b: Builder, sums: Sequence[Value]) -> Value:
    """Return the sums of the lanes of four vectors, added in the order of simd.reduce_lanes."""
    low, high = (_sum_halves(b, sums[k], sums[k + 1], 16) for k in (0, 2))
    return _sum_halves(b, _sum_halves(b, _sum_halves(b, low, high, 8), None, 4), None, 2)


def _score_kernel(
    kind: type[_Fp32Columns], n_queries: int, compute: Callable[..., Value], factor: float = 1.0
) -> Any:
    """Return a kernel (scores, queries …, columns, size, n, width) that scores n columns.

    scores[j] = factor times the sum that compute(builder, sum, column, *queries) accumulates over the
    `width` numbers of column j. Columns are `size` bytes apart.
    """
    form = kind()

    def generate(b: Builder, scores: Value, *rest: Value) -> None:
        queries, (columns, size, n, width) = rest[:n_queries], rest[n_queries:]

        def four(first: Value) -> list[Value]:
            sources = _column_addresses(b, first, n, columns, size)

            def step(place: Value, n_left: Value | None, *sums: Value) -> list[Value]:
                loaded = [form.load_query(b, x, place, n_left) for x in queries]
                form.prefetch_next(b, sources, size, place)
                return [
                    compute(b, sum_, form.load_column(b, source, place, n_left), *loaded)
                    for sum_, source in zip(sums, sources, strict=True)
                ]

            sums = loop_with_tail(b, width, form.n_numbers, [splat(0.0)] * N_SIDE_BY_SIDE, step)
            count = broadcast(b, b.trunc(b.sub(n, first), INT32))
            lane_indices = _lane_indices(range(N_SIDE_BY_SIDE))
            lanes = b.icmp_signed("<", lane_indices, b.shuffle_vector(count, count, lane_indices))
            at = b.bitcast(pointer(b, scores, FLOAT, first), _SCORE_VECTOR.as_pointer())
            scaled = b.fmul(_reduce_four(b, sums), ir.Constant(_SCORE_VECTOR, [factor] * N_SIDE_BY_SIDE))
            arguments = [scaled, at, ir.Constant(INT32, 4), lanes]
            call(b, f"llvm.masked.store.v{N_SIDE_BY_SIDE}f32.p0", ir.VoidType(), arguments)
            return []

        loop(b, n, N_SIDE_BY_SIDE, [], four)

    return emit_function(5 + n_queries, 0, generate)


def _weighted_kernel(bf16: bool) -> Any:
    """Return a kernel (y, x, size, weights, n, width): y (width,) += the sum of weights[j] x[j] over n
    columns.

    Columns are `size` bytes apart; they are added in their order. bf16: whether columns are in bfloat16.
    """
    form = _Bf16Columns() if bf16 else _Fp32Columns()

    def generate(b: Builder, y: Value, x: Value, size: Value, weights: Value, n: Value, width: Value) -> None:
        def some(first: Value, n_columns: int) -> list[Value]:
            columns = [b.add(first, const_int(j)) for j in range(n_columns)]
            factors = [broadcast(b, b.load(pointer(b, weights, FLOAT, j))) for j in columns]
            sources = [b.add(x, b.mul(j, size)) for j in columns]

            def step(place: Value, n_left: Value | None) -> list[Value]:
                form.prefetch_next(b, sources, size, place)
                total = form.load_query(b, y, place, n_left)
                for source, factor in zip(sources, factors, strict=True):
                    total = multiply_add(b, form.load_column(b, source, place, n_left), factor, total)
                if n_left is None:
                    store(b, total, y, place)
                else:
                    masked_store(b, total, y, place, lane_mask(b, n_left))
                return []

            return loop_with_tail(b, width, LANES, [], step)

        end = b.sub(n, const_int(N_SIDE_BY_SIDE - 1))
        reached = loop(b, end, N_SIDE_BY_SIDE, [], lambda first: some(first, N_SIDE_BY_SIDE))[0]
        loop(b, n, 1, [], lambda first: some(first, 1), reached)

    return emit_function(6, 0, generate)


# Of each pair of kernels the second one is for columns in bfloat16.
dot = reduce_kernel(2, 0, _product)  # (x, y, n) -> x . y
dot_columns = _score_kernel(_Fp32Columns, 1, _product)  # (scores, x, columns, size, n, width): x . column
dot_columns_bf16 = (
    _score_kernel(_Bf16PairColumns, 1, _product_of_pairs)
    if NATIVE_BF16
    else _score_kernel(_Bf16Columns, 1, _product)
)
# (scores, q, v, columns, size, n, width): v . (tanh(a + b) - 1) from q = exp(2 a) and columns of exp(2 b),
# where neither overflows. The constant sum of v that is missing does not change the softmax.
additive_columns = _score_kernel(_Fp32Columns, 2, _additive, 2.0)
additive_columns_bf16 = _score_kernel(
    _Bf16Columns, 2, _approximate_additive if FEATURES.get("avx512f") else _additive, 2.0
)
add_weighted, add_weighted_bf16 = (_weighted_kernel(bf16) for bf16 in (False, True))
