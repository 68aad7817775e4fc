"""What commands print on stderr: lines, and on a terminal a progress bar below them.

Off a terminal, a training prints a line every half minute, with the time of day and the time left. Imports
nothing heavy before a bar is drawn.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from bytenmt.cli.options import VERBOSE
from bytenmt.errors import printable
from bytenmt.reporter import Bar, Reporter

QUIET_SECONDS = 30.0
SHARES = "{desc}{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"  # of a bar whose total is 1


class Console(Reporter):
    """A Reporter that prints lines, of torchrun's processes only in rank 0, and bars on stderr."""

    def __init__(self) -> None:
        self._is_logging = False  # whether lines begin with the time of day

    def say(self, line: str) -> None:
        """Print a line on stderr, above a progress bar if there is one."""
        if sys.stderr is None or os.environ.get("RANK", "0") != "0":  # a job says it once
            return
        clock = f"{time.strftime('%H:%M:%S')} " if self._is_logging else ""
        line = f"{clock}{printable(line)}"
        if sys.stderr.isatty() and "tqdm" in sys.modules:  # a bar may be drawn
            sys.modules["tqdm"].tqdm.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)

    def detail(self, line: str) -> None:
        """Print a line of details, if the command has -v."""
        context = click.get_current_context(silent=True)
        if context is not None and context.meta.get(VERBOSE):
            self.say(f"bytenmt: {line}")

    @contextmanager
    def bar(self, total: float | None, unit: str, begun: float = 0.0, what: str = "") -> Iterator[Bar]:
        """Show a progress bar on a terminal; arguments as in Reporter.bar. None for `total` shows none.

        Off a terminal, work without a unit, such as a training, prints a line from time to time.
        """
        if total is None:
            yield Bar()
        elif sys.stderr is not None and sys.stderr.isatty():
            from tqdm import tqdm  # here: off a terminal its import is not worth its time

            more: dict[str, Any] = (
                {"unit": unit, "unit_scale": unit == "B"} if unit else {"bar_format": SHARES}
            )
            more |= {"desc": printable(what) or None, "leave": not what, "dynamic_ncols": True}
            with tqdm(total=total, initial=begun, file=sys.stderr, **more) as drawn:
                yield _Drawn(drawn)
        elif unit:
            yield Bar()
        else:
            self._is_logging = True
            try:
                yield _Logged(self, total, begun, what)
            finally:
                self._is_logging = False


CONSOLE = Console()


class _Drawn(Bar):
    """A progress bar on a terminal. bar: tqdm's."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def advance(self, n: float) -> None:
        self._bar.update(n)

    def show(self, done: float, text: str) -> None:
        self._bar.n = done
        self._bar.set_postfix_str(text)


class _Logged(Bar):
    """The progress of a training off a terminal: from time to time a line, with the time left once it can be
    estimated.
    """

    def __init__(self, console: Console, total: float, begun: float, what: str) -> None:
        self._console, self._total, self._begun, self._what = console, total, begun, what
        self._start = self._last = time.monotonic()

    def show(self, done: float, text: str) -> None:
        now = time.monotonic()
        if now - self._last > QUIET_SECONDS:
            self._last = now
            words = [f"{done / self._total:.0%}", text or self._what]
            if self._begun < done < self._total:
                left = (now - self._start) / (done - self._begun) * (self._total - done)
                words.append(f"{duration(left)} left")
            self._console.say(", ".join(filter(None, words)))


def duration(seconds: float) -> str:
    """Format seconds for people: 40 s, 12 min, 3 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
