"""The port at which a training shows its metrics to Prometheus."""

from __future__ import annotations

import re
import socket
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, Gauge

from bytenmt.errors import BytenmtError
from bytenmt.prometheus import serve_metrics


def test_metrics_are_served_on_this_machine_until_the_context_closes() -> None:
    registry = CollectorRegistry()
    Gauge("answer", "The answer.", registry=registry).set(42)
    with serve_metrics(0, registry) as address:
        host, port = re.fullmatch(r"http://([\d.]+):(\d+)/metrics", address).groups()  # type: ignore[union-attr]
        assert host == "127.0.0.1"
        with urlopen(address, timeout=30) as answer:
            assert b"answer 42.0" in answer.read().splitlines()
        message = f"cannot listen on port {port}"
        with pytest.raises(BytenmtError, match=message), serve_metrics(int(port), registry):
            pass
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)), timeout=5)
