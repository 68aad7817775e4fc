"""Weight matrices as panels of 64 outputs, in float32, bfloat16 or int8: packing and unpacking.

Knows bytes and their order; it does not multiply (lanes.py does) and knows no models.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

PANEL = 64  # outputs that stand together: the weights of one input are contiguous
PRECISIONS = ("fp32", "bf16", "int8")  # a precision's code is its place here
FP32, BF16, INT8 = 0, 1, 2
LARGEST = 127  # of an int8 weight; -128 is not used, so that both signs reach as far


def panel_bytes(n_in: int, precision: str) -> int:
    """Bytes of one panel of n_in inputs; without the scales of int8."""
    if precision == "bf16":
        n_in += n_in % 2  # inputs stand in pairs
    return n_in * PANEL * _WIDTH[precision]


_WIDTH = {"fp32": 4, "bf16": 2, "int8": 1}  # bytes of a weight


def pack(matrix: Array, precision: str) -> Bytes:
    """The panels of a matrix (n_out, n_in) float32, as bytes; the last is padded with zeros.

    fp32 and int8: [panel][input][64]; bf16: [panel][pair of inputs][64][2]. int8 rounds to scales that
    `quantise` tells.
    """
    n_out, n_in = matrix.shape
    n_panels = -(-n_out // PANEL)
    values: npt.NDArray[Any] = matrix.astype(np.float32, copy=False)
    if precision == "bf16":
        values, n_in = round_to_bf16(values), n_in + n_in % 2
    elif precision == "int8":
        values = quantise(matrix)[0]
    pair = 2 if precision == "bf16" else 1
    panels = np.zeros((n_panels, n_in // pair, PANEL, pair), values.dtype)
    for panel in range(n_panels):  # one after another: a transposed copy of all at once misses every cache
        part = values[panel * PANEL : (panel + 1) * PANEL]
        whole = np.zeros((len(part), n_in), values.dtype)
        whole[:, : part.shape[1]] = part
        panels[panel, :, : len(part)] = whole.reshape(len(part), -1, pair).swapaxes(0, 1)
    return panels.reshape(-1).view(np.uint8)


def unpack(panels: Bytes, n_out: int, n_in: int, precision: str, scales: Array | None = None) -> Array:
    """The matrix (n_out, n_in) float32 that the panels stand for; scales (n_out or more,) float32 of int8."""
    kind, pair = {"fp32": (np.float32, 1), "bf16": (np.uint16, 2), "int8": (np.int8, 1)}[precision]
    n_pairs = -(-n_in // pair)
    parts = panels.view(kind).reshape(-1, n_pairs, PANEL, pair).swapaxes(1, 2)
    whole = parts.reshape(-1, n_pairs * pair)[:n_out, :n_in]
    if precision == "bf16":
        return (whole.astype(np.uint32) << np.uint32(16)).view(np.float32)
    matrix = whole.astype(np.float32)
    if precision == "int8":
        if scales is None:
            raise ValueError("int8 panels need the scales that quantise made")
        matrix *= scales[:n_out, None]
    return matrix


def quantise(matrix: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """A matrix (n_out, n_in) float32 as q (n_out, n_in) int8 from -127 to 127 and scales (n_out,) float32:
    the nearest q * scale. A row of zeros has scale 0; a number that is none stays one in its row's scale."""
    largest = np.maximum(matrix.max(axis=1), -matrix.min(axis=1)).astype(np.float32)
    scales = largest / np.float32(LARGEST)
    finite = np.isfinite(scales) & (scales > 0)
    divisor = np.where(finite, scales, np.float32(1))
    q = np.rint(np.where(finite, np.float32(1), np.float32(0))[:, None] * (matrix / divisor[:, None]))
    return np.nan_to_num(q, copy=False).clip(-LARGEST, LARGEST).astype(np.int8), scales


def round_to_bf16(values: Array) -> npt.NDArray[np.uint16]:
    """Any shape float32 -> its bits in bfloat16, to the nearest, ties to even; no number stays no number."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)
