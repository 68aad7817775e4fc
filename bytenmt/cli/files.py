"""Standard streams and files of the commands. Imports nothing heavy."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from bytenmt.atomic_file import replace_atomically
from bytenmt.cli.console import CONSOLE
from bytenmt.errors import BytenmtError


def stream_of(path: Path | None) -> Path | None:
    """Return the path of an option, or None for a standard stream: "-", /dev/stdout or None."""
    if path in (Path("-"), Path("/dev/stdout")):
        return None
    return path


def standard_input() -> BufferedReader:
    """Open standard input for reading bytes, in place of sys.stdin.buffer.

    That one has a lock that a waiting thread would hold while the program ends, which Python takes
    for a fatal error.
    """
    if sys.stdin is None:
        raise BytenmtError("standard input is closed: name an input file by -i FILE")
    return open(sys.stdin.fileno(), "rb", closefd=False)


def check_output(output: Path | None, *inputs: Path | None) -> None:
    """Create the folder of an output file.

    None, for a standard stream or no file, is skipped. Raises BytenmtError if the file is a folder
    or one of the inputs.
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
def writer(path: Path | None) -> Iterator[BinaryIO]:
    """Open an output for writing bytes: a file, or standard output for None.

    The file replaces one of its name at the end of the context, and only if there is no error.
    """
    if path is None:
        if sys.stdout is None:
            raise BytenmtError("standard output is closed: name an output file by -o FILE")
        yield sys.stdout.buffer
        return
    if path.exists() and not path.is_file():  # a device or a pipe, such as /dev/stdout
        with open(path, "wb") as file:
            yield file
        return
    with replace_atomically(path.resolve()) as file:  # a link stays one
        yield file


@contextmanager
def resumable_writer(path: Path, resume: bool) -> Iterator[tuple[BinaryIO, int]]:
    """Open .NAME.part, which becomes the file NAME at the end of the context.

    Yields the open file and the number of lines that it has already. resume: keep the whole lines
    that an interrupted command has written there; otherwise BytenmtError is raised if there are
    some. After an error it stays, unless empty.
    """
    path = path.resolve()  # a link stays one
    part = path.with_name(f".{path.name}.part")
    if not resume and part.exists() and part.stat().st_size:
        raise BytenmtError(
            f"{part} was left by an interrupted command: continue it with --resume, or delete it"
        )
    with open(part, "r+b" if resume and part.exists() else "w+b") as file:
        n_lines = n_bytes = 0
        for line in file:
            if line.endswith(b"\n"):
                n_lines, n_bytes = n_lines + 1, n_bytes + len(line)
        file.truncate(n_bytes)
        file.seek(n_bytes)
        try:
            yield file, n_lines
        except BaseException:
            if file.tell():
                CONSOLE.say(f"bytenmt: the finished lines are kept in {part}")
            else:
                part.unlink(missing_ok=True)
            raise
    os.replace(part, path)
