"""Few rows against a matrix each on a CPU: an attention's scores, or its context, of one step.

PyTorch's batched product is made for many rows; with one it reads the matrices at a fraction of the memory's
rate. These read them once, at that rate. Knows no attention.
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
    whole, zero = s // 4 * 4, np.float32(0)
    for i in range(first, last):
        for q in range(x.shape[1]):
            for j in range(0, whole, 4):
                t0 = t1 = t2 = t3 = zero
                for c in range(d):
                    z = wide(x[i, q, c])
                    t0 += z * wide(m[i, j, c])
                    t1 += z * wide(m[i, j + 1, c])
                    t2 += z * wide(m[i, j + 2, c])
                    t3 += z * wide(m[i, j + 3, c])
                y[i, q, j], y[i, q, j + 1] = narrow(t0, y[i, q, 0]), narrow(t1, y[i, q, 0])
                y[i, q, j + 2], y[i, q, j + 3] = narrow(t2, y[i, q, 0]), narrow(t3, y[i, q, 0])
            for j in range(whole, s):
                t0 = zero
                for c in range(d):
                    t0 += wide(x[i, q, c]) * wide(m[i, j, c])
                y[i, q, j] = narrow(t0, y[i, q, 0])


@njit_any_order
def add_sums(x: Array, m: Array, y: Array, first: int, last: int) -> None:
    """y (n, q, d) = x (n, q, s) m of matrices first to last - 1 of m (n, s, d)."""
    s, d = m.shape[1:]
    whole, total = s // 4 * 4, np.empty(d, np.float32)
    for i in range(first, last):
        for q in range(x.shape[1]):
            total[:] = np.float32(0)
            for j in range(0, whole, 4):
                w0, w1 = wide(x[i, q, j]), wide(x[i, q, j + 1])
                w2, w3 = wide(x[i, q, j + 2]), wide(x[i, q, j + 3])
                for c in range(d):
                    here = w0 * wide(m[i, j, c]) + w1 * wide(m[i, j + 1, c])
                    total[c] += here + (w2 * wide(m[i, j + 2, c]) + w3 * wide(m[i, j + 3, c]))
            for j in range(whole, s):
                for c in range(d):
                    total[c] += wide(x[i, q, j]) * wide(m[i, j, c])
            for c in range(d):
                y[i, q, c] = narrow(total[c], y[i, q, 0])


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
