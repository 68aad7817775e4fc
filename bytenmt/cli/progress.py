"""Show the progress of long work: lines on stderr, and a bar below them on a terminal.

Off a terminal, a training prints a line every half minute, with the time of day and the time left; or JSON
records for programs. Imports nothing heavy before a bar is drawn.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bytenmt.errors import BytenmtError, printable
from bytenmt.reporter import Bar, Reporter, as_json

QUIET_SECONDS = 30.0
SHARES = "{desc}{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"  # of a bar whose total is 1


class Console(Reporter):
    """Print lines and bars on stderr."""

    def __init__(self) -> None:
        self._bars: list[Bar] = []

    def say(self, line: str) -> None:
        """Print a line; see Reporter.

        A bar gives way; off a terminal the line begins with the time of day.
        """
        if os.environ.get("RANK", "0") != "0":  # a job of several processes says it once
            return
        line = printable(line)
        shown = self._bars[-1] if self._bars else None
        if isinstance(shown, _Drawn):
            shown.bar.write(line, file=sys.stderr)
        elif isinstance(shown, _Logged):
            shown.say(line)
        else:
            _write(line)

    @contextmanager
    def bar(self, total: float, unit: str, begun: float = 0.0, what: str = "") -> Iterator[Bar]:
        """Show a progress bar; see Reporter."""
        terminal = sys.stderr is not None and sys.stderr.isatty()
        bar: Any = _Drawn(total, unit, begun, what) if terminal else Bar() if unit else _Logged(total, begun)
        self._bars.append(bar)
        try:
            yield bar
        finally:
            self._bars.remove(bar)
            if terminal:
                bar.bar.close()


class Records(Console):
    """Print JSON records on stderr, one a line, in place of lines and bars."""

    def say(self, line: str) -> None:
        """Print a record with a line; see Reporter."""
        self.tell(line)

    def warn(self, line: str) -> None:
        """Print a record with a warning; see Reporter."""
        self.tell(line, "warning")

    def tell(self, event: str, level: str = "info", **more: Any) -> None:
        """Print a record. In a job of several processes only one prints it, unless it is an error."""
        if level == "error" or os.environ.get("RANK", "0") == "0":
            _write(as_json(event, level, **more))

    @contextmanager
    def bar(self, total: float, unit: str, begun: float = 0.0, what: str = "") -> Iterator[Bar]:
        """Print records of a training's progress; see Reporter."""
        yield Bar() if unit else _Recorded(self, total, begun)


@contextmanager
def told_as(form: str) -> Iterator[Console]:
    """Yield the console for this form, text or json; with json an error that ends the work is a record
    too.
    """
    if form == "text":
        yield Console()
        return
    records = Records()
    try:
        yield records
    except BytenmtError as error:
        records.tell(str(error), "error")
        sys.exit(1)


@contextmanager
def progress(total: float | None, unit: str) -> Iterator[tuple[Bar, Reporter]]:
    """Yield a bar, if the total is known, and a reporter that prints lines above it."""
    console = Console()
    if total is None:
        yield Bar(), console
        return
    with console.bar(total, unit) as bar:
        yield bar, console


class _Drawn(Bar):
    """A progress bar on a terminal."""

    def __init__(self, total: float, unit: str, begun: float, what: str) -> None:
        from tqdm import tqdm  # here: off a terminal its import is not worth its time

        layout: dict[str, Any] = {"unit": unit, "unit_scale": unit == "B"} if unit else {"bar_format": SHARES}
        self.bar = tqdm(
            total=total,
            initial=begun,
            desc=printable(what) or None,
            leave=not what,
            dynamic_ncols=True,
            file=sys.stderr,
            **layout,
        )

    def advance(self, n: float) -> None:
        self.bar.update(n)

    def show(self, done: float, text: str) -> None:
        self.bar.n = done
        self.bar.set_postfix_str(text)


class _Logged(Bar):
    """Progress off a terminal: a line from time to time, with the time of day and, once it can be estimated,
    the time left.
    """

    def __init__(self, total: float, begun: float) -> None:
        self.total, self.begun, self.done = total, begun, begun
        self.started = self.said = time.monotonic()

    def show(self, done: float, text: str) -> None:
        self.done = done
        if time.monotonic() - self.said > QUIET_SECONDS:
            self.said = time.monotonic()
            self.progress(f"{done / self.total:.0%}, {text}", self.left())

    def progress(self, line: str, seconds: float | None) -> None:
        """Print a line about the progress. seconds: that are left; None if that is not known yet."""
        self.say(line if seconds is None else f"{line}, {duration(seconds)} left")

    def say(self, line: str) -> None:
        _write(f"{time.strftime('%H:%M:%S')} {line}")

    def left(self) -> float | None:
        """Return the seconds that are left, or None if they cannot be estimated yet."""
        if not self.begun < self.done < self.total:
            return None
        return (time.monotonic() - self.started) / (self.done - self.begun) * (self.total - self.done)


class _Recorded(_Logged):
    """Progress as JSON records."""

    def __init__(self, records: Records, total: float, begun: float) -> None:
        super().__init__(total, begun)
        self.records = records

    def progress(self, line: str, seconds: float | None) -> None:
        left = {} if seconds is None else {"seconds_left": round(seconds)}
        self.records.tell("progress", "info", done=round(self.done / self.total, 4), **left, text=line)


def duration(seconds: float) -> str:
    """Format seconds for people: 40 s, 12 min, 3 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def _write(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)
