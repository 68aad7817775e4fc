"""Compile the CPU engine's kernels with Numba, behind a progress bar.

This is for who edits kernels, and for processors for which the package has no object (library.py).
Numba takes half a minute to a minute and a half; jit.py keeps the result on disk. One process
compiles, under a lock, and others wait for it and load the result.
"""

from __future__ import annotations

import inspect
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from numba.core import event

from bytenmt.jit import CACHE_VARIABLE, cache_folder, is_stored
from bytenmt.reporter import Bar, Reporter

N_FUNCTIONS = 160  # approximate number of functions that are compiled


def compile_once(function: object, signature: str, reporter: Reporter) -> None:
    """Load the machine code of a function from disk, or compile it and store it there.

    A second call does nothing. function: decorated with jit.njit or njit_borrowing. signature: the
    types of its arguments as Numba writes them, such as "(int64,)". reporter: gets messages and a
    progress bar while the function is compiled; other processes wait for a lock meanwhile.
    """
    dispatcher: Any = function
    if dispatcher.signatures:
        return
    folder = cache_folder(Path(inspect.getfile(dispatcher.py_func)))  # None: every process compiles
    with ExitStack() as stack:
        if folder is not None and not is_stored(dispatcher):
            with suppress(OSError, NotImplementedError):  # nobody waits where no lock can be made
                name = folder.name.partition("-")[0]
                lock = FileLock(folder.parent / f".{name}.lock")
                try:
                    lock.acquire(timeout=0)
                except Timeout:
                    reporter.say("bytenmt: waiting for another process, which compiles the kernels")
                    lock.acquire()
                stack.callback(lock.release)
        is_new = not is_stored(dispatcher)  # otherwise perhaps another process has compiled it now
        if is_new:
            reporter.say(
                "bytenmt: compiling the decoder's kernels for this machine, once: up to a minute"
                " and a half"
            )
            bar = stack.enter_context(reporter.bar(1.0, "", what="compiling"))
            stack.enter_context(event.install_listener("numba:compile", _Progress(bar)))
        dispatcher.compile(signature)
    if is_new and not is_stored(dispatcher):
        reporter.say(
            f"bytenmt: the kernels cannot be stored in {folder or 'any folder'}, so every start"
            f" compiles them: set {CACHE_VARIABLE} to a writable folder"
        )


class _Progress(event.Listener):
    """Show on a bar how many functions are compiled."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._n = 0

    def on_start(self, event: Any) -> None:
        pass

    def on_end(self, event: Any) -> None:
        self._n += 1
        self._bar.show(min(self._n / N_FUNCTIONS, 0.99), "")
