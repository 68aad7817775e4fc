"""Clients that leave before they are answered, over real connections; and a load of many at once."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from made_up_service import MANY_LINES, SECONDS, Gate, made_up_server, wait_for_nothing

from bytenmt.serve.http.app import Server
from bytenmt.serve.http.server import listening, run
from bytenmt.serve.limits import Limits
from tools.bench.serve import Load, _load


@contextmanager
def serving(gate: Gate, limits: Limits | None = None) -> Iterator[tuple[Server, tuple[str, int]]]:
    """A server of made-up engines in a thread, and its address."""
    listener = listening("127.0.0.1", 0)
    listener.listen()  # who comes before the thread is there waits
    server, _ = made_up_server("ko-en", gate=gate, limits=limits)
    threading.Thread(target=run, args=(server, listener, 5.0), daemon=True).start()
    yield server, listener.getsockname()[:2]


def request(text: str, accept: str) -> bytes:
    body = json.dumps({"q": text, "source": "ko", "target": "en"}).encode()
    head = f"POST /translate HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n"
    return head.encode() + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_who_leaves_is_not_decoded_for(accept: str) -> None:
    gate = Gate(open=False)
    with serving(gate) as (server, address):
        with socket.create_connection(address, timeout=SECONDS) as asked:
            asked.sendall(request(MANY_LINES, accept))
            assert gate.began.wait(SECONDS)
        wait_for_nothing(server.service)
        gate.open.set()
        with socket.create_connection(address, timeout=SECONDS) as asked:
            asked.sendall(request("하나", "*/*"))
            assert b"200 OK" in asked.recv(1 << 16)
        (worker,) = server.service.workers.values()
        assert len(gate.lines()) < 15, "lines that nobody waits for"
        assert not worker._jobs and not any(lane.jobs for lane in worker._lanes.values())


LONG = "x" * 4_000_000  # more than the kernel keeps for a connection that nobody reads
PATIENT = Limits(body=5_000_000, characters=5_000_000, send_seconds=0.5)


def small_buffer(address: tuple[str, int], data: bytes) -> socket.socket:
    """A connection that has sent data and takes little."""
    asked = socket.socket()
    asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asked.settimeout(SECONDS)
    asked.connect(address)
    asked.sendall(data)
    return asked


def asks_for_a_long_answer(address: tuple[str, int], kind: str) -> socket.socket:
    """A connection to which the server begins to send LONG; of a language into itself it is as it was."""
    data = request(LONG, "text/event-stream" if kind == "events" else "*/*")
    return small_buffer(address, data.replace(b'"ko"', b'"en"'))


def n_cut_off(server: Server) -> int:
    found = re.search(r'deadlines_total\{what="send"\} (\d+)', server.service.metrics.text())
    return int(found[1]) if found else 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["http", "events"])
def test_who_does_not_read_is_cut_off(kind: str) -> None:
    """A client that does not read holds no slot while its response is sent, and its connection is closed."""
    with serving(Gate(), PATIENT) as (server, address), asks_for_a_long_answer(address, kind) as asked:
        until = time.monotonic() + SECONDS
        while not n_cut_off(server):
            assert time.monotonic() < until, "the connection of a client that reads nothing stays"
            time.sleep(0.05)
        assert server.service.n_requests == 0
        n_read = 0
        with suppress(ConnectionResetError):
            while part := asked.recv(1 << 16):
                n_read += len(part)
        assert n_read < len(LONG)


def test_who_reads_slowly_is_not() -> None:
    """Longer than the time for sending, while it takes a part of it within that time."""
    with serving(Gate(), PATIENT) as (server, address), asks_for_a_long_answer(address, "http") as asked:
        n_read = 0
        began = time.monotonic()
        while n_read < len(LONG):
            part = asked.recv(1 << 16)
            assert part, "cut off"
            n_read += len(part)
            # 4 MB in about three seconds, six times the deadline
            time.sleep(max(0.0, began + 3 * n_read / len(LONG) - time.monotonic()))
        assert time.monotonic() - began > 2 and not n_cut_off(server)


def test_many_at_once() -> None:
    """The load of tools/bench/serve.py: connections are kept, and every line is answered."""
    with serving(Gate()) as (server, address):
        lines = [f"{number} 하나 둘" for number in range(50)]
        found = asyncio.run(_load(address, lines, ("ko", "en"), 16, 0.5))
    assert found.wrong == 0 and len(found.seconds) >= 16
    expected = sum(len(line.encode()) for line in lines) / len(lines)
    assert found.n_bytes / len(found.seconds) == pytest.approx(2 * expected + 1, rel=0.2)


def test_percentiles() -> None:
    found = Load([number / 1000 for number in range(1, 101)], 0, 0, 1.0)
    assert found.percentile(0.5) == 51 and found.percentile(0.95) == 96 and found.percentile(1.0) == 100
