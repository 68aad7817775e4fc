"""The engine's kernels, compiled by a child while this process does something else.

What a machine compiles once takes most of a minute. Knows the engine, Numba's way in and processes; knows no
runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

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
    call_all([pack_model(tensors, config, "fp32")], True)


class Compilation:
    """Of the kernels for models like `packed`. leads: whether this process is the one of its machine that
    begins it where the disk has none."""

    def __init__(self, packed: PackedModel, source: bool, leads: bool = True) -> None:
        self._packed, self._source = packed, source
        self._child: subprocess.Popen[bytes] | None = None
        self._done = self._on_disk()
        if not self._done and leads:
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
        """Whether the kernels can be called now; wait: for the child, if there is one."""
        if not self._done:
            if self._child is not None and wait:
                self._child.wait()
            if self._child is None or self._child.poll() is not None:
                self._done = self._on_disk()
        return self._done

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
