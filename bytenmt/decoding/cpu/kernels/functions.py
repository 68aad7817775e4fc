"""Functions of float32 numbers as LLVM's vectors compute them: exponentials, sigmoid and tanh.

A number's result has the same bits in whichever lane it stands. What is no number (NaN) stays none.
"""

from __future__ import annotations

import math

from bytenmt.decoding.cpu.kernels.simd import (
    INT_VECTOR,
    VECTOR,
    Builder,
    Value,
    multiply_add,
    spread,
    spread_int,
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


def least(b: Builder, x: Value, limit: float) -> Value:
    """The smaller of x and a limit; NaN stays."""
    return b.select(b.fcmp_ordered(">", x, spread(limit)), spread(limit), x)


def greatest(b: Builder, x: Value, limit: float) -> Value:
    return b.select(b.fcmp_ordered("<", x, spread(limit)), spread(limit), x)


def _polynomial(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    value = spread(coefficients[0])
    for coefficient in coefficients[1:]:
        value = multiply_add(b, value, x, spread(coefficient))
    return value


def _power_of_two(b: Builder, n: Value) -> Value:
    """2^n of a vector of integers from -126 to 127."""
    return b.bitcast(b.shl(b.add(n, spread_int(127)), spread_int(23)), VECTOR)


def exp_of(b: Builder, x: Value) -> Value:
    x = greatest(b, least(b, x, _EXP_RANGE[1]), _EXP_RANGE[0])
    moved = multiply_add(b, x, spread(1 / math.log(2)), spread(_TO_INTEGER))
    n = b.fsub(moved, spread(_TO_INTEGER))
    r = multiply_add(b, n, spread(-_LN2_HIGH), x)
    r = multiply_add(b, n, spread(-_LN2_LOW), r)
    p = multiply_add(b, _polynomial(b, r, _EXP), b.fmul(r, r), b.fadd(r, spread(1.0)))
    # 2^n in two factors: n reaches beyond the exponents of normal numbers.
    integer = b.sub(b.bitcast(moved, INT_VECTOR), b.bitcast(spread(_TO_INTEGER), INT_VECTOR))
    half = b.ashr(integer, spread_int(1))
    p = b.fmul(p, _power_of_two(b, half))
    return b.fmul(p, _power_of_two(b, b.sub(integer, half)))


def sigmoid_of(b: Builder, x: Value) -> Value:
    return b.fdiv(spread(1.0), b.fadd(spread(1.0), exp_of(b, b.fsub(spread(-0.0), x))))


def tanh_of(b: Builder, x: Value) -> Value:
    x = greatest(b, least(b, x, _TANH_RANGE), -_TANH_RANGE)
    square = b.fmul(x, x)
    p = b.fmul(x, _polynomial(b, square, _TANH_P))
    return b.fdiv(p, _polynomial(b, square, _TANH_Q))
