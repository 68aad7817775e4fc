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

# The largest absolute value of an int8 weight; -128 is not used, so that the range is symmetric.
MAX_INT8 = 127
# Suffixes of direction and length of a matrix with weight normalisation.
DIRECTION_SUFFIX = ".v"
LENGTH_SUFFIX = ".g"


def convert(
    run: Path,
    output: Path,
    precision: str,
    flags: FlagThresholds | None = None,
    words: SourceWords | None = None,
) -> list[str]:
    """Convert a model to a weights file with matrices in "fp32" or "int8" (precision).

    run: a run folder, of which the best weights are read, or a weights file; output: the new file.
    flags: thresholds beyond which translations are flagged; words: words that the model knows; they
    are stored instead of those in the model's file, which None keeps. Returns lines of text for the
    user. Raises BytenmtError without writing anything.
    """
    file, contents = read_run(run)
    prepare_output(output, [file, *run.glob("*.safetensors")])
    facts = contents.facts.without_folders()
    if flags is not None:
        facts = msgspec.structs.replace(facts, flags=flags)
    if words is not None:
        facts = msgspec.structs.replace(facts, words=words)
    write_rounded(output, restore_weights(contents.arrays), contents.config, facts, precision)
    n_before = file.stat().st_size
    n_after = output.stat().st_size
    return [f"{output}: {n_after:,} bytes in {precision}, of {n_before:,} in {contents.precision}"]


def write_rounded(
    output: Path, arrays: Mapping[str, Array], config: Config, facts: Facts, precision: str
) -> None:
    """Write float32 weights, by name, as a weights file in the precision "fp32" or "int8".

    config, facts: stored in it. Raises CheckpointError if it cannot be written.
    """
    write_weights_file(output, round_arrays(arrays, precision), config, facts, precision)


def round_arrays(arrays: Mapping[str, Array], precision: str) -> dict[str, Array]:
    """Convert a model's finite float32 weights, by name, to the arrays stored in a weights file.

    precision: "fp32", or "int8": then each matrix becomes an int8 array and a float32 array of
    scales, one a row. weights.restore_weights undoes it, up to rounding.
    """
    arrays = without_zero_rows(arrays)
    if precision == "fp32":
        return arrays
    stored: dict[str, Array] = {}
    for name, array in arrays.items():
        direction = name.removesuffix(LENGTH_SUFFIX) + DIRECTION_SUFFIX
        if name.endswith(LENGTH_SUFFIX) and direction in arrays:
            continue  # handled together with its direction
        length = name.removesuffix(DIRECTION_SUFFIX) + LENGTH_SUFFIX
        if name.endswith(DIRECTION_SUFFIX) and length in arrays:
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
    restored = restore_weights(stored)[name].astype(np.float64)
    lengths = np.linalg.norm(restored, axis=1).astype(np.float32)
    is_zero = lengths == 0
    if is_zero.any():
        folded[is_zero, 0] = 1
        stored = _rounded(name, folded)
    stored[name] = stored[name].reshape(v.shape)
    return stored | {length: lengths}


def quantise(matrix: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """Quantise a matrix (n_out, n_in) float32 to int8; return q (n_out, n_in) and scales (n_out,).

    q is -127 to 127. q * scales[:, None] approximates the matrix. A row of zeros has scale 0; NaN
    makes its row's scale NaN.
    """
    largest = np.maximum(matrix.max(axis=1), -matrix.min(axis=1)).astype(np.float32)
    scales = largest / np.float32(MAX_INT8)
    finite = np.isfinite(scales) & (scales > 0)
    numerators = np.where(finite[:, None], matrix, np.float32(0))
    divisors = np.where(finite, scales, np.float32(1))
    q = np.rint(numerators / divisors[:, None])
    return q.clip(-MAX_INT8, MAX_INT8).astype(np.int8), scales
