"""Few rows against a matrix each on a CPU: an attention's scores, or its context, of one step.

PyTorch's batched product is made for many rows; with one it reads the matrices at a fraction of the memory's
rate. These read them once, at that rate.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from bytenmt.jit import njit_any_order
from bytenmt.layers.numbers import KINDS, Array, as_array, narrow, wide
from bytenmt.layers.parallel import spread

FEW = 4  # rows: with more, PyTorch's product is faster


@njit_any_order
def add_dots(x: Array, m: Array, y: Array, first: int, last: int) -> None:
    """y (n, q, s) = x (n, q, d) m^T of matrices first to last - 1 of m (n, s, d)."""
    s, d = m.shape[1:]
    row = np.empty(d, np.float32)
    for i in range(first, last):
        for q in range(x.shape[1]):
            for c in range(d):
                row[c] = wide(x[i, q, c])
            for j in range(s):  # one after the other: from memory, several at once come at half the rate
                total = np.float32(0)
                for c in range(d):
                    total += row[c] * wide(m[i, j, c])
                y[i, q, j] = narrow(total, y[i, q, j])


@njit_any_order
def add_sums(x: Array, m: Array, y: Array, first: int, last: int) -> None:
    """y (n, q, d) = x (n, q, s) m of matrices first to last - 1 of m (n, s, d)."""
    s, d = m.shape[1:]
    total = np.empty(d, np.float32)
    for i in range(first, last):
        for q in range(x.shape[1]):
            total[:] = np.float32(0)
            for j in range(s):
                weight = wide(x[i, q, j])
                for c in range(d):
                    total[c] += weight * wide(m[i, j, c])
            for c in range(d):
                y[i, q, c] = narrow(total[c], y[i, q, c])


def product(x: Tensor, matrix: Tensor) -> Tensor:
    """x @ matrix, of one type and without gradients: by these kernels if there is a matrix for every few
    rows."""
    kind = x.device.type == "cpu" and x.dtype in KINDS and matrix.numel() > 0
    few = x.dim() == matrix.dim() == 3 and 0 < x.shape[1] <= FEW and len(x) == len(matrix)
    if not (kind and few and (matrix.is_contiguous() or matrix.mT.is_contiguous())):
        return x @ matrix
    y = x.new_empty(*x.shape[:2], matrix.shape[2])
    kernel, stored = (add_sums, matrix) if matrix.is_contiguous() else (add_dots, matrix.mT)
    arrays = as_array(x.contiguous()), as_array(stored), as_array(y)
    spread(lambda _, first, last: kernel(*arrays, first, last), len(x))
    return y
