"""What the library tells while it works: lines for a person, and how far it is.

Who calls the library gives a Reporter that shows them (cli/progress.py has the terminal's); this one is
silent. Knows no terminal and no files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any


class Bar:
    """How far one piece of work is; shown to nobody."""

    def advance(self, n: float) -> None:
        """n more units are done."""

    def show(self, done: float, text: str) -> None:
        """So many units are done in all, and a few words on them."""


class Reporter:
    """Tells nobody."""

    def say(self, line: str) -> None:
        """A line for a person."""

    def warn(self, line: str) -> None:
        """A line on something that may be a mistake, or goes less well than it could."""
        self.say(f"bytenmt: warning: {line}")

    @contextmanager
    def bar(self, total: float, unit: str, begun: float = 0.0, what: str = "") -> Iterator[Bar]:
        """Inside, how far a piece of work is. total: in units, of which `begun` are done already; unit: "B",
        " lines", or "" for shares of 1; what: its name."""
        yield Bar()


def as_json(event: str, level: str = "info", **more: Any) -> str:
    """A record of a log: one line of JSON, in ASCII, so that nothing in it is a command for a terminal."""
    now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "level": level, "event": event, **more}, default=str)


SILENT = Reporter()
