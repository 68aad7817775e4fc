"""The program `bytenmt`: its group of commands.

The module of a command is imported on demand, and heavy modules inside the command, so that --help
is quick. Results go to stdout, everything else to stderr; a BytenmtError is one line there and exit
code 1.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Any

import click

from bytenmt import __version__
from bytenmt.errors import BytenmtError, missing_package, printable

BROKEN_PIPE_CODE = 141  # an exit code, as a shell gives it: 128 + the signal

COMMANDS = {  # and the modules of bytenmt.cli that define them
    "train": "train",
    "adapt": "adapt",
    "translate": "translate",
    "translate-file": "translate_file",
    "translate-dataset": "translate_dataset",
    "evaluate": "evaluate",
    "predict": "language",
    "generate": "language",
    "convert": "model",
    "info": "model",
    "plot": "plot",
    "serve": "serve",
}


class MainGroup(click.Group):
    """The group of all commands: imports their modules on demand, prints an error as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted, without importing their modules."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context | None, name: str) -> click.Command | None:
        """Import the module of a command and return it; None for an unknown name."""
        if name not in COMMANDS:
            return None
        module = import_module(f"{__package__}.{COMMANDS[name]}")
        command: click.Command = getattr(module, name.replace("-", "_"))
        return command

    def every(self) -> dict[str, click.Command]:
        """Return all commands by name, for which their modules are imported."""
        return {name: command for name in COMMANDS if (command := self.get_command(None, name))}

    def main(self, *args: Any, standalone_mode: bool = True, **more: Any) -> Any:
        """Run a command and exit with its code.

        standalone_mode: False: return None instead, if the code is 0. args, more: of click's main.
        """
        try:
            run: Any = super().main  # whose type knows only some of these arguments
            code = run(*args, standalone_mode=False, **more)
        except Exception as error:
            code = _report(error)
        if standalone_mode or code:
            sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; exit with 128 + number for a signal, 141 for a closed output pipe."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # its argument is the signal, if it was another one
            ctx.exit(128 + next(iter(error.args), signal.SIGINT))
        except BrokenPipeError:
            # Whoever read our output has gone; Python would complain when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            ctx.exit(BROKEN_PIPE_CODE)


def _report(error: Exception) -> int:
    """Print a line about an error and return the exit code; raise a fault of the program again."""
    match error:
        case click.ClickException():
            message = error.format_message()
            if not (message.isprintable() or isinstance(error, click.exceptions.NoArgsIsHelpError)):
                error = click.UsageError(printable(message), getattr(error, "ctx", None))
            error.show()
            return error.exit_code
        case BytenmtError():
            line = str(error)
        case ModuleNotFoundError():
            line = missing_package(error)
        case MemoryError():
            line = (
                "out of memory: use smaller batches (--max-tokens, --buffer-size),"
                " or a larger machine"
            )
        case OSError():
            parts = [str(part) for part in (error.filename, error.strerror) if part]
            line = ": ".join(parts) or str(error)
        case _:
            raise error
    click.echo(printable(f"bytenmt: {line}"), err=True)
    return 1


@click.group(
    cls=MainGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="bytenmt")
def main() -> None:
    """Character-level translation on raw UTF-8 bytes: no tokenizer, no vocabulary."""
