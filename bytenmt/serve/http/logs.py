"""The log of a server: a line for every request and every failure, as text or JSON.

It never contains texts of clients or API keys.
"""

from __future__ import annotations

import json
import logging
import re
from contextlib import suppress
from typing import Any

from bytenmt.reporter import Reporter, as_json

FORMATS = ("text", "json")
PLAIN_VALUE = re.compile(r"[!#-<>-\[\]-~]+")  # printable ASCII without space, =, quotes and backslash


class ServerLog:
    """Writes lines to a reporter. form: one of FORMATS. requests: whether requests are logged."""

    def __init__(self, reporter: Reporter, form: str = "text", requests: bool = True) -> None:
        self._reporter, self._json, self._requests = reporter, form == "json", requests

    def say(self, event: str, level: str = "info", **more: Any) -> None:
        """Log an event with fields."""
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
