"""The child process of a server that reads and writes documents, and the messages to and from it.

Reading a hostile file can take any amount of time and memory. It happens here, never in the server's own
process: a child limits itself with setrlimit before each task, and the parent can kill it at any time
(`document_pool`). A child keeps nothing between two tasks: to write a document it reads it once more.
It imports neither Numba nor PyTorch, so that a new one is ready in a fraction of a second.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from bytenmt.decoding.interface import Hypothesis
from bytenmt.documents import tagged
from bytenmt.documents.translation import LineTranslation, read_lines, write_lines
from bytenmt.documents.unit import ReadOptions
from bytenmt.errors import BytenmtError

NICENESS = 10  # the threads that decode and the event loop come first
OUT_OF_MEMORY = 12  # exit code of a child that has reached its memory limit


class DocumentSource(msgspec.Struct, frozen=True, array_like=True):
    """A file to translate.

    data: its bytes. format: a name of `documents.formats.FORMATS`. name: for error messages. pair: source and
    target language. column, into: of a table, by name or number: the column to translate, and the one to
    write (the same one if None).
    """

    data: bytes
    format: str
    name: str
    pair: tuple[str, str] | None = None
    column: str | None = None
    into: str | None = None


class DocumentTask(msgspec.Struct, frozen=True, array_like=True):
    """Work for a child.

    translations: None to list the lines of each document; otherwise, for each document, alternative
    translations of all its lines, and a file is written for each alternative.
    cpu_seconds: after which the kernel kills the child.
    """

    documents: list[DocumentSource]
    cpu_seconds: int
    translations: list[list[list[Hypothesis[bytes]]]] | None = None


class DocumentResult(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a DocumentTask.

    lines: of each document. files: of each document, its bytes in each alternative. refusal: why a document
    cannot be read, for the client. failure: the exception that a faulty reader raised, and where.
    """

    lines: list[list[str]] = []
    files: list[list[bytes]] = []
    refusal: str = ""
    failure: str = ""


def lines_to_translate(source: DocumentSource) -> list[str]:
    """Return the distinct lines of a file that have no translation yet, with tags in place of codes."""
    return [tagged.to_text(parts) for parts in read_lines(source.data, _options(source), source.name)]


def write_document(source: DocumentSource, translations: Sequence[Hypothesis]) -> bytes:
    """Return the file with translations in place of `lines_to_translate`, in the same order."""
    lines = read_lines(source.data, _options(source), source.name)
    made = [
        LineTranslation(tagged.to_parts(line, one.text.decode()), one.flags or ())
        for line, one in zip(lines, translations, strict=True)
    ]
    return write_lines(source.data, _options(source), made, source.name)


def _options(source: DocumentSource) -> ReadOptions:
    return ReadOptions(source.format, source.pair, source.column, source.into)


def run_task(task: DocumentTask) -> DocumentResult:
    """Do what a task asks for. Raises BytenmtError where a document is not in its format."""
    if task.translations is None:
        return DocumentResult(lines=[lines_to_translate(document) for document in task.documents])
    files = [
        [write_document(document, alternative) for alternative in alternatives]
        for document, alternatives in zip(task.documents, task.translations, strict=True)
    ]
    return DocumentResult(files=files)


def main(descriptor: int, memory_bytes: int) -> None:
    """Run tasks that come through a pipe until the parent closes it.

    descriptor: the child's end of a `multiprocessing.Pipe`. memory_bytes: address space that the tasks may
    use, beyond what the started interpreter has.
    """
    # The parent decides when a child ends: a signal to the whole process group must not take the documents
    # from a server that is about to answer them.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    _import_lazily_loaded_modules()
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, _address_space() + memory_bytes)
    decoder, encoder = msgspec.msgpack.Decoder(DocumentTask), msgspec.msgpack.Encoder()
    pipe = Connection(descriptor)
    try:
        while True:
            task = decoder.decode(pipe.recv_bytes())
            used = resource.getrusage(resource.RUSAGE_SELF)
            _limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + task.cpu_seconds)
            result = _guarded(task)
            pipe.send_bytes(encoder.encode(result))
            del task, result  # before the next one needs memory
    except (EOFError, OSError):  # the parent has closed the pipe, or has ended
        return
    except MemoryError:  # the heap may be in any state: end at once
        os._exit(OUT_OF_MEMORY)


def _guarded(task: DocumentTask) -> DocumentResult:
    """Run a task; an error becomes a result, except for MemoryError."""
    try:
        return run_task(task)
    except BytenmtError as error:
        # Messages name the options of translate-file; a request has fields instead.
        refusal = str(error).replace("--to-column ", "into ").replace("--column ", "column ")
        return DocumentResult(refusal=refusal)
    except RecursionError:
        return DocumentResult(refusal="the document is nested too deeply")
    except MemoryError:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return DocumentResult(failure=f"{error!r:.200} in {Path(place.filename).name}, line {place.lineno}")


def _import_lazily_loaded_modules() -> None:
    """Read a small document, so that the first client does not wait for imports."""
    page = DocumentSource(b"<p>a <b>b</b> {c}</p>", "html", "page")
    run_task(DocumentTask([page], 1, [[[Hypothesis(b"a <g1>b</g1> {c}", 0.0, 0.0)]]]))


def _limit(kind: int, most: int) -> None:
    """Set a soft resource limit, as far as the hard one allows."""
    hard = resource.getrlimit(kind)[1]
    with suppress(ValueError, OSError):  # macOS refuses some
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _address_space() -> int:
    """Bytes of address space that this process has now; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
