"""Documents and HTML, read and written in child processes with limits of time and memory.

Reading a hostile file can take any amount of time and memory: then its child ends, and the event
loop has only waited. To write a document it is read once more.
"""

from __future__ import annotations

import asyncio
import math
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from anyio import BrokenWorkerProcess, CapacityLimiter, to_process

from bytenmt.documents import formats
from bytenmt.documents.placement import lines_to_repair, repair
from bytenmt.documents.translation import LineTranslation, lines_to_translate, translate
from bytenmt.documents.unit import CodedText, Document, ReadOptions
from bytenmt.errors import BytenmtError
from bytenmt.serve.work_queue import Refusal

CPU_SECONDS = 10  # for reading or writing the documents of a request
# Of a document whose child ended before its time was over: somebody may have killed it, as the
# system does where memory is short.
N_TRIES = 2
MEMORY_BYTES = 1_000_000_000  # of a child, besides what it begins with
XML_NO_MEMORY = 2  # libxml2's code of an error, for which lxml has no words
N_CHILDREN = max(2, min(4, os.cpu_count() or 1))
NICENESS = 10  # the threads that decode and the event loop come first
SUFFIXES = sorted(
    suffix
    for record in formats.FORMATS.values()
    if not record.needs_column
    for suffix in record.suffixes
)


class DocumentSource(NamedTuple):
    """A file to translate; the suffix of its name tells its format."""

    name: str
    data: bytes
    pair: tuple[str, str] | None = None  # source and target language, None if not known

    def parse(self) -> Document:
        """Return the parsed document. Raises BytenmtError, without the file's name."""
        path = Path(self.name)
        options = ReadOptions(formats.format_of(path).name, self.pair)
        return formats.read(self.data, options, f"the file{path.suffix}")


class TranslatedFile(NamedTuple):
    """A translated file, and how much of it a person should look at."""

    data: bytes
    n_translated: int = 0  # units that the model has translated
    n_to_review: int = 0  # of them, those whose verdict is not "sure"


def read(source: DocumentSource) -> list[CodedText]:
    """Return the distinct lines of a file to translate, in order, as UnitLine.parts."""
    return lines_to_translate(source.parse())


def torn_lines(lines: Sequence[CodedText], results: Sequence[LineTranslation]) -> list[CodedText]:
    """Return what `repaired` needs translations of: see placement.lines_to_repair.

    lines, results: of a document, as `read` returns them, and the translation of each.
    """
    return lines_to_repair(dict(zip(lines, results, strict=True)))


def repaired(
    lines: Sequence[CodedText],
    results: Sequence[LineTranslation],
    torn: Sequence[CodedText],
    further: Sequence[LineTranslation],
) -> list[LineTranslation]:
    """Return the translations of a document's lines, those repaired whose codes went astray.

    torn, further: what `torn_lines` returns for these lines, and the translation of each.
    """
    translations = dict(zip(lines, results, strict=True))
    translations |= repair(translations, dict(zip(torn, further, strict=True)))
    return [translations[line] for line in lines]


def write(source: DocumentSource, results: Sequence[LineTranslation]) -> TranslatedFile:
    """Return the translated file. results: a translation for each line of `read`, in its order."""
    document = source.parse()
    translations = dict(zip(lines_to_translate(document), results, strict=True))
    counts = translate(document, translations).counts
    return TranslatedFile(document.dump(), counts["translated"], counts["to review"])


def run_task(function: Any, *arguments: Sequence[Any]) -> list[Any]:
    """Return what a function, `read` or `write`, returns for each document; runs in a child.

    arguments: of the function, each as a list with an entry per document. Sets limits of CPU time
    and memory for this process, and ends it if memory runs out.
    """
    # The parent decides when a child ends: a signal to the whole process group must not take the
    # documents from a server that is about to answer them.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(max(0, NICENESS - os.nice(0)))
    memory = MEMORY_BYTES
    with suppress(OSError):  # only Linux has this file
        memory += int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    seconds = int(time.process_time()) + CPU_SECONDS
    for kind, most in {resource.RLIMIT_CPU: seconds, resource.RLIMIT_AS: memory}.items():
        with suppress(ValueError, OSError):  # above the hard limit; macOS refuses some
            resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
    try:
        return list(map(function, *arguments))
    except (MemoryError, BytenmtError) as error:
        ran_out = isinstance(error, MemoryError)
        if not ran_out and getattr(error.__cause__, "code", None) != XML_NO_MEMORY:
            raise
        os._exit(1)  # the heap may be in any state: end at once


class DocumentPool:
    """A pool of N_CHILDREN (2 to 4) processes that read and write documents, one a client."""

    def __init__(self, on_death: Callable[[], object] = lambda: None) -> None:
        self._on_death = on_death  # called when a child has ended before its answer
        os.environ["PYTHONSAFEPATH"] = "1"  # no child runs a module of the current folder
        self._limiter = CapacityLimiter(N_CHILDREN)
        self._no_limiter = CapacityLimiter(math.inf)  # for who has a turn of self._limiter
        # Of clients that wait, by their accounts.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, client: str, *task: Any) -> Any:
        """Run `read` or `write` for several documents in a child process; return the results.

        task: the function, and its arguments, each as a list. client: has one task in work, others
        wait. Raises Refusal: 400 for a malformed document, 413 for one that takes too much time or
        memory. Cancelling it ends the child.
        """
        turn = self._turns.setdefault(client, asyncio.Lock())
        async with turn, self._limiter:
            for _ in range(N_TRIES):
                began = time.monotonic()
                try:
                    return await to_process.run_sync(
                        run_task, *task, cancellable=True, limiter=self._no_limiter
                    )
                except BrokenWorkerProcess:
                    self._on_death()
                    if time.monotonic() - began >= CPU_SECONDS:
                        break
                except BytenmtError as error:
                    raise Refusal(400, str(error)) from None
        raise Refusal(413, "the document takes too much time or memory to read or write")
