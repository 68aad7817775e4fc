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

    name: str  # such as "letter.docx"
    data: bytes  # its contents
    pair: tuple[str, str] | None = None  # source and target language, None if not known

    def parse(self) -> Document:
        """Parse the file as a Document. Raises BytenmtError if it is malformed."""
        path = Path(self.name)
        options = ReadOptions(formats.format_of(path).name, self.pair)
        return formats.read(self.data, options, f"the file{path.suffix}")


class TranslatedFile(NamedTuple):
    """A translated file, and how much of it a person should look at."""

    data: bytes
    n_translated: int = 0  # paragraphs, messages or the like that the model translated
    n_to_review: int = 0  # of them, those whose verdict is not "sure"


def read(source: DocumentSource) -> list[CodedText]:
    """Return the distinct lines to translate, in order, as tuples of texts and inline codes."""
    return lines_to_translate(source.parse())


def torn_lines(lines: Sequence[CodedText], results: Sequence[LineTranslation]) -> list[CodedText]:
    """Return the further texts to translate so that `repaired` can put inline tags in place.

    Each line whose translation lost or misplaced tags gives the line without its pairs of tags, and
    the content of each pair. lines: of a document, from `read`. results: the translation of each.
    """
    return lines_to_repair(dict(zip(lines, results, strict=True)))


def repaired(
    lines: Sequence[CodedText],
    results: Sequence[LineTranslation],
    torn: Sequence[CodedText],
    further: Sequence[LineTranslation],
) -> list[LineTranslation]:
    """Return the translations of a document's lines, with lost or misplaced inline tags repaired.

    lines: of a document, from `read`. results: the translation of each, to be repaired. torn: what
    `torn_lines` returns for them. further: the translation of each of `torn`.
    """
    translations = dict(zip(lines, results, strict=True))
    translations |= repair(translations, dict(zip(torn, further, strict=True)))
    return [translations[line] for line in lines]


def write(source: DocumentSource, results: Sequence[LineTranslation]) -> TranslatedFile:
    """Return the translated file. results: the translation of each line of `read(source)`."""
    document = source.parse()
    translations = dict(zip(lines_to_translate(document), results, strict=True))
    counts = translate(document, translations).counts
    return TranslatedFile(document.dump(), counts["translated"], counts["to review"])


def run_task(function: Any, *arguments: Sequence[Any]) -> list[Any]:
    """Call a function once per document and return the results; runs in a child process.

    function: one of this module, such as `read`. arguments: a list for each of its parameters, with
    an entry per document. Limits CPU time and memory of this process; exits if memory runs out.
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
    """A pool of 2 to 4 child processes that read and write documents, one at a time per client.

    on_death: called when a child process has ended before its answer.
    """

    def __init__(self, on_death: Callable[[], object] = lambda: None) -> None:
        self._on_death = on_death
        os.environ["PYTHONSAFEPATH"] = "1"  # no child runs a module of the current folder
        self._limiter = CapacityLimiter(N_CHILDREN)
        self._no_limiter = CapacityLimiter(math.inf)  # for who has a turn of self._limiter
        # Of clients that wait, by their accounts.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, client: str, *task: Any) -> Any:
        """Run a function such as `read` for several documents in a child; return the results.

        client: name of the client, whose tasks run one after another. task: the function, then a
        list for each of its parameters, with an entry per document. Raises Refusal: HTTP 400 for a
        malformed document, 413 for too much time or memory. Cancelling it ends the child process.
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
