"""Shared parts of the commands: the group, files, and errors as one line with an exit code.

Imports nothing heavy.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import click

from bytenmt.atomic_file import keep_mode, make_folder_of, replacing
from bytenmt.cli.options import VERBOSE, common_options
from bytenmt.errors import BytenmtError, missing_package, printable

INTERRUPTED, BROKEN_PIPE = 130, 141  # exit codes, as a shell gives them: 128 + the signal


class Group(click.Group):
    """A group of commands with -q, -v and --plugin."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += common_options()


class MainGroup(Group):
    """The main group: imports the modules of commands on demand and reports an error as one line.

    modules: names of the commands and of the modules in this package that define them.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._modules)

    def get_command(self, ctx: click.Context | None, name: str) -> click.Command | None:
        if name not in self._modules:
            return None
        found = getattr(import_module(f"{__package__}.{self._modules[name]}"), name.replace("-", "_"))
        assert isinstance(found, click.Command)
        return found

    def every(self) -> dict[str, click.Command]:
        """Return all commands by name; imports their modules."""
        found = {name: self.get_command(None, name) for name in self._modules}
        return {name: command for name, command in found.items() if command is not None}

    def main(self, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> Any:
        """Run a command, and end with its exit code; standalone_mode=False: only if it is not 0."""
        is_alone = more.pop("standalone_mode", True)
        try:
            run: Any = super().main  # whose type knows only some of these arguments
            code = run(args, *rest, standalone_mode=False, **more)
        except Exception as error:
            code = _report(error)
        if is_alone or code:
            sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            # Whoever read our output has gone; Python would complain when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            ctx.exit(BROKEN_PIPE)


def _report(error: Exception) -> int:
    """Print one line about an error and return the exit code; raise one that is a fault of the program."""
    match error:
        case click.ClickException():
            shown = error.format_message()
            if not (shown.isprintable() or isinstance(error, click.exceptions.NoArgsIsHelpError)):
                error = click.UsageError(printable(shown), getattr(error, "ctx", None))
            error.show()
            return error.exit_code
        case BytenmtError():
            line = str(error)
        case ModuleNotFoundError():
            line = missing_package(error)
        case MemoryError():
            line = "out of memory: use smaller batches (--max-tokens, --buffer-size), or a larger machine"
        case OSError():
            line = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        case _:
            raise error
    say(f"bytenmt: {line}")
    return 1


def say(text: object) -> None:
    """Print a line on stderr; names and texts in it may contain any characters."""
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
