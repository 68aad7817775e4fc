"""Show the progress of long work: lines on stderr, and a bar below them on a terminal.

Off a terminal, a training prints a line every half minute, with the time of day and the time left; or JSON
records for programs. Imports nothing heavy before a bar is drawn.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from bytenmt.errors import BytenmtError, printable
from bytenmt.reporter import Bar, Reporter

QUIET_SECONDS = 30.0
SHARES = "{desc}{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"  # of a bar whose total is 1


class Console(Reporter):
    """Print lines and bars on stderr."""

    def __init__(self) -> None:
        self._is_logging = False  # whether lines begin with the time of day

    def say(self, line: str) -> None:
        """Print a line; see Reporter. A bar gives way."""
        if os.environ.get("RANK", "0") == "0":  # a job of several processes says it once
            clock = f"{time.strftime('%H:%M:%S')} " if self._is_logging else ""
            _write(f"{clock}{printable(line)}")

    def progress(self, share: float, text: str, seconds: float | None) -> None:
        """Print a line about the progress of a training.

        share: what is done, 0 to 1. seconds: what is left, None if not known yet.
        """
        left = "" if seconds is None else f"{duration(seconds)} left"
        self.say(", ".join(filter(None, (f"{share:.0%}", text, left))))

    @contextmanager
    def bar(self, total: float, unit: str, begun: float = 0.0, what: str = "") -> Iterator[Bar]:
        """Show a progress bar, or off a terminal the lines of a training; see Reporter."""
        if sys.stderr is not None and sys.stderr.isatty():
            with _Drawn(total, unit, begun, what) as bar:
                yield bar
        elif unit:
            yield Bar()
        else:
            self._is_logging = True
            try:
                yield _Logged(self, total, begun, what)
            finally:
                self._is_logging = False


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
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            # In ASCII, so that it cannot contain terminal commands.
            _write(json.dumps({"time": now, "level": level, "event": event, **more}, default=str))

    def progress(self, share: float, text: str, seconds: float | None) -> None:
        """Print a record about the progress of a training; see Console.progress."""
        left = {} if seconds is None else {"seconds_left": round(seconds)}
        self.tell("progress", "info", done=round(share, 4), **left, text=text)

    @contextmanager
    def bar(self, total: float, unit: str, begun: float = 0.0, what: str = "") -> Iterator[Bar]:
        """Print records of a training's progress; see Reporter."""
        yield Bar() if unit else _Logged(self, total, begun, what)


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
        shown = {"desc": printable(what) or None, "leave": not what, "dynamic_ncols": True}
        self._bar = tqdm(total=total, initial=begun, file=sys.stderr, **shown, **layout)

    def __enter__(self) -> _Drawn:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

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
            is_known = self._begun < done < self._total
            left = (now - self._start) / (done - self._begun) * (self._total - done) if is_known else None
            self._console.progress(done / self._total, text or self._what, left)


def duration(seconds: float) -> str:
    """Format seconds for people: 40 s, 12 min, 3 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def _write(line: str) -> None:
    if sys.stderr is None:
        return
    if sys.stderr.isatty() and "tqdm" in sys.modules:  # a bar may be drawn, which gives way
        sys.modules["tqdm"].tqdm.write(line, file=sys.stderr)
    else:
        print(line, file=sys.stderr, flush=True)
