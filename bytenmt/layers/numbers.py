"""Functions of single numbers for kernels in Python: reading and writing bf16, and a sigmoid for vectors.

NumPy has no bf16: its arrays come as the upper 16 bits of float32 (`as_array`), and `wide` and `narrow` stand
between them and float32, or do nothing where an array is float32 already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable
from torch import Tensor

Array = npt.NDArray[Any]  # float32, or uint16 that stands for bf16
KINDS = (torch.float32, torch.bfloat16)

_FLOAT, _INT32, _INT16 = ir.FloatType(), ir.IntType(32), ir.IntType(16)
LOG2_E, LN_2_HIGH, LN_2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
FARTHEST = np.float32(87.0)  # exp of it is a normal float32, and 1 in float32 beside exp of its negative


def as_array(x: Tensor) -> Array:
    """x of float32 or bf16, without gradient -> the same memory as an array for kernels."""
    array: Array = (x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy()
    return array


def _constant(number: int) -> ir.Constant:
    return ir.Constant(_INT32, number)


def _wide(context: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    """A number of an Array -> float32."""

    def build(_: Any, b: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        if x == types.float32:
            return arguments[0]
        return b.bitcast(b.shl(b.zext(arguments[0], _INT32), _constant(16)), _FLOAT)

    return types.float32(x), build


def _narrow(context: Any, value: Any, like: Any) -> tuple[Any, Callable[..., Any]]:
    """A float32, and a number of the array that it is for -> what to put there: to the nearest, ties to
    even."""

    def build(_: Any, b: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        if like == types.float32:
            return arguments[0]
        bits = b.bitcast(arguments[0], _INT32)
        odd = b.and_(b.lshr(bits, _constant(16)), _constant(1))
        rounded = b.add(bits, b.add(odd, _constant(0x7FFF)))
        none = b.fcmp_unordered("uno", arguments[0], arguments[0])
        return b.trunc(b.lshr(b.select(none, _constant(0x7FC00000), rounded), _constant(16)), _INT16)

    return like(types.float32, like), build


def _power(context: Any, n: Any) -> tuple[Any, Callable[..., Any]]:
    """A whole number from -126 to 127, as float32 -> 2 to that power."""

    def build(_: Any, b: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        exponent = b.add(b.fptosi(arguments[0], _INT32), _constant(127))
        return b.bitcast(b.shl(exponent, _constant(23)), _FLOAT)

    return types.float32(types.float32), build


def _nearest(context: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    """A float32 -> the whole number nearest to it."""

    def build(_: Any, b: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        return b.call(b.module.declare_intrinsic("llvm.nearbyint", [_FLOAT]), arguments)

    return types.float32(types.float32), build


nearest: Any = intrinsic(_nearest)
wide: Any = intrinsic(_wide)
narrow: Any = intrinsic(_narrow)
power: Any = intrinsic(_power)


@register_jitable
def sigmoid(x: np.float32) -> np.float32:
    """1 / (1 + exp(-x)) to two units in the last place, by operations that vectors have."""
    x = min(max(-x, -FARTHEST), FARTHEST)  # a NaN stays one: it is neither less nor more
    n = nearest(x * LOG2_E)
    r = x - n * LN_2_HIGH - n * LN_2_LOW
    e = np.float32(1 / 5040)
    e = e * r + np.float32(1 / 720)
    e = e * r + np.float32(1 / 120)
    e = e * r + np.float32(1 / 24)
    e = e * r + np.float32(1 / 6)
    e = e * r + np.float32(1 / 2)
    e = e * r + np.float32(1)
    e = e * r + np.float32(1)
    one, scale = np.float32(1), power(n)
    y: np.float32 = np.divide(one, one + e * scale)
    return y


@register_jitable
def tanh(x: np.float32) -> np.float32:
    """2 sigmoid(2 x) - 1, to 2e-7."""
    two = np.float32(2)
    return two * sigmoid(two * x) - np.float32(1)
