"""Run a compiled call on several threads, as many as make it faster.

Worker threads belong to the process, not to a team: a team borrows idle ones for the duration of one call.
Their number is therefore bounded, however many engines there are and however many Python threads use them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.kernels.barrier import ABORTED, COUNTERS
from bytenmt.decoding.engine_selection import n_cores

Barrier = npt.NDArray[np.int64]  # the counters of kernels.barrier
Task = Callable[[int, int, Barrier], None]  # (number of the thread, from 0; number of threads; their barrier)


class ThreadTeam:
    """A team of up to `max_threads` threads that execute compiled calls together, one call at a time.

    Threads that wait for each other at hundreds of barriers per step are slow if one of them does not get its
    core. So from time to time one of several similar calls runs on the other number of threads (one instead
    of all, or all instead of one) and is compared with the calls before and after it: at first after 8 calls,
    later after up to 64, and at once when a call takes twice as long as usual.
    """

    MIN_PERIOD, MAX_PERIOD = 8, 64  # calls from one comparison to the next

    def __init__(self, max_threads: int) -> None:
        WORKERS.allow(max_threads - 1)
        self.size = self.max_threads = max_threads
        self._turn, self._period = 0, self.MIN_PERIOD
        self._seconds = [0.0, 0.0, 0.0]  # of the three calls of a comparison; then [0] is the usual time

    def run(self, task: Task) -> None:
        """Call task(thread, n_threads, barrier) on n threads, the calling one being number 0.

        n is smaller than the size of the team while other teams use the workers. An exception of any thread
        is raised here, and no thread waits at the barrier for one that failed.
        """
        self._run(task, self.size)

    def run_timed(self, task: Task) -> None:
        """Do as `run` for one of many similar calls, whose times decide how many threads later ones use."""
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
        """Run on up to `size` threads; return how many there were."""
        workers = WORKERS.borrow(size - 1) if size > 1 else []
        n_threads = len(workers) + 1
        call = _Call(task, n_threads, np.zeros(COUNTERS, np.int64), [], SimpleQueue())
        n_begun = 0
        try:
            for thread, worker in enumerate(workers, 1):
                worker.put((thread, call))
                n_begun += 1
            task(0, n_threads, call.barrier)
        except BaseException:  # KeyboardInterrupt too: others may be waiting at the barrier
            call.barrier[ABORTED] = 1
            call.wait(n_begun)
            raise
        call.wait(n_begun)
        for error in call.outcomes:
            if error is not None:
                raise error
        return n_threads

    def _decide(self) -> None:
        """Compare the three calls of a comparison and keep the faster size."""
        before, other, after = self._seconds
        if other < 0.9 * min(before, after):
            self.size = self._other_size()
            self._period, self._seconds[0] = self.MIN_PERIOD, other
        else:
            self._period, self._seconds[0] = min(2 * self._period, self.MAX_PERIOD), max(before, after)

    def _other_size(self) -> int:
        return 1 if self.size > 1 else self.max_threads


class _Call(NamedTuple):
    """One call of a team. outcomes: for each worker that has finished, the exception it raised, or None."""

    task: Task
    n_threads: int
    barrier: Barrier
    outcomes: list[BaseException | None]
    finished: SimpleQueue[None]  # an entry after each outcome, to wait for

    def wait(self, n: int) -> None:
        """Return when n workers have finished.

        Outcomes are counted instead of queue entries, because Ctrl-C may lose an entry that was just taken.
        """
        while len(self.outcomes) < n:
            self.finished.get()


# The handle of a worker thread: the queue of its calls, each with the worker's number in it.
_Worker = SimpleQueue[tuple[int, _Call]]


def _work(pool: _WorkerPool, calls: _Worker) -> None:
    """Execute calls for ever."""
    while True:
        thread, call = calls.get()
        error = None
        try:
            call.task(thread, call.n_threads, call.barrier)
        except BaseException as raised:
            error = raised
            call.barrier[ABORTED] = 1
        pool.give_back(calls)  # before the caller continues, which may borrow it again
        call.outcomes.append(error)
        call.finished.put(None)
        del call, error  # so that an idle thread keeps no engine in memory


class _WorkerPool:
    """The worker threads of this process.

    There are at most as many as cores, the callers counted, or as the largest team asks for. A forked child
    has none of its parent's threads and begins with an empty pool.
    """

    def __init__(self) -> None:
        self._limit = n_cores() - 1
        self.reset()

    def reset(self) -> None:
        """Forget all workers, and the lock, which a thread may have held when the process was forked."""
        self._lock = Lock()
        self._idle: list[_Worker] = []
        self._n_workers = 0

    def allow(self, n: int) -> None:
        """Allow n workers, if that is more than before."""
        self._limit = max(self._limit, n)

    def borrow(self, n: int) -> list[_Worker]:
        """Return up to n idle workers; fewer if others use them or the system starts no more."""
        with self._lock:
            with suppress(RuntimeError):  # fewer will do
                while len(self._idle) < n and self._n_workers < self._limit:
                    self._start()
            borrowed = self._idle[-n:]
            del self._idle[-n:]
            return borrowed

    def give_back(self, worker: _Worker) -> None:
        """Return a worker to the pool; called by its own thread after a call."""
        with self._lock:
            self._idle.append(worker)

    def _start(self) -> None:
        calls = _Worker()
        # A daemon, so that a program can end while its last call is still running.
        Thread(target=_work, args=(self, calls), name="bytenmt-decode", daemon=True).start()
        self._idle.append(calls)
        self._n_workers += 1


WORKERS = _WorkerPool()
os.register_at_fork(after_in_child=WORKERS.reset)
