"""The end of a server: what is not answered in time is refused, logged and counted."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from made_up_service import SECONDS, Gate, made_up_server

from bytenmt.serve.http import server as http_server
from bytenmt.serve.http.app import Server
from bytenmt.serve.http.server import GracefulServer, listening, run
from bytenmt.serve.limits import Limits

DRAIN_SECONDS = 0.5


class Ended:
    """A server that is told to end while its engines stand still, and what it has logged."""

    def __init__(self, server: Server, address: tuple[str, int], logged: list[str]) -> None:
        self.server, self.address, self.logged = server, address, logged
        self.end = threading.Event()
        self.waited: list[float] = []  # for answers, and for refusals

    def requests(self) -> list[dict[str, Any]]:
        """Return the log's lines of requests."""
        return [one for one in map(json.loads, self.logged) if one["event"] == "request"]

    def metrics(self) -> str:
        return self.server.service.metrics.text()


@contextmanager
def ending(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> Iterator[Ended]:
    """A server in a thread; the `with` block ends when it has ended."""
    gate = Gate(open=False)
    server, logged = made_up_server("ko-en", gate=gate, limits=Limits(**limits))
    listener = listening("127.0.0.1", 0)
    listener.listen()
    found = Ended(server, listener.getsockname()[:2], logged)

    class Observed(GracefulServer):
        async def on_tick(self, counter: int) -> bool:
            self.should_exit = self.should_exit or found.end.is_set()
            return await super().on_tick(counter)

        async def _until_answered(self, seconds: float) -> None:
            found.waited.append(seconds)
            await super()._until_answered(seconds)

    monkeypatch.setattr(http_server, "GracefulServer", Observed)
    monkeypatch.setattr(http_server, "GRACE_SECONDS", SECONDS)  # however slow the machine is
    thread = threading.Thread(target=run, args=(server, listener, DRAIN_SECONDS), daemon=True)
    thread.start()
    yield found
    gate.open.set()  # for the worker's thread
    thread.join(SECONDS)
    assert not thread.is_alive()


def wait_until(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.01)


def request(accept: str, body: bytes = b'{"q": "a", "source": "ko", "target": "en"}', rest: int = 0) -> bytes:
    head = f"POST /translate HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n"
    return f"{head}content-length: {len(body) + rest}\r\n\r\n".encode() + body


def answer(connection: socket.socket) -> tuple[bytes, bytes]:
    """Return the head and the body of what comes until the server closes the connection."""
    found = b""
    while part := connection.recv(1 << 16):
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    return head, body


def test_a_request_that_is_not_answered_in_time_gets_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, after the time for draining: the two times are not added up."""
    with ending(monkeypatch) as ended, socket.create_connection(ended.address, SECONDS) as asked:
        asked.sendall(request("*/*"))
        wait_until(lambda: ended.server.service.n_requests == 1)
        ended.end.set()
        head, body = answer(asked)
    assert head.startswith(b"HTTP/1.1 503 ") and b"application/json" in head and b"retry-after: 1" in head
    assert json.loads(body) == {"error": "the server is ending: send the request again"}
    assert [one["status"] for one in ended.requests()] == [503]
    assert 'requests_total{path="translate",status="503"} 1.0' in ended.metrics()
    assert 'deadlines_total{what="drain"} 1.0' in ended.metrics()
    assert ended.waited == [DRAIN_SECONDS, SECONDS]
    assert not any("Exception" in line for line in ended.logged)


def test_a_request_that_is_still_being_sent_gets_503(monkeypatch: pytest.MonkeyPatch) -> None:
    with ending(monkeypatch) as ended, socket.create_connection(ended.address, SECONDS) as asked:
        asked.sendall(request("*/*", b"q=", rest=10))
        wait_until(lambda: ended.server.service.n_unanswered == 1)
        ended.end.set()
        assert answer(asked)[0].startswith(b"HTTP/1.1 503 ")
    assert [one["status"] for one in ended.requests()] == [503]


def test_a_stream_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with ending(monkeypatch) as ended, socket.create_connection(ended.address, SECONDS) as asked:
        asked.sendall(request("text/event-stream"))
        wait_until(lambda: ended.server.service.n_requests == 1)
        ended.end.set()
        head, body = answer(asked)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b'event: error\ndata: {"error":"the server is ending: send the request again"}\n\n' in body
    assert body.endswith(b"0\r\n\r\n"), "the stream is complete"
    assert [one["path"] for one in ended.requests()] == ["/translate"]
    assert not any("Exception" in line for line in ended.logged)


def test_a_stream_has_a_deadline_for_the_whole_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with ending(monkeypatch, request_seconds=0.2) as ended:
        with socket.create_connection(ended.address, SECONDS) as asked:
            asked.sendall(request("text/event-stream").replace(b"\r\nhost", b"\r\nconnection: close\r\nhost"))
            assert b'event: error\ndata: {"error":"not answered within 0.2 s"}' in answer(asked)[1]
        ended.end.set()
