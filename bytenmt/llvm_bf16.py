"""Emit LLVM IR that converts between float32 and bfloat16: one number, or every lane of a vector.

NumPy and Numba have no bfloat16. Its numbers are kept as their bits, the upper 16 of a float32.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

Value = Any  # of llvmlite, which has no types
Builder = Any

_FLOAT, _INT32 = ir.FloatType(), ir.IntType(32)
_NAN = 0x7FC0


def widen_bf16(builder: Builder, bits: Value) -> Value:
    """Return bfloat16 numbers, int16, as float32."""
    wide = builder.zext(bits, _with_element(bits.type, _INT32))
    return builder.bitcast(builder.shl(wide, _constant(wide.type, 16)), _with_element(bits.type, _FLOAT))


def round_to_bf16_bits(builder: Builder, numbers: Value) -> Value:
    """Return float32 numbers rounded to bfloat16, to nearest, ties to even: the bits, as int32."""
    bits = builder.bitcast(numbers, _with_element(numbers.type, _INT32))
    shift, one, below_half = (_constant(bits.type, number) for number in (16, 1, 0x7FFF))
    odd = builder.and_(builder.lshr(bits, shift), one)
    rounded = builder.lshr(builder.add(bits, builder.add(odd, below_half)), shift)
    is_nan = builder.fcmp_unordered("uno", numbers, numbers)
    return builder.select(is_nan, _constant(bits.type, _NAN), rounded)


def _with_element(kind: Any, element: Any) -> Any:
    """Return the type of as many elements as a number or vector of the type `kind` has."""
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element


def _constant(kind: Any, number: int) -> Value:
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)
