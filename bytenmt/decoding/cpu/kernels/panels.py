"""Pack weight matrices into panels of 64 outputs, in float32, bfloat16 or int8.

The 64 outputs of a panel stand together: the weights of one input, or of the two or four inputs that an
instruction takes at once, are contiguous. gemm.py multiplies with panels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bytenmt.kernel_constants import PANEL as PANEL
from bytenmt.kernel_constants import PRECISIONS

Array = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

STEP_BYTES = 4 * PANEL  # weights of the inputs that a product takes at once, in every precision
# Codes of precisions. w8a8 has the weights of int8, and inputs of 8 bits if the machine multiplies bytes.
FP32, BF16, INT8, W8A8 = (PRECISIONS.index(name) for name in ("fp32", "bf16", "int8", "w8a8"))
INTEGERS = ("int8", "w8a8")  # with a scale for each output
ZERO = 128  # the byte that stands for 0 in int8 panels, which are unsigned


# By precision: the type of numbers in a panel, and how many inputs of an output stand together.
_LAYOUT: dict[str, tuple[Any, int]] = {
    "fp32": (np.float32, 1),
    "bf16": (np.uint16, 2),
    "int8": (np.uint8, 4),
    "w8a8": (np.uint8, 4),
}


def panel_bytes(n_in: int, precision: str) -> int:
    """Return the bytes of a panel of n_in inputs, without the scales of int8."""
    kind, together = _LAYOUT[precision]
    return -(-n_in // together) * together * PANEL * int(np.dtype(kind).itemsize)


def pack(matrix: Array, precision: str) -> Bytes:
    """Return the panels of a matrix (n_out, n_in) float32, as bytes; the last one is padded with zeros.

    Layouts: fp32 [panel][input][64]; bf16 [panel][input / 2][64][2]; int8 [panel][input / 4][64][4], where
    128 is added to the integers of `quantise`. The scales are not part of the panels.
    """
    from bytenmt.checkpoints.rounding import (
        quantise,
        round_to_bf16,
    )  # imported here to keep it out of the kernels' cache key

    n_out, n_in = matrix.shape
    kind, together = _LAYOUT[precision]
    values: npt.NDArray[Any] = matrix.astype(np.float32, copy=False)
    if precision == "bf16":
        values = round_to_bf16(values)
    elif precision in INTEGERS:
        values = quantise(matrix)[0].view(np.uint8) ^ np.uint8(ZERO)
    n_groups = -(-n_in // together)
    zero = ZERO if precision in INTEGERS else 0
    panels = np.full((-(-n_out // PANEL), n_groups, PANEL, together), zero, kind)
    for panel in range(len(panels)):  # one by one: transposing all at once misses the caches
        part = values[panel * PANEL : (panel + 1) * PANEL]
        whole = np.full((len(part), n_groups * together), zero, kind)
        whole[:, :n_in] = part
        panels[panel, :, : len(part)] = whole.reshape(len(part), n_groups, together).swapaxes(0, 1)
    return panels.reshape(-1).view(np.uint8)
