"""Weights in fewer bits: to the nearest bfloat16, or to 8 bits with a scale for each output."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LARGEST = 127  # of an int8 weight; -128 is not used, so that both signs reach as far


def quantise(matrix: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """A matrix (n_out, n_in) float32 as q (n_out, n_in) int8 from -127 to 127 and scales (n_out,) float32:
    the nearest q * scale. A row of zeros has scale 0; a number that is none stays one in its row's scale."""
    largest = np.maximum(matrix.max(axis=1), -matrix.min(axis=1)).astype(np.float32)
    scales = largest / np.float32(LARGEST)
    finite = np.isfinite(scales) & (scales > 0)
    q = np.where(finite[:, None], matrix, np.float32(0)) / np.where(finite, scales, np.float32(1))[:, None]
    return np.rint(q).clip(-LARGEST, LARGEST).astype(np.int8), scales


def round_to_bf16(values: Array) -> npt.NDArray[np.uint16]:
    """Any shape float32 -> its bits in bfloat16, to the nearest, ties to even; no number stays no number."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)
