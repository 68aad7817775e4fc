"""File locks for one writer at a time, which the operating system releases when their process dies.

On a file system without locks the user is warned, and no lock is taken.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bytenmt.errors import BytenmtError
from bytenmt.reporter import SILENT, Reporter

LOCK = "training.lock"  # in a run folder, while a training writes there
WITHOUT_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
MOST_TOLD = 200  # bytes that are read of the description of a lock's holder


def lock(path: Path, reporter: Reporter = SILENT) -> int | None:
    """Open or create a file for reading and writing, and lock it until it is closed.

    A symbolic link is not followed, because anyone who may write into the folder could make it point to any
    file. Returns the descriptor, or None if another process has locked the file. reporter: is told if the
    file system has no locks. Raises OSError if the file cannot be opened, ELOOP for a symbolic link.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            if not _locked(file, path, reporter):
                os.close(file)
                return None
            # The last holder may have deleted or renamed the file since it was opened here; then try again.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), os.lstat(path)):
                    return file
            os.close(file)
        except BaseException:
            with suppress(OSError):
                os.close(file)
            raise


def _locked(file: int, path: Path, reporter: Reporter) -> bool:
    """Lock an open file; return False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        reporter.warn(
            f"{path.parent} is on a file system without locks: make sure that no other process writes there"
        )
    return True


@contextmanager
def one_training(run: Path, reporter: Reporter = SILENT) -> Iterator[None]:
    """While the context is open, no other training writes into the run folder, which is created if needed.

    Raises BytenmtError if another training writes there.
    """
    made = not run.exists()
    try:
        run.mkdir(parents=True, exist_ok=True)
        file = lock(run / LOCK, reporter)
    except OSError as error:
        raise BytenmtError(f"cannot write into {run}: {error.strerror}") from None
    if file is None:
        raise in_use_error(run)
    try:
        who = f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        os.truncate(file, 0)
        os.pwrite(file, who.encode(), 0)
        yield
    finally:
        with suppress(OSError):
            (run / LOCK).unlink()  # before the lock is released: afterwards it may be another's
        os.close(file)
        if made:
            with suppress(OSError):
                run.rmdir()  # if nothing was written


def refuse_if_training(run: Path) -> None:
    """Raise BytenmtError if a training writes into the run folder."""
    try:
        file = os.open(run / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise in_use_error(run) from None
    except OSError:  # no locks here
        return
    finally:
        os.close(file)


def in_use_error(run: Path) -> BytenmtError:
    """Return the error for a run folder into which another training writes."""
    who = b""
    with suppress(OSError), open(run / LOCK, "rb") as file:
        who = file.read(MOST_TOLD)
    holder = "".join(filter(str.isprintable, who.decode("utf-8", "replace"))) or "another process"
    return BytenmtError(f"{run} is being trained by {holder}: wait for it, or give -o another folder")
