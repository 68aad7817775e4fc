"""Requests that come and go while others are decoded: turns, and places of those who have left."""

import pytest
from made_up_engine import MadeUpEngine

from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.decoding.scheduler import Scheduler


def scheduler(capacity: int) -> tuple[Scheduler, list[list[Request]]]:
    admitted: list[list[Request]] = []
    return Scheduler(MadeUpEngine(capacity, SearchOptions(), admitted)), admitted


def texts(admitted: list[list[Request]]) -> list[bytes]:
    return [request.source or b"" for batch in admitted for request in batch]


def test_clients_take_turns() -> None:
    """A client with many sentences does not delay the others; each is answered in its own order."""
    asked, admitted = scheduler(2)
    for text in (b"a1", b"a2", b"a3", b"a4"):
        asked.submit(Request(text, 9), "a", "alice")
    for text in (b"b1", b"b2"):
        asked.submit(Request(text, 9), "b", "bob")
    found: dict[int, bytes] = {}
    while asked.busy:
        found |= {number: hypotheses[0].text for number, hypotheses in asked.step()}
    assert texts(admitted) == [b"a1", b"b1", b"a2", b"b2", b"a3", b"a4"]
    assert [found[k] for k in range(6)] == [b"A10", b"A20", b"A30", b"A40", b"B10", b"B20"]


@pytest.mark.parametrize("has_clients", [False, True])
def test_jobs_take_turns(has_clients: bool) -> None:
    """A short one waits for no long one: of one client, and of clients where there are more than
    slots."""
    asked, admitted = scheduler(1)
    for job in "abc":
        for number in range(3):
            asked.submit(Request(f"{job}{number}".encode(), 9), job, job if has_clients else None)
    asked.step(1)
    asked.submit(Request(b"short", 9), "d", "d" if has_clients else None)
    while asked.busy:
        asked.step()
    assert b" ".join(texts(admitted)) == b"a0 b0 c0 a1 short b1 c1 a2 b2 c2"


def test_who_has_left_gives_its_places_back() -> None:
    asked, admitted = scheduler(1)
    asked.submit(Request(b"a" * 1000, 2000), "a")
    asked.step()
    asked.submit(Request(b"a2", 9), "a")
    last = asked.submit(Request(b"b", 9), "b")
    asked.drop("a")
    asked.drop("a")
    assert len(asked._running) == 0
    assert [number for number, _ in asked.step()] == [last]
    assert texts(admitted) == [b"a" * 1000, b"b"] and not asked.busy


def test_no_client_has_all_places_while_another_is_there() -> None:
    """One whose sentences never end leaves half of them to a client that comes later, and that one
    does not wait until a quarter of the places is free; a client that is alone has them all."""
    asked, admitted = scheduler(8)
    for number in range(20):
        asked.submit(Request(b"x" * (900 + number), 2000), number, "many")
    asked.step()
    assert len(asked._running) == 8
    for number in range(20, 25):
        asked.drop(number - 20)
        asked.submit(Request(b"y", 9), number, "few")
    asked.step(1)
    few = [request for request in admitted[-1] if request.source == b"y"]
    # Half of the places, and one for the client who has fewer than half.
    assert len(admitted[-1]) == 5 and len(few) == 4
    while b"y" in [request.source for request in admitted[-1]]:
        asked.step()
    assert sum(request.source == b"y" for batch in admitted for request in batch) == 5
    assert len(asked._running) == 8  # alone again
