"""Compute elementwise functions and reductions of contiguous float32 numbers, by address.

The destination comes first; it may be one of the sources, but not overlap one. A result has the
same bits wherever a number stands in its row. NaN stays NaN. Functions whose name begins with
`emit_` emit LLVM IR.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bytenmt.decoding.cpu.kernels.simd import (
    INT_VECTOR,
    LANES,
    ROUNDING_TERM,
    VECTOR,
    Builder,
    Value,
    broadcast,
    const_int,
    emit_function,
    lane_mask,
    load_part,
    loop,
    loop_with_tail,
    multiply_add,
    reduce_lanes,
    splat,
    splat_int,
    store_part,
)
from bytenmt.decoding.cpu.records import Address
from bytenmt.jit import compiled

# exp(x) = 2^n exp(r), |r| <= ln(2)/2: ln(2) is in two parts, of which n times the first is exact.
# The polynomial is that of Cephes' expf.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_EXP_COEFFICIENTS = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    0.5,
)
_EXP_RANGE = -104.0, 89.0  # beyond, the result is 0 or infinite
# tanh(x) = x p(x^2) / q(x^2), 1 in float32 beyond the range; the coefficients are those of Eigen's
# ptanh.
_TANH_LIMIT = 7.90531110763549805
_TANH_P = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
_TANH_Q = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)


def at_most(b: Builder, x: Value, limit: float) -> Value:
    """Emit LLVM code for min(x, limit) of a vector x; NaN stays NaN."""
    return b.select(b.fcmp_ordered(">", x, splat(limit)), splat(limit), x)


def at_least(b: Builder, x: Value, limit: float) -> Value:
    """Emit LLVM code for max(x, limit) of a vector x; NaN stays NaN."""
    return b.select(b.fcmp_ordered("<", x, splat(limit)), splat(limit), x)


def _polynomial(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """Evaluate a polynomial by Horner's scheme, highest coefficient first."""
    value = splat(coefficients[0])
    for coefficient in coefficients[1:]:
        value = multiply_add(b, value, x, splat(coefficient))
    return value


def _power_of_two(b: Builder, n: Value) -> Value:
    """Return 2^n for a vector of integers from -126 to 127."""
    return b.bitcast(b.shl(b.add(n, splat_int(127)), splat_int(23)), VECTOR)


def emit_exp(b: Builder, x: Value) -> Value:
    """Emit LLVM code for exp(x) of a vector x of 16 numbers; return its value."""
    x = at_least(b, at_most(b, x, _EXP_RANGE[1]), _EXP_RANGE[0])
    moved = multiply_add(b, x, splat(1 / math.log(2)), splat(ROUNDING_TERM))
    n = b.fsub(moved, splat(ROUNDING_TERM))
    r = multiply_add(b, n, splat(-_LN2_HIGH), x)
    r = multiply_add(b, n, splat(-_LN2_LOW), r)
    p = multiply_add(b, _polynomial(b, r, _EXP_COEFFICIENTS), b.fmul(r, r), b.fadd(r, splat(1.0)))
    # 2^n in two factors: n reaches beyond the exponents of normal numbers.
    integer = b.sub(b.bitcast(moved, INT_VECTOR), b.bitcast(splat(ROUNDING_TERM), INT_VECTOR))
    half = b.ashr(integer, splat_int(1))
    p = b.fmul(p, _power_of_two(b, half))
    return b.fmul(p, _power_of_two(b, b.sub(integer, half)))


def emit_sigmoid(b: Builder, x: Value) -> Value:
    """Emit LLVM code for 1 / (1 + exp(-x)) of a vector x of 16 numbers; return its value."""
    return b.fdiv(splat(1.0), b.fadd(splat(1.0), emit_exp(b, b.fsub(splat(-0.0), x))))


def emit_tanh(b: Builder, x: Value) -> Value:
    """Emit LLVM code for tanh(x) of a vector x of 16 numbers; return its value."""
    x = at_least(b, at_most(b, x, _TANH_LIMIT), -_TANH_LIMIT)
    square = b.fmul(x, x)
    p = b.fmul(x, _polynomial(b, square, _TANH_P))
    return b.fdiv(p, _polynomial(b, square, _TANH_Q))


def map_kernel(n_sources: int, n_floats: int, compute: Callable[..., Value]) -> Any:
    """Return a kernel (y, sources …, n, floats …) that computes a function of n float32 numbers.

    It sets y[i] = compute(builder, *sources[i], *floats). y and the sources are addresses of n
    numbers each. compute emits LLVM code for vectors of 16 numbers.
    """

    def generate(b: Builder, destination: Value, *rest: Value) -> None:
        sources = rest[:n_sources]
        n = rest[n_sources]
        floats = [broadcast(b, value) for value in rest[n_sources + 1 :]]

        def body(index: Value, n_left: Value | None) -> list[Value]:
            values = [load_part(b, x, index, n_left) for x in sources]
            store_part(b, compute(b, *values, *floats), destination, index, n_left)
            return []

        loop_with_tail(b, n, [], body)

    return emit_function(n_sources + 2, n_floats, generate)


def _larger(b: Builder, x: Value, y: Value) -> Value:
    """Return the larger of two numbers; NaN if one of them is."""
    return b.select(b.or_(b.fcmp_ordered(">", x, y), b.fcmp_unordered("uno", x, x)), x, y)


def reduce_kernel(
    n_sources: int,
    n_floats: int,
    compute: Callable[..., Value],
    join: Callable[..., Value] = ir.IRBuilder.fadd,
    start: float = 0.0,
) -> Any:
    """Return a kernel (sources …, n, floats …) -> float32 that reduces n float32 numbers.

    compute(builder, accumulator, *sources, *floats): the accumulator after 16 more numbers. Four
    accumulators take turns and are joined at the end by join(builder, x, y). start: their initial
    value.
    """

    def generate(b: Builder, *arguments: Value) -> Value:
        sources = arguments[:n_sources]
        n = arguments[n_sources]
        floats = [broadcast(b, value) for value in arguments[n_sources + 1 :]]

        def accumulate(value: Value, index: Value, n_left: Value | None = None) -> Value:
            following = compute(
                b, value, *[load_part(b, x, index, n_left) for x in sources], *floats
            )
            return following if n_left is None else b.select(lane_mask(b, n_left), following, value)

        def four_vectors(index: Value, *sums: Value) -> list[Value]:
            return [
                accumulate(value, b.add(index, const_int(k * LANES)))
                for k, value in enumerate(sums)
            ]

        def one_vector(
            index: Value, n_left: Value | None, whole: Value, rest: Value
        ) -> list[Value]:
            if n_left is None:
                return [accumulate(whole, index), rest]
            return [whole, accumulate(rest, index, n_left)]

        end_of_four = b.and_(n, const_int(-4 * LANES))
        _, *sums = loop(b, end_of_four, 4 * LANES, [splat(start)] * 4, four_vectors)
        sums[:2] = loop_with_tail(b, n, sums[:2], one_vector, end_of_four)
        whole_sum = join(b, join(b, sums[0], sums[1]), join(b, sums[2], sums[3]))
        return reduce_lanes(b, whole_sum, lambda low, high: join(b, low, high))

    return emit_function(n_sources + 1, n_floats, generate, types.float32)


def _gru_keep(b: Builder, z: Value, g: Value, h: Value) -> Value:
    new = emit_tanh(b, g)
    return multiply_add(b, emit_sigmoid(b, z), b.fsub(h, new), new)


def _gru_take(b: Builder, z: Value, g: Value, h: Value) -> Value:
    return multiply_add(b, emit_sigmoid(b, z), b.fsub(emit_tanh(b, g), h), h)


def _lstm_cell(b: Builder, c: Value, i: Value, f: Value, g: Value) -> Value:
    return multiply_add(b, emit_sigmoid(b, f), c, b.fmul(emit_sigmoid(b, i), emit_tanh(b, g)))


def _multiplicative(b: Builder, h: Value, g1: Value, g2: Value, g3: Value, u: Value) -> Value:
    """Return g1 tanh(g2 h + g3 u), from the gates before sigma and u before tanh.

    See Kalchbrenner et al. 2016 (ByteNet).
    """
    new = b.fmul(emit_sigmoid(b, g3), emit_tanh(b, u))
    return b.fmul(emit_sigmoid(b, g1), emit_tanh(b, multiply_add(b, emit_sigmoid(b, g2), h, new)))


def _normalise(b: Builder, x: Value, gain: Value, bias: Value, mean: Value, factor: Value) -> Value:
    return multiply_add(b, b.fmul(b.fsub(x, mean), factor), gain, bias)


def _square(b: Builder, sum_: Value, x: Value, mean: Value) -> Value:
    far = b.fsub(x, mean)
    return multiply_add(b, far, far, sum_)


# Elementwise kernels. Their arguments: addresses of a destination y and of sources, the count n,
# then float32 numbers.
tanh = map_kernel(1, 0, emit_tanh)  # (y, x, n)
sigmoid = map_kernel(1, 0, emit_sigmoid)  # (y, x, n)
relu = map_kernel(1, 0, lambda b, x: at_least(b, x, 0.0))  # (y, x, n)
# (y, a, b, n): a * sigmoid(b)
glu = map_kernel(2, 0, lambda b, x, gate: b.fmul(x, emit_sigmoid(b, gate)))
add = map_kernel(2, 0, ir.IRBuilder.fadd)  # (y, a, b, n): a + b
multiply = map_kernel(2, 0, ir.IRBuilder.fmul)  # (y, a, b, n): a * b
# (y, a, b, c, n): a + b * c
add_product = map_kernel(3, 0, lambda b, x, y, z: multiply_add(b, y, z, x))
scale = map_kernel(1, 1, ir.IRBuilder.fmul)  # (y, x, n, factor): x * factor
# (y, z, g, h, n), z and g before sigma and tanh: sigma(z) h + (1 - sigma(z)) tanh(g)
gru_keep = map_kernel(3, 0, _gru_keep)
gru_take = map_kernel(3, 0, _gru_take)  # (y, z, g, h, n): (1 - sigma(z)) h + sigma(z) tanh(g)
# (y, x, n, shift)
_exp_shifted = map_kernel(1, 1, lambda b, x, shift: emit_exp(b, b.fsub(x, shift)))
_multiplicative_unit = map_kernel(5, 0, _multiplicative)
_lstm_cells = map_kernel(4, 0, _lstm_cell)
_lstm_outputs = map_kernel(2, 0, lambda b, o, c: b.fmul(emit_sigmoid(b, o), emit_tanh(b, c)))
_normalised = map_kernel(3, 2, _normalise)
# Reductions. Their arguments: addresses of sources, the count n, then float32 numbers.
row_sum = reduce_kernel(1, 0, ir.IRBuilder.fadd)  # (x, n)
squared_distances = reduce_kernel(1, 1, _square)  # (x, n, mean): the sum of (x - mean)^2
row_max = reduce_kernel(1, 0, lambda b, most, x: _larger(b, x, most), _larger, -math.inf)  # (x, n)


@compiled
def exp_sum(y: Address, x: Address, n: int, shift: float) -> np.float32:
    """Set y = exp(x - shift) for n float32 numbers and return the sum of y."""
    _exp_shifted(y, x, n, shift)
    return np.float32(row_sum(y, n))


@compiled
def softmax(y: Address, x: Address, n: int) -> None:
    """Set y to the softmax of n float32 numbers x."""
    scale(y, y, n, np.float32(1) / np.float32(exp_sum(y, x, n, row_max(x, n))))


@compiled
def layer_norm(
    y: Address, x: Address, gain: Address, bias: Address, n: int, epsilon: float
) -> None:
    """Set y = (x - mean) / sqrt(variance + epsilon) * gain + bias for n float32 numbers."""
    mean = np.float32(row_sum(x, n) / np.float32(n))
    variance = squared_distances(x, n, mean) / np.float32(n)
    factor = np.float32(1) / np.sqrt(np.float32(variance + np.float32(epsilon)))
    _normalised(y, x, gain, bias, n, mean, factor)


@compiled
def multiplicative(y: Address, maps: Address, h: Address, n: int) -> None:
    """Set y to the multiplicative unit g1 tanh(g2 h + g3 u) of h, n float32 numbers.

    See Kalchbrenner et al. 2016 (ByteNet). maps: g1, g2, g3 and u, one after another, before their
    sigmoids and tanh.
    """
    _multiplicative_unit(y, h, maps, maps + 4 * n, maps + 8 * n, maps + 12 * n, n)


@compiled
def lstm_step(h: Address, c: Address, gates: Address, n: int) -> None:
    """Execute an LSTM step in place: c = sigma(f) c + sigma(i) tanh(g), then h = sigma(o) tanh(c).

    h, c: n float32 numbers each. gates: i, f, g and o, one after another.
    """
    _lstm_cells(c, c, gates, gates + 4 * n, gates + 8 * n, n)
    _lstm_outputs(h, gates + 12 * n, c, n)


@compiled
def gru_reset(rs: Address, gates: Address, h: Address, n: int) -> None:
    """Execute a GRU's reset gate for one row: gates[:n] = r = sigma(gates[:n]), then rs = r * h."""
    sigmoid(gates, gates, n)
    multiply(rs, gates, h, n)


@compiled
def gru_update(h: Address, gates: Address, u: Address, n: int, flags: int) -> None:
    """Set h to the new state of a GRU for one row. h and u have n float32 numbers, gates 3n.

    gates: r after its sigma, z before its sigma, and the input's part of the candidate g before
    tanh, which is overwritten. u: the state's part of g. flags: bit 0: r multiplies u; bit 1: z
    weighs tanh(g) and 1 - z the old state, instead of the reverse.
    """
    g = gates + 8 * n
    if flags & 1:
        add_product(g, g, gates, u, n)
    else:
        add(g, g, u, n)
    if flags & 2:
        gru_take(h, gates + 4 * n, g, h, n)
    else:
        gru_keep(h, gates + 4 * n, g, h, n)
