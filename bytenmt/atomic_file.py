"""Write files atomically, by renaming a temporary file, and read untrusted files up to a limit."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bytenmt.errors import BytenmtError

SUFFIX = ".tmp"


def temporary(path: Path, unique: str = "") -> Path:
    """Return the temporary name, in the same folder, under which a file is written.

    unique: a suffix for a process that writes the same file several times at once.
    """
    return path.with_name(f".{path.name}.{os.getpid()}{unique}{SUFFIX}")


@contextmanager
def replacing(path: Path, *, unique: str = "", sync: bool = True) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the context ends without an exception, and is deleted otherwise.

    Readers see the old file or the complete new one, which has the permissions of the old one. sync: flush it
    to the disk, so that it survives a power cut. unique: see temporary. Raises OSError.
    """
    written = temporary(path, unique)
    with suppress(FileNotFoundError):
        written.unlink()  # left by a killed process with the same id
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
        sync_folder(path.parent)


def keep_mode(descriptor: int, path: Path) -> None:
    """Give an open file the permissions of the file that it is going to replace, if there is one."""
    with suppress(OSError):  # of file systems without permissions, too
        os.fchmod(descriptor, stat.S_IMODE(os.stat(path).st_mode))


def replace_synced(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write the concatenated parts to `path` atomically; see replacing. Raises OSError."""
    with replacing(path) as file:
        for part in parts:
            file.write(part)


def make_folder_of(path: Path) -> None:
    """Create the folder of a file if it is missing. Raises BytenmtError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BytenmtError(
            f"cannot write {path}: the folder {path.parent} cannot be created ({error.strerror})"
        ) from None


def read_limited(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a file. Raises OSError where it cannot be read or has more than most_bytes."""
    with open(path, "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has over {most_bytes:,} bytes", str(path))
    return data


def sync_folder(folder: Path) -> None:
    """Flush a folder's directory entries to the disk, so that they survive a power cut. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
