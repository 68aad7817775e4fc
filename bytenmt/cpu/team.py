"""Threads that carry out one compiled call together, as many as pay. Knows nothing of what they do."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread
from time import perf_counter

Task = Callable[[int, int], None]  # of a thread's number and how many there are


class Team:
    """How many threads a call takes: all, or one where that is quicker because others need the cores.

    Threads that meet hundreds of times a step crawl if one of them has to wait for its core. So every now
    and then a call is made the other way, and compared with the two beside it.
    """

    PERIOD = 50  # calls between two comparisons

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"{most} threads: expected at least 1")
        self.size = self.most = most
        self._others = [_Other() for _ in range(most - 1)]
        self._n_calls, self._times = 0, [0.0, 0.0, 0.0]

    def call(self, task: Task) -> None:
        """task(thread, n) on n threads at once, the first of them this one; what it raises here is raised."""
        turn, self._n_calls = self._n_calls % self.PERIOD, self._n_calls + 1
        if self.most == 1 or turn > 2:
            return self._call(task, self.size)
        other = 1 if self.size == self.most else self.most
        started = perf_counter()
        self._call(task, other if turn == 1 else self.size)
        self._times[turn] = perf_counter() - started
        if turn == 2 and self._times[1] < 0.9 * min(self._times[0], self._times[2]):
            self.size = other

    def _call(self, task: Task, n_threads: int) -> None:
        others = self._others[: n_threads - 1]
        for thread, other in enumerate(others, 1):
            other.begin(task, thread, n_threads)
        task(0, n_threads)
        for other in others:
            other.done.wait()


class _Other:
    """A thread that waits for tasks; a daemon, so that the program may end while it waits for the others in
    the middle of one, as after Ctrl-C."""

    def __init__(self) -> None:
        self.done = Event()
        self._tasks: SimpleQueue[tuple[Task, int, int]] = SimpleQueue()
        Thread(target=self._run, daemon=True).start()

    def begin(self, task: Task, thread: int, n_threads: int) -> None:
        self.done.clear()
        self._tasks.put((task, thread, n_threads))

    def _run(self) -> None:
        while True:
            task, thread, n_threads = self._tasks.get()
            task(thread, n_threads)
            self.done.set()
