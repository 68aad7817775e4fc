"""Shared parts of the commands: files, verbosity, and errors as one line with an exit code.

Imports nothing heavy.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import click
from click.shell_completion import CompletionItem

from bytenmt.atomic_file import keep_mode, make_folder_of, replacing
from bytenmt.errors import BytenmtError, missing_package, printable
from bytenmt.plugins import load_plugins

INTERRUPTED, BROKEN_PIPE = 130, 141  # exit codes, as a shell gives them: 128 + the signal
QUIET, VERBOSE = "bytenmt.quiet", "bytenmt.verbose"  # in click's meta, which a group and its command share
GENERAL = "General options"  # heading of the options that every command has
_headings: dict[click.Parameter, str] = {}  # of options that --help lists under a heading of their own


def under_heading(heading: str, parameters: Sequence[click.Parameter]) -> None:
    """Let --help list these options under a heading instead of "Options"."""
    _headings.update(dict.fromkeys(parameters, heading))


def common_options() -> list[click.Parameter]:
    """Return the options -q, -v and --plugin, which may stand before or after the name of a command."""

    def callback(name: str) -> Callable[[click.Context, click.Parameter, bool], None]:
        def store(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
            ctx.meta[name] = is_set or ctx.meta.get(name, False)

        return store

    def load(ctx: click.Context, _: click.Parameter, names: tuple[str, ...]) -> None:
        if not ctx.resilient_parsing:
            load_plugins(names)

    plugin = click.Option(
        ["--plugin"],
        metavar="MODULE|FILE.py",
        multiple=True,
        is_eager=True,  # what it adds may be named by other options
        expose_value=False,
        callback=load,
        help="Load a plugin, a Python module or file, before the options are read; may be repeated.",
    )
    flags = (
        (QUIET, "Print only errors on stderr."),
        (VERBOSE, "Print details on stderr, such as the chosen engine."),
    )
    options: list[click.Parameter] = [
        plugin,
        *(
            click.Option(
                [f"-{name[8]}", f"--{name[8:]}"],
                is_flag=True,
                expose_value=False,
                callback=callback(name),
                help=help,
            )
            for name, help in flags
        ),
    ]
    under_heading(GENERAL, options)
    return options


class Command(click.Command):
    """A command with -q, -v and --plugin, whose --help lists options under headings."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += common_options()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each heading, in the order in which the headings occur first."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            default = GENERAL if "--help" in parameter.opts else "Options"
            if record is not None:
                sections.setdefault(_headings.get(parameter, default), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        if not ctx.meta[QUIET]:
            return super().invoke(ctx)
        if ctx.meta[VERBOSE]:
            raise click.UsageError("--quiet and --verbose: give one of them.", ctx)
        # Whatever writes notes or progress writes them to sys.stderr; errors are told behind this.
        with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
            return super().invoke(ctx)


class SubGroup(click.Group):
    """A group of commands, each with -q, -v and --plugin."""

    command_class = Command

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += common_options()


class CommandGroup(click.Group):
    """The main group: imports the modules of commands on demand and reports a BytenmtError as one line.

    modules: names of the commands and of the modules in this package that define them.
    """

    command_class = Command

    def __init__(self, *args: Any, modules: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += common_options()
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._modules)

    def get_command(self, ctx: click.Context | None, name: str) -> click.Command | None:
        if name not in self._modules:
            return None
        command = getattr(import_module(f"{__package__}.{self._modules[name]}"), name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def every(self) -> dict[str, click.Command]:
        """Return all commands by name; imports their modules."""
        found = {name: self.get_command(None, name) for name in self._modules}
        return {name: command for name, command in found.items() if command is not None}

    def main(self, *args: Any, **more: Any) -> Any:
        try:
            return super().main(*args, **more)
        except OSError as error:  # of --help and --version, which click writes before `invoke`
            _tell(error)
            sys.exit(1)
        except BytenmtError as error:  # of --plugin before the command
            click.echo(f"bytenmt: {error}", err=True)
            sys.exit(1)

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _printable_usage():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _printable_usage():
                return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever read our output has gone; Python would complain when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            ctx.exit(BROKEN_PIPE)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BytenmtError as error:
            click.echo(f"bytenmt: {error}", err=True)
        except ModuleNotFoundError as error:
            say(f"bytenmt: {missing_package(error)}")
        except MemoryError:
            say(
                "bytenmt: out of memory: use smaller batches (--max-tokens, --buffer-size), or a machine"
                " with more memory"
            )
        except OSError as error:
            _tell(error)
        ctx.exit(1)


def say(text: object) -> None:
    """Print a line on stderr; names and texts in it may contain any characters."""
    click.echo(printable(text), err=True)


def detail(text: object, tell: Callable[[str], None] = say) -> None:
    """Print a line on stderr, or pass it to `tell`, if -v was given."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(VERBOSE):
        tell(f"bytenmt: {text}")


def _tell(error: OSError) -> None:
    say(f"bytenmt: {f'{error.filename}: ' if error.filename else ''}{error.strerror}")


@contextmanager
def _printable_usage() -> Iterator[None]:
    """Make the values that click repeats in usage errors printable."""
    try:
        yield
    except click.UsageError as error:
        told = error.format_message()
        if told.isprintable() or (error.ctx is not None and error.message == error.ctx.get_help()):
            raise
        raise click.UsageError(printable(told), error.ctx) from None


def dash(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
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
    if sys.stdin is None:
        return None
    status = os.fstat(sys.stdin.fileno())
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_size - os.lseek(sys.stdin.fileno(), 0, os.SEEK_CUR)


def check_output(output: Path | None, *inputs: Path | None) -> None:
    """Raise BytenmtError where `output` is one of the inputs or cannot be written; make its folder."""
    if output is None:
        return
    if output.is_dir():
        raise BytenmtError(f"{output} is a directory: give the name of a file to write")
    for path in inputs:
        if path is not None and path.exists() and output.exists() and path.samefile(output):
            raise BytenmtError(f"{output} is the input too: give another file for the output")
    make_folder_of(output)


def check_streams(input: Path | None, output: Path | None) -> None:
    """Raise BytenmtError where one file is both read and written; None is the standard stream."""
    read, written = _regular(input, sys.stdin), _regular(output, sys.stdout)
    if read is not None and written is not None and os.path.samestat(read, written):
        raise BytenmtError(
            f"{output or 'standard output'} is the input too: give another file for the output"
        )


def _regular(path: Path | None, stream: TextIO | None) -> os.stat_result | None:
    """Return the status of a regular file or standard stream; None for anything else."""
    try:
        status = os.stat(path) if path is not None else os.fstat(stream.fileno()) if stream else None
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


def commit() -> list[str]:
    """Return ["commit …"] in a source checkout, with -dirty if it has changes; else an empty list."""
    checkout = Path(__file__).parents[2]
    if not (checkout / ".git").exists():
        return []
    command = ["git", "--no-optional-locks", "-C", str(checkout), "describe", "--always", "--dirty"]
    try:
        said = subprocess.run([*command, "--exclude=*"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return [f"commit {said.stdout.strip()}"]


def completing(names: Sequence[str], files: bool = False) -> Callable[..., list[CompletionItem]]:
    """Return a function that completes a word in the shell from names, and from files if `files`."""

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
        items = [CompletionItem(name) for name in names if name.startswith(begun)]
        return items + ([CompletionItem(begun, type="file")] if files else [])

    return complete
