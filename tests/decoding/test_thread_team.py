"""Threads that work together: all of them take part, and their number follows what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest

from bytenmt.decoding.cpu import thread_team
from bytenmt.decoding.cpu.thread_team import ThreadTeam
from bytenmt.errors import BytenmtError


def test_every_thread_takes_part_and_is_waited_for() -> None:
    four = ThreadTeam(4)
    for _ in range(20):
        seen: list[tuple[int, int]] = []
        four.once(lambda *crew, seen=seen: seen.append(crew))
        assert sorted(seen) == [(thread, 4) for thread in range(4)]


def test_what_a_task_raises_here_is_raised() -> None:
    def task(thread: int, n_threads: int) -> None:
        if thread == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ThreadTeam(2).once(task)


def clock(monkeypatch: pytest.MonkeyPatch, of: ThreadTeam, seconds: dict[int, float]) -> Iterator[int]:
    """Calls that take seconds[threads] by a made-up clock; yields the size of each call."""
    now = 0.0
    monkeypatch.setattr(thread_team, "perf_counter", lambda: now)

    def task(thread: int, n_threads: int) -> None:
        nonlocal now
        if thread == 0:
            sizes.append(n_threads)
            now += seconds[n_threads]

    sizes: list[int] = []
    while True:
        of.again(task)
        yield sizes[-1]


def test_it_stays_with_what_is_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few calls are made the other way, fewer and fewer."""
    for seconds, better in (({2: 1.0, 1: 1.9}, 2), ({2: 5.0, 1: 1.9}, 1)):
        calls = clock(monkeypatch, ThreadTeam(2), seconds)
        sizes = [next(calls) for _ in range(300)]
        assert sizes[3:].count(3 - better) <= 8
        assert sizes[200:].count(3 - better) <= 2


def test_it_changes_when_the_cores_are_wanted_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of twice the usual time is followed by a comparison at once."""
    seconds = {2: 1.0, 1: 1.9}
    calls = clock(monkeypatch, ThreadTeam(2), seconds)
    assert [next(calls) for _ in range(300)][-1] == 2
    seconds[2] = 6.0
    sizes = [next(calls) for _ in range(100)]
    assert sizes[5:].count(2) <= 6
    seconds[2] = 1.0
    sizes = [next(calls) for _ in range(100)]
    assert sizes[70:].count(1) <= 4


def test_one_thread_needs_no_other() -> None:
    seen: list[tuple[int, int]] = []
    ThreadTeam(1).again(lambda *crew: seen.append(crew))
    assert seen == [(0, 1)]
    with pytest.raises(ValueError, match="0 threads"):
        ThreadTeam(0)


def test_threads_that_the_system_does_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refused)
    with pytest.raises(BytenmtError, match="5 threads are more than the system gives"):
        ThreadTeam(5)
