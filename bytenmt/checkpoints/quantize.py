"""Convert a weights file: its matrices to int8 with a scale for each output, or back to float32.

Vectors and look-up tables stay float32. A matrix with weight normalisation is folded and rounded;
the result is stored as its direction, together with its new length, so that a model reads it like
any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from bytenmt.architectures.parameters import TABLES
from bytenmt.checkpoints.facts import Facts, FlagThresholds, SourceWords
from bytenmt.checkpoints.weights import (
    SCALE,
    Array,
    prepare_output,
    read_run,
    restore_weights,
    without_zero_rows,
    write_weights_file,
)
from bytenmt.config.schema import Config

LARGEST = 127  # absolute value of an int8 weight; -128 is not used, so that the range is symmetric
V, G = ".v", ".g"  # suffixes of direction and length of a matrix with weight normalisation


def convert(
    run: Path,
    output: Path,
    precision: str,
    flags: FlagThresholds | None = None,
    words: SourceWords | None = None,
) -> list[str]:
    """Read a run folder (its best weights) or a weights file, and write it as a weights file in a
    precision.

    precision: "fp32" or "int8", of the matrices. flags: thresholds beyond which translations are
    flagged, to store instead of the file's; None keeps these. words: that the model knows,
    likewise. Returns lines of text for the user.
    Raises BytenmtError without writing anything.
    """
    file, contents = read_run(run)
    prepare_output(output, [file, *run.glob("*.safetensors")])
    facts = contents.facts.without_folders()
    if flags is not None:
        facts = msgspec.structs.replace(facts, flags=flags)
    if words is not None:
        facts = msgspec.structs.replace(facts, words=words)
    write_rounded(output, restore_weights(contents.arrays), contents.config, facts, precision)
    before, after = file.stat().st_size, output.stat().st_size
    return [f"{output}: {after:,} bytes in {precision}, of {before:,} in {contents.precision}"]


def write_rounded(
    output: Path, arrays: Mapping[str, Array], config: Config, facts: Facts, precision: str
) -> None:
    """Round a model's float32 weights to a precision, "fp32" or "int8", and write them as a weights
    file.

    Raises CheckpointError.
    """
    rounded = round_arrays(arrays, precision)
    write_weights_file(output, rounded, config, facts, precision)


def round_arrays(arrays: Mapping[str, Array], precision: str) -> dict[str, Array]:
    """Convert a model's finite float32 weights, by name, to the arrays that a weights file of a
    precision, "fp32" or "int8", stores; weights.restore_weights turns them back, but for the
    rounding.
    """
    arrays = without_zero_rows(arrays)
    if precision == "fp32":
        return arrays
    stored: dict[str, Array] = {}
    for name, array in arrays.items():
        if name.endswith(G) and name.removesuffix(G) + V in arrays:
            continue  # handled together with its direction
        length = name.removesuffix(V) + G
        if name.endswith(V) and length in arrays:
            stored |= _rounded_norm(name, array, length, arrays[length])
        elif array.ndim < 2 or name.endswith(TABLES):
            stored[name] = array
        else:
            stored |= _rounded(name, array)
    return stored


def _rounded(name: str, array: Array) -> dict[str, Array]:
    """Return the stored tensors of a matrix (n_output, ...) float32."""
    q, scales = quantise(array.reshape(len(array), -1))
    return {name: q.reshape(array.shape), name + SCALE: scales}


def _rounded_norm(name: str, v: Array, length: str, g: Array) -> dict[str, Array]:
    """Return the stored tensors of a weight g v / |v|: v (n_output, ...), g (n_output,) float32.

    A row of zeros gets length 0 and an arbitrary direction.
    """
    flat = v.reshape(len(v), -1).astype(np.float64)
    folded = (flat * (g / np.linalg.norm(flat, axis=1))[:, None]).astype(np.float32)
    stored = _rounded(name, folded)
    lengths = np.linalg.norm(restore_weights(stored)[name].astype(np.float64), axis=1).astype(
        np.float32
    )
    nothing = lengths == 0
    if nothing.any():
        folded[nothing, 0] = 1
        stored = _rounded(name, folded)
    stored[name] = stored[name].reshape(v.shape)
    return stored | {length: lengths}


def quantise(matrix: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """Quantise a matrix (n_out, n_in) float32 to int8: return q (n_out, n_in), -127 to 127, and
    scales (n_out,).

    q * scales[:, None] approximates the matrix. A row of zeros has scale 0; NaN makes its row's
    scale NaN.
    """
    largest = np.maximum(matrix.max(axis=1), -matrix.min(axis=1)).astype(np.float32)
    scales = largest / np.float32(LARGEST)
    finite = np.isfinite(scales) & (scales > 0)
    q = (
        np.where(finite[:, None], matrix, np.float32(0))
        / np.where(finite, scales, np.float32(1))[:, None]
    )
    return np.rint(q).clip(-LARGEST, LARGEST).astype(np.int8), scales
