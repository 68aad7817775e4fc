"""The cores of one machine: processes, each with an engine of its own, that answer lines in parts.

Knows processes, a translator's recipe and the order in which was asked; knows no files.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from types import TracebackType

from bytenmt.decoding.choice import n_cores
from bytenmt.decoding.engines import MOST_THREADS
from bytenmt.decoding.translator import Answer, Translator
from bytenmt.errors import BytenmtError
from bytenmt.scale.recipe import Recipe

AHEAD = 2  # parts for each process: one waits while the other is answered
LOOK = 0.02  # seconds after which to look whether something is answered

_own: list[Translator] = []  # of a process that answers


class Workers:
    """n processes, which end with this one."""

    def __init__(self, recipe: Recipe, n: int) -> None:
        self._most = n * AHEAD
        self._asked: deque[tuple[Future[list[Answer]], Callable[[list[Answer]], None]]] = deque()
        # Spawned: a process with threads must not fork.
        self._pool = ProcessPoolExecutor(n, get_context("spawn"), _begin, (recipe,))

    @property
    def patience(self) -> float | None:
        """Seconds until `ask` should be called again; None where nothing is under way."""
        return LOOK if self._asked else None

    def ask(self, lines: Sequence[bytes], first: int, then: Callable[[list[Answer]], None]) -> None:
        """Have lines answered, as Translator.answer does; of no lines, see what is answered. then: is called
        with the answers, in this thread and in the order of asking, by this or a later call. Raises
        BytenmtError where a process has died."""
        if lines:
            try:
                self._asked.append((self._pool.submit(_answer, list(lines), first), then))
            except BrokenExecutor:
                raise _lost() from None
        self.settle(self._most)

    def settle(self, most: int = 0) -> None:
        """Take what is answered, and wait until no more than `most` parts are under way. Raises as `ask`."""
        while self._asked and (len(self._asked) > most or self._asked[0][0].done()):
            future, then = self._asked.popleft()
            try:
                answers = future.result()
            except BrokenExecutor:
                raise _lost() from None
            then(answers)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)


@contextmanager
def side_by_side(recipe: Recipe, n: int) -> Iterator[Workers | None]:
    """So many processes; None where this one does it alone."""
    if n == 1:
        yield None
        return
    with Workers(recipe, n) as workers:
        yield workers


def threads_of(n: int, threads: int | None) -> int | None:
    """Threads for each of n processes: those that are wanted, else an equal share of the cores."""
    return max(1, min(MOST_THREADS, n_cores() // n)) if threads is None and n > 1 else threads


def _lost() -> BytenmtError:
    return BytenmtError("one of the --workers has died: give fewer, should the memory not be enough for all")


def _begin(recipe: Recipe) -> None:
    """What a process does first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the leading process hears it too
    Thread(target=_end_with_parent, daemon=True).start()
    _own.append(recipe.load())


def _end_with_parent() -> None:
    """Where the leading process is killed, nobody else tells its children."""
    leading = parent_process()
    if leading is not None:
        leading.join()
        os._exit(1)


def _answer(lines: list[bytes], first: int) -> list[Answer]:
    return _own[0].answer(lines, first)
