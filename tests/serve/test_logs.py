"""The log of a server: no request can add fields or lines to it."""

from __future__ import annotations

import json
import os
import re
import shlex

import pytest
from heard import Heard
from made_up_service import made_up_server
from starlette.testclient import TestClient

from bytenmt.reporter import Reporter
from bytenmt.serve.http.logs import ServerLog, is_stderr_ready, quoted

FORGED = '/x status=200 client=1.2.3.4\nbytenmt: request path=/y "z\\\u2028'


@pytest.mark.parametrize("value", ["/a", "http://[::1]:5000/", 7, 0.25, None, "a,b;c'd"])
def test_plain_values_stand_as_they_are(value: object) -> None:
    assert quoted(value) == str(value)


@pytest.mark.parametrize(
    "value", ["", " ", "a b", "a=b", 'a"b', "a\\b", "a\nb", "é", "\x1b[1m", "\u2028", FORGED]
)
def test_other_values_are_json(value: str) -> None:
    assert json.loads(quoted(value)) == value and quoted(value).isascii() and quoted(value).isprintable()


def test_a_path_forges_no_fields() -> None:
    server, _ = made_up_server()
    heard = Heard()
    server.log = ServerLog(heard, "text")
    with TestClient(server.app()) as asked:
        asked.get("/x%20status=200%20client=1.2.3.4%0Abytenmt:%20request%20path=/y")
    (line,) = heard.lines
    fields = re.findall(r"(?:^| )(\w+)=", re.sub(r'"(?:[^"\\]|\\.)*"', "_", line))
    assert fields == ["method", "path", "status", "seconds", "bytes", "client"]
    assert "status=404" in shlex.split(line)


def test_a_log_that_cannot_be_written_stops_no_request() -> None:
    class Full(Reporter):
        def say(self, line: str) -> None:
            raise OSError(28, "No space left on device")

    server, _ = made_up_server()
    server.log = ServerLog(Full())
    with TestClient(server.app()) as asked:
        assert asked.get("/health").status_code == 200


def test_a_log_that_nobody_reads_stops_no_request() -> None:
    """Lines are dropped while its pipe is full, and counted when there is room again."""
    heard, is_ready = Heard(), True
    log = ServerLog(heard, "text", is_ready=lambda: is_ready)
    log.say("one")
    is_ready = False
    for _ in range(3):
        log.say("lost")
    is_ready = True
    log.say("two")
    assert heard.lines == [
        "bytenmt: one",
        "bytenmt: warning: log lines were dropped: its reader is too slow lines=3",
        "bytenmt: two",
    ]


def test_a_full_pipe_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as read, open(writer, "w") as pipe:
        monkeypatch.setattr("sys.stderr", pipe)
        assert is_stderr_ready()
        os.set_blocking(writer, False)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        assert not is_stderr_ready()
        read.read1(1 << 20)
        assert is_stderr_ready()
        monkeypatch.setattr("sys.stderr", None)
        assert is_stderr_ready()
