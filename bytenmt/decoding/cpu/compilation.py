"""Compile the CPU engine's kernels once per machine, in a child process if something else can be done
meanwhile.

Numba takes most of a minute for them, and kernel_cache.py stores the result on disk. One process at a time
compiles, under a lock; the others wait and then load the result.
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

NICENESS = 5  # of the child that compiles: this process has priority
# The child imports this very package, even if Python would find another one of its name in the current
# folder, in PYTHONPATH, or among the installed ones.
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
CHECK_SECONDS = 1.0  # between checks of the disk
PATIENCE = 2.0  # seconds until the user is told why nothing happens yet
REPEAT_SECONDS = 20.0  # between further lines that say that it still compiles
GO_ON = b"."  # sent to the child that compiles when this process ends normally


def call_all(packed: Sequence[PackedModel], source: bool) -> None:
    """Decode a sentence, so that all kernels are compiled or loaded from disk.

    source: whether the models have a source.
    """
    for _ in decode(NumbaEngine(packed, Options(), 1, 1), [Request(b"a" if source else None, 0)]):
        pass


def is_cached(packed: Sequence[PackedModel], source: bool) -> bool:
    """Load the kernels from disk; return False if they are not there."""
    try:
        with cached_kernels_only():
            call_all(packed, source)
    except KernelNotCached:
        return False
    return True


def load_or_compile(packed: Sequence[PackedModel], source: bool, reporter: Reporter = SILENT) -> None:
    """Load the kernels from disk, or compile them here after any other process that compiles them.

    reporter: is told why it takes long, and that it still does.
    """
    if is_cached(packed, source):
        return
    what = "bytenmt: compiling the decode kernels for this machine, once: it takes about a minute"
    with report_waiting(reporter, what), compilation_lock():
        call_all(packed, source)


def smallest_model() -> PackedModel:
    """Return a small model; the kernels compiled for it serve all models."""
    config = load_config("seq2seq", "tiny", "", ["model.d_hidden=16", "model.d_embedding=16"]).model
    tensors = {name: np.zeros(shape, np.float32) for name, shape in parameter_shapes(config).items()}
    return pack_model(tensors, config, "fp32")


def compile_all(niceness: int = NICENESS) -> None:
    """Compile the kernels of all models, unless they are on disk."""
    os.nice(niceness)
    load_or_compile([smallest_model()], True)


def compile_in_child() -> None:
    """Compile the kernels in the child process of a Compilation.

    It ends at once if the parent is killed, but goes on if the parent ends normally: the next command needs
    the kernels.
    """

    def end_with_parent() -> None:
        if sys.stdin.buffer.read(1) != GO_ON:
            os._exit(1)

    Thread(target=end_with_parent, daemon=True).start()
    compile_all()


@contextmanager
def compilation_lock() -> Iterator[None]:
    """Hold the lock under which a process of this user compiles these kernels for this cache folder.

    If the lock file cannot be created, nobody waits.
    """
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
    """Return whether a process holds `compilation_lock`."""
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
    """Open the lock file; return None if that is not possible.

    Its name depends on the sources and the cache folder: nobody waits for kernels that they could not use.
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
    """While the context is open, report after PATIENCE seconds what is waited for, and every REPEAT_SECONDS
    that it still is. first: the first line, None if it was reported before."""
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
    """The compilation of kernels in a child process, while this process does something else.

    packed: a model for which they are compiled. is_leader: whether this process of its job starts a child if
    the kernels are not on disk. reporter: is told of long waits.
    """

    def __init__(
        self, packed: PackedModel, source: bool, is_leader: bool = True, reporter: Reporter = SILENT
    ) -> None:
        self._models, self._source, self._reporter = [packed], source, reporter
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()  # a forked process cannot wait for its parent's child
        self._checked = monotonic()
        self._done = is_cached(self._models, source)
        self._may_start = is_leader
        if not self._done and not is_locked():
            self._start()

    def done(self, wait: bool = False) -> bool:
        """Return whether the kernels are compiled.

        wait: wait for the process that compiles them, if there is one.
        """
        if not self._done and wait:
            self._wait()
        if not self._done and (wait or monotonic() - self._checked > CHECK_SECONDS):
            self._checked = monotonic()
            self._done = not self._child_runs() and is_cached(self._models, self._source)
        return self._done

    def ready(self) -> bool:
        """Return whether the kernels can be used; compile them here if no other process does.

        No other process does if it was killed, or if there is no folder to store the kernels in.
        """
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
        """Wait until `ready`; the reporter is told now and then that it still takes time."""
        with report_waiting(self._reporter, None):
            while not self.ready():
                sleep(CHECK_SECONDS / 5)

    def stop(self) -> None:
        """End the child that compiles, because this process will not need the kernels any more."""
        if self._child is not None and self._owner == os.getpid():
            stop_child()

    def _start(self) -> None:
        """Start the child, at most once."""
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
        """Return whether any process seems to compile these kernels."""
        return self._child_runs() or is_locked()


_children: dict[
    int, subprocess.Popen[bytes]
] = {}  # by the id of the process that started them: a forked one has none


def start_child() -> subprocess.Popen[bytes] | None:
    """Return the child of this process that compiles, started if none is running; None if that fails."""
    child = _children.get(os.getpid())
    if child is not None and child.poll() is None:
        return child
    try:
        child = subprocess.Popen(
            # -P keeps the current folder and that of a script out of sys.path.
            [sys.executable, "-P", "-c", CHILD, str(PACKAGE)],
            stdin=subprocess.PIPE,  # its end tells the child that this process was killed
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends this process only
        )
    except OSError:  # no memory, no process
        return None
    _children[os.getpid()] = child
    atexit.register(_let_it_finish, child)
    return child


def stop_child() -> None:
    """End the child of this process that compiles, if there is one."""
    child = _children.pop(os.getpid(), None)
    if child is not None:
        child.kill()
        child.wait()


def _let_it_finish(child: subprocess.Popen[bytes]) -> None:
    """Let the child finish its work alone, when this process ends normally."""
    with suppress(OSError):
        if child.stdin is not None:
            child.stdin.write(GO_ON)
            child.stdin.close()
