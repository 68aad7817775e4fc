"""Messages and progress of long operations.

Callers of the library pass a Reporter that shows them; the base class here is silent, and cli/console.py
has one for terminals.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Bar:
    """The progress bar of one operation, which Reporter.bar yields; this base class shows nothing."""

    def advance(self, n: float) -> None:
        """Record that n more units are done."""

    def show(self, done: float, text: str) -> None:
        """Set the number of units that are done, with a short text."""


class Reporter:
    """Receives messages and progress; this base class ignores them."""

    def say(self, line: str) -> None:
        """Show a line to the user."""

    def warn(self, line: str) -> None:
        """Show a line about something that may be a mistake, or that could go better."""
        self.say(f"bytenmt: warning: {line}")

    @contextmanager
    def bar(self, total: float, unit: str, begun: float = 0, what: str = "") -> Iterator[Bar]:
        """Show the progress of an operation while the context is open.

        total: the amount of work in units. begun: the amount that is done already. unit: "B", " lines", or ""
        for a share of 1. what: the name of the operation.
        """
        yield Bar()


SILENT = Reporter()
