"""The engine's kernels, compiled by a child while this process does something else.

What a machine compiles once takes most of a minute. Knows the engine, Numba's way in and processes; knows no
runs.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import numpy as np

from bytenmt.config.schema import load_config
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.program.packed_model import PackedModel
from bytenmt.decoding.cpu.program.programs import pack_model
from bytenmt.decoding.interface import Options, Request
from bytenmt.decoding.scheduler import decode
from bytenmt.jit import NotKept, kept_only
from bytenmt.storage.parameters import parameter_shapes

CHECKOUT = Path(__file__).parents[3]  # the folder in which the package lies
NICER = 5  # than this process: what it does comes first
CHILD = "from bytenmt.decoding.cpu.compilation import compile_all; compile_all()"
LOOKS = 1.0  # seconds between looks at the disk


def call_all(packed: Sequence[PackedModel], source: bool) -> None:
    """Call what decoding calls, so that it is compiled, or read from the disk. source: whether the models
    have one."""
    for _ in decode(NumbaEngine(packed, Options(), 1, 1), [Request(b"a" if source else None, 0)]):
        pass


def compile_all(nicer: int = NICER) -> None:
    """The same without a run: the kernels are those of all models."""
    os.nice(nicer)
    config = load_config("seq2seq", "tiny", "", ["model.d_hidden=16", "model.d_embedding=16"]).model
    tensors = {name: np.zeros(shape, np.float32) for name, shape in parameter_shapes(config).items()}
    with alone():
        call_all([pack_model(tensors, config, "fp32")], True)


@contextmanager
def alone() -> Iterator[None]:
    """Inside, no other process of this user on this machine compiles; where that cannot be, nobody waits."""
    file = _lock()
    try:
        if file is not None:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        if file is not None:
            os.close(file)


def _others_compile() -> bool:
    """Whether a process is in `alone`."""
    file = _lock()
    if file is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    finally:
        os.close(file)
    return False


def _lock() -> int | None:
    """The file that is locked, open; None where there can be none."""
    path = Path(tempfile.gettempdir(), f"bytenmt-{os.getuid()}.compiling")
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


class Compilation:
    """Of the kernels for models like `packed`. leads: whether this process is the one of its machine that
    begins it where the disk has none."""

    def __init__(self, packed: PackedModel, source: bool, leads: bool = True) -> None:
        self._packed, self._source = packed, source
        self._child: subprocess.Popen[bytes] | None = None
        self._looked = 0.0
        self._done = self._on_disk()
        self._others = not self._done and leads and _others_compile()
        if not self._done and leads and not self._others:
            path = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
            quiet = subprocess.DEVNULL
            with suppress(OSError):  # no memory, no process
                self._child = subprocess.Popen(
                    [sys.executable, "-c", CHILD],
                    env=os.environ | {"PYTHONPATH": path},
                    stdin=quiet,
                    stdout=quiet,
                    stderr=quiet,
                    start_new_session=True,  # Ctrl-C is this process' affair
                )

    def done(self, wait: bool = False) -> bool:
        """Whether the kernels can be called now; wait: for the process that compiles them, if there is
        one."""
        if not self._done:
            if self._child is not None and wait:
                self._child.wait()
            elif self._others and wait:
                with alone():
                    pass
            ended = self._child is None or self._child.poll() is not None
            if ended and (wait or monotonic() - self._looked > LOOKS):
                self._done = self._on_disk()
                self._looked = monotonic()
        return self._done

    def over(self) -> bool:
        """Whether there is nothing to wait for: they are there, or nobody compiles them, as where no folder
        could keep them or the process was killed, so that they are compiled when they are called."""
        if self.done():
            return True
        return not _others_compile() if self._child is None else self._child.poll() is not None

    def stop(self) -> None:
        """Nobody will ask any more."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def _on_disk(self) -> bool:
        """Read them, where they are there."""
        try:
            with kept_only():
                call_all([self._packed], self._source)
        except NotKept:
            return False
        return True
