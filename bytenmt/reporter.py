"""Messages and progress of long operations, which a caller's Reporter shows: see cli/console.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Bar:
    """The progress of one operation, which Reporter.bar yields. shown: a tqdm bar, or None."""

    def __init__(self, shown: Any = None) -> None:
        self._shown = shown

    def advance(self, n: float) -> None:
        """Record that n more units of work are done."""
        if self._shown is not None:
            self._shown.update(n)

    def show(self, done: float, text: str) -> None:
        """Set the number of units of work that are done, and the text behind the bar."""
        if self._shown is not None:
            self._shown.set_postfix_str(text, refresh=False)
            self._shown.update(done - self._shown.n)


class Reporter:
    """Receives messages and progress of long operations; this base class ignores them."""

    def say(self, line: str) -> None:
        """Show a line to the user."""

    def warn(self, line: str) -> None:
        """Show a line about something that may be a mistake, or that could go better."""
        self.say(f"bytenmt: warning: {line}")

    @contextmanager
    def bar(self, total: float, unit: str, begun: float = 0, what: str = "") -> Iterator[Bar]:
        """Show the progress of an operation while the context is open.

        total: the amount of work in units; begun: the amount that is done already; unit: its name
        for display, "B" or " lines", or "" if total is 1; what: the name of the operation.
        """
        yield Bar()


SILENT = Reporter()
