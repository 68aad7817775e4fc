"""Products of rows with panels of weights, on LLVM's vectors, called from compiled code by address.

An output's bits depend on its row, its weights and its base alone: whatever rows and panels share the call,
its sum is multiply-adds in the order of the inputs from zero, and the base is added last.
Knows no models; panels.py packs what it multiplies with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding
from llvmlite import ir

from bytenmt.cpu.panels import BF16, FP32, PANEL, PRECISIONS
from bytenmt.cpu.vectors import (
    FEATURES,
    FLOAT,
    INT32,
    INT_VECTOR,
    LANES,
    VECTOR,
    Builder,
    Value,
    broadcast,
    call,
    compiled,
    emitted,
    load,
    load_first,
    loop,
    mask,
    multiply_add,
    pointer,
    spread,
    spread_int,
    store,
    whole,
)

_VECTORS = PANEL // LANES  # of a panel
# Rows that are multiplied with a panel at once: 6 times 4 sums leave registers for the weights.
_ROWS = 6
# Rows that pass before the next panel is taken; theirs is the room for rounded inputs.
_TILE = 96
# The machine multiplies pairs of bfloat16 by itself, and LLVM has a type for them.
NATIVE_BF16 = FEATURES.get("avx512bf16", False) and llvmlite.binding.llvm_version_info[0] >= 17


class _BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite has not."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return type(other) is _BFloat

    def __hash__(self) -> int:
        return hash(_BFloat)


_PAIRS = ir.VectorType(_BFloat(), 2 * LANES)
_BYTES = ir.VectorType(ir.IntType(8), LANES)
_HALVES = ir.VectorType(ir.IntType(16), LANES)
_STEP = {"fp32": 1, "bf16": 2, "int8": 1}  # inputs that are taken at once


def _weights(b: Builder, w: Value, step: Value, k: int, precision: str) -> Value:
    """Vector k of the panel at w, of its input (or pair of inputs) `step`."""
    place = b.add(b.mul(step, whole(PANEL)), whole(k * LANES))
    if precision == "fp32":
        return load(b, w, place)
    if precision == "bf16":
        return b.bitcast(load(b, w, place), INT_VECTOR)
    at = b.bitcast(pointer(b, w, ir.IntType(8), place), _BYTES.as_pointer())
    return b.sitofp(b.sext(b.load(at, align=1), INT_VECTOR), VECTOR)


def _evens(b: Builder, pairs: Value) -> Value:
    return b.bitcast(b.shl(pairs, spread_int(16)), VECTOR)


def _odds(b: Builder, pairs: Value) -> Value:
    return b.bitcast(b.and_(pairs, spread_int(0xFFFF0000)), VECTOR)


def _product(b: Builder, x: Value, w: Value, sum_: Value, precision: str, native: bool) -> Value:
    """sum_ + x * w; of bf16 x and w hold pairs of inputs."""
    if precision != "bf16":
        return multiply_add(b, x, w, sum_)
    if native:
        arguments = [sum_, b.bitcast(w, _PAIRS), b.bitcast(x, _PAIRS)]
        return call(b, "llvm.x86.avx512bf16.dpbf16ps.512", VECTOR, arguments)
    sum_ = multiply_add(b, _evens(b, x), _evens(b, w), sum_)
    return multiply_add(b, _odds(b, x), _odds(b, w), sum_)


def _block(precision: str, n_rows: int, native: bool) -> Any:
    """Make the product of n_rows rows with one panel, for compiled code: (x, x_stride, w, n_steps, y,
    y_stride, base, base_stride, scales). Strides in float32 numbers (of x in bf16: in pairs)."""
    kind = INT32 if precision == "bf16" else FLOAT

    def generate(
        b: Builder,
        x: Value,
        x_stride: Value,
        w: Value,
        n_steps: Value,
        y: Value,
        y_stride: Value,
        base: Value,
        base_stride: Value,
        scales: Value,
    ) -> None:
        rows = [pointer(b, x, kind, b.mul(x_stride, whole(row))) for row in range(n_rows)]

        def body(step: Value, *sums: Value) -> list[Value]:
            made = list(sums)
            panel = [_weights(b, w, step, k, precision) for k in range(_VECTORS)]
            for row in range(n_rows):
                here = broadcast(b, b.load(b.gep(rows[row], [step]), align=4))
                for k in range(_VECTORS):
                    place = row * _VECTORS + k
                    made[place] = _product(b, here, panel[k], made[place], precision, native)
            return made

        sums = loop(b, n_steps, 1, [spread(0.0)] * (n_rows * _VECTORS), body)
        with_base = b.icmp_signed("!=", base, whole(0))
        for row in range(n_rows):
            for k in range(_VECTORS):
                value = sums[row * _VECTORS + k]
                at = whole(k * LANES)
                if precision == "int8":
                    value = b.fmul(value, load(b, scales, at))
                start = _load_if(b, with_base, base, b.add(b.mul(base_stride, whole(row)), at))
                store(b, b.fadd(value, start), y, b.add(b.mul(y_stride, whole(row)), at))

    return emitted(9, 0, generate)


def _load_if(b: Builder, condition: Value, address: Value, place: Value) -> Value:
    """What stands there, or zero where the condition is false."""
    before = b.basic_block
    with b.if_then(condition):
        value = load(b, address, place)
        inside = b.basic_block
    chosen = b.phi(VECTOR)
    chosen.add_incoming(spread(0.0), before)
    chosen.add_incoming(value, inside)
    return chosen


def _round(b: Builder, to: Value, x: Value, n_in: Value) -> None:
    """Write n_in float32 numbers as bfloat16, the nearest, ties to even; then zeros up to whole vectors."""

    def rounded(values: Value) -> Value:
        bits = b.bitcast(values, INT_VECTOR)
        odd = b.and_(b.lshr(bits, spread_int(16)), spread_int(1))
        bits = b.lshr(b.add(bits, b.add(odd, spread_int(0x7FFF))), spread_int(16))
        nothing = b.fcmp_unordered("uno", values, values)
        return b.trunc(b.select(nothing, spread_int(0x7FC0), bits), _HALVES)

    def write(place: Value, values: Value) -> None:
        at = pointer(b, to, ir.IntType(16), place)
        b.store(rounded(values), b.bitcast(at, _HALVES.as_pointer()), align=2)

    def body(place: Value) -> list[Value]:
        write(place, load(b, x, place))
        return []

    end = b.and_(n_in, whole(-LANES))
    loop(b, end, LANES, [], body)
    with b.if_then(b.icmp_signed("<", end, n_in)):
        write(end, load_first(b, x, end, mask(b, b.sub(n_in, end))))


_round_row = emitted(3, 0, _round)


def scratch_bytes(n_in: int) -> int:
    """Room that linear_panels needs for the rounded inputs of bf16, whatever the rows."""
    return _TILE * -(-n_in // LANES) * LANES * 2


def _make_panels(precision: str, native: bool = NATIVE_BF16) -> Callable[..., None]:
    """The product in one precision; `native` False: without the machine's own bfloat16."""
    block_6, block_4, block_2, block_1 = (_block(precision, n, native) for n in (_ROWS, 4, 2, 1))
    bf16, step = precision == "bf16", _STEP[precision]
    width = {"fp32": 4, "bf16": 2, "int8": 1}[precision]

    @compiled
    def panels(
        x: int,
        x_stride: int,
        rows: int,
        w: int,
        n_in: int,
        y: int,
        y_stride: int,
        first: int,
        last: int,
        base: int,
        base_stride: int,
        scales: int,
        scratch: int,
    ) -> None:
        n_steps = (n_in + step - 1) // step
        size = n_steps * step * PANEL * width
        for begin in range(0, rows, _TILE):
            end = min(rows, begin + _TILE)
            source, stride = x + 4 * begin * x_stride, x_stride
            if bf16:
                source, stride = scratch, (n_in + LANES - 1) // LANES * (LANES // 2)
                for row in range(begin, end):
                    _round_row(scratch + 4 * (row - begin) * stride, x + 4 * row * x_stride, n_in)
            for panel in range(first, last):
                there, add_to = y + 4 * panel * PANEL, base
                if base != 0:
                    add_to += 4 * panel * PANEL
                weights, scale_at = w + panel * size, scales + 4 * panel * PANEL
                row = begin
                while row < end:
                    a, d = source + 4 * (row - begin) * stride, there + 4 * row * y_stride
                    c = add_to + 4 * row * base_stride
                    if end - row >= 6:
                        block_6(a, stride, weights, n_steps, d, y_stride, c, base_stride, scale_at)
                        row += 6
                    elif end - row >= 4:
                        block_4(a, stride, weights, n_steps, d, y_stride, c, base_stride, scale_at)
                        row += 4
                    elif end - row >= 2:
                        block_2(a, stride, weights, n_steps, d, y_stride, c, base_stride, scale_at)
                        row += 2
                    else:
                        block_1(a, stride, weights, n_steps, d, y_stride, c, base_stride, scale_at)
                        row += 1

    return panels


_fp32_panels, _bf16_panels, _int8_panels = (_make_panels(precision) for precision in PRECISIONS)


@compiled
def linear_panels(
    x: int,
    x_stride: int,
    rows: int,
    w: int,
    n_in: int,
    y: int,
    y_stride: int,
    first_panel: int,
    last_panel: int,
    precision: int,
    base: int,
    base_stride: int,
    scales: int,
    scratch: int,
) -> None:
    """y[row, o] = base[row, o] + scale[o] * sum_i w[o, i] x[row, i], o in panels first to last - 1.

    Addresses in bytes, strides in float32 numbers. x (rows, n_in) float32; w: panel 0, as pack makes them;
    y (rows, panels * PANEL) float32. base: address of numbers like y's, 0 for zeros; y itself to accumulate;
    a bias has base_stride 0. scales: of int8, float32, whole panels. scratch: of bf16, scratch_bytes(n_in)
    bytes of this thread's own.
    """
    if precision == FP32:
        _fp32_panels(
            x,
            x_stride,
            rows,
            w,
            n_in,
            y,
            y_stride,
            first_panel,
            last_panel,
            base,
            base_stride,
            scales,
            scratch,
        )
    elif precision == BF16:
        _bf16_panels(
            x,
            x_stride,
            rows,
            w,
            n_in,
            y,
            y_stride,
            first_panel,
            last_panel,
            base,
            base_stride,
            scales,
            scratch,
        )
    else:
        _int8_panels(
            x,
            x_stride,
            rows,
            w,
            n_in,
            y,
            y_stride,
            first_panel,
            last_panel,
            base,
            base_stride,
            scales,
            scratch,
        )
