"""The thread that owns the engines: batches grow with the load, and whoever leaves is let go."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pytest
from made_up_service import SECONDS, Gate

from bytenmt.decoding.line_batch import TranslationResult
from bytenmt.serve.worker import MAX_SLOTS, SHORT_LINE_BYTES, Job, Worker


def job(*lines: str, n_best: int = 1, **more: Any) -> tuple[Job, SimpleQueue[Any]]:
    outcomes: SimpleQueue[Any] = SimpleQueue()
    return Job([line.encode() for line in lines], outcomes.put, n_best, **more), outcomes


def texts(outcome: list[TranslationResult] | Exception) -> list[list[str]]:
    assert isinstance(outcome, list)
    return [[hypothesis.text.decode() for hypothesis in answer.hypotheses] for answer in outcome]


def test_what_comes_while_others_are_decoded_joins_their_batch() -> None:
    """Forty who come at once are admitted together, not one after the other."""
    gate = Gate(open=False)
    worker = gate.worker()
    asked = [job(f"line {number}") for number in range(40)]
    worker.submit(asked[0][0])
    assert gate.began.wait(SECONDS)
    for one, _ in asked[1:]:
        worker.submit(one)
    gate.open.set()
    assert [texts(outcomes.get(timeout=SECONDS)) for _, outcomes in asked] == [
        [[f"LINE {number}0"]] for number in range(40)
    ]
    assert [len(batch) for batch in gate.admitted] == [1, 39]
    worker.stop()


def test_equal_lines_are_asked_once_and_empty_ones_never() -> None:
    gate = Gate()
    worker = gate.worker()
    one, outcomes = job("a", "", "a", "b")
    worker.submit(one)
    assert texts(outcomes.get(timeout=SECONDS)) == [["A0"], [""], ["A0"], ["B0"]]
    assert gate.lines() == [b"a", b"b"]
    nothing, outcomes = job()
    worker.submit(nothing)
    assert outcomes.get(timeout=SECONDS) == []
    worker.stop()


def test_long_lines_are_cut_and_joined_and_have_places_of_their_own() -> None:
    gate = Gate()
    worker = gate.worker()
    long = "word " * 500 + "end"
    one, outcomes = job(long, "a" * (SHORT_LINE_BYTES + 1), "a" * SHORT_LINE_BYTES)
    worker.submit(one)
    found = texts(outcomes.get(timeout=SECONDS))
    assert found[0][0].replace("0", "") == long.upper()
    assert found[1:] == [["A" * (SHORT_LINE_BYTES + 1) + "0"], ["A" * SHORT_LINE_BYTES + "0"]]
    capacities = {short: lane.scheduler._engine.capacity for (_, short), lane in worker._lanes.items()}
    assert capacities[True] == MAX_SLOTS and capacities[False] < MAX_SLOTS
    worker.stop()


def test_as_many_hypotheses_as_are_wanted() -> None:
    worker = Gate().worker()
    for n_best, found in ((1, ["A0"]), (3, ["A0", "A1", "A2"]), (5, ["A0", "A1", "A2", "A3", "A4"])):
        one, outcomes = job("a", n_best=n_best)
        worker.submit(one)
        assert texts(outcomes.get(timeout=SECONDS)) == [found]
    worker.stop()


def test_who_leaves_gives_its_places_back() -> None:
    """Its other lines are never decoded, and those of others are."""
    gate = Gate(open=False)
    worker = gate.worker()
    one, outcomes = job(*(f"{number} of one" for number in range(200)))
    other, others = job("of another")
    worker.submit(one)
    assert gate.began.wait(SECONDS)
    worker.submit(other)
    worker.drop(one)
    worker.drop(one)
    gate.open.set()
    assert texts(others.get(timeout=SECONDS)) == [["OF ANOTHER0"]]
    assert outcomes.empty() and len(gate.lines()) == MAX_SLOTS + 1 and not worker._jobs
    assert not any(lane.jobs for lane in worker._lanes.values())
    worker.stop()


def test_parts_are_whole_characters_of_one_line_after_another() -> None:
    parts: list[tuple[int, bytes]] = []
    one, outcomes = job("가나다라 마바사", "", "b", on_part=lambda line, part: parts.append((line, part)))
    worker = Gate().worker()
    worker.submit(one)
    outcomes.get(timeout=SECONDS)
    assert [line for line, _ in parts] == sorted(line for line, _ in parts)
    assert "".join(part.decode() for line, part in parts if line == 0) == "가나다라 마바사0"
    assert b"".join(part for line, part in parts if line == 2) == b"B0" and len(parts) > 4
    worker.stop()


def test_what_goes_wrong_ends_the_lines_that_it_meets() -> None:
    """And no others: the next ones have a new engine."""
    gate = Gate()
    worker = gate.worker()

    def fails(_: Any) -> bool:
        raise MemoryError("no more")

    gate.open.wait = fails  # type: ignore[method-assign,assignment]
    one, outcomes = job("a")
    worker.submit(one)
    assert isinstance(outcomes.get(timeout=SECONDS), MemoryError)
    del gate.open.wait
    worker.submit(other := job("b")[0])
    other, outcomes = job("c")
    worker.submit(other)
    assert texts(outcomes.get(timeout=SECONDS)) == [["C0"]]
    worker.stop()


def test_a_translator_that_cannot_be_made_is_told() -> None:
    def fails(_: int) -> Any:
        raise ValueError("no")

    worker = Worker(fails)
    one, outcomes = job("a")
    worker.submit(one)
    assert isinstance(outcomes.get(timeout=SECONDS), ValueError)
    worker.stop()
    assert not worker.alive


@pytest.mark.parametrize("n", [1, 7])
def test_clients_take_turns(n: int) -> None:
    """A client with many lines does not keep another one waiting for all of them."""
    gate = Gate(open=False)
    worker = gate.worker()
    many, _ = job(*(f"{number} of many" for number in range(300)))
    few, outcomes = job(*(f"{number} of few" for number in range(n)))
    worker.submit(many)
    worker.submit(few)
    gate.open.set()
    outcomes.get(timeout=SECONDS)
    assert gate.lines().index(b"0 of few") < 2 * MAX_SLOTS
    worker.drop(many)
    worker.stop()


def test_only_jobs_that_ask_for_it_are_judged() -> None:
    worker = Gate().worker()
    for is_judged in (True, False):
        one, outcomes = job("two", is_judged=is_judged)
        worker.submit(one)
        (result,) = outcomes.get(timeout=SECONDS)
        assert (result.best.flags or ()) == ("unsure",) * is_judged
    worker.stop()
