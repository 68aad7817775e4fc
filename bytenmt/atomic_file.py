"""Write files atomically, by renaming a temporary file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bytenmt.errors import CheckpointError

SUFFIX = ".tmp"


@contextmanager
def replace_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary binary file for writing, which replaces `path` when the context ends.

    After an exception the new file is deleted and `path` stays as it was. Readers see the old file
    or the complete new one, which is flushed to the disk, so that it survives a power cut. Raises
    OSError.
    """
    written = path.with_name(f".{path.name}.{os.getpid()}{SUFFIX}")
    written.unlink(missing_ok=True)  # left by a killed process with the same id
    try:
        # "x" creates the file: a symbolic link that somebody has put there is not followed.
        with open(written, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(written, path)
    except BaseException:
        with suppress(OSError):
            written.unlink()
        raise
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, *parts: bytes | memoryview) -> None:
    """Replace the file `path` atomically by the concatenated parts. Raises CheckpointError."""
    try:
        with replace_atomically(path) as file:
            for part in parts:
                file.write(part)
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None
