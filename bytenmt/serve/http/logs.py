"""The log of a server: a line for every request and every failure, as text or JSON.

It never contains texts of clients or API keys.
"""

from __future__ import annotations

import json
import logging
import re
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bytenmt.reporter import Reporter, as_json

FORMATS = ("text", "json")
PLAIN_VALUE = re.compile(r"[!#-<>-\[\]-~]+")  # printable ASCII without space, =, quotes and backslash


class ServerLog:
    """Writes lines to a reporter.

    form: one of FORMATS. requests: whether requests are logged. is_ready: returns whether a line can be
    written without waiting; lines that cannot are dropped, and their number is logged later.
    """

    def __init__(
        self,
        reporter: Reporter,
        form: str = "text",
        requests: bool = True,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._reporter, self._json, self._requests = reporter, form == "json", requests
        self._is_ready, self._n_dropped = is_ready, 0

    def say(self, event: str, level: str = "info", **more: Any) -> None:
        """Log an event with fields."""
        if not self._is_ready():
            self._n_dropped += 1
            return
        if n_dropped := self._n_dropped:
            self._n_dropped = 0
            self.say("log lines were dropped: its reader is too slow", "warning", lines=n_dropped)
        if self._json:
            line = as_json(event, level, **more)
        else:
            fields = " ".join(f"{name}={quoted(value)}" for name, value in more.items())
            line = f"bytenmt: {'' if level == 'info' else level + ': '}{event} {fields}".rstrip()
        with suppress(OSError):  # a terminal that was closed, a full disk: requests are answered all the same
            self._reporter.say(line)

    def request(self, **more: Any) -> None:
        """Log a request that was answered."""
        if self._requests:
            self.say("request", **more)


def is_stderr_ready() -> bool:
    """Return whether standard error takes a line at once, which a full pipe does not.

    select calls a pipe ready where it has room for PIPE_BUF bytes, 4,096 on Linux: lines are shorter.
    """
    try:
        return bool(select.select([], [sys.stderr], [], 0)[1])
    except (TypeError, OSError, ValueError):  # there is none, or it is no file: writing tells
        return True


def quoted(value: object) -> str:
    """Return a value of a text log so that it cannot be taken for more than one field: as it is, or as a JSON
    string in ASCII where it holds spaces, `=`, quotes or what is not printable."""
    text = str(value)
    return text if PLAIN_VALUE.fullmatch(text) else json.dumps(text)


class FromUvicorn(logging.Handler):
    """A handler of Python's logging that writes uvicorn's warnings to this log."""

    def __init__(self, log: ServerLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        why = {"error": f"{type(error).__name__}: {error}"} if error else {}
        message = record.getMessage().strip().splitlines() or [""]
        self._log.say(message[0][:300], record.levelname.lower(), **why)
