"""Files that are whole or not there: written under a temporary name beside their own, and then renamed.

Knows names and the disk; does not know what is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

SUFFIX = ".tmp"


def temporary(path: Path, unique: str = "") -> Path:
    """The name under which a file is written, in the same folder, before it gets its own. unique: where one
    process writes the same file several times at once."""
    return path.with_name(f".{path.name}.{os.getpid()}{unique}{SUFFIX}")


@contextmanager
def replacing(path: Path, *, unique: str = "", sync: bool = True) -> Iterator[BinaryIO]:
    """A file to write, which becomes `path` when the block ends well and is gone when it does not: a reader
    sees the old file or the new one, never a part.

    sync: it outlives a power cut. unique: see temporary. Raises OSError.
    """
    written = temporary(path, unique)
    try:
        with open(written, "wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(written, path)
    except BaseException:
        with suppress(OSError):
            written.unlink()
        raise
    if sync:
        sync_folder(path.parent)


def replace_synced(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write these parts, one behind the other, as `path`; see replacing. Raises OSError."""
    with replacing(path) as file:
        for part in parts:
            file.write(part)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder, new and gone, outlive a power cut. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
