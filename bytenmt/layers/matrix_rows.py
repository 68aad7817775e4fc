"""Batched products of few rows with a matrix each, on a CPU: attention scores, or contexts, of one step.

PyTorch's batched product is optimised for many rows; with one row it reads the matrices at a fraction of the
memory bandwidth. These kernels read them once, at full bandwidth.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from bytenmt.jit import njit_any_order
from bytenmt.layers.kernel_helpers import KINDS, Array, as_array, from_float32, parallel_for, to_float32

FEW = 4  # rows: with more, PyTorch's product is faster


@njit_any_order
def add_dots(x: Array, m: Array, y: Array, first: int, last: int) -> None:
    """Write y (n, q, s) = x (n, q, d) m^T for the matrices first to last - 1 of m (n, s, d)."""
    s, d = m.shape[1:]
    row = np.empty(d, np.float32)
    for i in range(first, last):
        for q in range(x.shape[1]):
            for c in range(d):
                row[c] = to_float32(x[i, q, c])
            for j in range(s):  # one by one: reading several at once halves the bandwidth
                total = np.float32(0)
                for c in range(d):
                    total += row[c] * to_float32(m[i, j, c])
                y[i, q, j] = from_float32(total, y[i, q, j])


@njit_any_order
def add_sums(x: Array, m: Array, y: Array, first: int, last: int) -> None:
    """Write y (n, q, d) = x (n, q, s) m for the matrices first to last - 1 of m (n, s, d)."""
    s, d = m.shape[1:]
    total = np.empty(d, np.float32)
    for i in range(first, last):
        for q in range(x.shape[1]):
            total[:] = np.float32(0)
            for j in range(s):
                weight = to_float32(x[i, q, j])
                for c in range(d):
                    total[c] += weight * to_float32(m[i, j, c])
            for c in range(d):
                y[i, q, c] = from_float32(total[c], y[i, q, c])


def product(x: Tensor, matrix: Tensor) -> Tensor:
    """Return x @ matrix, both of one type and without gradients, by these kernels if they are faster."""
    kind = x.device.type == "cpu" and x.dtype in KINDS and matrix.numel() > 0
    few = x.dim() == matrix.dim() == 3 and 0 < x.shape[1] <= FEW and len(x) == len(matrix)
    if not (kind and few and (matrix.is_contiguous() or matrix.mT.is_contiguous())):
        return x @ matrix
    y = x.new_empty(*x.shape[:2], matrix.shape[2])
    kernel, stored = (add_sums, matrix) if matrix.is_contiguous() else (add_dots, matrix.mT)
    arrays = as_array(x.contiguous()), as_array(stored), as_array(y)
    parallel_for(lambda _, first, last: kernel(*arrays, first, last), len(x))
    return y
