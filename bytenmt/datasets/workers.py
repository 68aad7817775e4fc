"""Translate lines with several processes of one machine, each with an engine of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from functools import cache
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import Any

from bytenmt.errors import BytenmtError
from bytenmt.translation.line_batch import TranslationResult
from bytenmt.translation.translator import Translator

PARTS_PER_PROCESS = 4  # into which lines are cut, so that no process waits long for the last one

# Of a worker process: one function, which loads the translator at the first call.
_loads: list[Callable[[], Translator]] = []


class Workers:
    """A pool of n processes that translate lines; a context manager, at whose end they end.

    load: is pickled and called by each process for its first lines; returns the translator.
    """

    def __init__(self, n: int, load: Callable[[], Translator]) -> None:
        self._n = n
        self._other_children = set(active_children())
        os.environ["PYTHONSAFEPATH"] = "1"  # children import nothing from the current folder
        # Spawned: a process with threads must not fork.
        self._pool = ProcessPoolExecutor(n, get_context("spawn"), _initialize, (load,))

    def translate(self, lines: Sequence[bytes], first: int) -> list[TranslationResult]:
        """Translate UTF-8 lines; return a result for each, in their order.

        first: number of the first line in its text, on which the random draws of sampling depend.
        Raises what `load` has raised, and BytenmtError if a process has died.
        """
        size = -(-len(lines) // (self._n * PARTS_PER_PROCESS)) or 1
        begins = range(0, len(lines), size)
        parts = [list(lines[begin : begin + size]) for begin in begins]
        try:
            found = self._pool.map(_translate, parts, [first + begin for begin in begins])
            return [result for results in found for result in results]
        except BrokenExecutor:
            message = "a worker process died: if memory ran out, use fewer --workers"
            raise BytenmtError(message) from None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is not None:  # what they translate is no longer wanted
            for process in set(active_children()) - self._other_children:
                process.kill()
        self._pool.shutdown(wait=kind is None, cancel_futures=True)


def _initialize(load: Callable[[], Translator]) -> None:
    """Initialize a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the leading process hears it too
    Thread(target=_exit_with_parent, daemon=True).start()
    _loads.append(cache(load))


def _exit_with_parent() -> None:
    """End this process with its parent, also if the parent is killed."""
    if (leading := parent_process()) is not None:
        leading.join()
        os._exit(1)


def _translate(lines: list[bytes], first: int) -> list[TranslationResult]:
    return _loads[0]().translate_lines(lines, first)
