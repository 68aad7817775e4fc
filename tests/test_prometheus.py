"""Numbers for Prometheus, and the server that shows them."""

from __future__ import annotations

import re
import socket
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from bytenmt.errors import BytenmtError
from bytenmt.prometheus import CONTENT_TYPE, heading, number, serving, shown


def test_lines() -> None:
    assert heading("a", "gauge", "What.") == ["# HELP bytenmt_a What.", "# TYPE bytenmt_a gauge"]
    assert number("a", 0.25) == "bytenmt_a 0.25" and number("a", 12345678) == "bytenmt_a 12345678"
    assert number("a", 1, shown({"to": 'k"o\n\\'})) == r'bytenmt_a{to="k\"o\n\\"} 1'


def test_it_is_shown_on_this_machine_until_the_end() -> None:
    with serving(0, lambda: "a 1\n") as address:
        host, port = re.fullmatch(r"http://([\d.]+):(\d+)/metrics", address).groups()  # type: ignore[union-attr]
        assert host == "127.0.0.1"
        with urlopen(address, timeout=30) as answer:
            assert answer.read() == b"a 1\n" and answer.headers["Content-Type"] == CONTENT_TYPE
        with pytest.raises(HTTPError) as refused:
            urlopen(address.replace("metrics", "else"), timeout=30)
        assert refused.value.code == 404
        refused.value.close()
        with pytest.raises(BytenmtError, match=f"port {port} cannot be listened at"), serving(int(port), str):
            pass
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)), timeout=5)
