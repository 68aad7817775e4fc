"""Compile the CPU engine's kernels, once a machine, beside other work where it can wait for them.

Numba takes most of a minute for them and kernel_cache.py keeps the result on disk. One process at a time
compiles, under a lock; the others wait and then load what it has kept.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep

import numpy as np

from bytenmt.architectures.parameters import parameter_shapes
from bytenmt.config.schema import load_config
from bytenmt.decoding.cpu import interpreter
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import PackedModel, pack_model
from bytenmt.decoding.interface import Options, Request
from bytenmt.decoding.scheduler import decode
from bytenmt.jit import KernelNotCached, cached_kernels_only
from bytenmt.kernel_cache import PACKAGE, digest, folders
from bytenmt.reporter import SILENT, Reporter

NICENESS = 5  # of the child that compiles: what this process does comes first
# The child imports this very package, whatever else Python would find under its name: in the current folder,
# in PYTHONPATH, or where an older version is installed.
CHILD = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location(
    "bytenmt", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]]
)
sys.modules["bytenmt"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
from bytenmt.decoding.cpu.compilation import compile_in_child
compile_in_child()
"""
CHECK_SECONDS = 1.0  # between looks at the disk
PATIENCE = 2.0  # seconds until a user is told why nothing happens yet
REPEAT_SECONDS = 20.0  # from then on between lines that say that it is still going on
GO_ON = b"."  # what a process that ends normally sends to the child that compiles


def call_all(packed: Sequence[PackedModel], source: bool) -> None:
    """Call what decoding calls, so that it is compiled, or loaded from disk. source: whether the models have
    one."""
    for _ in decode(NumbaEngine(packed, Options(), 1, 1), [Request(b"a" if source else None, 0)]):
        pass


def is_cached(packed: Sequence[PackedModel], source: bool) -> bool:
    """Load the kernels from disk; False where they are not there."""
    try:
        with cached_kernels_only():
            call_all(packed, source)
    except KernelNotCached:
        return False
    return True


def load_or_compile(packed: Sequence[PackedModel], source: bool, reporter: Reporter = SILENT) -> None:
    """Load the kernels from disk; compile them here where they are not there and nobody else compiles them.

    reporter: is told why it takes long, and that it still does.
    """
    if is_cached(packed, source):
        return
    what = "bytenmt: compiling the decode kernels for this machine, once: it takes about a minute"
    with report_waiting(reporter, what), compilation_lock():
        call_all(packed, source)


def smallest_model() -> PackedModel:
    """Return a model for which all kernels are compiled: those of others are the same."""
    config = load_config("seq2seq", "tiny", "", ["model.d_hidden=16", "model.d_embedding=16"]).model
    tensors = {name: np.zeros(shape, np.float32) for name, shape in parameter_shapes(config).items()}
    return pack_model(tensors, config, "fp32")


def compile_all(niceness: int = NICENESS) -> None:
    """Compile the kernels of all models, or see that they are there."""
    os.nice(niceness)
    load_or_compile([smallest_model()], True)


def compile_in_child() -> None:
    """What the child process of a Compilation does: end at once where the parent is stopped by a signal, but
    go on where it ends normally, for the sake of the next command."""

    def end_with_parent() -> None:
        if sys.stdin.buffer.read(1) != GO_ON:
            os._exit(1)

    Thread(target=end_with_parent, daemon=True).start()
    compile_all()


@contextmanager
def compilation_lock() -> Iterator[None]:
    """Inside, no other process of this user on this machine compiles these kernels for the same folder; where
    that cannot be, nobody waits."""
    file = _open_lock()
    try:
        if file is not None:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        if file is not None:
            os.close(file)


def is_locked() -> bool:
    """Whether a process is inside `compilation_lock`."""
    file = _open_lock()
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


def _open_lock() -> int | None:
    """The file that is locked, open; None where there can be none.

    Its name holds the sources and the cache folder: nobody waits for kernels that it could not use.
    """
    which = f"{folders()[0].path}\0{digest(Path(interpreter.__file__))}"
    name = f"bytenmt-{os.getuid()}-{sha256(which.encode()).hexdigest()[:16]}.compiling"
    try:
        path = Path(tempfile.gettempdir(), name)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


@contextmanager
def report_waiting(reporter: Reporter, first: str | None) -> Iterator[None]:
    """Inside, tell a reporter after PATIENCE seconds what is waited for, and every REPEAT_SECONDS that it
    still is. first: the line to begin with, None where it was said before."""
    over, begun = Event(), monotonic()

    def tell() -> None:
        if first is not None and not over.wait(PATIENCE):
            reporter.say(first)
        while not over.wait(REPEAT_SECONDS):
            reporter.say(f"bytenmt: still compiling the decode kernels, {monotonic() - begun:.0f} s so far")

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Compilation:
    """Kernels for models like `packed`, compiled by a child process while this one does something else.

    leads: whether this process is the one of its job that starts a child where the disk has no kernels.
    reporter: is told of long waits.
    """

    def __init__(
        self, packed: PackedModel, source: bool, leads: bool = True, reporter: Reporter = SILENT
    ) -> None:
        self._models, self._source, self._reporter = [packed], source, reporter
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()  # a forked process cannot ask for its parent's child
        self._checked = monotonic()
        self._done = is_cached(self._models, source)
        self._may_start = leads
        if not self._done and not is_locked():
            self._start()

    def done(self, wait: bool = False) -> bool:
        """Whether the kernels can be called now. wait: until the process that compiles them has ended, if
        there is one."""
        if not self._done and wait:
            self._wait()
        if not self._done and (wait or monotonic() - self._checked > CHECK_SECONDS):
            self._checked = monotonic()
            self._done = not self._child_runs() and is_cached(self._models, self._source)
        return self._done

    def ready(self) -> bool:
        """Whether to use the kernels from now on: they are there, or nobody compiles them, as where no folder
        can keep them or the process was killed; then this process does."""
        if self.done():
            return True
        if self._is_running():
            return False
        if self._may_start:  # the process that compiled them was stopped
            self._start()
            return False
        load_or_compile(self._models, self._source, self._reporter)
        self._done = True
        return True

    def wait(self) -> None:
        """Return when `ready`; the reporter is told now and then that it still takes its time."""
        with report_waiting(self._reporter, None):
            while not self.ready():
                sleep(CHECK_SECONDS / 5)

    def stop(self) -> None:
        """End the child that compiles: nobody here will need the kernels any more."""
        if self._child is not None and self._owner == os.getpid():
            stop_child()

    def _start(self) -> None:
        """Start the child, once."""
        if self._may_start:
            self._may_start = False
            self._child = start_child()

    def _wait(self) -> None:
        if self._child_runs():
            assert self._child is not None
            self._child.wait()
        elif self._child is None and is_locked():
            with compilation_lock():
                pass

    def _child_runs(self) -> bool:
        return self._child is not None and self._owner == os.getpid() and self._child.poll() is None

    def _is_running(self) -> bool:
        """Whether any process compiles these kernels, as far as can be told."""
        return self._child_runs() or is_locked()


_children: dict[int, subprocess.Popen[bytes]] = {}  # of this process, by its id: a forked one has none


def start_child() -> subprocess.Popen[bytes] | None:
    """The child of this process that compiles, started where none is running; None where it cannot be."""
    child = _children.get(os.getpid())
    if child is not None and child.poll() is None:
        return child
    try:
        child = subprocess.Popen(
            # Safe path: neither the current folder nor a script's stands in sys.path.
            [sys.executable, "-P", "-c", CHILD, str(PACKAGE)],
            stdin=subprocess.PIPE,  # its end tells the child that this process was killed
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is this process' affair
        )
    except OSError:  # no memory, no process
        return None
    _children[os.getpid()] = child
    atexit.register(_let_it_finish, child)
    return child


def stop_child() -> None:
    """End the child of this process that compiles, if there is one: nobody here will need the kernels."""
    child = _children.pop(os.getpid(), None)
    if child is not None:
        child.kill()
        child.wait()


def _let_it_finish(child: subprocess.Popen[bytes]) -> None:
    """At the normal end of this process: the child finishes its work alone."""
    with suppress(OSError):
        if child.stdin is not None:
            child.stdin.write(GO_ON)
            child.stdin.close()
