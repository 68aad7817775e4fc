"""Helpers of compiled kernels: threads, conversion of bf16, and a sigmoid that can be vectorised.

Kernels run on as many threads as PyTorch uses. NumPy has no bf16: such arrays are the upper 16 bits
of float32 (`as_array`), which `widen` and `narrow` convert; float32 stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba import types
from numba.extending import overload, register_jitable
from torch import Tensor

Array = npt.NDArray[Any]  # float32, or the bits of bf16 as uint16
KINDS = (torch.float32, torch.bfloat16)  # dtypes that the kernels take

LOG2_E = np.float32(1.44269504)
LN_2_HIGH = np.float32(0.693359375)  # ln 2 is the sum of this and LN_2_LOW
LN_2_LOW = np.float32(-2.12194440e-4)
MAX_EXPONENT = np.float32(87.0)  # exp(87) is a normal float32, and 1 + exp(-87) is 1 in float32


def as_array(x: Tensor) -> Array:
    """Return a NumPy view of a float32 or bf16 CPU tensor without gradient; bf16 as uint16."""
    array: Array = (x.view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy()
    return array


def widen(x: Any) -> Any:
    """Convert a float32, or the bits of a bf16 as uint16, to float32; for compiled code only."""
    raise NotImplementedError


def narrow(x: Any, like: Any) -> Any:
    """Round a float32 to the type of `like`, float32 or bf16 as uint16; for compiled code only."""
    raise NotImplementedError


@overload(widen, strict=False)
def _widen(x: Any) -> Callable[..., Any]:
    if x == types.float32:
        return lambda x: x
    return lambda x: np.uint32(np.uint32(x) << np.uint32(16)).view(np.float32)


@overload(narrow, strict=False)
def _narrow(x: Any, like: Any) -> Callable[..., Any]:
    if like == types.float32:
        return lambda x, like: x

    def rounded(x: Any, like: Any) -> Any:  # to nearest, ties to even; a NaN stays one
        bits = np.float32(x).view(np.uint32)
        is_odd = (bits >> np.uint32(16)) & np.uint32(1)
        upper = (bits + np.uint32(0x7FFF) + is_odd) >> np.uint32(16)
        return np.uint16(upper) if x == x else np.uint16(0x7FC0)

    return rounded


@register_jitable
def sigmoid(x: np.float32) -> np.float32:
    """Return 1 / (1 + exp(-x)) to two units in the last place, vectorised."""
    x = min(max(-x, -MAX_EXPONENT), MAX_EXPONENT)  # NaN stays NaN: comparisons with it are false
    n = np.rint(x * LOG2_E)
    r = x - n * LN_2_HIGH - n * LN_2_LOW
    e = np.float32(1 / 5040)
    e = e * r + np.float32(1 / 720)
    e = e * r + np.float32(1 / 120)
    e = e * r + np.float32(1 / 24)
    e = e * r + np.float32(1 / 6)
    e = e * r + np.float32(1 / 2)
    e = e * r + np.float32(1)
    e = e * r + np.float32(1)
    one = np.float32(1)
    bits = np.int32((np.int32(n) + np.int32(127)) << np.int32(23))
    scale = bits.view(np.float32)  # 2 ** n
    y: np.float32 = np.divide(one, one + e * scale)
    return y


@register_jitable
def tanh(x: np.float32) -> np.float32:
    """Return tanh(x) = 2 sigmoid(2 x) - 1, with an absolute error below 2e-7."""
    two = np.float32(2)
    return two * sigmoid(two * x) - np.float32(1)


def thread_ranges(n: int) -> list[tuple[int, int, int]]:
    """Divide range(n) among PyTorch's threads: return (thread number, first, end) for each."""
    n_threads = max(1, min(n, torch.get_num_threads()))
    cuts = [n * i // n_threads for i in range(n_threads + 1)]
    return [(i, cuts[i], cuts[i + 1]) for i in range(n_threads)]


def parallel_for(task: Callable[[int, int, int], None], n: int) -> None:
    """Divide range(n) among threads: call task(thread, first, last) on each of them, and wait.

    A thread (a number from 0) is to do range(first, last). Tasks should release the interpreter
    lock, as compiled kernels do.
    """
    *others, last_share = thread_ranges(n)
    waiting = [_pool(len(others)).submit(task, *share) for share in others]
    task(*last_share)
    for future in waiting:
        future.result()


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads)


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has none of the threads
