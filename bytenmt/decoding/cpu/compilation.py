"""Compile the CPU engine's kernels once per machine, behind a progress bar.

Numba takes half a minute for them; jit.py keeps the result on disk. One process compiles, under a lock, and
others wait for it and load the result.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import event

from bytenmt.architectures.parameters import parameter_shapes
from bytenmt.config.schema import load_config
from bytenmt.decoding.cpu import interpreter
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.interface import Options, Request
from bytenmt.decoding.scheduler import decode
from bytenmt.jit import VARIABLE, cache_folder, linked_only
from bytenmt.reporter import SILENT, Bar, Reporter

N_FUNCTIONS = 160  # that are compiled, about
INDEX = "*.nbi"  # the files in which Numba lists the machine code of a folder


def compile_kernels(reporter: Reporter = SILENT) -> None:
    """Load the kernels of all models from disk, or compile them.

    reporter: is told why it takes long, and shows the progress.
    """
    dispatcher: Any = interpreter.run
    if not dispatcher.signatures:
        compile_once(_decode_a_byte, cache_folder(Path(interpreter.__file__)), reporter)


def compile_once(call: Callable[[], object], folder: Path | None, reporter: Reporter) -> None:
    """Call a function that loads kernels from a folder, or compiles them if they are not there."""
    if _is_stored(folder):
        call()
        return
    with _lock(folder):
        if _is_stored(folder):  # another process has compiled them
            call()
            return
        reporter.say("bytenmt: compiling the decode kernels for this machine, once: about half a minute")
        with reporter.bar(1.0, "", what="compiling") as bar, _progress(bar), linked_only():
            call()
    if not _is_stored(folder):
        reporter.say(
            f"bytenmt: the kernels cannot be stored in {folder or 'any folder'}, so every start compiles"
            f" them: set {VARIABLE} to a writable folder"
        )


def _is_stored(folder: Path | None) -> bool:
    return folder is not None and any(folder.glob(INDEX))


def _decode_a_byte() -> None:
    """Decode with a small model; the kernels that are compiled for it serve all models."""
    settings = ["model.d_hidden=16", "model.d_embedding=16", "model.ngrams=[2]"]
    config = load_config("seq2seq", "tiny", "", settings).model
    tensors = {name: np.zeros(shape, np.float32) for name, shape in parameter_shapes(config).items()}
    engine = NumbaEngine([pack_model(tensors, config, "fp32")], Options(), 1, 1)
    for _ in decode(engine, [Request(b"a", 0)]):
        pass


@contextmanager
def _lock(folder: Path | None) -> Iterator[None]:
    """Hold the lock under which a process compiles; nobody waits where it cannot be made."""
    file = None
    with suppress(OSError):
        if folder is not None:
            path = folder.parent / f".{folder.name.partition('-')[0]}.lock"
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if file is not None:
            os.close(file)


@contextmanager
def _progress(bar: Bar) -> Iterator[None]:
    """Show on a bar how many functions are compiled."""
    counter = _Counter(bar)
    with event.install_listener("numba:compile", counter):
        yield


class _Counter(event.Listener):
    """Count compiled functions on a bar."""

    def __init__(self, bar: Bar) -> None:
        self._bar, self.n = bar, 0

    def on_start(self, event: Any) -> None:
        pass

    def on_end(self, event: Any) -> None:
        self.n += 1
        self._bar.show(min(self.n / N_FUNCTIONS, 0.99), "")
