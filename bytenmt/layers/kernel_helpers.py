"""Helpers of compiled kernels: threads, and a sigmoid that can be vectorised.

Kernels compute in float32, on as many threads as PyTorch uses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable
from torch import Tensor

Array = npt.NDArray[np.float32]
KINDS = (torch.float32, torch.bfloat16)  # of the tensors that kernels are given

_FLOAT, _INT32 = ir.FloatType(), ir.IntType(32)
LOG2_E, LN_2_HIGH, LN_2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
FARTHEST = np.float32(87.0)  # exp(87) is a normal float32, and 1 + exp(-87) is 1 in float32


def as_array(x: Tensor) -> Array:
    """Return the numbers of x as float32; its own memory where it is float32 and contiguous."""
    array: Array = x.detach().float().contiguous().numpy()
    return array


def _power(context: Any, n: Any) -> tuple[Any, Callable[..., Any]]:
    """Return 2^n for an integer n from -126 to 127, given as float32."""

    def build(_: Any, b: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        exponent = b.add(b.fptosi(arguments[0], _INT32), ir.Constant(_INT32, 127))
        return b.bitcast(b.shl(exponent, ir.Constant(_INT32, 23)), _FLOAT)

    return types.float32(types.float32), build


def _nearest(context: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    """Round a float32 to the nearest integer."""

    def build(_: Any, b: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        return b.call(b.module.declare_intrinsic("llvm.nearbyint", [_FLOAT]), arguments)

    return types.float32(types.float32), build


round_nearest: Any = intrinsic(_nearest)
power_of_two: Any = intrinsic(_power)


@register_jitable
def sigmoid(x: np.float32) -> np.float32:
    """Return 1 / (1 + exp(-x)) to two units in the last place, by operations that LLVM vectorises."""
    x = min(max(-x, -FARTHEST), FARTHEST)  # NaN stays NaN: comparisons with it are false
    n = round_nearest(x * LOG2_E)
    r = x - n * LN_2_HIGH - n * LN_2_LOW
    e = np.float32(1 / 5040)
    e = e * r + np.float32(1 / 720)
    e = e * r + np.float32(1 / 120)
    e = e * r + np.float32(1 / 24)
    e = e * r + np.float32(1 / 6)
    e = e * r + np.float32(1 / 2)
    e = e * r + np.float32(1)
    e = e * r + np.float32(1)
    one, scale = np.float32(1), power_of_two(n)
    y: np.float32 = np.divide(one, one + e * scale)
    return y


@register_jitable
def tanh(x: np.float32) -> np.float32:
    """Return tanh(x) = 2 sigmoid(2 x) - 1, to 2e-7."""
    two = np.float32(2)
    return two * sigmoid(two * x) - np.float32(1)


def thread_ranges(n: int) -> list[tuple[int, int, int]]:
    """Divide n pieces of work among PyTorch's threads: (thread, first, last) for each, last not included."""
    n_threads = max(1, min(n, torch.get_num_threads()))
    cuts = [n * i // n_threads for i in range(n_threads + 1)]
    return [(i, cuts[i], cuts[i + 1]) for i in range(n_threads)]


def parallel_for(task: Callable[[int, int, int], None], n: int) -> None:
    """Call task(thread, first, last) for all ranges of n at once, the last one on this thread.

    This is useful only for tasks that release the interpreter lock, as kernels do.
    """
    *others, own = thread_ranges(n)
    waiting = [_pool(len(others)).submit(task, *share) for share in others]
    task(*own)
    for future in waiting:
        future.result()


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads)


if hasattr(os, "register_at_fork"):  # a forked child has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
