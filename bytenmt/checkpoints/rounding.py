"""Round weights to 8 bits with a scale for each output."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LARGEST = 127  # absolute value of an int8 weight; -128 is not used, so that the range is symmetric


def quantise(matrix: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """Quantise a matrix (n_out, n_in) float32 to int8: return q (n_out, n_in), -127 to 127, and scales
    (n_out,).

    q * scales[:, None] approximates the matrix. A row of zeros has scale 0; NaN makes its row's scale NaN.
    """
    largest = np.maximum(matrix.max(axis=1), -matrix.min(axis=1)).astype(np.float32)
    scales = largest / np.float32(LARGEST)
    finite = np.isfinite(scales) & (scales > 0)
    q = np.where(finite[:, None], matrix, np.float32(0)) / np.where(finite, scales, np.float32(1))[:, None]
    return np.rint(q).clip(-LARGEST, LARGEST).astype(np.int8), scales
