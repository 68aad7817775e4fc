"""Read and write files of the safetensors format as NumPy arrays and without PyTorch.

Tensors are written one at a time, without a second copy in memory. Equal tensors and metadata give equal
bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from bytenmt.atomic_file import replace_synced
from bytenmt.config.untrusted import parse_json, printable, shown
from bytenmt.errors import CheckpointError

Array = npt.NDArray[Any]
# The names of types in a safetensors file, and the arrays that stand for them; bfloat16, which NumPy has
# not, as its bits.
TYPES: dict[str, type[np.generic]] = {
    "F64": np.float64,
    "F32": np.float32,
    "BF16": np.uint16,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}


class Entry(NamedTuple):
    """A tensor to be written: its type's name, its shape, and how to get its bytes (n,) uint8 when their turn
    comes."""

    type: str
    shape: tuple[int, ...]
    flat: Callable[[], npt.NDArray[np.uint8]]


def entry(array: Array) -> Entry:
    """An array of the types in TYPES, of any layout; uint16 counts as bfloat16."""
    return Entry(
        NAMES[array.dtype],
        array.shape,
        lambda: np.ascontiguousarray(array).reshape(-1).view(np.uint8),
    )


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file atomically, see replace_synced. Raises CheckpointError."""
    try:
        replace_synced(path, [data])
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None


def serialise(entries: Mapping[str, Entry], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a safetensors file: the header, then each tensor, widest types first, for
    alignment."""
    widths = {name: np.dtype(TYPES[entry.type]).itemsize for name, entry in entries.items()}
    order = sorted(entries, key=lambda name: (-widths[name], name))
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    start = 0
    for name in order:
        kind, shape, _ = entries[name]
        end = start + math.prod(shape) * widths[name]
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        yield entries[name].flat().data


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Read the tensors of a safetensors file, as views of one array of its bytes, and its metadata.

    Raises OSError; ValueError if it is no such file, or has types that NumPy lacks.
    """
    try:
        with safe_open(path, framework="np") as file:  # checks that header and size agree
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(printable(str(error))) from None
    data = np.fromfile(path, np.uint8)
    first = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = parse_json(data[8:first].tobytes(), unique=True)  # readers disagree about duplicate keys
    header.pop("__metadata__", None)
    arrays = {}
    for name, tensor in header.items():
        kind, (start, end) = tensor["dtype"], (first + offset for offset in tensor["data_offsets"])
        if kind not in TYPES:
            raise ValueError(f"{shown(name)} is of the type {shown(kind)}: expected {', '.join(TYPES)}")
        arrays[name] = data[start:end].view(TYPES[kind]).reshape(tensor["shape"])
    return arrays, metadata
