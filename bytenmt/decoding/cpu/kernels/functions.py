"""Elementwise functions of float32 vectors in LLVM IR: exp, sigmoid, tanh and clamping.

A result has the same bits in every lane, and NaN stays NaN.
"""

from __future__ import annotations

import math

from bytenmt.decoding.cpu.kernels.simd import (
    INT_VECTOR,
    VECTOR,
    Builder,
    Value,
    multiply_add,
    splat,
    splat_int,
)

# exp(x) = 2^n exp(r), |r| <= ln(2)/2: n from adding a number so large that its last bit is worth one;
# ln(2) in two parts, of which n times the first is exact. The polynomial is that of Cephes' expf.
_TO_INTEGER = 1.5 * 2.0**23
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
_EXP_RANGE = -104.0, 89.0  # beyond, the result is 0 or infinite
# tanh(x) = x p(x^2) / q(x^2), 1 in float32 beyond the range; the coefficients are those of Eigen's ptanh.
_TANH_RANGE = 7.90531110763549805
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
    """Emit LLVM code for min(x, limit); NaN stays NaN."""
    return b.select(b.fcmp_ordered(">", x, splat(limit)), splat(limit), x)


def at_least(b: Builder, x: Value, limit: float) -> Value:
    """Return max(x, limit); NaN stays NaN."""
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
    """Return exp(x)."""
    x = at_least(b, at_most(b, x, _EXP_RANGE[1]), _EXP_RANGE[0])
    moved = multiply_add(b, x, splat(1 / math.log(2)), splat(_TO_INTEGER))
    n = b.fsub(moved, splat(_TO_INTEGER))
    r = multiply_add(b, n, splat(-_LN2_HIGH), x)
    r = multiply_add(b, n, splat(-_LN2_LOW), r)
    p = multiply_add(b, _polynomial(b, r, _EXP), b.fmul(r, r), b.fadd(r, splat(1.0)))
    # 2^n in two factors: n reaches beyond the exponents of normal numbers.
    integer = b.sub(b.bitcast(moved, INT_VECTOR), b.bitcast(splat(_TO_INTEGER), INT_VECTOR))
    half = b.ashr(integer, splat_int(1))
    p = b.fmul(p, _power_of_two(b, half))
    return b.fmul(p, _power_of_two(b, b.sub(integer, half)))


def emit_sigmoid(b: Builder, x: Value) -> Value:
    """Return 1 / (1 + exp(-x))."""
    return b.fdiv(splat(1.0), b.fadd(splat(1.0), emit_exp(b, b.fsub(splat(-0.0), x))))


def emit_tanh(b: Builder, x: Value) -> Value:
    """Return tanh(x)."""
    x = at_least(b, at_most(b, x, _TANH_RANGE), -_TANH_RANGE)
    square = b.fmul(x, x)
    p = b.fmul(x, _polynomial(b, square, _TANH_P))
    return b.fdiv(p, _polynomial(b, square, _TANH_Q))
