"""Print lines on stderr, and on a terminal a progress bar below them.

Off a terminal, a training prints a line every half minute, with the time left. Imports nothing
heavy before a bar is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from bytenmt.cli.options import VERBOSE
from bytenmt.errors import printable
from bytenmt.reporter import Bar, Reporter

QUIET_SECONDS = 30.0  # between lines of progress off a terminal
# Formats of work whose total is 1, on a terminal and off it.
BAR_FORMAT = "{desc}{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
LINE_FORMAT = "{desc}{percentage:.0f}%{postfix}, {remaining} left"


class Console(Reporter):
    """A Reporter: prints messages and progress bars of long operations on stderr."""

    def say(self, line: str) -> None:
        """Print a line on stderr, above a progress bar if there is one."""
        if sys.stderr is None:
            return
        line = printable(line)
        if sys.stderr.isatty() and "tqdm" in sys.modules:  # a bar may be drawn
            sys.modules["tqdm"].tqdm.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)

    def detail(self, line: str) -> None:
        """Print a line of details on stderr, if the command was called with -v."""
        context = click.get_current_context(silent=True)
        if context is not None and context.meta.get(VERBOSE):
            self.say(f"bytenmt: {line}")

    @contextmanager
    def bar(
        self, total: float | None, unit: str, begun: float = 0, what: str = ""
    ) -> Iterator[Bar]:
        """Show a progress bar on a terminal while the context is open; yield it to advance it.

        total: the amount of work in units; None: show nothing. unit: "B", " lines", or "" for a
        share, of which the total is 1. begun: the amount that is done already. what: the name of
        the work. Off a terminal, work with the unit "" prints a line from time to time.
        """
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        if total is None or sys.stderr is None or (unit and not is_terminal):
            yield Bar()
            return
        from tqdm import tqdm  # here: its import is not worth its time where nothing is shown

        class Lines(tqdm):  # type: ignore[misc]  # which has no types
            """Prints a line at most every QUIET_SECONDS in place of a bar."""

            monitor_interval = 0  # no thread

            def display(self, msg: str | None = None, pos: int | None = None) -> None:
                if msg is None:  # not at its end
                    print(self, file=sys.stderr, flush=True)

        options: dict[str, Any] = {"unit": unit, "unit_scale": unit == "B"}
        if not unit:
            options = {"bar_format": BAR_FORMAT, "mininterval": 0.0, "miniters": 0}
        kind = tqdm
        if not is_terminal:
            kind = Lines
            options |= dict.fromkeys(("mininterval", "delay"), QUIET_SECONDS)
            options["bar_format"] = LINE_FORMAT
        if what:
            options["desc"] = f"{printable(what)}: "
        options |= {"leave": is_terminal and not what, "dynamic_ncols": True}
        with kind(total=total, initial=begun, file=sys.stderr, **options) as drawn:
            yield Bar(drawn)


CONSOLE = Console()
