"""Emit the inner step of a matrix product in each precision: prepare rows, and update sums.

gemm.py builds loops from it. int8 rounds the inputs of a row to integers relative to its largest,
and multiplies them with the weights in exact integers: of 8 bits where the machine has VNNI,
elsewhere of 16 bits. Layouts are those of panels.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from llvmlite import ir

from bytenmt.decoding.cpu.kernels.panels import ROW_HEADER_BYTES, row_bytes
from bytenmt.decoding.cpu.kernels.simd import (
    FEATURES,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT_VECTOR,
    LANES,
    ROUNDING_TERM,
    VECTOR,
    Builder,
    Value,
    broadcast,
    call,
    const_int,
    load,
    load_part,
    loop_with_tail,
    multiply_add,
    pointer,
    reduce_lanes,
    splat,
    splat_int,
)
from bytenmt.jit import compiled
from bytenmt.kernel_constants import PANEL

# Whether the machine has an instruction for dot products of four bytes.
NATIVE_INT8 = FEATURES.get("avx512vnni", False)
_BYTES = ir.VectorType(INT8, LANES)


class Fp32:
    """The inner step of a matrix product in float32, as methods that emit LLVM code for gemm.py.

    A step adds the products of `inputs_per_step` inputs to 16 sums. Subclasses are for other
    precisions.
    """

    inputs_per_step: ClassVar[int] = 1  # inputs of an output that stand together in a panel
    input_bytes: ClassVar[int] = 0  # per input of a prepared row; 0: rows need no preparation
    # The sums of 16 outputs before the first step.
    initial_sums: ClassVar[tuple[Value, ...]] = (splat(0.0),)
    scaled: ClassVar[bool] = False  # whether each output has a scale
    narrow_rows: ClassVar[int] = 6  # rows per block where there are 16 registers of 8 numbers

    def prepare(self, b: Builder, to: Value, x: Value, n_in: Value) -> None:
        """Emit code that rounds the n_in numbers at address x, and writes them to address `to`.

        Only for subclasses, whose `inputs` reads them there: float32 rows are read as they are.
        """
        raise NotImplementedError

    def inputs(self, b: Builder, row: Value, step: Value) -> Sequence[Value]:
        """Return the inputs of step number `step` of the row at address `row`, each in 16 lanes."""
        return [_broadcast_from(b, row, FLOAT, step)]

    def weights(self, b: Builder, panel: Value, step: Value, k: int) -> Sequence[Value]:
        """Return the weights of outputs 16 k to 16 k + 15, k from 0 to 3, of the panel at address
        `panel` (packed weights of 64 outputs) in step number `step`."""
        return [load(b, panel, _weight_index(b, step, k))]

    def add(
        self, b: Builder, sums: Sequence[Value], x: Sequence[Value], w: Sequence[Value]
    ) -> list[Value]:
        """Return the sums of 16 outputs after a step: `sums` plus the products of x and w.

        x, w: the step's inputs and weights, from `inputs` and `weights`.
        """
        total = sums[0]
        for input_, weight in zip(x, w, strict=True):
            total = multiply_add(b, input_, weight, total)
        return [total]

    def result(self, b: Builder, sums: Sequence[Value], row: Value) -> Value:
        """Return 16 outputs, a vector, of the input row at address `row`, from what `add` returned
        after the last step; int8 subclasses multiply by the row's scale."""
        return sums[0]


class Int8(Fp32):
    """The inner step (see Fp32) of a product of int8 weights with inputs rounded to integers x of 8
    bits, by AVX-512 VNNI.

    The instruction multiplies unsigned bytes, the weights plus 128, with signed bytes; 128 times
    the sum of the inputs is subtracted from the result. A prepared row begins with a header of 64
    bytes: the scale of x, float32, and 128 times the sum of each of its parts (see split_bytes),
    int32. Then follow the parts, int8.
    """

    inputs_per_step = 4
    input_bytes = 1
    scaled = True
    initial_sums: ClassVar[tuple[Value, ...]] = (splat_int(0),)  # of each part of the inputs
    largest: ClassVar[float] = 127.0  # the largest |x|

    def largest_integer(self, b: Builder, x: Value, n_in: Value, most: Value) -> Value:
        """Return the integer, as float32, that the largest |input| of a row becomes.

        x: address of the row's n_in inputs, for a subclass that may choose a smaller integer.
        most: the largest |input|.
        """
        return ir.Constant(FLOAT, self.largest)

    def split_bytes(self, b: Builder, integers: Value) -> list[Value]:
        """Return the parts in which 16 integers x are multiplied with weights: here x itself."""
        return [integers]

    def interleave(self, b: Builder, parts: Sequence[Value]) -> Value:
        """Return 16 inputs, the parts that split_bytes returns, as the bytes of a prepared row."""
        return b.trunc(parts[0], _BYTES)

    def prepare(self, b: Builder, to: Value, x: Value, n_in: Value) -> None:
        """Emit code that rounds the n_in numbers at address x to integers, and writes a header (see
        Int8) and the integers to address `to`."""

        def larger(low: Value, high: Value) -> Value:  # the bits of NaN exceed those of any number
            return b.select(b.icmp_unsigned(">", low, high), low, high)

        def find_largest(_: Value, values: Value, most: Value) -> list[Value]:
            return [larger(_magnitude_bits(b, values), most)]

        (lanes,) = _map_row(b, x, n_in, [splat_int(0)], find_largest)
        most = b.bitcast(reduce_lanes(b, lanes, larger), FLOAT)
        # If all inputs are (almost) zero, or one is NaN, the scale alone determines the result.
        ordinary = b.fcmp_ordered(">", most, ir.Constant(FLOAT, _MIN_LARGEST))
        largest = self.largest_integer(b, x, n_in, most)
        factor = b.fdiv(largest, most)
        factor = broadcast(b, b.select(ordinary, factor, ir.Constant(FLOAT, 0.0)))

        def write(place: Value, values: Value, *sums: Value) -> list[Value]:
            moved = b.fadd(b.fmul(values, factor), splat(ROUNDING_TERM))
            term = b.bitcast(splat(ROUNDING_TERM), INT_VECTOR)
            parts = self.split_bytes(b, b.sub(b.bitcast(moved, INT_VECTOR), term))
            together = self.interleave(b, parts)
            first = b.add(to, const_int(ROW_HEADER_BYTES))
            destination = pointer(b, first, INT8, b.mul(place, const_int(self.input_bytes)))
            b.store(together, b.bitcast(destination, together.type.as_pointer()), align=4)
            return [b.add(sum_, part) for sum_, part in zip(sums, parts, strict=True)]

        sums = _map_row(b, x, n_in, list(self.initial_sums), write)
        b.store(b.fdiv(most, largest), pointer(b, to, FLOAT), align=4)
        for k, vector in enumerate(sums):
            value = b.shl(reduce_lanes(b, vector, b.add), ir.Constant(INT32, 7))
            b.store(value, pointer(b, to, INT32, const_int(1 + k)), align=4)

    def inputs(self, b: Builder, row: Value, step: Value) -> Sequence[Value]:
        """Return the four inputs of step number `step` of the prepared row at address `row`, in
        `input_bytes` vectors, each of which has the same int32 in all lanes."""
        first = b.mul(step, const_int(self.input_bytes))
        return [
            _broadcast_from(b, row, INT32, b.add(first, const_int(ROW_HEADER_BYTES // 4 + k)))
            for k in range(self.input_bytes)
        ]

    def weights(self, b: Builder, panel: Value, step: Value, k: int) -> Sequence[Value]:
        """Return the weights of outputs 16 k to 16 k + 15, k from 0 to 3, of the panel at address
        `panel` (packed weights of 64 outputs) in step number `step`. Each lane, an int32, has the
        bytes of an output's weights for the step's four inputs."""
        return [b.bitcast(load(b, panel, _weight_index(b, step, k)), INT_VECTOR)]

    def add(
        self, b: Builder, sums: Sequence[Value], x: Sequence[Value], w: Sequence[Value]
    ) -> list[Value]:
        """Return the int32 sums plus the dot products of a step's four inputs x and weights w; sums
        and x have a vector for each part that split_bytes returns."""
        name = "llvm.x86.avx512.vpdpbusd.512"
        return [
            call(b, name, INT_VECTOR, [sum_, w[0], part])
            for sum_, part in zip(sums, x, strict=True)
        ]

    def result(self, b: Builder, sums: Sequence[Value], row: Value) -> Value:
        """Return 16 outputs: the sums less 128 times those of the inputs, times the row's scale, as
        the header of the prepared row at address `row` has them."""
        parts = [
            b.sitofp(b.sub(sum_, _broadcast_from(b, row, INT32, const_int(1 + k))), VECTOR)
            for k, sum_ in enumerate(sums)
        ]
        value = parts[0]
        if len(parts) == 2:
            value = multiply_add(b, parts[0], splat(256.0), parts[1])
        return b.fmul(value, _broadcast_from(b, row, FLOAT, const_int(0)))


class Int8Wide(Int8):
    """The inner step as in Int8, with inputs of 16 bits: x = 256 h + l, -128 <= h, l < 128.

    Used for the weighted sum of attention, since a softmax has many small weights beside a large
    one.
    """

    input_bytes = 2
    initial_sums = (splat_int(0), splat_int(0))
    largest = 127.0 * 256  # so that h fits a byte

    def split_bytes(self, b: Builder, integers: Value) -> list[Value]:
        """Split 16 integers x into [h, l], both int32: x = 256 h + l with -128 <= l < 128."""
        h = b.ashr(b.add(integers, splat_int(128)), splat_int(8))
        return [h, b.sub(integers, b.shl(h, splat_int(8)))]

    def interleave(self, b: Builder, parts: Sequence[Value]) -> Value:
        """Return 16 inputs as bytes: h of four inputs, l of the same four, and so on."""
        fours = ir.VectorType(INT32, LANES // 4)
        h, low = (b.bitcast(b.trunc(part, _BYTES), fours) for part in parts)
        order = ir.Constant(ir.VectorType(INT32, 8), [0, 4, 1, 5, 2, 6, 3, 7])
        return b.shuffle_vector(h, low, order)


class Int8InInt16(Int8):
    """The inner step (see Fp32) of a product of int8 weights with inputs of 16 bits, multiplied as
    16-bit integers, on machines without VNNI.

    The weights plus 128 are unsigned bytes: those of inputs 0 and 2 of a step, and those of 1 and
    3, become pairs of 16 bits, and inputs stand in pairs, too. Sums wrap around in 32 bits, which
    is exact as long as the final one fits: inputs of a row whose absolute values add up to too much
    are rounded to fewer bits.
    """

    input_bytes = 2
    largest = 32767.0
    narrow_rows = 4

    def largest_integer(self, b: Builder, x: Value, n_in: Value, most: Value) -> Value:
        """Return the integer, as float32, to which the largest |x| of a row, `most`, is rounded.

        It is so small that the rounded |x| of the row add up to 16.8 million at most. x: address of
        the row's n_in inputs.
        """

        def add(_: Value, values: Value, total: Value) -> list[Value]:
            return [b.fadd(total, b.bitcast(_magnitude_bits(b, values), VECTOR))]

        (added,) = _map_row(b, x, n_in, [splat(0.0)], add)
        share = b.fdiv(most, reduce_lanes(b, added, b.fadd))
        fitting = b.fmul(share, ir.Constant(FLOAT, _MAX_INPUT_SUM))
        fits = b.fcmp_ordered("<", fitting, ir.Constant(FLOAT, self.largest))
        limit = b.select(fits, fitting, ir.Constant(FLOAT, self.largest))
        return b.sitofp(b.fptosi(limit, INT32), FLOAT)

    def interleave(self, b: Builder, parts: Sequence[Value]) -> Value:
        """Return 16 inputs as 16-bit integers: of each four the first, third, second and fourth."""
        words = b.trunc(parts[0], ir.VectorType(INT16, LANES))
        order = [4 * (k // 4) + (0, 2, 1, 3)[k % 4] for k in range(LANES)]
        return b.shuffle_vector(words, words, ir.Constant(INT_VECTOR, order))

    def weights(self, b: Builder, panel: Value, step: Value, k: int) -> Sequence[Value]:
        """Return the weights of outputs 16 k to 16 k + 15, k from 0 to 3, of the panel at address
        `panel` (packed weights of 64 outputs) in step number `step`. Two vectors of 16-bit integers
        have a pair for each output: its weights for inputs 0 and 2, then for 1 and 3."""
        fours = b.bitcast(load(b, panel, _weight_index(b, step, k)), _WORDS)
        even = b.and_(fours, ir.Constant(_WORDS, [0xFF] * (2 * LANES)))
        return [even, b.lshr(fours, ir.Constant(_WORDS, [8] * (2 * LANES)))]

    def add(
        self, b: Builder, sums: Sequence[Value], x: Sequence[Value], w: Sequence[Value]
    ) -> list[Value]:
        """Return the int32 sums of 16 outputs plus those of a step's inputs x times weights w."""
        total = sums[0]
        for input_, weight in zip(x, w, strict=True):
            total = b.add(total, _add_pairs(b, b.bitcast(input_, _WORDS), weight))
        return [total]


def _add_pairs(b: Builder, x: Value, y: Value) -> Value:
    """Return x[2 i] y[2 i] + x[2 i + 1] y[2 i + 1] of 32 integers of 16 bits, as 16 of 32 bits."""
    wide = ir.VectorType(INT32, 2 * LANES)
    # LLVM finds the instruction for it, such as PMADDWD of x86.
    product = b.mul(b.sext(x, wide), b.sext(y, wide))
    even = ir.Constant(INT_VECTOR, list(range(0, 2 * LANES, 2)))
    odd = ir.Constant(INT_VECTOR, list(range(1, 2 * LANES, 2)))
    return b.add(b.shuffle_vector(product, product, even), b.shuffle_vector(product, product, odd))


def _magnitude_bits(b: Builder, x: Value) -> Value:
    """Return the bits of |x| of 16 numbers."""
    return b.and_(b.bitcast(x, INT_VECTOR), splat_int(0x7FFFFFFF))


_MIN_LARGEST = 1e-30  # for larger x, 1 / x is finite
_WORDS = ir.VectorType(INT16, 2 * LANES)
# Of the inputs of 16 bits of a row: times 127 it fits 32 bits, rounding included.
_MAX_INPUT_SUM = 16.8e6


prepared_row_bytes = compiled(row_bytes)


def _weight_index(b: Builder, step: Value, k: int) -> Value:
    """Return where vector k of a step begins in a panel, in units of 4 bytes.

    A step is always 64 of them.
    """
    return b.add(b.mul(step, const_int(PANEL)), const_int(k * LANES))


def _broadcast_from(b: Builder, row: Value, kind: Any, index: Value) -> Value:
    """Load one element of a row and broadcast it to all lanes."""
    return broadcast(b, b.load(pointer(b, row, kind, index), align=4))


def _map_row(b: Builder, x: Value, n_in: Value, carried: list[Value], body: Any) -> list[Value]:
    """Emit a loop over a row, 16 numbers at a time: carried = body(index, values, *carried).

    The last vector is padded with zeros. Returns the loop-carried values.
    """

    def step(place: Value, n_left: Value | None, *values: Value) -> list[Value]:
        following: list[Value] = body(place, load_part(b, x, place, n_left), *values)
        return following

    return loop_with_tail(b, n_in, carried, step)
