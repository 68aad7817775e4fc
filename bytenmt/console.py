"""What the commands share: options, files in and out, and errors as one line with an exit code.

Knows click and the operating system; knows no models, and imports nothing heavy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from bytenmt.errors import BytenmtError

INTERRUPTED, BROKEN_PIPE = 130, 141  # exit codes, as a shell gives them: 128 + the signal

Command = TypeVar("Command", bound=Callable[..., Any])


class Program(click.Group):
    """Turns what can go wrong in a user's hands into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever read our output has gone; Python would complain when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            ctx.exit(BROKEN_PIPE)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BytenmtError as error:
            click.echo(f"bytenmt: {error}", err=True)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            click.echo(f"bytenmt: {where}{error.strerror}", err=True)
        ctx.exit(1)


def options(*parts: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""

    def add(command: Command) -> Command:
        for part in reversed(parts):
            command = part(command)
        return command

    return add


def dash(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """`-` is the standard stream, as if the option were left out."""
    return None if path == Path("-") else path


FILE = click.Path(path_type=Path)
MODEL = click.option(
    "-m", "--model", "run", type=FILE, required=True, help="The run folder, or a checkpoint file."
)
RUNTIME = options(
    click.option(
        "--errors",
        type=click.Choice(["replace", "strict"]),
        default="replace",
        help="Invalid UTF-8 becomes U+FFFD (replace, the default) or is an error (strict).",
    ),
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        help="auto, the default, takes a GPU where there is one.",
    ),
    click.option("--threads", type=click.IntRange(1), help="CPU threads."),
)
# Short names of `--set train.…`; left out, they are None and the configuration holds.
TRAINING = options(
    click.option("--lr", type=click.FloatRange(0, min_open=True), help="Learning rate at its highest."),
    click.option("--max-tokens", type=click.IntRange(1), help="Bytes of a batch, over all processes."),
    click.option("--update-freq", type=click.IntRange(1), help="Batches an update."),
    click.option("--max-updates", type=click.IntRange(0), help="Updates in all; 0 is no limit."),
    click.option(
        "--max-minutes",
        type=click.FloatRange(0, min_open=True),
        help="Minutes of training in all, resumed or not.",
    ),
    click.option("--patience", type=click.IntRange(0), help="Validations to wait for a better one."),
    click.option("--seed", type=click.IntRange(0), help="Of all that is random."),
)
# Left out, they are None, and the Translator's own defaults hold.
DECODING = options(
    click.option(
        "-b",
        "--beam-size",
        "--beam",
        "beam",
        type=click.IntRange(1),
        help="Hypotheses kept; 1, the default, is greedy search.",
    ),
    click.option(
        "--length-penalty",
        "--lenpen",
        "length_penalty",
        type=click.FloatRange(0, 10),
        help="Hypotheses are ranked by log p / length ** this; default 1.",
    ),
    click.option(
        "--max-len-a",
        type=click.FloatRange(0, 1000),
        help="Output of at most a * |source| + b bytes; a is 3 by default.",
    ),
    click.option("--max-len-b", type=click.IntRange(0), help="b of the same; 100 by default."),
    click.option(
        "--max-source-bytes",
        type=click.IntRange(4),
        help="A longer line is translated in pieces; default: as trained.",
    ),
    click.option(
        "--max-tokens",
        type=click.IntRange(1),
        help="Source bytes of a batch, padding and each beam counted; default 16000.",
    ),
)


def standard_input() -> BinaryIO:
    """Standard input under a reader of its own.

    Python's own, sys.stdin.buffer, has a lock that a waiting thread would hold while the program
    ends, which Python takes for a fatal error.
    """
    if sys.stdin is None:
        raise BytenmtError("standard input is closed: give the text by -i FILE")
    return open(sys.stdin.fileno(), "rb", closefd=False)


def check_output(output: Path | None, *inputs: Path | None) -> None:
    """Raise BytenmtError where `output` cannot be written or is one of the inputs."""
    if output is None:
        return
    if output.is_dir():
        raise BytenmtError(f"{output} is a directory: give the name of a file to write")
    if not output.parent.is_dir():
        raise BytenmtError(f"cannot write {output}: make the folder {output.parent} first")
    for path in inputs:
        if path is not None and path.exists() and output.exists() and path.samefile(output):
            raise BytenmtError(f"{output} is the input too: give another file for the output")


@contextmanager
def writer(path: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that is there only when it is whole."""
    if path is None:
        if sys.stdout is None:
            raise BytenmtError("standard output is closed: give a file by -o FILE")
        yield sys.stdout.buffer
        return
    path = path.resolve()  # a link stays one
    if path.exists() and not path.is_file():  # a device or a named pipe
        with open(path, "wb") as file:
            yield file
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
