"""Files that are whole or not there, written under a temporary name and then renamed; and files that anybody
may have written, read up to a limit.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bytenmt.errors import BytenmtError

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
    with suppress(FileNotFoundError):
        written.unlink()  # of a killed process of the same number
    try:
        # "x" makes the file: it would not follow a link that somebody has put there.
        with open(written, "xb") as file:
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


def make_folder_of(path: Path) -> None:
    """Make the folder in which a file is to be written, where it is missing. Raises BytenmtError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BytenmtError(
            f"cannot write {path}: the folder {path.parent} cannot be made ({error.strerror})"
        ) from None


def read_limited(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a file. Raises OSError where it cannot be read or has more than most_bytes."""
    with open(path, "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has over {most_bytes:,} bytes", str(path))
    return data


def sync_folder(folder: Path) -> None:
    """Make the names in a folder, new and gone, outlive a power cut. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
