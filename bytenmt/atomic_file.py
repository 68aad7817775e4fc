"""Write files atomically, by renaming a temporary file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bytenmt.errors import BytenmtError, CheckpointError

SUFFIX = ".tmp"


@contextmanager
def replace_atomically(path: Path, *, sync: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary binary file for writing, which replaces `path` when the context ends; after an
    exception it is deleted and `path` stays as it was.

    Readers see the old file or the complete new one, which has the permissions of the old one. sync: flush it
    to the disk, so that it survives a power cut. Raises OSError.
    """
    written = path.with_name(f".{path.name}.{os.getpid()}{SUFFIX}")
    written.unlink(missing_ok=True)  # left by a killed process with the same id
    try:
        # "x" creates the file: a symbolic link that somebody has put there is not followed.
        with open(written, "xb") as file:
            keep_mode(file.fileno(), path)
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
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def keep_mode(descriptor: int, path: Path) -> None:
    """Give an open file the permissions of the file that it is going to replace, if there is one."""
    with suppress(OSError):  # of file systems without permissions, too
        os.fchmod(descriptor, stat.S_IMODE(os.stat(path).st_mode))


def write_atomically(path: Path, *parts: bytes | memoryview) -> None:
    """Replace the file `path` by the concatenated parts in one step, flushed to the disk: readers see the old
    file or the whole new one. Raises CheckpointError where it cannot be written."""
    try:
        with replace_atomically(path) as file:
            for part in parts:
                file.write(part)
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None


def make_folder_of(path: Path) -> None:
    """Create the folder that contains the file `path`, and its parents, if missing. Raises BytenmtError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BytenmtError(
            f"cannot write {path}: the folder {path.parent} cannot be created ({error.strerror})"
        ) from None
