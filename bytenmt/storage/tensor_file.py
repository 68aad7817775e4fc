"""Tensors in files of the safetensors format, each file with its SHA-256.

Tensors are written one at a time, none is held twice, and the same tensors and metadata give the same bytes.
They are read as NumPy arrays, without PyTorch.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct
from safetensors import SafetensorError, safe_open

from bytenmt.atomic_file import replace_synced
from bytenmt.config.untrusted import parse_json, printable, shown
from bytenmt.errors import CheckpointError

Array = npt.NDArray[Any]
CHUNK = 1 << 22  # bytes hashed and written at a time
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


class Stored(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that was written: its SHA-256 in hex digits and its size in bytes."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    bytes: Annotated[int, Meta(ge=0)]


def write_synced(path: Path, parts: Iterable[bytes | memoryview]) -> Stored:
    """Write a file through to the disk and tell what it holds. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with open(path, "wb") as file:
        for part in parts:
            for start in range(0, len(part), CHUNK):
                piece = part[start : start + CHUNK]
                digest.update(piece)
                file.write(piece)
                size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return Stored(digest.hexdigest(), size)


def write_atomically(path: Path, data: bytes) -> None:
    """replace_synced of a user's file. Raises CheckpointError."""
    try:
        replace_synced(path, [data])
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None


def serialised(entries: Mapping[str, Entry], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file, part by part: header first, then each tensor, widest types first so
    that all are aligned."""
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
    """Tensors, as parts of one array of the file's bytes, and metadata of a safetensors file. Raises OSError,
    or ValueError where it is not one, or holds types that NumPy has not."""
    try:
        with safe_open(path, framework="np") as file:  # checks that header and size agree
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(printable(str(error))) from None
    data = np.fromfile(path, np.uint8)
    first = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = parse_json(data[8:first].tobytes(), unique=True)  # what stands there twice is read in two ways
    header.pop("__metadata__", None)
    arrays = {}
    for name, told in header.items():
        kind, (start, end) = told["dtype"], (first + offset for offset in told["data_offsets"])
        if kind not in TYPES:
            raise ValueError(f"{shown(name)} is of the type {shown(kind)}: expected {', '.join(TYPES)}")
        arrays[name] = data[start:end].view(TYPES[kind]).reshape(told["shape"])
    return arrays, metadata


def damage(path: Path, stored: Stored) -> str | None:
    """Describe what is wrong with a file, in a few words; None where it holds what was written."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != stored.bytes:
                return f"is damaged or cut off (it has {size:,} bytes of {stored.bytes:,})"
            if hashlib.file_digest(file, "sha256").hexdigest() != stored.sha256:
                return "is damaged (its SHA-256 differs)"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None
