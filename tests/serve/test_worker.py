"""The thread that owns the engines: batches grow with the load, and whoever leaves is let go."""

from typing import Any

import pytest
from made_up_service import SECONDS, Gate

from bytenmt.evaluation.judge import Judge
from bytenmt.serve.worker import TranslationJob, Worker
from bytenmt.translation.translator import Translator


def job(*lines: str, **more: Any) -> TranslationJob:
    return TranslationJob([line.encode() for line in lines], **more)


def texts(one: TranslationJob) -> list[list[str]]:
    results = one.results.result(SECONDS)
    return [[hypothesis.text.decode() for hypothesis in result.hypotheses] for result in results]


def test_what_comes_while_others_are_decoded_joins_their_batch() -> None:
    """Forty who come at once are admitted together, not one after the other."""
    gate = Gate(is_open=False)
    worker = gate.worker()
    asked = [job(f"line {number}") for number in range(40)]
    worker.submit(asked[0])
    assert gate.began.wait(SECONDS)
    for one in asked[1:]:
        worker.submit(one)
    gate.open.set()
    assert [texts(one) for one in asked] == [[[f"LINE {number}0"]] for number in range(40)]
    sizes = [len(batch) for batch in gate.admitted]  # a few, if splitting them takes long
    assert sizes[0] == 1 and max(sizes) > 10


def test_equal_lines_are_asked_once_and_empty_ones_never() -> None:
    gate = Gate()
    worker = gate.worker()
    one = job("a", "", "a", "b")
    nothing = job()
    worker.submit(one)
    worker.submit(nothing)
    assert texts(one) == [["A0"], [""], ["A0"], ["B0"]] and texts(nothing) == []
    assert gate.lines() == [b"a", b"b"]
    gate.worker(n_best=4).submit(one := job("a"))
    assert texts(one) == [["A0", "A1", "A2", "A3"]]
    long = "word " * 500 + "end"
    worker.submit(one := job(long, "a" * 900))
    assert texts(one)[0][0].replace("0", "") == long.upper() and texts(one)[1] == ["A" * 900 + "0"]


def test_what_goes_wrong_ends_the_lines_that_it_meets() -> None:
    """Other lines are not touched: they have a new engine. A client's callback that fails is such
    an error, too."""
    gate = Gate()
    worker = gate.worker()

    def fails(*_: Any) -> bool:
        raise MemoryError("no more")

    gate.open.wait = fails  # type: ignore[method-assign,assignment]
    worker.submit(one := job("a"))
    with pytest.raises(MemoryError):
        texts(one)
    del gate.open.wait
    worker.submit(two := job("b", on_part=fails))
    worker.submit(three := job("c"))
    with pytest.raises(MemoryError):
        texts(two)
    worker.submit(four := job("d"))
    assert texts(four) == [["D0"]] and three.results.done()

    def unmade(capacity: int) -> Any:
        raise ValueError("no")

    unlucky = Worker(Translator(unmade), Judge())
    unlucky.submit(one := job("a"))
    with pytest.raises(ValueError, match="no"):
        texts(one)


def test_only_jobs_that_ask_for_it_are_judged() -> None:
    worker = Gate().worker()
    for is_judged in (True, False):
        worker.submit(one := job("two", is_judged=is_judged))
        assert (one.results.result(SECONDS)[0].best.flags or ()) == ("unsure",) * is_judged
