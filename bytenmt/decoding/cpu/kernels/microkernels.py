"""What a product does in each precision of the weights: how rows are prepared, and one step of the sums.

gemm.py makes loops of it. bfloat16 rounds the inputs to bfloat16 too; int8 rounds a row's inputs to 16
bits of its largest, of which the two halves meet the weights in exact integers. Both have a form in float32
for machines without the instructions. Layouts are those of panels.py. Knows no rows but one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from llvmlite import ir

from bytenmt.decoding.cpu.kernels.panels import PANEL
from bytenmt.decoding.cpu.kernels.simd import (
    FEATURES,
    FLOAT,
    HALVES,
    INT8,
    INT16,
    INT32,
    INT_VECTOR,
    LANES,
    PAIRS,
    VECTOR,
    Builder,
    Value,
    broadcast,
    call,
    fold,
    load,
    load_first,
    mask,
    multiply_add,
    pointer,
    spread,
    spread_int,
    through,
    to_half,
    whole,
)
from bytenmt.jit import compiled

# Of a machine that multiplies fours of bytes by itself.
NATIVE_INT8 = FEATURES.get("avx512vnni", False)
_BYTES = ir.VectorType(INT8, LANES)


class Fp32:
    """Weights in float32; rows are taken as they are."""

    inputs_a_step: ClassVar[int] = 1  # inputs that stand together in a panel
    input_bytes: ClassVar[int] = 0  # of an input of a prepared row; 0: rows need no preparation
    zeros: ClassVar[tuple[Value, ...]] = (spread(0.0),)  # the sums of 16 outputs before the first step
    scaled: ClassVar[bool] = False  # whether outputs have scales
    narrow_rows: ClassVar[int] = 6  # at once, where there are 16 registers of 8 numbers

    def prepare(self, b: Builder, to: Value, x: Value, n_in: Value) -> None:
        """Write a row of n_in numbers at x in the form that `inputs` reads, up to whole vectors."""
        raise NotImplementedError

    def inputs(self, b: Builder, row: Value, step: Value) -> Sequence[Value]:
        """What a step takes of a row, in all lanes."""
        return [_one(b, row, FLOAT, step)]

    def weights(self, b: Builder, panel: Value, step: Value, k: int) -> Sequence[Value]:
        """Outputs 16 k to 16 k + 15 of a step's weights."""
        return [load(b, panel, _place(b, step, k))]

    def add(self, b: Builder, sums: Sequence[Value], x: Sequence[Value], w: Sequence[Value]) -> list[Value]:
        """One step of the sums of 16 outputs."""
        total = sums[0]
        for input_, weight in zip(x, w, strict=True):
            total = multiply_add(b, input_, weight, total)
        return [total]

    def result(self, b: Builder, sums: Sequence[Value], row: Value) -> Value:
        """The products of 16 outputs, before their scales."""
        return sums[0]


class Bf16InFloat32(Fp32):
    """Weights and inputs in bfloat16, multiplied as float32."""

    inputs_a_step = 2
    input_bytes = 2
    narrow_rows = 4

    def prepare(self, b: Builder, to: Value, x: Value, n_in: Value) -> None:
        def write(place: Value, values: Value) -> None:
            at = b.bitcast(pointer(b, to, INT16, place), HALVES.as_pointer())
            b.store(b.trunc(to_half(b, values), HALVES), at, align=2)

        _over_row(b, x, n_in, [], write)

    def inputs(self, b: Builder, row: Value, step: Value) -> Sequence[Value]:
        return _pair(b, _one(b, row, INT32, step))

    def weights(self, b: Builder, panel: Value, step: Value, k: int) -> Sequence[Value]:
        return _pair(b, b.bitcast(load(b, panel, _place(b, step, k)), INT_VECTOR))


class Bf16(Bf16InFloat32):
    """The same in one instruction for both inputs of a pair."""

    def inputs(self, b: Builder, row: Value, step: Value) -> Sequence[Value]:
        return [b.bitcast(_one(b, row, INT32, step), PAIRS)]

    def weights(self, b: Builder, panel: Value, step: Value, k: int) -> Sequence[Value]:
        return [b.bitcast(load(b, panel, _place(b, step, k)), PAIRS)]

    def add(self, b: Builder, sums: Sequence[Value], x: Sequence[Value], w: Sequence[Value]) -> list[Value]:
        return [call(b, "llvm.x86.avx512bf16.dpbf16ps.512", VECTOR, [sums[0], w[0], x[0]])]


class Int8InFloat32(Fp32):
    """Weights in int8, made float32; the inputs stay float32, and are copied for zeros after the last."""

    inputs_a_step = 4
    input_bytes = 4
    scaled = True

    def prepare(self, b: Builder, to: Value, x: Value, n_in: Value) -> None:
        def write(place: Value, values: Value) -> None:
            b.store(values, b.bitcast(pointer(b, to, FLOAT, place), VECTOR.as_pointer()), align=4)

        _over_row(b, x, n_in, [], write)

    def inputs(self, b: Builder, row: Value, step: Value) -> Sequence[Value]:
        first = b.mul(step, whole(4))
        return [_one(b, row, FLOAT, b.add(first, whole(j))) for j in range(4)]

    def weights(self, b: Builder, panel: Value, step: Value, k: int) -> Sequence[Value]:
        fours = b.bitcast(load(b, panel, _place(b, step, k)), INT_VECTOR)
        fours = b.xor(fours, spread_int(0x80808080))
        each = [b.ashr(b.shl(fours, spread_int(24 - 8 * j)), spread_int(24)) for j in range(4)]
        return [b.sitofp(weight, VECTOR) for weight in each]


class Int8(Int8InFloat32):
    """The same with a row's inputs rounded to integers x of 16 bits: x = 256 h + l, -128 <= h, l < 128.

    The machine multiplies bytes without a sign, which the weights are, with bytes that have one; what
    the weights have too much, 128 each, is taken off the sums. A prepared row begins with what x = 1 stands
    for, float32, and 128 times the sums of h and of l, int32, in 64 bytes; then h and l of four inputs
    each, int8.
    """

    input_bytes = 2
    zeros: ClassVar[tuple[Value, ...]] = (spread_int(0), spread_int(0))
    largest: ClassVar[float] = 127.0 * 256  # |x|, so that h has its place in a byte

    def parts(self, b: Builder, integers: Value) -> list[Value]:
        """The bytes of x as integers: h and l."""
        h = b.ashr(b.add(integers, spread_int(128)), spread_int(8))
        return [h, b.sub(integers, b.shl(h, spread_int(8)))]

    def ordered(self, b: Builder, parts: Sequence[Value]) -> Value:
        """The parts of 16 inputs as bytes, those of four inputs together."""
        fours = ir.VectorType(INT32, LANES // 4)
        h, low = (b.bitcast(b.trunc(part, _BYTES), fours) for part in parts)
        return b.shuffle_vector(h, low, ir.Constant(ir.VectorType(INT32, 8), [0, 4, 1, 5, 2, 6, 3, 7]))

    def prepare(self, b: Builder, to: Value, x: Value, n_in: Value) -> None:
        most = _over_row(b, x, n_in, [spread_int(0)], lambda _, values, most: [_larger(b, most, values)])[0]
        most = fold(b, most, lambda low, high: b.select(b.icmp_unsigned(">", low, high), low, high))
        most = b.bitcast(most, FLOAT)
        # Where all is (all but) nothing, or not a number, the scale tells the result alone.
        ordinary = b.fcmp_ordered(">", most, ir.Constant(FLOAT, _LEAST))
        factor = b.fdiv(ir.Constant(FLOAT, self.largest), most)
        factor = broadcast(b, b.select(ordinary, factor, ir.Constant(FLOAT, 0.0)))

        def write(place: Value, values: Value, *sums: Value) -> list[Value]:
            moved = b.fadd(b.fmul(values, factor), spread(_TO_INTEGER))
            integers = b.sub(b.bitcast(moved, INT_VECTOR), b.bitcast(spread(_TO_INTEGER), INT_VECTOR))
            parts = self.parts(b, integers)
            together = self.ordered(b, parts)
            at = pointer(b, b.add(to, whole(HEADER)), INT8, b.mul(place, whole(self.input_bytes)))
            b.store(together, b.bitcast(at, together.type.as_pointer()), align=4)
            return [b.add(sum_, part) for sum_, part in zip(sums, parts, strict=True)]

        sums = _over_row(b, x, n_in, list(self.zeros), write)
        b.store(b.fdiv(most, ir.Constant(FLOAT, self.largest)), pointer(b, to, FLOAT), align=4)
        for k, vector in enumerate(sums):
            value = b.shl(fold(b, vector, b.add), ir.Constant(INT32, 7))
            b.store(value, pointer(b, to, INT32, whole(1 + k)), align=4)

    def inputs(self, b: Builder, row: Value, step: Value) -> Sequence[Value]:
        first = b.mul(step, whole(self.input_bytes))
        return [_one(b, row, INT32, b.add(first, whole(HEADER // 4 + k))) for k in range(self.input_bytes)]

    def weights(self, b: Builder, panel: Value, step: Value, k: int) -> Sequence[Value]:
        return [b.bitcast(load(b, panel, _place(b, step, k)), INT_VECTOR)]

    def add(self, b: Builder, sums: Sequence[Value], x: Sequence[Value], w: Sequence[Value]) -> list[Value]:
        name = "llvm.x86.avx512.vpdpbusd.512"
        return [call(b, name, INT_VECTOR, [sum_, w[0], part]) for sum_, part in zip(sums, x, strict=True)]

    def result(self, b: Builder, sums: Sequence[Value], row: Value) -> Value:
        parts = [
            b.sitofp(b.sub(sum_, _one(b, row, INT32, whole(1 + k))), VECTOR) for k, sum_ in enumerate(sums)
        ]
        value = parts[0] if len(parts) == 1 else multiply_add(b, parts[0], spread(256.0), parts[1])
        return b.fmul(value, _one(b, row, FLOAT, whole(0)))


class W8A8(Int8):
    """Inputs of 8 bits too: half the work, coarser."""

    input_bytes = 1
    zeros = (spread_int(0),)
    largest = 127.0

    def parts(self, b: Builder, integers: Value) -> list[Value]:
        """x itself."""
        return [integers]

    def ordered(self, b: Builder, parts: Sequence[Value]) -> Value:
        """x of 16 inputs as bytes."""
        return b.trunc(parts[0], _BYTES)


HEADER = 64  # bytes before the inputs of a prepared row, see Int8; others leave them empty
_LEAST = 1e-30  # beside it 1 / x is still a number
_TO_INTEGER = 1.5 * 2.0**23  # to add it makes the last bit worth one


@compiled
def row_bytes(n_in: int, input_bytes: int) -> int:
    """Room of a prepared row, whole cache lines."""
    return HEADER + ((n_in + LANES - 1) // LANES * LANES * input_bytes + 63) // 64 * 64


def _place(b: Builder, step: Value, k: int) -> Value:
    """Where vector k of a step begins in a panel, in units of 4 bytes: a step is 64 of them everywhere."""
    return b.add(b.mul(step, whole(PANEL)), whole(k * LANES))


def _one(b: Builder, row: Value, kind: Any, place: Value) -> Value:
    return broadcast(b, b.load(pointer(b, row, kind, place), align=4))


def _pair(b: Builder, pairs: Value) -> list[Value]:
    """The first and the second bfloat16 of each lane, as float32."""
    first = b.bitcast(b.shl(pairs, spread_int(16)), VECTOR)
    return [first, b.bitcast(b.and_(pairs, spread_int(0xFFFF0000)), VECTOR)]


def _larger(b: Builder, most: Value, x: Value) -> Value:
    """The larger of `most` and |x|, both as bits: those of NaN are more than any number's."""
    size = b.and_(b.bitcast(x, INT_VECTOR), spread_int(0x7FFFFFFF))
    return b.select(b.icmp_unsigned(">", size, most), size, most)


def _over_row(b: Builder, x: Value, n_in: Value, carried: list[Value], body: Any) -> list[Value]:
    """carried = body(place, values, *carried) for every 16 of a row's numbers, the last with zeros."""

    def each(place: Value, left: Value | None, *values: Value) -> list[Value]:
        read = load(b, x, place) if left is None else load_first(b, x, place, mask(b, left))
        return body(place, read, *values) or []

    return through(b, n_in, LANES, carried, each)
