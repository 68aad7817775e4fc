"""A pool of child processes that read and write documents for a server.

The event loop only waits for them: whatever a file makes its reader do, `/health` is answered and signals
work. A child that exceeds its CPU time, its memory or the wall-clock limit is killed and replaced.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from heapq import heappop, heappush
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Lock, Timer
from weakref import WeakSet, finalize

import msgspec

from bytenmt.decoding.interface import Hypothesis
from bytenmt.serve.document_worker import (
    OUT_OF_MEMORY,
    DocumentResult,
    DocumentSource,
    DocumentTask,
)
from bytenmt.serve.limits import UNKNOWN_CLIENT, Client, Limits, Refusal

CHILD = (
    "import sys; sys.path[:] = {path!r}; from bytenmt.serve.document_worker import main; main({fd}, {memory})"
)
MAX_PROCESSES = 4
SMALL_BYTES = 1 << 14  # tasks up to this size, as most pages, have a child reserved for them, and less time
SMALL_SECONDS = 3  # of CPU
MAX_WAITING_DOCUMENTS = 32  # so many documents of the longest size may wait to be read
SHARE_OF_CLIENT = 4  # a client may have a quarter of that
RETRY_AFTER = 10  # seconds that a client is told to wait
WALL_SECONDS = 120.0  # a child that has not answered by then, for whatever reason, is killed


class DocumentFailure(Exception):
    """An unexpected exception of a document's reader or writer: a bug of theirs, not a malformed document."""


class DocumentProcess:
    """One child process, started when it is first needed and never restarted. memory_bytes: for its tasks."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._lock = Lock()
        self._killed = False

    def start(self) -> None:
        """Start the child if it is not running yet. Thread-safe."""
        with self._lock:
            if self._process is None and not self._killed:
                self._process, self._pipe = _start_child(self._memory_bytes)
                finalize(self, _end, self._process, self._pipe)

    def run(self, task: bytes) -> bytes | int:
        """Send a task and wait for its result; if the child ends instead, return its exit code, which is
        negative for a signal."""
        timer = Timer(WALL_SECONDS, self.kill)
        timer.daemon = True
        timer.start()
        try:
            self.start()
            if self._process is None or self._pipe is None:
                return -signal.SIGKILL
            try:
                self._pipe.send_bytes(task)
                return self._pipe.recv_bytes()
            except (EOFError, OSError):
                return self._process.wait()
        finally:
            timer.cancel()

    def has_ended(self) -> bool:
        """Return whether the child was started and runs no more."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """End the child, whatever it does; a thread that is in `run` returns. Thread-safe."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()


def _size(task: DocumentTask) -> int:
    """Return the number of bytes that a task has to parse."""
    return sum(len(one.data) for one in task.documents)


def _start_child(memory_bytes: int) -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = Pipe()
    with theirs:
        path = [os.path.abspath(folder) for folder in sys.path]  # the child imports the package of its parent
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD.format(path=path, fd=theirs.fileno(), memory=memory_bytes)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},  # NumPy's threads
        )
    return process, ours


def _end(process: subprocess.Popen[bytes], pipe: Connection) -> None:
    pipe.close()
    process.kill()
    process.wait()


class Slots:
    """Slots for tasks on one event loop.

    Of the tasks that wait, the shortest gets the next free slot: a page waits for no long file.
    """

    def __init__(self, n_slots: int) -> None:
        self._n_free = n_slots
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap by size, then arrival
        self._numbers = count()

    @asynccontextmanager
    async def slot(self, size: int) -> AsyncIterator[None]:
        """Inside, a task of this size has a slot."""
        if self._n_free:
            self._n_free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (size, next(self._numbers), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # it came at the same time
                    self._release()
                raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        while self._waiting:
            turn = heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._n_free += 1


class DocumentPool:
    """Reads and writes documents in child processes, as many as `n_processes` at once.

    limits: `document_seconds` of CPU for each reading and each writing, and `document_memory` bytes. One
    child is reserved for tasks of at most SMALL_BYTES.
    """

    def __init__(self, limits: Limits, n_processes: int | None = None) -> None:
        n_processes = n_processes or max(2, min(MAX_PROCESSES, os.cpu_count() or 1))
        self._limits = limits
        self._processes: WeakSet[DocumentProcess] = WeakSet()
        self._idle = [self._new_process() for _ in range(n_processes)]
        self._slots, self._large_slots = Slots(n_processes), Slots(max(1, n_processes - 1))
        self._waiting_bytes: Counter[str] = Counter()  # of documents to read: in all, and by accounts
        # A killed child's thread may live a moment longer than its slot is taken.
        self._threads = ThreadPoolExecutor(2 * n_processes, "documents")
        self.n_killed = 0

    def start(self) -> None:
        """Start the children, so that the first client need not wait for them."""
        for process in self._idle:
            process.start()

    def close(self) -> None:
        """End the children."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()

    def _new_process(self) -> DocumentProcess:
        process = DocumentProcess(self._limits.document_memory)
        self._processes.add(process)
        return process

    async def read(
        self,
        documents: Sequence[DocumentSource],
        client: Client = UNKNOWN_CLIENT,
    ) -> list[list[str]]:
        """Return the lines to translate of each document. Raises Refusal where one cannot be read, and where
        too many wait, of all clients or of this one."""
        task = DocumentTask(list(documents), self._limits.document_seconds)
        with self._waiting(_size(task), client):
            return (await self._run(task)).lines

    def check_room(self, size: int, client: Client) -> None:
        """Raise Refusal (429) where there is no room for so many bytes more; small ones always have it."""
        if size <= SMALL_BYTES:
            return
        most = MAX_WAITING_DOCUMENTS * self._limits.body
        shares = {"": most} | dict.fromkeys(client.accounts(), most // SHARE_OF_CLIENT)
        if any(self._waiting_bytes[name] + size > share for name, share in shares.items()):
            raise Refusal(429, f"too many files are waiting: try again in {RETRY_AFTER} s", RETRY_AFTER)

    @contextmanager
    def _waiting(self, size: int, client: Client) -> Iterator[None]:
        """Inside, so many bytes of a client wait or are read. Raises Refusal (429)."""
        self.check_room(size, client)
        accounts = "", *client.accounts()
        self._waiting_bytes.update(dict.fromkeys(accounts, size))
        try:
            yield
        finally:
            for name in accounts:
                self._waiting_bytes[name] -= size
                if not self._waiting_bytes[name]:  # nothing is kept of who has gone
                    del self._waiting_bytes[name]

    async def write(
        self,
        documents: Sequence[DocumentSource],
        translations: Sequence[Sequence[Sequence[Hypothesis]]],
    ) -> list[list[bytes]]:
        """Return the files with translations of their lines. translations: for each document, alternatives,
        each with a translation for every line that `read` returned. Raises Refusal."""
        lists = [[list(one) for one in alternatives] for alternatives in translations]
        return (await self._run(DocumentTask(list(documents), self._limits.document_seconds, lists))).files

    async def _run(self, task: DocumentTask) -> DocumentResult:
        size = _size(task)
        async with AsyncExitStack() as slots:
            if size > SMALL_BYTES:
                await slots.enter_async_context(self._large_slots.slot(size))
            else:
                task = msgspec.structs.replace(task, cpu_seconds=min(task.cpu_seconds, SMALL_SECONDS))
            await slots.enter_async_context(self._slots.slot(size))
            outcome = await self._run_in_child(msgspec.msgpack.encode(task))
        if isinstance(outcome, int):
            why = {-signal.SIGXCPU: "time", OUT_OF_MEMORY: "memory"}.get(outcome, "time or memory")
            raise Refusal(413, f"the document takes too much {why} to parse or write")
        result = msgspec.msgpack.decode(outcome, type=DocumentResult)
        if result.refusal:
            raise Refusal(400, result.refusal)
        if result.failure:
            raise DocumentFailure(result.failure)
        return result

    async def _run_in_child(self, task: bytes) -> bytes | int:
        """The result of a task, or the exit code of a child that ended; cancelled, it kills the child."""
        process = self._idle.pop()
        if process.has_ended():  # while nobody asked it, as when the system was short of memory
            process = self._new_process()
        outcome: bytes | int = -signal.SIGKILL
        try:
            outcome = await asyncio.get_running_loop().run_in_executor(self._threads, process.run, task)
            return outcome
        finally:
            if isinstance(outcome, int):
                process.kill()
                self.n_killed += 1
                process = self._new_process()
                with suppress(RuntimeError):  # the pool has been closed
                    self._threads.submit(process.start)
            self._idle.append(process)
