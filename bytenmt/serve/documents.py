"""Documents and HTML: each is read, and written, in a child process with limits of CPU time and memory.

Reading a hostile file can take any amount of time and memory: then the child ends, and the event loop has
only waited. Children are forked in some milliseconds from a server of multiprocessing's that has imported the
readers, and end after one task: to write a document it is read once more. All that the server knows of
`bytenmt.documents` is in this module.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from bytenmt.decoding.line_batch import TranslationResult
from bytenmt.documents import formats
from bytenmt.documents.translation import LineTranslation, read_lines, write_lines
from bytenmt.documents.unit import Parts, ReadOptions
from bytenmt.errors import BytenmtError
from bytenmt.serve.work_queue import Refusal

CPU_SECONDS, WALL_SECONDS = 10, 60.0  # of a child
MEMORY_BYTES = 1_000_000_000  # of a child, besides what it begins with
N_CHILDREN = max(2, min(4, os.cpu_count() or 1))
NICENESS = 10  # the threads that decode and the event loop come first
FAULT, OUT_OF_MEMORY = 1, 12  # exit codes of a child: after an exception, and at its limit
TABLES = ("csv", "tsv")  # formats that need to be told a column
SUFFIXES = sorted(s for name, one in formats.FORMATS.items() if name not in TABLES for s in one.suffixes)
_context = multiprocessing.get_context("forkserver")


class DocumentSource(NamedTuple):
    """A file to translate; the suffix of its name tells its format."""

    name: str
    data: bytes
    pair: tuple[str, str] | None = None  # source and target language

    def options(self) -> tuple[bytes, ReadOptions]:
        """Return the arguments by which it is read. Raises BytenmtError for an unknown suffix."""
        return self.data, ReadOptions(formats.format_of(Path(self.name)), self.pair)

    def shown(self) -> str:
        """Return a name for messages that tells nothing."""
        return f"the file{Path(self.name).suffix}"


def read(source: DocumentSource) -> list[Parts]:
    """Return the distinct lines of a file that have no translation yet."""
    return read_lines(*source.options(), source.shown())


def write(source: DocumentSource, translations: Sequence[LineTranslation]) -> bytes:
    """Return the file with translations in place of the lines that `read` returns."""
    return write_lines(*source.options(), translations, source.shown())


def for_document(results: Sequence[TranslationResult]) -> list[LineTranslation]:
    """Return results of lines as `write` takes them."""
    return [LineTranslation(result.parts, result.best.flags or ()) for result in results]


def run_task(
    sources: Sequence[DocumentSource], translations: Sequence[Sequence[LineTranslation]] | None = None
) -> list[list[Parts]] | list[bytes] | str:
    """Return the lines of documents, or each of them with the translations of its lines, or why it cannot
    be."""
    try:
        if translations is None:
            return list(map(read, sources))
        return list(map(write, sources, translations))
    except BytenmtError as error:
        return str(error)


def _child(pipe: Connection, *task: Any) -> None:
    """Do a task within limits and send the result."""
    # The parent decides when a child ends: a signal to the whole process group must not take the documents
    # from a server that is about to answer them.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    memory = MEMORY_BYTES
    with suppress(OSError):  # only Linux tells it
        memory += int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: CPU_SECONDS, resource.RLIMIT_AS: memory}
    for kind, most in limits.items():
        with suppress(ValueError, OSError):  # above the hard limit; macOS refuses some
            resource.setrlimit(kind, (most, most))
    try:
        pipe.send_bytes(msgspec.msgpack.encode(run_task(*task)))
    except MemoryError:  # the heap may be in any state: end at once
        os._exit(OUT_OF_MEMORY)


class DocumentPool:
    """Has children read and write documents: a few at once, and one of each client.

    So a client with many hostile files keeps one child busy, and the others have the rest.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(N_CHILDREN, "documents")
        self._slots = asyncio.Semaphore(N_CHILDREN)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of clients that wait

    def start(self) -> None:
        """Start the process that forks children, so that the first client need not wait for its imports."""
        of_main = (name for name in sys.modules if name.startswith("bytenmt.cli."))  # each child imports it
        os.environ["PYTHONSAFEPATH"] = "1"  # no module of the current folder is run
        _context.set_forkserver_preload([f"{__package__}.warm_up", *of_main])
        forkserver.ensure_running()

    async def run(self, client: str, *task: Any) -> Any:
        """Do a task, see run_task. Raises Refusal: 400 for a document that is malformed, 413 for one that
        takes too much time or memory."""
        turn = self._turns.setdefault(client, asyncio.Lock())
        children: list[BaseProcess] = []

        def run_child() -> bytes | int:
            answers, pipe = _context.Pipe(duplex=False)
            child = _context.Process(target=_child, args=(pipe, *task), daemon=True)
            child.start()
            children.append(child)
            pipe.close()
            try:
                return answers.recv_bytes()
            except EOFError:
                child.join()
                return child.exitcode or 0

        try:
            async with turn, self._slots, asyncio.timeout(WALL_SECONDS):
                outcome = await asyncio.get_running_loop().run_in_executor(self._threads, run_child)
        except TimeoutError:
            outcome = -signal.SIGKILL
        finally:
            for child in children:
                child.kill()
        if outcome == FAULT:
            raise RuntimeError("the reader or writer of a document has failed: its traceback is above")
        if isinstance(outcome, int):
            raise Refusal(413, "the document takes too much time or memory to read or write")
        written: type = list[list[Parts]] if len(task) == 1 else list[bytes]
        result: Any = msgspec.msgpack.decode(outcome, type=str | written)
        if isinstance(result, str):
            raise Refusal(400, result)
        return result
