"""Test the limits per client: requests by address and by key, and time limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from made_up_service import SECONDS, Gate, client, made_up_server, wait_for_nothing
from starlette.testclient import TestClient

from bytenmt.serve.limits import ApiKeys, Client, Limits, Refusal, client_address
from bytenmt.serve.service import WAITING_REQUESTS_FACTOR, Service

HELLO = {"q": "hello", "source": "en", "target": "de"}
SSE = {"accept": "text/event-stream"}
ALICE, BOB = Client("1.1.1.1"), Client("2.2.2.2")


@pytest.fixture
def service() -> Iterator[Service]:
    server, _ = made_up_server(limits=Limits(queue=8, queue_per_client=2, characters=100))
    yield server.service
    assert server.service.n_requests == server.service.n_characters == 0
    assert not server.service._requests_of and not server.service._characters_of


def test_a_client_has_a_part_of_the_queue(service: Service) -> None:
    with service.admitted(1, ALICE), service.admitted(1, ALICE):
        with pytest.raises(Refusal, match="of this client") as refused:
            service.admitted(1, ALICE)
        assert refused.value.status == 429 and refused.value.retry_after
        service.admitted(1, BOB).release()
    service.admitted(1, ALICE).release()


def test_a_client_has_a_part_of_the_characters(service: Service) -> None:
    part = WAITING_REQUESTS_FACTOR * 100 * 2 // 8
    with service.admitted(part, ALICE):
        with pytest.raises(Refusal, match="of this client"):
            service.admitted(1, ALICE)
        service.admitted(part, BOB).release()


def test_a_key_is_a_client_wherever_it_is_used(service: Service) -> None:
    with ExitStack() as stack:
        for address in ("1.1.1.1", "1.1.1.2"):
            stack.enter_context(service.admitted(1, Client(address, "k")))
        with pytest.raises(Refusal, match="of this client"):
            service.admitted(1, Client("1.1.1.3", "k"))
        service.admitted(1, Client("1.1.1.3", "l")).release()


def test_a_place_is_given_back_once(service: Service) -> None:
    one, other = service.admitted(5, ALICE), service.admitted(7, ALICE)
    one.release()
    one.release()
    assert (service.n_requests, service.n_characters) == (1, 7)
    other.release()


def test_what_counts_as_one_address() -> None:
    assert client_address("1.2.3.4") == client_address("::ffff:1.2.3.4") == "1.2.3.4"
    assert client_address("2001:db8:0:1::1") == client_address("2001:db8:0:1:ffff::2") == "2001:db8:0:1::/64"
    assert client_address("2001:db8:0:2::1") != client_address("2001:db8:0:1::1")
    assert client_address("fe80::1%eth0") == "fe80::/64"
    assert client_address("unknown") == "unknown" and len(client_address("x" * 1000)) == 100


def test_keys_have_names_that_do_not_tell_them() -> None:
    keys = ApiKeys(["secret", "other"])
    assert keys.check("secret") == keys.check("secret") != keys.check("other")
    assert "secret" not in str(keys.check("secret")) and ApiKeys().check("any") is None


def test_one_address_does_not_shut_out_others() -> None:
    gate = Gate(open=False)
    server, _ = made_up_server(gate=gate, limits=Limits(queue=4, queue_per_client=2))
    app = server.app()
    found: list[int] = []
    with TestClient(app, client=("1.1.1.1", 1)) as alice, TestClient(app, client=("2.2.2.2", 1)) as bob:

        def ask(http: TestClient, text: str) -> threading.Thread:
            def run() -> None:
                found.append(http.post("/translate", json={**HELLO, "q": text}).status_code)

            thread = threading.Thread(target=run)
            thread.start()
            return thread

        waiting = [ask(alice, "a"), ask(alice, "b")]
        until = time.monotonic() + SECONDS
        while server.service.n_requests < 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert alice.post("/translate", json=HELLO).status_code == 429
        assert alice.get("/ready").status_code == 200
        waiting.append(ask(bob, "c"))
        while server.service.n_requests < 3 and time.monotonic() < until:
            time.sleep(0.01)
        gate.open.set()
        for thread in waiting:
            thread.join(SECONDS)
    assert found == [200, 200, 200]


def test_ready_and_alive() -> None:
    """/health tells that the process lives; /ready whether requests should be sent to it."""
    server, _ = made_up_server("en-de", limits=Limits(queue=1))
    with TestClient(server.app()) as http:
        assert http.get("/ready").json() == {"status": "ok"}

        def not_ready(why: str) -> None:
            answer = http.get("/ready")
            assert answer.status_code == 503 and why in answer.json()["error"]
            assert http.get("/health").json() == {"status": "ok"}

        with server.service.admitted(1):
            not_ready("too many requests")
        server.service.draining = True
        not_ready("about to end")
        server.service.draining = False
        assert http.get("/ready").status_code == 200
        for worker in server.service.workers.values():
            worker.stop()
        not_ready("en-de is not loaded")


def closed(**limits: Any) -> tuple[TestClient, Service, Gate]:
    """A server whose engines compute nothing until its gate is opened."""
    gate = Gate(open=False)
    server, _ = made_up_server("en-de", gate=gate, limits=Limits(**limits))
    return TestClient(server.app()), server.service, gate


@pytest.mark.parametrize("limits", [{"compute_seconds": 0.2}, {"request_seconds": 0.2}])
def test_a_translation_that_takes_too_long_is_given_up(limits: dict[str, float]) -> None:
    http, service, gate = closed(**limits)
    why = "was not translated within 0.2 s" if "compute_seconds" in limits else "not answered within 0.2 s"
    with http:
        answer = http.post("/translate", json=HELLO)
        assert answer.status_code == 503 and why in answer.json()["error"]
        wait_for_nothing(service)
        gate.open.set()
        assert http.post("/translate", json=HELLO).status_code == 200
        what = "compute" if "compute_seconds" in limits else "request"
        assert f'bytenmt_deadlines_total{{what="{what}"}} 1.0' in http.get("/metrics").text.splitlines()
    (worker,) = service.workers.values()
    assert not worker._jobs


def test_who_waited_for_others_is_told_when_to_try_again() -> None:
    """Not to send less, which would not help."""
    http, service, gate = closed(compute_seconds=0.2)
    with http, service.admitted(1, ALICE), service.admitted(1, ALICE):
        answer = http.post("/translate", json=HELLO)
        assert answer.status_code == 503 and 1 <= int(answer.headers["retry-after"]) <= 60
        assert "it waited for up to 2 other requests: try again in" in answer.json()["error"]
        gate.open.set()


def test_an_event_stream_has_a_deadline() -> None:
    http, service, gate = closed(compute_seconds=0.2)
    with http:
        answer = http.post("/translate", json=HELLO, headers=SSE)
        assert "event: error" in answer.text and "not translated within" in answer.text
        wait_for_nothing(service)
        gate.open.set()


def test_metrics_need_a_key_where_keys_are_on() -> None:
    with client(keys=["secret"]) as http:
        assert http.get("/metrics").status_code == 403
        assert http.get("/metrics", headers={"authorization": "Bearer secret"}).status_code == 200
        assert http.get("/metrics", params={"api_key": "secret"}).status_code == 200


def test_streams_and_files_are_in_the_histogram() -> None:
    with client() as http:
        http.post("/translate", json=HELLO, headers=SSE)
        sent = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.txt", b"one")}}
        assert http.post("/translate_file", **sent).status_code == 200  # type: ignore[arg-type]
        assert "bytenmt_request_seconds_count 2.0" in http.get("/metrics").text.splitlines()
