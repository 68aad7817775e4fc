"""Limits of clients: keys, hosts and origins, shares of the queue, and deadlines."""

from contextlib import ExitStack
from typing import Any

import pytest
from made_up_service import HELLO, SSE, UPLOAD, Gate, client, made_up_app, wait_until
from starlette.testclient import TestClient

from bytenmt.serve import work_queue
from bytenmt.serve.gateway import account_of
from bytenmt.serve.work_queue import Limits, Refusal, WorkQueue

LIMITS = Limits(characters=100, queue=8)


def test_a_client_has_a_share_of_the_queue() -> None:
    """A share of the requests and of their characters; nothing is kept of clients that left."""
    queue = WorkQueue(LIMITS)
    message = "of this client are waiting: try again in 1 s"
    with queue.admitted("alice", 1), queue.admitted("alice", 1):
        with pytest.raises(Refusal, match=message) as refused, queue.admitted("alice", 1):
            pass
        assert (refused.value.status, refused.value.retry_after) == (429, 1)
        with queue.admitted("bob", 1):
            assert (queue.n_requests, queue.n_characters) == (3, 3)
    share = work_queue.MAX_LONGEST_REQUESTS * LIMITS.characters // work_queue.N_CLIENT_SHARES
    with queue.admitted("alice", share):
        with pytest.raises(Refusal, match="of this client"), queue.admitted("alice", 1):
            pass
        with ExitStack() as others:
            for name in ("bob", "carol", "dave"):
                others.enter_context(queue.admitted(name, share))
            assert queue.is_full
            with pytest.raises(Refusal, match="too many requests are"), queue.admitted("eve", 1):
                pass
    assert queue.n_requests == queue.n_characters == 0
    assert not queue._requests_of and not queue._characters_of
    with WorkQueue(Limits(queue=1)).admitted("alice", 1):  # of a short queue one
        pass


def test_retry_after_is_the_work_that_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("bytenmt.serve.work_queue.time.monotonic", lambda: now)
    early = WorkQueue(Limits())
    with early.admitted("a", 150_000), early.admitted("b", 100_000):  # before the speed is measured
        pass
    queue = WorkQueue(Limits())
    for _ in range(30):  # 50 characters a second; times without work do not count
        with ExitStack() as group:
            for _ in range(6):
                group.enter_context(queue.admitted("a", 100))
            now += 12.0
        now += 1000.0
    with pytest.raises(TimeoutError), queue.admitted("a", 9000):  # an empty queue refuses nothing
        now += 120.0
        raise TimeoutError  # it tells nothing of the speed
    message = "are waiting: try again in 30 s"
    # Though the last of a group take no time.
    with queue.admitted("a", 1000), queue.admitted("b", 500):
        assert queue.retry_after() == pytest.approx(30, abs=1)
        with pytest.raises(Refusal, match=message), queue.admitted("c", 2000):
            pass  # together more than half of the time until its deadline
    assert queue.retry_after() == 1


def test_what_counts_as_one_client() -> None:
    for address, expected in (
        ("1.2.3.4", "1.2.3.4"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::2", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ):
        assert account_of(None, (), address) == expected
    keys = ["secret", "other"]
    own, same = (account_of("secret", keys, address) for address in ("1.1.1.1", "2.2.2.2"))
    assert own == same != account_of("other", keys, "1.1.1.1") and "secret" not in own


def test_keys() -> None:
    with client(keys=["secret", "슬쩍"]) as asked:
        for key in ("", "wrong", "secret ", "secre"):
            answer = asked.post("/translate", json={**HELLO, "api_key": key})
            assert (answer.status_code, list(answer.json())) == (403, ["error"])
            assert key or "api_key, or as Authorization: Bearer" in answer.text
        ways: list[dict[str, Any]] = [
            {"json": {**HELLO, "api_key": "secret"}},
            {"json": {**HELLO, "apiKey": "슬쩍"}},
            {"params": {**HELLO, "api_key": "secret"}},
            {"json": HELLO, "headers": {"authorization": "Bearer secret"}},
        ]
        assert [asked.post("/translate", **sent).status_code for sent in ways] == [200] * 4
        assert asked.post("/detect", data={"q": "a"}).status_code == 403
        assert asked.post("/translate_file", **UPLOAD).status_code == 403
        sent = UPLOAD | {"data": {**HELLO, "api_key": "secret"}}
        url = asked.post("/translate_file", **sent).json()["translatedFileUrl"]
        assert asked.get(url).status_code == 403
        latin = {b"authorization": "Bearer 슬쩍".encode()}  # which it is not
        assert asked.get(url, headers=latin).status_code == 403
        assert asked.get(url, headers={"authorization": "Bearer secret"}).content == b"X0"
        assert asked.get("/frontend/settings").json()["keyRequired"] is True
        for path in ("/languages", "/health", "/ready", "/"):
            assert asked.get(path).status_code == 200


LOOPBACK = ["localhost", "*.localhost", "127.0.0.1", "[::1]"]
OWN = "http://localhost:5000"
FOREIGN = "https://elsewhere.example"


@pytest.mark.parametrize(
    ("names", "host", "is_allowed"),
    [
        (LOOPBACK, "localhost:5000", True),
        (LOOPBACK, "127.0.0.1", True),
        (LOOPBACK, "[::1]:5000", True),
        (LOOPBACK, "LOCALHOST", True),
        (LOOPBACK, "evil.example:5000", False),  # DNS rebinding
        (LOOPBACK, "localhost.evil.example", False),
        (LOOPBACK, "localhost@evil.example", False),
        (LOOPBACK, "", False),
        (["*"], "any.example", True),
        (["*.example.org"], "mt.example.org", True),
        (["*.example.org"], "example.com", False),
    ],
)
def test_names_of_the_server(
    names: list[str], host: str, is_allowed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Probes ask by the address alone."""
    caplog.set_level("INFO", "bytenmt.serve")
    with client(access=(names, [])) as asked:
        for answer in (
            asked.get("/", headers={"host": host}),
            asked.post("/translate", json=HELLO, headers={"host": host}),
        ):
            assert answer.status_code == (200 if is_allowed else 400)
            assert is_allowed or "--allowed-host" in answer.json()["error"]
        assert f"POST /translate {answer.status_code}" in caplog.text
        for path in ("/health", "/ready"):
            assert asked.get(path, headers={"host": host}).status_code == 200


@pytest.mark.parametrize("allowed", [(), (FOREIGN,), ("*",)])
def test_pages_of_other_sites(allowed: tuple[str, ...]) -> None:
    """They change and read nothing, unless their site is allowed; programs send no Origin."""
    with client(access=(LOOPBACK, allowed)) as asked:
        host = {"host": "localhost:5000"}

        def post(*origins: str, path: str = "/translate") -> Any:
            headers = [*host.items(), *(("origin", one) for one in origins)]
            return asked.post(path, data=HELLO, headers=headers)

        assert post().status_code == post(OWN).status_code == 200
        for path in ("/translate", "/translate_file", "/suggest", "/detect"):
            answer = post(FOREIGN, path=path)
            assert (answer.status_code == 403) == (not allowed) or path == "/suggest"
        for origin in ("null", "http://localhost:81", "http://localhost", "https://third.example"):
            assert post(origin).status_code == (200 if allowed == ("*",) else 403)
        assert post(OWN, FOREIGN).status_code == (200 if allowed else 403)
        read = asked.get("/languages", headers={**host, "origin": FOREIGN})
        assert read.headers.get("access-control-allow-origin") == (allowed[0] if allowed else None)
        assert read.headers["cross-origin-resource-policy"] == "same-origin"
        assert read.headers["x-content-type-options"] == "nosniff"
        asking = {**host, "origin": FOREIGN, "access-control-request-method": "POST"}
        assert asked.options("/translate", headers=asking).status_code == (200 if allowed else 405)


def test_one_client_does_not_shut_out_others() -> None:
    """Neither with requests nor with uploads, which are refused before they are read."""
    app = made_up_app(limits=Limits(queue=4))
    asgi, queue, uploads = app.asgi(), app.service.queue, app.service.uploads
    with TestClient(asgi, client=("1.1.1.1", 1)) as alice, queue.admitted("1.1.1.1", 1):
        with uploads.admitted("1.1.1.1", 1):
            uploaded = alice.post("/translate_file", **UPLOAD)
        streamed = alice.post("/translate", json=HELLO, headers=SSE)
        for answer in (uploaded, streamed, alice.post("/translate", json=HELLO)):
            assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1
        assert alice.get("/ready").status_code == 200
    with TestClient(asgi, client=("2.2.2.2", 1)) as bob, queue.admitted("1.1.1.1", 1):
        assert bob.post("/translate", json=HELLO).status_code == 200
    assert queue.n_requests == 0


def test_ready_and_alive() -> None:
    """/health tells that the process lives; /ready whether requests should be sent to it."""
    app = made_up_app("en-de", limits=Limits(queue=1))
    with TestClient(app.asgi()) as asked:

        def not_ready(why: str) -> None:
            answer = asked.get("/ready")
            assert answer.status_code == 503 and why in answer.json()["error"]
            assert asked.get("/health").json() == {"status": "ok"}

        with app.service.queue.admitted("a", 1):
            not_ready("too many requests")
        app.service.is_draining = True
        not_ready("shutting down")
        assert asked.get("/health").headers["connection"] == "close"


@pytest.mark.parametrize("headers", [{}, SSE])
def test_a_request_has_a_deadline(headers: dict[str, str]) -> None:
    gate = Gate(is_open=False)
    app = made_up_app("en-de", gate=gate, limits=Limits(seconds=0.2))
    with TestClient(app.asgi()) as asked:
        answer = asked.post("/translate", json=HELLO, headers=headers)
        if headers:
            assert answer.text == 'event: error\ndata: {"error":"not answered within 0.2 s"}\n\n'
        else:
            assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1
            assert answer.json() == {"error": "not answered within 0.2 s"}
        assert app.service.queue.n_requests == 0
        gate.open.set()
        (worker,) = (model.worker for model in app.service.models.values())
        wait_until(lambda: not worker._jobs, "a line is decoded that nobody waits for")
