"""Standard streams and files of the commands. Imports nothing heavy."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from bytenmt.atomic_file import replace_atomically
from bytenmt.cli.console import CONSOLE
from bytenmt.errors import BytenmtError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of a write that name no file


def stream_of(path: Path | None) -> Path | None:
    """Return a path, or None if it means a standard stream: "-", /dev/stdout or None itself."""
    return None if path in (Path("-"), Path("/dev/stdout")) else path


def standard_input() -> BufferedReader:
    """Open standard input for reading bytes, in place of sys.stdin.buffer.

    sys.stdin.buffer has a lock; if a waiting thread holds it while the program ends, Python takes
    that for a fatal error.
    """
    if sys.stdin is None:
        raise BytenmtError("standard input is closed: name an input file by -i FILE")
    return open(sys.stdin.fileno(), "rb", closefd=False)


def check_output(output: Path | None, *inputs: Path | None) -> None:
    """Check that an output file can be written, and create its folder.

    An output or input of None is skipped: it is a standard stream. Raises BytenmtError if the
    output is a folder or one of the inputs.
    """
    if output is None:
        return
    if output.is_dir():
        raise BytenmtError(f"{output} is a directory: give the name of a file to write")
    for path in inputs:
        if path is not None and path.exists() and output.is_file() and output.samefile(path):
            raise BytenmtError(f"{output} is also the input: give another file for the output")
    output.parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def output_lock(path: Path) -> Iterator[None]:
    """Lock an output file against other commands while the context is open.

    It is a lock of the operating system (flock) on .NAME.lock, and ends with the process. Raises
    BytenmtError if another command has it.
    """
    path = path.resolve()
    lock = path.with_name(f".{path.name}.lock")
    descriptor = None
    while descriptor is None:
        descriptor = _try_lock(lock, path)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _try_lock(lock: Path, output: Path) -> int | None:
    """Return the descriptor of a locked file, None if another command has deleted it meanwhile."""
    # A symbolic link that somebody has put there is not followed.
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        with suppress(OSError):  # some network file systems have no locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BytenmtError(
                    f"another command is writing {output}: wait for it, or give another file"
                ) from None
        if os.path.samestat(os.fstat(descriptor), os.lstat(lock)):
            return descriptor
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


@contextmanager
def naming(output: object) -> Iterator[None]:
    """Add the name of `output` to an OSError of a full disk that is raised inside the context."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in NO_ROOM:
            error.filename = str(output)
        raise


@contextmanager
def writer(path: Path | None) -> Iterator[BinaryIO]:
    """Open an output for writing bytes: a file, or standard output for None.

    The file replaces one of its name at the end of the context, and only if there is no error.
    Raises BytenmtError if another command is writing it.
    """
    if path is None:
        if sys.stdout is None:
            raise BytenmtError("standard output is closed: name an output file by -o FILE")
        with naming("standard output"):
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    if path.exists() and not path.is_file():  # a device or a pipe, such as /dev/stdout
        with naming(path), open(path, "wb") as file:
            yield file
        return
    path = path.resolve()  # a link stays one
    with output_lock(path), naming(path), replace_atomically(path) as file:
        yield file


@contextmanager
def resumable_writer(
    path: Path, resume: bool, options: Mapping[str, object]
) -> Iterator[tuple[BinaryIO, int]]:
    """Open .NAME.part for writing, which becomes `path`, named NAME, at the end of the context.

    Yields the open file and the number of lines that it has already. After an error .NAME.part
    stays, unless it is empty, with .NAME.options beside it.

    resume: keep the whole lines that an interrupted command has written there; otherwise
        BytenmtError is raised if there are some.
    options: those that change the lines, by name; BytenmtError is raised if they have changed.
    """
    path = path.resolve()  # a link stays one
    part = path.with_name(f".{path.name}.part")
    options_file = path.with_name(f".{path.name}.options")
    with output_lock(path), naming(path):
        if part.exists() and part.stat().st_size:
            if not resume:
                raise BytenmtError(
                    f"{part} was left by an interrupted command: continue it with --resume, or"
                    " delete it"
                )
            _check_options(part, options_file, options)
        with replace_atomically(options_file) as file:
            file.write(_to_json(options))
        with open(part, "a+b", opener=_open_no_link) as file:
            n_lines = _drop_half_line(file)
            try:
                yield file, n_lines
            except BaseException:
                if file.tell():
                    CONSOLE.say(f"bytenmt: the finished lines are kept in {part}")
                else:
                    part.unlink(missing_ok=True)
                    options_file.unlink(missing_ok=True)
                raise
        os.replace(part, path)
        options_file.unlink(missing_ok=True)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _drop_half_line(file: BinaryIO) -> int:
    """Cut off what follows the last line end; return the number of lines."""
    file.seek(0)
    n_lines = 0
    n_bytes = 0
    for line in file:
        if line.endswith(b"\n"):
            n_lines += 1
            n_bytes += len(line)
    file.truncate(n_bytes)
    file.seek(n_bytes)
    return n_lines


def _to_json(options: Mapping[str, object]) -> bytes:
    return json.dumps(options, indent=1, ensure_ascii=False, default=str).encode() + b"\n"


def _check_options(part: Path, options_file: Path, options: Mapping[str, object]) -> None:
    """Raise BytenmtError where a .part file was written with other options, or nobody knows."""
    try:
        stored = json.loads(options_file.read_bytes())
    except (OSError, ValueError):
        raise BytenmtError(
            f"{options_file} is missing, so nobody knows which options {part} was written with:"
            " delete that file to begin anew"
        ) from None
    given = json.loads(_to_json(options))
    names = [name for name in {**stored, **given} if stored.get(name) != given.get(name)]
    if names:
        name = names[0]
        raise BytenmtError(
            f"--resume: {part} was written with {name} {stored.get(name)}, not"
            f" {given.get(name)}: give the same, or delete it to begin anew"
        )
