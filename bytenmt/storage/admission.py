"""The gate of the weights: are the tensors of a file those of the model that it describes?

Names, shapes, types and numbers are held against the configuration before anything is computed from them, for
every engine and every command alike.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bytenmt.architectures.parameters import NGRAM_TABLES, TABLE, is_matrix, parameter_shapes
from bytenmt.config.schema import ModelConfig
from bytenmt.config.untrusted import shown
from bytenmt.storage.tensor_file import NAMES, Array

STORED: dict[str, str] = {
    "fp32": "F32",
    "bf16": "BF16",
    "int8": "I8",
}  # a precision: the type of its matrices
# What is added to the name of n-gram tables for a bit a row, packed as by numpy.packbits: is it stored? All
# other rows are zero.
ROWS = ":rows"
SCALE = ":scale"  # what is added to an int8 matrix' name for that of its scales
CHUNK = 1 << 16  # numbers that are looked at together: they stay in the cache
EXPONENT = np.uint16(0x7F80)  # of bfloat16: all of it set means infinite or no number

Kinds = dict[str, tuple[str, tuple[int, ...]]]  # a tensor's type and shape by its name


def expected(config: ModelConfig, precision: str, whole: str = "F32") -> Kinds:
    """Return the tensors that a weights file of a model holds, in a precision of STORED. whole: the type of
    what no conversion has made smaller."""
    kinds: Kinds = {}
    for name, shape in parameter_shapes(config).items():
        matrix = is_matrix(name, shape)
        kinds[name] = (STORED[precision] if matrix and precision != "fp32" else whole), shape
        if matrix and precision == "int8":
            kinds[name + SCALE] = "F32", shape[:1]
    return kinds


def misfit(arrays: Mapping[str, Array], config: ModelConfig, precision: str) -> str | None:
    """Describe what is wrong with the tensors of a weights file, in words that follow its name; None where
    they are those of the model, and finite. All of them may be float64, as a training in float64 leaves them.

    arrays: as they are stored, bfloat16 as its bits in uint16; precision: that of STORED that the file
    tells.
    """
    own: Kinds = {name: (NAMES[array.dtype], array.shape) for name, array in arrays.items()}
    in_doubles = precision == "fp32" and own.get(TABLE, ("F32", ()))[0] == "F64"
    kinds = expected(config, precision, "F64" if in_doubles else "F32")
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
        if not finite(array):
            return f"is not usable: {shown(name)} holds what is no number, its training has diverged"
    return None


def _stored_rows(kinds: Kinds, bits: Array | None) -> Kinds:
    """The tensors of n-gram tables as they are stored. kinds: of all rows; bits: which rows are there."""
    kind, (n_rows, d) = kinds[NGRAM_TABLES]
    n_stored = 0 if bits is None else int(np.unpackbits(bits.reshape(-1).view(np.uint8)).sum())
    found: Kinds = {NGRAM_TABLES: (kind, (n_stored, d)), NGRAM_TABLES + ROWS: ("U8", (n_rows // 8,))}
    scales = NGRAM_TABLES + SCALE
    return found | ({scales: (kinds[scales][0], (n_stored,))} if scales in kinds else {})


def finite(array: Array) -> bool:
    """Are all of an array's numbers finite, as float32 has them? bfloat16 comes as its bits, uint16; whole
    numbers always are."""
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
