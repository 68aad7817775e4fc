"""Compile the CPU engine's kernels once per machine, behind a progress bar.

Numba takes half a minute to a minute and a half for them; jit.py keeps the result on disk. One
process compiles, under a lock, and others wait for it and load the result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numba.core import event

from bytenmt.architectures.parameters import parameter_shapes
from bytenmt.config.schema import load_config
from bytenmt.decoding.cpu import interpreter
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.decoding.scheduler import decode
from bytenmt.decoding.search.beam_search import choose_bytes
from bytenmt.decoding.search.state import SearchParams, SearchState
from bytenmt.jit import VARIABLE, cache_folder, is_stored, linked_only, njit_borrowing
from bytenmt.reporter import SILENT, Bar, Reporter

N_FUNCTIONS = 160  # that are compiled, about


def compile_kernels(reporter: Reporter = SILENT) -> None:
    """Load the machine code of the CPU engine from disk, or compile it and store it there.

    It serves all models; a second call does nothing. reporter: tells why it takes long, shows the
    progress.
    """
    dispatcher: Any = interpreter.run
    if not dispatcher.signatures:
        compile_once(dispatcher, _decode_a_byte, reporter)


@njit_borrowing
def search_step(search: SearchState, params: SearchParams) -> None:
    """Choose the next byte of every beam by search.log_p, as beam_search.choose_bytes, but
    compiled."""
    choose_bytes(search, params)


def compile_search(reporter: Reporter = SILENT) -> None:
    """Load the machine code of search_step from disk, or compile it; a second call does nothing."""
    dispatcher: Any = search_step
    if not dispatcher.signatures:
        state, params = (
            SearchState.allocate(1, 1, 0, 0, 0),
            SearchParams.from_options(SearchOptions()),
        )
        compile_once(dispatcher, lambda: search_step(state, params), reporter)


def compile_once(dispatcher: Any, call: Callable[[], object], reporter: Reporter) -> None:
    """Call a function that calls a dispatcher of jit.njit. If its machine code is not stored on
    disk, show a progress bar meanwhile, and let other processes wait for a lock until one has
    compiled it."""
    if is_stored(dispatcher):
        call()
        return
    folder = cache_folder(Path(inspect.getfile(dispatcher.py_func)))  # None: every process compiles
    with ExitStack() as stack:
        if folder is not None:
            with suppress(OSError, NotImplementedError):  # nobody waits where no lock can be made
                name = folder.name.partition("-")[0]
                lock = FileLock(folder.parent / f".{name}.lock")
                try:
                    lock.acquire(timeout=0)
                except Timeout:
                    reporter.say("bytenmt: waiting for another process, which compiles the kernels")
                    lock.acquire()
                stack.callback(lock.release)
        if is_stored(dispatcher):  # another process has compiled them
            call()
            return
        reporter.say(
            "bytenmt: compiling the decoder's kernels for this machine, once: up to a minute and a half"
        )
        bar = stack.enter_context(reporter.bar(1.0, "", what="compiling"))
        stack.enter_context(event.install_listener("numba:compile", _Progress(bar)))
        with linked_only():
            call()
    if not is_stored(dispatcher):
        reporter.say(
            f"bytenmt: the kernels cannot be stored in {folder or 'any folder'}, so every start compiles"
            f" them: set {VARIABLE} to a writable folder"
        )


def _decode_a_byte() -> None:
    """Decode with a small model; the kernels that are compiled for it serve all models."""
    settings = ["model.d_hidden=16", "model.d_embedding=16", "model.ngrams=[2]"]
    config = load_config("seq2seq", "tiny", settings).model
    tensors = {
        name: np.zeros(shape, np.float32) for name, shape in parameter_shapes(config).items()
    }
    engine = NumbaEngine([pack_model(tensors, config, "fp32")], SearchOptions(), 1, 1)
    for _ in decode(engine, [Request(b"a", 0)]):
        pass


class _Progress(event.Listener):
    """Show on a bar how many functions are compiled."""

    def __init__(self, bar: Bar) -> None:
        self._bar, self._n = bar, 0

    def on_start(self, event: Any) -> None:
        pass

    def on_end(self, event: Any) -> None:
        self._n += 1
        self._bar.show(min(self._n / N_FUNCTIONS, 0.99), "")
