"""Threads that carry out one compiled call together, as many as pay. Knows nothing of what they do."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread
from time import perf_counter

from bytenmt.errors import BytenmtError

Task = Callable[[int, int], None]  # of a thread's number and how many there are


class ThreadTeam:
    """How many threads a call takes: all, or one where that is quicker because others need the cores.

    Threads that meet hundreds of times a step crawl if one of them has to wait for its core. So now and then
    one of many alike calls is made the other way and compared with the two beside it: at first after 8
    calls, later after up to 64, and at once when a call takes twice as long as was usual.
    """

    SHORTEST, LONGEST = 8, 64  # calls from one comparison to the next

    def __init__(self, most: int) -> None:
        """Raises BytenmtError where the system does not give so many."""
        if most < 1:
            raise ValueError(f"{most} threads: expected at least 1")
        self.size = self.most = most
        try:
            self._others = [_Other() for _ in range(most - 1)]
        except RuntimeError as error:
            raise BytenmtError(
                f"{most} threads are more than the system gives ({error}): lower --threads"
            ) from None
        self._turn, self._period = 0, self.SHORTEST
        self._seconds = [0.0, 0.0, 0.0]  # of the calls of a comparison; then of a usual call in the first

    def once(self, task: Task) -> None:
        """task(thread, n) on n threads, the first of them this one; what it raises here is raised."""
        others = self._others[: self.size - 1]
        for thread, other in enumerate(others, 1):
            other.begin(task, thread, self.size)
        task(0, self.size)
        for other in others:
            other.done.wait()

    def again(self, task: Task) -> None:
        """The same for one of many alike calls, from whose times it learns."""
        if self.most == 1:
            return self.once(task)
        turn = self._turn
        self._turn = (turn + 1) % self._period
        if turn == 1:
            self._change()
        started = perf_counter()
        self.once(task)
        seconds = perf_counter() - started
        if turn == 1:
            self._change()
        if turn > 2:
            if seconds > 2 * self._seconds[0]:
                self._turn = 0
            return
        self._seconds[turn] = seconds
        if turn == 2:
            self._decide()

    def _decide(self) -> None:
        before, other, after = self._seconds
        if other < 0.9 * min(before, after):
            self._change()
            self._period, self._seconds[0] = self.SHORTEST, other
        else:
            self._period, self._seconds[0] = min(2 * self._period, self.LONGEST), max(before, after)

    def _change(self) -> None:
        self.size = 1 if self.size > 1 else self.most


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
