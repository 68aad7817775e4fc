"""Rows against the columns of an item in the encoder's memory, in float32 or bfloat16, by address.

Several columns are read side by side, so that what they share is read once; a column's score has the same
bits whichever stand beside it. Knows neither where an item lies nor what attention is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from llvmlite import ir

from bytenmt.decoding.cpu.kernels.elementwise import fold_over
from bytenmt.decoding.cpu.kernels.simd import (
    FEATURES,
    FLOAT,
    INT16,
    INT32,
    LANES,
    NATIVE_BF16,
    PAIRS,
    VECTOR,
    Builder,
    Value,
    broadcast,
    call,
    emitted,
    load,
    load_first,
    load_first_half,
    load_half,
    loop,
    mask,
    multiply_add,
    pointer,
    prefetch,
    spread,
    store,
    store_first,
    through,
    whole,
)

TOGETHER = 4  # columns that are read side by side, while the next ones are asked for
_SCORES = ir.VectorType(FLOAT, TOGETHER)
_WORDS = ir.VectorType(INT16, 2 * LANES)


class _Floats:
    """How columns in float32 are read, and what they meet; left: how many numbers there are, None for all."""

    numbers: ClassVar[int] = LANES  # at once
    bytes: ClassVar[int] = 4  # of a number of a column

    def given(self, b: Builder, x: Value, place: Value, left: Value | None) -> Value:
        """Numbers that every column meets; they are float32."""
        return load(b, x, place) if left is None else load_first(b, x, place, mask(b, left))

    def column(self, b: Builder, x: Value, place: Value, left: Value | None) -> Value:
        """Numbers of a column."""
        return self.given(b, x, place, left)

    def ask_for(self, b: Builder, columns: Sequence[Value], size: Value, place: Value) -> None:
        """Have the columns that will be read after these on their way."""
        ahead = b.add(b.mul(size, whole(TOGETHER)), b.mul(place, whole(self.bytes)))
        for column in columns:
            prefetch(b, b.add(column, ahead))


class _Halves(_Floats):
    """In bfloat16, made float32."""

    bytes = 2

    def column(self, b: Builder, x: Value, place: Value, left: Value | None) -> Value:
        return load_half(b, x, place) if left is None else load_first_half(b, x, place, mask(b, left))


class _Pairs(_Halves):
    """In bfloat16, which meet bfloat16, twice as many at once."""

    numbers = 2 * LANES

    def given(self, b: Builder, x: Value, place: Value, left: Value | None) -> Value:
        low = super().given(b, x, place, left)
        high = super().given(b, x, b.add(place, whole(LANES)), None if left is None else _behind(b, left))
        return call(b, "llvm.x86.avx512bf16.cvtne2ps2bf16.512", PAIRS, [high, low])

    def column(self, b: Builder, x: Value, place: Value, left: Value | None) -> Value:
        return b.bitcast(_words(b, x, place, left), PAIRS)


def _words(b: Builder, x: Value, place: Value, left: Value | None) -> Value:
    """32 numbers of 16 bits, zeros behind the last."""
    at = b.bitcast(pointer(b, x, INT16, place), _WORDS.as_pointer())
    if left is None:
        return b.load(at, align=2)
    lanes = b.shuffle_vector(mask(b, left), mask(b, _behind(b, left)), _lanes(range(2 * LANES)))
    arguments = [at, ir.Constant(INT32, 2), lanes, ir.Constant(_WORDS, [0] * (2 * LANES))]
    return call(b, f"llvm.masked.load.v{2 * LANES}i16.p0", _WORDS, arguments)


def _lanes(places: Iterable[int]) -> Value:
    """For shuffle_vector."""
    chosen = list(places)
    return ir.Constant(ir.VectorType(INT32, len(chosen)), chosen)


def _behind(b: Builder, left: Value) -> Value:
    """How many numbers there are behind the first 16."""
    rest = b.sub(left, whole(LANES))
    return b.select(b.icmp_signed(">", rest, whole(0)), rest, whole(0))


def _product(b: Builder, sum_: Value, x: Value, y: Value) -> Value:
    return multiply_add(b, x, y, sum_)


def _product_of_pairs(b: Builder, sum_: Value, x: Value, y: Value) -> Value:
    return call(b, "llvm.x86.avx512bf16.dpbf16ps.512", VECTOR, [sum_, x, y])


def _additive(b: Builder, sum_: Value, k: Value, q: Value, v: Value) -> Value:
    """v tanh(a + b) = v - 2 v / (1 + qk) without the first, which all columns have in common, and halved."""
    return b.fsub(sum_, b.fdiv(v, multiply_add(b, q, k, spread(1.0))))


def _nearly_additive(b: Builder, sum_: Value, k: Value, q: Value, v: Value) -> Value:
    """With 14 bits of the quotient, more than there are of the column."""
    arguments = [multiply_add(b, q, k, spread(1.0)), spread(0.0), ir.Constant(INT16, -1)]
    quotient = call(b, "llvm.x86.avx512.rcp14.ps.512", VECTOR, arguments)
    return multiply_add(b, b.fsub(spread(-0.0), v), quotient, sum_)


def _side_by_side(b: Builder, first: Value, n: Value, columns: Value, size: Value) -> list[Value]:
    """The addresses of TOGETHER columns from `first` on; the last of n stands for those behind it."""
    last = b.sub(n, whole(1))
    places = [b.add(first, whole(j)) for j in range(TOGETHER)]
    places = [b.select(b.icmp_signed("<", place, last), place, last) for place in places]
    return [b.add(columns, b.mul(place, size)) for place in places]


def _halved(b: Builder, x: Value, y: Value | None, width: int) -> Value:
    """Of each part of `width` lanes in x and y the first half plus the second."""
    n_lanes = x.type.count * (1 if y is None else 2)
    low = [part + lane for part in range(0, n_lanes, width) for lane in range(width // 2)]
    other = ir.Constant(x.type, ir.Undefined) if y is None else y
    halves = [b.shuffle_vector(x, other, _lanes(lane + k for lane in low)) for k in (0, width // 2)]
    return b.fadd(*halves)


def _fold_four(b: Builder, sums: Sequence[Value]) -> Value:
    """The sums of four vectors' lanes, joined as in simd.fold."""
    low, high = (_halved(b, sums[k], sums[k + 1], 16) for k in (0, 2))
    return _halved(b, _halved(b, _halved(b, low, high, 8), None, 4), None, 2)


def _scores(kind: type[_Floats], n_given: int, compute: Callable[..., Value], factor: float = 1.0) -> Any:
    """Make (scores, given …, columns, size, n, width): scores[j] (n,) are a factor times the sums of
    compute(builder, sum, column, *given) over columns, which are `size` bytes apart."""
    form = kind()

    def generate(b: Builder, scores: Value, *rest: Value) -> None:
        given, (columns, size, n, width) = rest[:n_given], rest[n_given:]

        def four(first: Value) -> list[Value]:
            sources = _side_by_side(b, first, n, columns, size)

            def step(place: Value, left: Value | None, *sums: Value) -> list[Value]:
                met = [form.given(b, x, place, left) for x in given]
                form.ask_for(b, sources, size, place)
                return [
                    compute(b, sum_, form.column(b, source, place, left), *met)
                    for sum_, source in zip(sums, sources, strict=True)
                ]

            sums = through(b, width, form.numbers, [spread(0.0)] * TOGETHER, step)
            count = broadcast(b, b.trunc(b.sub(n, first), INT32))
            four_of = _lanes(range(TOGETHER))
            lanes = b.icmp_signed("<", four_of, b.shuffle_vector(count, count, four_of))
            at = b.bitcast(pointer(b, scores, FLOAT, first), _SCORES.as_pointer())
            found = b.fmul(_fold_four(b, sums), ir.Constant(_SCORES, [factor] * TOGETHER))
            arguments = [found, at, ir.Constant(INT32, 4), lanes]
            call(b, f"llvm.masked.store.v{TOGETHER}f32.p0", ir.VoidType(), arguments)
            return []

        loop(b, n, TOGETHER, [], four)

    return emitted(5 + n_given, 0, generate)


def _add(half: bool) -> Any:
    """Make (y, x, size, weights, n, width): y (width,) += the sum of weights[j] x[j] over n columns x[j],
    which are size bytes apart; several at a time, in their order."""
    form = _Halves() if half else _Floats()

    def generate(b: Builder, y: Value, x: Value, size: Value, weights: Value, n: Value, width: Value) -> None:
        def some(first: Value, n_columns: int) -> list[Value]:
            columns = [b.add(first, whole(j)) for j in range(n_columns)]
            factors = [broadcast(b, b.load(pointer(b, weights, FLOAT, j))) for j in columns]
            sources = [b.add(x, b.mul(j, size)) for j in columns]

            def step(place: Value, left: Value | None) -> list[Value]:
                form.ask_for(b, sources, size, place)
                total = form.given(b, y, place, left)
                for source, factor in zip(sources, factors, strict=True):
                    total = multiply_add(b, form.column(b, source, place, left), factor, total)
                if left is None:
                    store(b, total, y, place)
                else:
                    store_first(b, total, y, place, mask(b, left))
                return []

            return through(b, width, LANES, [], step)

        behind = b.sub(n, whole(TOGETHER - 1))
        reached = loop(b, behind, TOGETHER, [], lambda first: some(first, TOGETHER))[0]
        loop(b, n, 1, [], lambda first: some(first, 1), reached)

    return emitted(6, 0, generate)


# Of each two the second is for columns in bfloat16.
dot = fold_over(2, 0, _product)  # (x, y, n) -> x . y
dots = _scores(_Floats, 1, _product)  # (scores, x, columns, size, n, width): x . column
dots_half = _scores(_Pairs, 1, _product_of_pairs) if NATIVE_BF16 else _scores(_Halves, 1, _product)
# (scores, q, v, columns, size, n, width): v . (tanh(a + b) - 1) from q = exp(2 a) and columns of exp(2 b),
# where neither overflows; all are less by the sum of v than the model's, which no softmax sees
additive_dots = _scores(_Floats, 2, _additive, 2.0)
additive_dots_half = _scores(_Halves, 2, _nearly_additive if FEATURES.get("avx512f") else _additive, 2.0)
add, add_half = (_add(half) for half in (False, True))
