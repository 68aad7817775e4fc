"""The CPU engine's interpreter in plain Python with NumPy kernels: references.

The kernels share no code with the compiled ones. Only models in float32 are supported. Kernels take
addresses (int), as the compiled ones do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_byte, c_float
from functools import cache
from types import FunctionType
from typing import Any, TypeVar, cast
from unittest import mock

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.interpreter import run
from bytenmt.decoding.cpu.kernels import columns, elementwise, gemm, instructions
from bytenmt.decoding.cpu.kernels.instructions import SCORE_LIMIT
from bytenmt.decoding.cpu.session import ModelSession
from bytenmt.kernel_constants import PANEL

Function = TypeVar("Function", bound=Callable[..., Any])

Array = npt.NDArray[np.float32]


def as_python(function: Function, stand_ins: Mapping[Any, Callable[..., Any]]) -> Function:
    """Return a plain Python version of a compiled function, which calls plain versions in turn.

    stand_ins: maps compiled functions to Python functions that are called instead, for those that
    exist as machine code only or are too slow in Python.
    """
    made = {id(compiled): instead for compiled, instead in stand_ins.items()}

    def python(value: Any) -> Any:
        source = getattr(value, "py_func", None)
        if id(value) not in made and source is not None:
            scope = dict(source.__globals__)
            rest = source.__name__, source.__defaults__, source.__closure__
            made[id(value)] = FunctionType(source.__code__, scope, *rest)
            scope.update(
                {name: python(scope[name]) for name in source.__code__.co_names if name in scope}
            )
        return made.get(id(value), value)

    return cast(Function, python(function))


# ---- kernels


def floats(address: int, *shape: int, stride: int | None = None) -> Array:
    """Return the float32 numbers at a memory address as an array that shares the memory.

    stride: numbers from one row of two dimensions to the next; None for contiguous rows.
    """
    strides = None if stride is None else (4 * int(stride), 4)
    n_floats = math.prod(shape) if stride is None else (shape[0] - 1) * stride + shape[1]
    room = (c_byte * int(4 * n_floats)).from_address(int(address))
    return np.ndarray(shape, np.float32, memoryview(room), strides=strides)


def _elementwise(function: Callable[..., Any], n_sources: int = 1) -> Callable[..., None]:
    """Return a kernel (y, sources …, n, numbers …): n numbers y = function(*sources, *numbers)."""

    def apply(y: int, *rest: Any) -> None:
        n = rest[n_sources]
        sources = [floats(x, n) for x in rest[:n_sources]]
        floats(y, n)[:] = function(*sources, *rest[n_sources + 1 :])

    return apply


def _sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _gru_keep(z: Array, g: Array, h: Array) -> Any:
    new = np.tanh(g)
    return _sigmoid(z) * (h - new) + new


def _normalised(x: Array, gain: Array, bias: Array, mean: float, factor: float) -> Any:
    return (x - mean) * factor * gain + bias


def _multiplicative(h: Array, g1: Array, g2: Array, g3: Array, u: Array) -> Any:
    return _sigmoid(g1) * np.tanh(_sigmoid(g2) * h + _sigmoid(g3) * np.tanh(u))


def _dots(scores: int, x: int, keys: int, size: int, n: int, width: int) -> None:
    floats(scores, n)[:] = floats(keys, n, width, stride=size // 4) @ floats(x, width)


def _additive_dots(scores: int, q: int, v: int, keys: int, size: int, n: int, width: int) -> None:
    columns_ = floats(keys, n, width, stride=size // 4)
    floats(scores, n)[:] = -2 * (floats(v, width) / (1 + floats(q, width) * columns_)).sum(axis=1)


def _add(y: int, values: int, size: int, weights: int, n: int, width: int) -> None:
    floats(y, width)[:] += floats(weights, n) @ floats(values, n, width, stride=size // 4)


def _read(address: int, i: int) -> np.float32:
    return np.float32(c_float.from_address(int(address + 4 * i)).value)


def _write(address: int, i: int, x: float) -> None:
    c_float.from_address(int(address + 4 * i)).value = x


def _exp_double(x: Any) -> Any:
    return np.exp(2 * np.clip(x, -SCORE_LIMIT, SCORE_LIMIT))


def _lstm_cell(c: Any, i: Any, f: Any, g: Any) -> Any:
    return _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)


def _maxout(y: int, x: int, n: int) -> None:
    floats(y, n)[:] = floats(x, n, 2).max(axis=1)


def _linear_panels(
    x: int,
    x_stride: int,
    rows: int,
    w: int,
    n_in: int,
    y: int,
    y_stride: int,
    first: int,
    last: int,
    precision: int,
    base: int,
    base_stride: int,
    scales: int,
    scratch: int,
) -> None:
    """Compute gemm.linear_panels for float32."""
    if rows == 0 or last == first:
        return
    panels = floats(w + 4 * first * n_in * PANEL, last - first, n_in, PANEL)
    inputs = floats(x, rows, n_in, stride=x_stride)
    width = (last - first) * PANEL
    products = np.matmul(inputs, panels).swapaxes(0, 1).reshape(rows, width)
    if base:
        products += floats(base + 4 * first * PANEL, rows, width, stride=base_stride)
    floats(y + 4 * first * PANEL, rows, width, stride=y_stride)[:] = products


# NumPy kernels by the compiled kernels that they replace, whose arguments they take.
STAND_INS: dict[Any, Callable[..., Any]] = {
    elementwise.tanh: _elementwise(np.tanh),
    elementwise.sigmoid: _elementwise(_sigmoid),
    elementwise.relu: _elementwise(lambda x: np.maximum(x, 0)),
    elementwise.glu: _elementwise(lambda x, gate: x * _sigmoid(gate), 2),
    elementwise.add: _elementwise(np.add, 2),
    elementwise.multiply: _elementwise(np.multiply, 2),
    elementwise.add_product: _elementwise(lambda x, y, z: x + y * z, 3),
    elementwise.scale: _elementwise(np.multiply),
    elementwise.gru_keep: _elementwise(_gru_keep, 3),
    elementwise.gru_take: _elementwise(lambda z, g, h: _sigmoid(z) * (np.tanh(g) - h) + h, 3),
    elementwise._exp_shifted: _elementwise(lambda x, shift: np.exp(x - shift)),
    elementwise._multiplicative_unit: _elementwise(_multiplicative, 5),
    elementwise._lstm_cells: _elementwise(_lstm_cell, 4),
    elementwise._lstm_outputs: _elementwise(lambda o, c: _sigmoid(o) * np.tanh(c), 2),
    elementwise._normalised: _elementwise(_normalised, 3),
    elementwise.row_sum: lambda x, n: floats(x, n).sum(),
    elementwise.squared_distances: lambda x, n, mean: np.square(floats(x, n) - mean).sum(),
    elementwise.row_max: lambda x, n: floats(x, n).max(),
    columns.dot: lambda x, y, n: floats(x, n) @ floats(y, n),
    columns.dot_columns: _dots,
    columns.additive_columns: _additive_dots,
    columns.add_weighted: _add,
    gemm.linear_panels: _linear_panels,
    instructions.exp_double: _elementwise(_exp_double),
    instructions.copy: _elementwise(lambda x: x),
    instructions.zero: lambda y, n: floats(y, n).fill(0),
    instructions.fill: lambda y, n, value: floats(y, n).fill(value),
    instructions.mean: _elementwise(lambda a, b: (a + b) * np.float32(0.5**0.5), 2),
    instructions.load_float: _read,
    instructions.store_float: _write,
    instructions.maxout: _maxout,
    instructions.prefetch_range: lambda x, n: None,
}


@cache
def _python_run() -> Callable[..., None]:
    return as_python(run, STAND_INS)


def _run_in_numpy(call: Any) -> None:
    with np.errstate(all="ignore"):  # compiled code does not warn either
        _python_run()(call)


@contextmanager
def numpy_kernels() -> Iterator[None]:
    """Run the CPU engine and its scorers in Python with NumPy kernels, on one thread."""
    with mock.patch.object(ModelSession, "_run", lambda _, call: _run_in_numpy(call)):
        yield
