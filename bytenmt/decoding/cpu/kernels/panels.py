"""Pack weight matrices into panels of 64 outputs, in float32 or int8.

The 64 outputs of a panel stand together: the weights of one input, or in int8 of the four inputs
that an instruction takes at once, are contiguous. gemm.py multiplies with panels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bytenmt.kernel_constants import PANEL, PRECISIONS

Bytes = npt.NDArray[np.uint8]

STEP_BYTES = 4 * PANEL  # weights of the inputs that a product takes at once, in every precision
FP32 = PRECISIONS.index("fp32")  # codes of precisions
INT8 = PRECISIONS.index("int8")
VECTOR_INPUTS = 16  # numbers of a vector
TILE_ROWS = 96  # rows that are multiplied with a panel before the next panel
ROW_HEADER_BYTES = 64  # bytes before the inputs of a prepared row, see microkernels.Int8
MAX_INPUT_BYTES = 2  # of an input of a prepared row, see microkernels.Int8Wide
ZERO_BYTE = 128  # the byte that stands for 0 in int8 panels, which are unsigned


def pack(matrix: npt.NDArray[Any]) -> Bytes:
    """Return a matrix (n_out, n_in) in the order in which kernels read it, as bytes.

    float32: [panel][input][64 outputs]; int8, without its scales: [panel][input / 4][64][4], where
    128 is added to the integers. The last panel is padded with zeros.
    """
    n_out, n_in = matrix.shape
    values = matrix
    together = 1  # inputs of an output that stand together
    zero = 0
    if matrix.dtype == np.int8:
        values = matrix.view(np.uint8) ^ np.uint8(ZERO_BYTE)
        together = 4
        zero = ZERO_BYTE
    n_groups = -(-n_in // together)
    panels = np.full((-(-n_out // PANEL), n_groups, PANEL, together), zero, values.dtype)
    for panel in range(len(panels)):  # one by one: transposing all at once misses the caches
        part = values[panel * PANEL : (panel + 1) * PANEL]
        whole = np.full((len(part), n_groups * together), zero, values.dtype)
        whole[:, :n_in] = part
        panels[panel, :, : len(part)] = whole.reshape(len(part), n_groups, together).swapaxes(0, 1)
    return panels.reshape(-1).view(np.uint8)


def row_bytes(n_in: int, input_bytes: int) -> int:
    """Return the size in bytes of a row of inputs that is rounded to integers for an int8 product.

    It has a header and n_in inputs of input_bytes each, which fill whole vectors and cache lines.
    """
    padded_inputs = (n_in + VECTOR_INPUTS - 1) // VECTOR_INPUTS * VECTOR_INPUTS
    return ROW_HEADER_BYTES + (padded_inputs * input_bytes + 63) // 64 * 64


def scratch_bytes(n_in: int, rows: int = TILE_ROWS) -> int:
    """Return the bytes of temporary memory of a product of up to `rows` rows of n_in inputs.

    They suffice for gemm.linear_panels in any precision; by default, for any number of rows.
    """
    return min(rows, TILE_ROWS) * row_bytes(n_in, MAX_INPUT_BYTES)
