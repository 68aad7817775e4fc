"""Thread teams: every thread takes part, failures reach the caller, the number of threads adapts
and is bounded."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import pytest
from cpu_engines import model, packed, run, some_requests

from bytenmt.decoding.cpu import thread_team
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.kernels.barrier import barrier
from bytenmt.decoding.cpu.session import ModelSession
from bytenmt.decoding.cpu.thread_team import ThreadTeam
from bytenmt.decoding.interface import SearchOptions
from bytenmt.errors import BytenmtError

ROOT = Path(__file__).resolve().parents[2]


@numba.njit(nogil=True)
def meet_twice(counters: int, n_threads: int) -> bool:
    return barrier(counters, n_threads) and barrier(counters, n_threads)


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, BytenmtError("a sentence")])
def test_an_error_on_any_thread_reaches_the_caller(failing: int, error: Any) -> None:
    """The others leave the barrier at which they wait for the one that failed, and the team goes
    on."""
    team = ThreadTeam(3)
    passed: list[bool] = []

    def task(thread: int, n_threads: int, counters: Any) -> None:
        if thread == failing:
            raise error
        passed.append(meet_twice(counters.ctypes.data, n_threads))

    with pytest.raises(error if isinstance(error, type) else type(error)):
        team.run(task)
    assert not any(passed)
    failing = -1
    passed.clear()
    team.run(task)
    assert passed == [True, True, True]


@pytest.mark.parametrize("method", ["_buffers", "_thread_context"])
def test_an_engine_raises_what_its_other_thread_raises(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in another thread is raised instead of waiting forever; the next engine on the same
    threads works."""
    of, requests, here = packed(model("bytenet")), some_requests(5), threading.get_ident()
    expected = run(NumbaEngine([of], SearchOptions(), 3), requests)
    own = getattr(ModelSession, method)

    def failing(self: ModelSession, *given: Any) -> Any:
        if threading.get_ident() != here:
            raise MemoryError("no room")
        return own(self, *given)

    with monkeypatch.context() as broken:
        broken.setattr(ModelSession, method, failing)
        with pytest.raises(MemoryError, match="no room"):
            run(NumbaEngine([of], SearchOptions(), 3, threads=2), requests)
    assert run(NumbaEngine([of], SearchOptions(), 3, threads=2), requests) == expected


def n_workers() -> int:
    return sum(thread.name.startswith("bytenmt-decode") for thread in threading.enumerate())


def test_threads_are_shared_by_all_teams_and_callers() -> None:
    """Sixty teams used by eight Python threads at once: no more threads than one team asks for; who
    finds them in use runs alone."""
    thread_team._renew()
    before, sizes = n_workers(), list[int]()

    def task(thread: int, n_threads: int, counters: Any) -> None:
        assert meet_twice(counters.ctypes.data, n_threads)
        if thread == 0:
            sizes.append(n_threads)

    def call() -> None:
        for _ in range(60):
            ThreadTeam(3).run(task)

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert n_workers() - before <= 2 and len(sizes) == 8 * 60 and set(sizes) <= {1, 3}
    ThreadTeam(3).run(task)
    assert sizes[-1] == 3  # the lock is free again


PRELOADED = f"""
import os, signal, torch
from bytenmt.decoding.cpu.thread_team import ThreadTeam
from bytenmt.translation.translator import Translator
from bytenmt.layers.kernel_helpers import parallel_for
torch.set_num_threads(2)
translator, said = Translator.load({str(ROOT / "data/models/en-de")!r}, device="cpu", threads=2), []
for where in ("parent", "child"):
    if where == "child" and (child := os.fork()):
        raise SystemExit(os.waitpid(child, 0)[1] != 0)
    signal.alarm(60)
    seen = []
    parallel_for(lambda thread, first, last: seen.append((thread, first, last)), 10)
    ThreadTeam(2).run(lambda thread, n_threads, _: seen.append((thread, n_threads)))
    assert sorted(seen) == [(0, 0, 5), (0, 2), (1, 2), (1, 5, 10)]
    said.append(translator.translate("Where is the station?"))
os._exit(said[0] != said[1])
"""


@pytest.mark.slow
def test_a_forked_child_has_threads() -> None:
    """For training kernels, a team and a translator that was used before, as in a server that
    preloads it."""
    words = [sys.executable, "-c", PRELOADED]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)


def clock(
    monkeypatch: pytest.MonkeyPatch, of: ThreadTeam, seconds: dict[int, float]
) -> Iterator[int]:
    """Calls that take seconds[threads] by a made-up clock; yields the size of each call."""
    now = 0.0
    monkeypatch.setattr(thread_team, "perf_counter", lambda: now)

    def task(thread: int, n_threads: int, _: object) -> None:
        nonlocal now
        if thread == 0:
            sizes.append(n_threads)
            now += seconds[n_threads]

    sizes: list[int] = []
    while True:
        of.run_timed(task)
        yield sizes[-1]


def test_it_stays_with_what_is_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few calls are made the other way, fewer and fewer; after a call of twice the usual time, as
    where the cores are wanted elsewhere, it compares at once."""
    seconds = {2: 1.0, 1: 1.9}
    calls = clock(monkeypatch, ThreadTeam(2), seconds)
    sizes = [next(calls) for _ in range(300)]
    assert sizes[3:].count(1) <= 8 and sizes[200:].count(1) <= 2 and sizes[-1] == 2
    seconds[2] = 6.0
    assert [next(calls) for _ in range(100)][5:].count(2) <= 6
    seconds[2] = 1.0
    assert [next(calls) for _ in range(100)][70:].count(1) <= 4


@pytest.mark.parametrize("n_given", [0, 1])
def test_threads_the_system_does_not_give(n_given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call is executed by its own thread then, once and whole."""
    start, left = threading.Thread.start, [n_given]

    def refused(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    thread_team._renew()
    sizes, team = list[int](), ThreadTeam(3)

    def task(thread: int, n_threads: int, counters: Any) -> None:
        if meet_twice(counters.ctypes.data, n_threads):
            sizes.append(n_threads)

    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", refused)
        team.run_timed(task)
        assert sizes == [1]
    team.run(task)
    assert sizes == [1, 3, 3, 3]
    thread_team._renew()
