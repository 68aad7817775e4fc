"""Standard streams and files of the commands, and lines on stderr.

Imports nothing heavy.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, TextIO

import click

from bytenmt.atomic_file import keep_mode, make_folder_of, replacing
from bytenmt.cli.options import VERBOSE
from bytenmt.errors import BytenmtError, printable


def say(text: object) -> None:
    """Print a text on stderr as one line: line breaks and other unprintable characters are escaped."""
    click.echo(printable(text), err=True)


def detail(text: object, tell: Callable[[str], None] = say) -> None:
    """Print a line on stderr, or pass it to `tell`, if -v was given."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(VERBOSE):
        tell(f"bytenmt: {text}")


def stream_of(path: Path | None) -> Path | None:
    """Return None for `-`, which means the standard stream, as if the option were left out."""
    return None if path == Path("-") else path


def standard_input() -> BufferedReader:
    """Open standard input with a reader of its own.

    Python's own, sys.stdin.buffer, has a lock that a waiting thread would hold while the program ends, which
    Python takes for a fatal error.
    """
    if sys.stdin is None:
        raise BytenmtError("standard input is closed: name an input file by -i FILE")
    return open(sys.stdin.fileno(), "rb", closefd=False)


def standard_input_size() -> int | None:
    """Return the bytes of standard input from here on if it is a regular file, else None (a pipe or
    terminal).
    """
    status = _regular(sys.stdin)
    return None if status is None else status.st_size - os.lseek(sys.stdin.fileno(), 0, os.SEEK_CUR)


def check_output(output: Path | TextIO | None, *inputs: Path | TextIO | None) -> None:
    """Raise BytenmtError where an output is one of the inputs or cannot be written; make its folder.

    They are paths or standard streams; None is left out.
    """
    if isinstance(output, Path) and output.is_dir():
        raise BytenmtError(f"{output} is a directory: give the name of a file to write")
    written = _regular(output)
    for read in filter(None, map(_regular, inputs)):
        if written is not None and os.path.samestat(read, written):
            name = output if isinstance(output, Path) else "standard output"
            raise BytenmtError(f"{name} is the input too: give another file for the output")
    if isinstance(output, Path):
        make_folder_of(output)


def _regular(file: Path | TextIO | None) -> os.stat_result | None:
    """Return the status of a regular file or standard stream; None for anything else."""
    try:
        status = os.stat(file) if isinstance(file, Path) else os.fstat(file.fileno()) if file else None
    except (OSError, ValueError):  # not there, or no file of the operating system
        return None
    return status if status is not None and stat.S_ISREG(status.st_mode) else None


@contextmanager
def writer(path: Path | None) -> Iterator[BinaryIO]:
    """Open standard output, or a file that appears only when it is complete."""
    if path is None:
        if sys.stdout is None:
            raise BytenmtError("standard output is closed: name an output file by -o FILE")
        yield sys.stdout.buffer
        return
    if path.exists() and not path.is_file():  # a device or a pipe, such as /dev/stdout
        with open(path, "wb") as file:
            yield file
        return
    with replacing(path.resolve(), sync=False) as file:  # a link stays one
        yield file


@contextmanager
def resumable_writer(path: Path, resume: bool) -> Iterator[tuple[BinaryIO, int]]:
    """Open .NAME.part beside a file, which becomes the file when it is complete; yield it and its lines.

    resume: keep the whole lines that an interrupted command has written there.
    """
    path = path.resolve()  # a link stays one
    part = path.with_name(f".{path.name}.part")
    with open(part, "r+b" if resume and part.exists() else "w+b") as file:
        n_lines = n_bytes = 0
        for line in file:
            if line.endswith(b"\n"):
                n_lines, n_bytes = n_lines + 1, n_bytes + len(line)
        file.truncate(n_bytes)
        file.seek(n_bytes)
        try:
            yield file, n_lines
            keep_mode(file.fileno(), path)
        except BaseException:
            if file.tell():
                say(f"bytenmt: what is translated is kept in {part}: continue with --resume")
            else:
                part.unlink(missing_ok=True)
            raise
    os.replace(part, path)
