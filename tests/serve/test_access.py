"""Test the access policy: Host and Origin headers, CORS, and client addresses behind a proxy."""

from __future__ import annotations

from typing import Any

import pytest
from made_up_service import client, made_up_server
from starlette.testclient import TestClient

from bytenmt.serve.http.access import AccessPolicy, is_loopback

HELLO = {"q": "hello", "source": "en", "target": "de"}
FOREIGN = {"origin": "https://elsewhere.example"}


@pytest.mark.parametrize(
    "name", ["localhost", "app.localhost", "127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]
)
def test_loopback_names(name: str) -> None:
    assert is_loopback(name)


@pytest.mark.parametrize(
    "name", ["", "0.0.0.0", "10.0.0.1", "127.0.0.1.nip.io", "notlocalhost", "localhost.evil.example", "::2"]
)
def test_other_names_are_not_loopback(name: str) -> None:
    assert not is_loopback(name)


def test_a_loopback_server_is_reached_by_loopback_names_alone() -> None:
    policy = AccessPolicy(loopback_only=True)
    for host in ("localhost", "LOCALHOST:5000", "127.0.0.1:80", "[::1]:5000", "[::1]", "localhost."):
        assert policy.allows_host(host), host
    for host in ("", "evil.example", "evil.example:5000", "a@localhost", "localhost/x", "[::1", "x:y", "::1"):
        assert not policy.allows_host(host), host
    named = AccessPolicy(["mt.example"], loopback_only=True)
    assert named.allows_host("MT.example:443") and named.allows_host("localhost")
    assert not named.allows_host("evil.example")


def test_another_server_checks_names_where_some_are_given() -> None:
    assert AccessPolicy().allows_host("anything") and AccessPolicy(["*"]).allows_host("anything")
    named = AccessPolicy(["mt.example"])
    assert named.allows_host("mt.example") and not named.allows_host("localhost")


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("http://localhost:5000", "localhost:5000", True),
        ("http://127.0.0.1", "127.0.0.1:80", True),
        ("https://mt.example", "mt.example", True),  # behind a proxy that speaks TLS
        ("https://mt.example:443", "MT.example", True),
        ("http://[::1]:5000", "[::1]:5000", True),
        ("http://localhost:8080", "localhost:5000", False),  # another program of this machine
        ("http://localhost", "127.0.0.1", False),
        ("http://evil.example", "localhost:5000", False),
        ("http://localhost:5000.evil.example", "localhost:5000", False),
        ("http://localhost:5000@evil.example", "localhost:5000", False),
        ("null", "localhost:5000", False),
        ("", "localhost:5000", False),
        ("null", "null", False),
        ("http://", "", False),
    ],
)
def test_origins_of_the_server_itself(origin: str, host: str, own: bool) -> None:
    assert AccessPolicy().allows_origin(origin, host) is own


def test_a_foreign_page_changes_nothing_and_reads_nothing() -> None:
    with client() as asked:
        for path in ("/translate", "/translate_file", "/suggest", "/detect"):
            for origin in (FOREIGN, {"origin": "null"}, {"origin": "http://testserver:81"}):
                refused = asked.post(path, data=HELLO, headers=origin)
                assert (refused.status_code, list(refused.json())) == (403, ["error"])
        read = asked.get("/languages", headers=FOREIGN)
        assert "access-control-allow-origin" not in read.headers
        assert read.headers["cross-origin-resource-policy"] == "same-origin"
        assert read.headers["x-content-type-options"] == "nosniff"
        asking = {**FOREIGN, "access-control-request-method": "POST"}
        assert asked.options("/translate", headers=asking).status_code == 405
        assert (
            asked.post("/translate", json=HELLO, headers={"origin": "http://testserver"}).status_code == 200
        )
        assert asked.post("/translate", json=HELLO).status_code == 200  # a program


@pytest.mark.parametrize("allowed", ["https://elsewhere.example", "*"])
def test_pages_of_sites_that_are_allowed(allowed: str) -> None:
    with client(access=AccessPolicy(allowed_origins=[allowed])) as asked:
        answer = asked.post("/translate", json=HELLO, headers=FOREIGN)
        assert answer.headers["access-control-allow-origin"] == allowed
        asking = {**FOREIGN, "access-control-request-method": "POST"}
        assert asked.options("/translate", headers=asking).status_code == 200
        other = asked.post("/translate", json=HELLO, headers={"origin": "https://third.example"})
        assert other.status_code == (200 if allowed == "*" else 403)


def test_a_name_that_leads_elsewhere_is_refused() -> None:
    """DNS rebinding: the attacker's name resolves to 127.0.0.1, and origin and host agree."""
    with client(access=AccessPolicy(loopback_only=True)) as asked:
        rebound = {"host": "evil.example:5000", "origin": "http://evil.example:5000"}
        for answer in (
            asked.get("/languages", headers=rebound),
            asked.get("/", headers=rebound),
            asked.post("/translate", json=HELLO, headers=rebound),
        ):
            assert answer.status_code == 421 and "--allowed-host" in answer.json()["error"]
        assert asked.get("/languages", headers={"host": "localhost:5000"}).status_code == 200


def logged_client(headers: dict[str, str], peer: str, proxies: list[str]) -> Any:
    """The address that the log tells of a request's client."""
    import json

    server, lines = made_up_server(trusted_proxies=proxies)
    with TestClient(server.app(), client=(peer, 1234)) as asked:
        asked.get("/health", headers=headers)
    return json.loads(lines[-1])["client"]


def test_a_trusted_proxy_tells_the_address_of_the_client() -> None:
    told = {"x-forwarded-for": "6.6.6.6, 1.2.3.4, 10.0.0.9"}
    assert logged_client(told, "10.0.0.8", ["10.0.0.0/24"]) == "1.2.3.4"  # the last that is no proxy
    assert logged_client(told, "10.0.0.8", ["10.0.0.8"]) == "10.0.0.9"
    assert logged_client(told, "9.9.9.9", ["10.0.0.0/24"]) == "9.9.9.9"  # nobody believes a client
    assert logged_client(told, "10.0.0.8", []) == "10.0.0.8"
