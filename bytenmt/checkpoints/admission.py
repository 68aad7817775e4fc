"""Check that the tensors of a weights file are those of the model that it describes.

Names, shapes, types and values are compared with the configuration before anything is computed from them, for
all engines and commands alike.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bytenmt.architectures.parameters import (
    NGRAM_TABLES,
    TABLE,
    buffer_kinds,
    is_matrix,
    parameter_shapes,
)
from bytenmt.checkpoints.tensor_file import NAMES, Array
from bytenmt.config.schema import ModelConfig
from bytenmt.config.untrusted import shown

STORED: dict[str, str] = {
    "fp32": "F32",
    "bf16": "BF16",
    "int8": "I8",
}  # type of the matrices, by precision
# Type of a persistent buffer in a file, by the name that PyTorch has for it.
TYPES_OF_BUFFERS = {
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
# Suffix of the tensor that tells which rows of n-gram tables are stored, one bit per row, packed as by
# numpy.packbits. All other rows are zero.
ROWS = ":rows"
SCALE = ":scale"  # suffix of the tensor with the scales of an int8 matrix
CHUNK = 1 << 16  # numbers that are checked together, which fit the cache
EXPONENT = np.uint16(0x7F80)  # exponent bits of bfloat16: all set for infinity and NaN

Kinds = dict[str, tuple[str, tuple[int, ...]]]  # type and shape of tensors by name


def expected_tensors(config: ModelConfig, precision: str, whole: str = "F32") -> Kinds:
    """Return the tensors of a model's weights file in a precision of STORED. whole: type of tensors that are
    not converted."""
    kinds: Kinds = {}
    for name, shape in parameter_shapes(config).items():
        matrix = is_matrix(name, shape)
        kinds[name] = (STORED[precision] if matrix and precision != "fp32" else whole), shape
        if matrix and precision == "int8":
            kinds[name + SCALE] = "F32", shape[:1]
    return kinds


def expected_buffers(config: ModelConfig) -> Kinds:
    """Return the persistent buffers of a model's weights file, in their own types in every precision."""
    return {
        name: (TYPES_OF_BUFFERS.get(kind.dtype, "of no type of a file"), kind.shape)
        for name, kind in buffer_kinds(config).items()
    }


def describe_misfit(arrays: Mapping[str, Array], config: ModelConfig, precision: str) -> str | None:
    """Describe what is wrong with the tensors of a weights file, as words that follow its name.

    Returns None if they are those of the model, and finite. All of them may be float64, as after a training
    in float64. arrays: as they are stored, with bfloat16 as its bits in uint16. precision: that of the file.
    """
    own: Kinds = {name: (NAMES[array.dtype], array.shape) for name, array in arrays.items()}
    in_doubles = precision == "fp32" and own.get(TABLE, ("F32", ()))[0] == "F64"
    kinds = expected_tensors(config, precision, "F64" if in_doubles else "F32")
    buffers = expected_buffers(config)
    if own.keys() & buffers.keys():  # files of earlier versions have none
        kinds |= buffers
    if NGRAM_TABLES in kinds:
        kinds |= _stored_rows(kinds, arrays.get(NGRAM_TABLES + ROWS))
    wrong = sorted(name for name in own.keys() | kinds.keys() if own.get(name) != kinds.get(name))
    if wrong:
        first = wrong[0]
        count = "1 tensor differs" if len(wrong) == 1 else f"{len(wrong)} tensors differ"
        return (
            f"does not fit the model that it describes: {count}, first {shown(first)},"
            f" which is {_describe_kind(own.get(first))}, expected {_describe_kind(kinds.get(first))}"
        )
    for name, array in arrays.items():
        # A buffer may be a mask of infinities.
        if np.isnan(array).any() if name in buffers else not is_finite(array):
            return f"is not usable: {shown(name)} holds what is no number, its training has diverged"
    return None


def _stored_rows(kinds: Kinds, bits: Array | None) -> Kinds:
    """Return the stored tensors of n-gram tables. kinds: of all rows; bits: which rows are stored."""
    kind, (n_rows, d) = kinds[NGRAM_TABLES]
    n_stored = 0 if bits is None else int(np.unpackbits(bits.reshape(-1).view(np.uint8)).sum())
    stored: Kinds = {NGRAM_TABLES: (kind, (n_stored, d)), NGRAM_TABLES + ROWS: ("U8", (n_rows // 8,))}
    scales = NGRAM_TABLES + SCALE
    return stored | ({scales: (kinds[scales][0], (n_stored,))} if scales in kinds else {})


def is_finite(array: Array) -> bool:
    """Return whether all numbers of an array are finite as float32.

    uint16 holds the bits of bfloat16; other integers are always finite.
    """
    flat = array.reshape(-1)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        if part.dtype == np.uint16:
            if ((part & EXPONENT) == EXPONENT).any():
                return False
        elif part.dtype.kind == "f":
            with np.errstate(over="ignore"):
                if not np.isfinite(part.astype(np.float32, copy=False)).all():
                    return False
    return True


def _describe_kind(kind: tuple[str, tuple[int, ...]] | None) -> str:
    """Write a type and a shape for people."""
    if kind is None:
        return "missing"
    return f"{kind[0]} {' x '.join(map(str, kind[1])) or 'of one number'}"
