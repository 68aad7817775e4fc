"""Run a compiled call on several threads, as many as make it faster.

Worker threads belong to the process, and one team at a time uses them: a call that finds them in
use is executed by the calling thread alone. So their number is bounded for each size of a team.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from threading import Lock
from time import perf_counter

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.records import ABORTED, N_COUNTERS

Barrier = npt.NDArray[np.int64]  # counters by which threads wait for each other
# Called with the number of the thread, from 0, the number of threads, and their barrier.
Task = Callable[[int, int, Barrier], None]

_turn = Lock()  # held by the team that uses the workers


class ThreadTeam:
    """A team of up to `max_threads` threads that execute compiled calls together, one call at a
    time.

    Threads that wait for each other at hundreds of barriers per step are slow if one of them does
    not get its core. So from time to time one of several similar calls runs on the other number of
    threads (one instead of all, or all instead of one) and is compared with the calls before and
    after it: at first after 8 calls, later after up to 64, and at once when a call takes twice as
    long as usual.
    """

    # calls from one comparison to the next
    MIN_PERIOD = 8
    MAX_PERIOD = 64

    def __init__(self, max_threads: int) -> None:
        self.size = self.max_threads = max_threads
        self._turn = 0
        self._period = self.MIN_PERIOD
        # Of the three calls of a comparison; then the first one is the usual time.
        self._seconds = [0.0, 0.0, 0.0]

    def run(self, task: Task) -> None:
        """Call task(thread, n_threads, barrier) on n threads, the calling one being number 0.

        n is the size of the team, or 1 while another team uses the workers. An exception of any
        thread is raised here, and no thread waits at the barrier for one that failed.
        """
        self._run(task, self.size)

    def run_timed(self, task: Task) -> None:
        """Call task(thread, n_threads, barrier) on the team's threads, as `run` does, and time it.

        Times of similar calls, such as decode steps, decide how many threads later ones use.
        """
        if self.max_threads == 1:
            return self.run(task)
        turn = self._turn
        size = self._other_size() if turn == 1 else self.size
        started = perf_counter()
        n_threads = self._run(task, size)
        seconds = perf_counter() - started
        if n_threads < size:  # others used the workers: not comparable, so this turn is taken again
            return
        self._turn = (turn + 1) % self._period
        if turn > 2:
            if seconds > 2 * self._seconds[0]:
                self._turn = 0
            return
        self._seconds[turn] = seconds
        if turn == 2:
            self._decide()

    def _run(self, task: Task, size: int) -> int:
        """Run on `size` threads, or on the calling one alone; return how many there were."""
        if size == 1 or not _turn.acquire(blocking=False):
            task(0, 1, np.zeros(N_COUNTERS, np.int64))
            return 1
        turn = _turn
        try:
            return size if self._run_together(task, size) else self._run(task, 1)
        finally:
            turn.release()

    def _run_together(self, task: Task, size: int) -> bool:
        """Run on `size` threads; return False, without a result, if the system does not start so
        many."""
        barrier: Barrier = np.zeros(N_COUNTERS, np.int64)

        def work(thread: int) -> None:
            if barrier[ABORTED]:
                return
            try:
                task(thread, size, barrier)
            except BaseException:
                barrier[ABORTED] = 1
                raise

        futures = list[Future[None]]()
        try:
            for thread in range(1, size):
                futures.append(_pool(self.max_threads - 1).submit(work, thread))
            task(0, size, barrier)
            for future in futures:
                future.result()
        except BaseException as error:  # KeyboardInterrupt, too
            barrier[ABORTED] = 1  # others may be waiting at the barrier
            wait(futures)
            if isinstance(error, RuntimeError) and len(futures) < size - 1:
                _pool.cache_clear()  # it waits for a thread that it has not started
                return False
            raise
        return True

    def _decide(self) -> None:
        """Compare the three calls of a comparison and keep the faster size."""
        before, other, after = self._seconds
        if other < 0.9 * min(before, after):
            self.size = self._other_size()
            self._period = self.MIN_PERIOD
            self._seconds[0] = other
        else:
            self._period = min(2 * self._period, self.MAX_PERIOD)
            self._seconds[0] = max(before, after)

    def _other_size(self) -> int:
        return 1 if self.size > 1 else self.max_threads


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, "bytenmt-decode")


def _renew() -> None:
    """Begin without worker threads, which a forked child has not, and with a lock that nobody
    holds."""
    global _turn
    _turn = Lock()
    _pool.cache_clear()


os.register_at_fork(after_in_child=_renew)
