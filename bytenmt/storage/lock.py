"""One writer at a time: locks on files that the operating system lets go when their process dies.

A file system without locks is told of, and trusted.
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
MOST_TOLD = 200  # bytes that are read of who holds a lock


def lock(path: Path, reporter: Reporter = SILENT) -> int | None:
    """Open a file, made where it is not there, for reading and writing, and lock it until it is closed.
    A symbolic link is not followed: whoever may write into the folder could have it lead to any file.

    Returns its descriptor; None where another one has locked it. reporter: is told where a file system has no
    locks. Raises OSError where it cannot be opened, ELOOP for a symbolic link.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            if not _locked(file, path, reporter):
                os.close(file)
                return None
            # Whoever held it may have deleted or renamed it since we opened it: then it is another file.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), os.lstat(path)):
                    return file
            os.close(file)
        except BaseException:
            with suppress(OSError):
                os.close(file)
            raise


def _locked(file: int, path: Path, reporter: Reporter) -> bool:
    """Lock an open file; whether that is done, or cannot be done here."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        reporter.warn(f"{path.parent} lies on a file system without locks: let no other process write there")
    return True


@contextmanager
def one_training(run: Path, reporter: Reporter = SILENT) -> Iterator[None]:
    """Inside, no other training writes into the run folder, which is made where it is not there. Raises
    BytenmtError where one does."""
    made = not run.exists()
    try:
        run.mkdir(parents=True, exist_ok=True)
        file = lock(run / LOCK, reporter)
    except OSError as error:
        raise BytenmtError(f"cannot write into {run}: {error.strerror}") from None
    if file is None:
        raise taken(run)
    try:
        who = f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        os.truncate(file, 0)
        os.pwrite(file, who.encode(), 0)
        yield
    finally:
        with suppress(OSError):
            (run / LOCK).unlink()  # before the lock goes: afterwards it may be another's
        os.close(file)
        if made:
            with suppress(OSError):
                run.rmdir()  # where nothing was written


def refuse_if_taken(run: Path) -> None:
    """Raise BytenmtError where a training writes into the run folder."""
    try:
        file = os.open(run / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise taken(run) from None
    except OSError:  # no locks here
        return
    finally:
        os.close(file)


def taken(run: Path) -> BytenmtError:
    """Return the message about a run folder into which another training writes."""
    who = b""
    with suppress(OSError), open(run / LOCK, "rb") as file:
        who = file.read(MOST_TOLD)
    told = "".join(filter(str.isprintable, who.decode("utf-8", "replace"))) or "another process"
    return BytenmtError(f"{run} is being trained by {told}: wait for it, or give -o another folder")
