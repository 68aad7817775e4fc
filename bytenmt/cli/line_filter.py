"""Read lines, translate them and write the translations in order, for files and for streams without an end.

A thread reads a stream into a small buffer. A client that sends a line and waits gets its translation at
once; lines that arrive faster are translated together. Memory is bounded: if the reader of the output is
slow, the input is read slowly.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Condition, Thread
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from bytenmt.cli.progress import progress
from bytenmt.decoding.line_batch import TranslationResult
from bytenmt.decoding.translator import Translator
from bytenmt.errors import DataError
from bytenmt.reporter import Bar, Reporter
from bytenmt.utf8 import BYTE_ORDER_MARK, describe_mistake, first_invalid, repair

if TYPE_CHECKING:
    from bytenmt.data.text_file import TextFile
    from bytenmt.datasets.workers import Workers

BUFFER_SIZE = 1000  # lines that are translated together
BUFFER_BYTES = 1 << 24  # of lines that wait
LONGEST_LINE = 1 << 26  # bytes: what never ends is no line
STANDARD_INPUT = "standard input"
HEARTBEAT = 60.0  # seconds without a line until the other processes hear that there is none


class Line(NamedTuple):
    """A line of input. text: valid UTF-8 without its end; n_read: its bytes in the stream; at:
    time.monotonic() of its arrival.
    """

    text: bytes
    n_read: int
    at: float


class OutputFormat(Protocol):
    """A function that formats translations."""

    def __call__(self, results: Sequence[TranslationResult], first: int, seconds: Sequence[float]) -> bytes:
        """Format results. first: number of the first line, from 0; seconds: since each line arrived."""
        ...


class ResumableOutput(Protocol):
    """An output that a later command can continue; see checkpoints.resumable.ResumableFile."""

    n_answered: int

    def skip(self, lines: Sequence[bytes]) -> None: ...

    def add(self, lines: Sequence[bytes]) -> None: ...


def plain(results: Sequence[TranslationResult], first: int, seconds: Sequence[float]) -> bytes:
    """Format the best translation of each line as a line."""
    return b"".join(result.best.text + b"\n" for result in results)


class LineQueue:
    """A bounded, thread-safe queue of input lines between the thread that reads and the one that
    translates.
    """

    def __init__(self, most_lines: int, most_bytes: int) -> None:
        self._lines: deque[Line] = deque()
        self._most_lines, self._most_bytes = most_lines, most_bytes
        self._n_bytes = 0
        self._ended = self._full = False
        self._error: Exception | None = None
        self._changed = Condition()

    def put(self, line: Line) -> None:
        """Add a line; wait until there is room for it."""
        with self._changed:
            while self._lines and (
                len(self._lines) >= self._most_lines or self._n_bytes + len(line.text) > self._most_bytes
            ):
                self._full = True
                self._changed.notify()
                self._changed.wait()
            self._full = False
            self._lines.append(line)
            self._n_bytes += len(line.text)
            self._changed.notify()

    def end(self, error: Exception | None = None) -> None:
        """Say that no line follows. error: the reason, if it is one."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify()

    def take(self, most: int, patience: float | None = None, whole: bool = False) -> tuple[list[Line], bool]:
        """Wait for a line, then return all lines that are there, and whether the stream has ended.

        patience: seconds after which it returns without a line; None waits for ever. whole: wait until the
        queue is full, so that the same lines are taken together whenever they arrive. Raises the error that
        ended the stream once the lines before it are taken.
        """

        def ready() -> bool:
            enough = self._full or len(self._lines) >= most if whole else bool(self._lines)
            return enough or self._ended

        with self._changed:
            if not self._changed.wait_for(ready, patience):
                return [], False
            lines = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
            self._n_bytes -= sum(len(line.text) for line in lines)
            self._full = False  # until the reading thread finds it so again
            self._changed.notify()
            if self._error is not None and (not lines or (whole and len(lines) < most)):
                raise self._error
            return lines, self._ended and self._error is None and not self._lines


@dataclass(frozen=True, eq=False)
class Filter:
    """Translates lines in order.

    form: the output format; None shows the bytes of each line as they are decoded. n_waiting: lines that are
    read ahead, and that are translated together at most. In a group the leading process has a Filter, and the
    others follow. resumable: an output that knows which lines are done; lines are then grouped by their
    number alone, not by the time of their arrival. workers: processes that translate in place of the
    translator.
    """

    translator: Translator
    output: BinaryIO
    form: OutputFormat | None = plain
    buffer_size: int = BUFFER_SIZE
    resumable: ResumableOutput | None = None
    workers: Workers | None = None

    def file(self, text: TextFile) -> None:
        """Write a line for each line of a file, with a progress bar where stderr is a terminal."""
        with progress(len(text), " lines") as (bar, reporter):
            for first in range(0, len(text), self.buffer_size):
                last = min(first + self.buffer_size, len(text))
                now = time.monotonic()
                lines = [Line(text.line(index), 1, now) for index in range(first, last)]
                n_skipped = self._skip(lines, first, bar)
                self._answer(lines[n_skipped:], first + n_skipped, str(text.path), bar, reporter)
            self._finish()

    def stream(
        self,
        input: BinaryIO,
        *,
        errors: str = "replace",
        name: str = STANDARD_INPUT,
        size: int | None = None,
    ) -> None:
        """Write a line for each line of a stream.

        errors: for invalid UTF-8, "replace" (U+FFFD) or "strict": DataError with name, line and byte offset,
        once the lines before it are written. An OSError of the input is raised here too. size: bytes of the
        stream, if known, for a progress bar.
        """
        waiting = LineQueue(self.buffer_size, BUFFER_BYTES)
        # A daemon: where this loop fails, the thread may be waiting for a line that never comes.
        Thread(target=_read, args=(input, name, errors, waiting), daemon=True).start()
        n_answered, ended = 0, False
        patience = HEARTBEAT if self._in_group() else None
        with progress(size, "B") as (bar, reporter):
            while not ended:
                until = patience if self.workers is None else self.workers.patience
                try:
                    lines, ended = waiting.take(self.buffer_size, until, whole=self.resumable is not None)
                except (DataError, OSError):
                    if self.workers is not None:
                        self.workers.settle()
                    raise
                n_skipped = self._skip(lines, n_answered, bar)
                self._answer(lines[n_skipped:], n_answered + n_skipped, name, bar, reporter)
                n_answered += len(lines)
            self._finish()

    def _skip(self, lines: Sequence[Line], first: int, bar: Bar) -> int:
        """Return how many of these lines were done by an earlier command; `first`: number of the first
        one, from 0.
        """
        if self.resumable is None or first >= self.resumable.n_answered:
            return 0
        skipped = lines[: self.resumable.n_answered - first]
        self.resumable.skip([line.text for line in skipped])
        bar.advance(sum(line.n_read for line in skipped))
        return len(skipped)

    def _answer(self, lines: Sequence[Line], first: int, name: str, bar: Bar, reporter: Reporter) -> None:
        """Translate lines and write them; `first`: number of the first one, from 0."""
        group = self.translator.group
        if group is not None and not group.is_leader:
            raise ValueError("only the leading process reads and writes: the others follow()")
        texts = [line.text for line in lines]
        for warning in warnings_of_chunks(self.translator, texts, first, name):
            reporter.warn(warning)
        form = self.form
        if form is None:
            for number, text in enumerate(texts, first):
                for part in self.translator.stream_bytes(text, number):
                    self.output.write(part)
                    self.output.flush()
                self.output.write(b"\n")
                self.output.flush()
            self._done(lines, bar)
            return

        def write(results: Sequence[TranslationResult]) -> None:
            now = time.monotonic()
            self.output.write(form(results, first, [now - line.at for line in lines]))
            self.output.flush()
            self._done(lines, bar)

        if self.workers is not None:
            self.workers.ask(texts, first, write)
            return
        write(self.translator.lead(texts, first))

    def _done(self, lines: Sequence[Line], bar: Bar) -> None:
        """Record that these lines are written."""
        if self.resumable is not None and lines:
            self.resumable.add([line.text for line in lines])
        bar.advance(sum(line.n_read for line in lines))

    def _in_group(self) -> bool:
        return self.translator.group is not None and self.translator.group.size > 1

    def _finish(self) -> None:
        """Wait for lines that are still being translated, and let the other processes of the group end."""
        if self.workers is not None:
            self.workers.settle()
        self.translator.release_followers()


def warnings_of_chunks(
    translator: Translator, lines: Sequence[bytes], first: int, name: str
) -> Iterator[str]:
    """Yield a warning for each line that is translated in pieces; `first`: number of the first line,
    from 0.
    """
    limit = translator.max_source_bytes
    for number, line in enumerate(lines, first + 1):
        if translator.has_source and len(line) > limit:
            n_chunks = len(translator.batch([line]).parts(0))
            yield (
                f"{name}, line {number} has {len(line)} bytes, over the {limit} of"
                f" --max-source-bytes: translated in {n_chunks} parts"
            )


def _read(input: BinaryIO, name: str, errors: str, waiting: LineQueue) -> None:
    """Put the lines of a stream into the queue; the body of the reading thread."""
    try:
        number = 0
        while line := input.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise DataError(f"{name}, line {number} has over {LONGEST_LINE:,} bytes: split it into lines")
            waiting.put(Line(clean(line, name, number, errors), len(line), time.monotonic()))
        waiting.end()
    except (DataError, OSError) as error:
        waiting.end(error)


def clean(line: bytes, name: str, number: int, errors: str) -> bytes:
    """Return a line as TextFile would: no line end, no byte order mark, valid UTF-8. number: from 1.

    Raises DataError if errors is "strict" and the line is not UTF-8.
    """
    if line.endswith(b"\n"):
        line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    valid = first_invalid(line) < 0
    if not valid and errors == "strict":
        raise DataError(describe_mistake(name, number, line))
    return line if valid else repair(line)
