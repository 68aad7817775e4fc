"""Clients that leave before they are answered, over real connections; and a load of many at once."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from made_up_service import MANY_LINES, SECONDS, Gate, made_up_server, wait_for_nothing

from bytenmt.serve.http.app import Server
from bytenmt.serve.http.server import listening, run
from tools.bench.serve import Load, _load


@contextmanager
def serving(gate: Gate) -> Iterator[tuple[Server, tuple[str, int]]]:
    """A server of made-up engines in a thread, and its address."""
    listener = listening("127.0.0.1", 0)
    listener.listen()  # who comes before the thread is there waits
    server, _ = made_up_server("ko-en", gate=gate)
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
