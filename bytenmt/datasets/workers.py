"""Translate lines with several processes of one machine, each with an engine of its own."""

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

from bytenmt.datasets.recipe import TranslatorSpec
from bytenmt.decoding.engine_selection import n_cores
from bytenmt.decoding.engines import MAX_THREADS
from bytenmt.decoding.line_batch import TranslationResult
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError

PARTS_PER_PROCESS = 2  # that are submitted: one waits while the other is translated
POLL_SECONDS = 0.02  # between two looks for finished parts

_own: list[Translator] = []  # the translator of a worker process


class Workers:
    """A pool of n translating processes, which end with this one."""

    def __init__(self, recipe: TranslatorSpec, n: int) -> None:
        self._most = n * PARTS_PER_PROCESS
        self._submitted: deque[
            tuple[Future[list[TranslationResult]], Callable[[list[TranslationResult]], None]]
        ] = deque()
        # Spawned: a process with threads must not fork.
        self._pool = ProcessPoolExecutor(n, get_context("spawn"), _begin, (recipe,))

    @property
    def patience(self) -> float | None:
        """Seconds until `ask` should be called again; None if no part is under way."""
        return POLL_SECONDS if self._submitted else None

    def ask(
        self, lines: Sequence[bytes], first: int, then: Callable[[list[TranslationResult]], None]
    ) -> None:
        """Submit lines to be translated as by Translator.translate_lines; without lines, only collect
        results.

        then: is called with the results, in this thread and in the order of submission, by this or a later
        call. Raises BytenmtError if a process has died.
        """
        if lines:
            try:
                self._submitted.append((self._pool.submit(_translate, list(lines), first), then))
            except BrokenExecutor:
                raise _lost() from None
        self.settle(self._most)

    def settle(self, most: int = 0) -> None:
        """Collect results, and wait until at most `most` parts are under way. Raises as `ask`."""
        while self._submitted and (len(self._submitted) > most or self._submitted[0][0].done()):
            future, then = self._submitted.popleft()
            try:
                results = future.result()
            except BrokenExecutor:
                raise _lost() from None
            then(results)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)


@contextmanager
def worker_processes(recipe: TranslatorSpec, n: int) -> Iterator[Workers | None]:
    """Start n processes; yields None if n is 1 and this process does the work."""
    if n == 1:
        yield None
        return
    with Workers(recipe, n) as workers:
        yield workers


def threads_per_process(n: int, threads: int | None) -> int | None:
    """Return the threads of each of n processes: as given, else an equal share of the cores."""
    return max(1, min(MAX_THREADS, n_cores() // n)) if threads is None and n > 1 else threads


def _lost() -> BytenmtError:
    return BytenmtError("a process of --workers died: if memory ran out, give fewer --workers")


def _begin(recipe: TranslatorSpec) -> None:
    """Initialize a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the leading process hears it too
    Thread(target=_end_with_parent, daemon=True).start()
    _own.append(recipe.load())


def _end_with_parent() -> None:
    """End this process with its parent, also if the parent is killed."""
    leading = parent_process()
    if leading is not None:
        leading.join()
        os._exit(1)


def _translate(lines: list[bytes], first: int) -> list[TranslationResult]:
    return _own[0].translate_lines(lines, first)
