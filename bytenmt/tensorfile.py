"""Files that are whole or not there: bytes, and tensors in the safetensors format, each with its SHA-256.

Tensors are streamed: one at a time is copied from its device, none is held twice, and the same tensors
and metadata give the same bytes. Knows no models, no configuration and no run folders.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import torch
from msgspec import Meta, Struct
from safetensors import safe_open
from torch import Tensor

from bytenmt.errors import CheckpointError

CHUNK = 1 << 22  # bytes hashed and written at a time
NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Stored(Struct, frozen=True, forbid_unknown_fields=True):
    """What was written into a file: its SHA-256 in hex digits and its size in bytes."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    bytes: Annotated[int, Meta(ge=0)]


def temporary(path: Path) -> Path:
    """The name under which a file is written, in the same folder, before it gets its own."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


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


def sync_folder(folder: Path) -> None:
    """Make the names in a folder, new and gone, outlive a power cut. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_synced(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Temporary name, sync, rename, sync the folder: a reader sees the old file or the new one, never a
    part. Raises OSError and leaves no temporary file then."""
    try:
        write_synced(temporary(path), parts)
        os.replace(temporary(path), path)
    except OSError:
        temporary(path).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_atomically(path: Path, data: bytes) -> None:
    """replace_synced of a user's file. Raises CheckpointError."""
    try:
        replace_synced(path, [data])
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None


def pack(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file, part by part: header first, then each tensor, widest types first so
    that all are aligned. Tensors of any shape, device and layout, of the types in NAMES."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    start = 0
    for name in order:
        tensor = tensors[name]
        end = start + tensor.numel() * tensor.element_size()
        shape = list(tensor.shape)
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        flat = tensors[name].detach().cpu().contiguous().reshape(-1)
        yield flat.view(torch.uint8).numpy().data


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors, on the CPU, and metadata of a safetensors file. Raises OSError or
    SafetensorError."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, file.metadata() or {}


def damage(path: Path, stored: Stored) -> str | None:
    """What is wrong with a file, in a few words; None where it holds what was written."""
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
