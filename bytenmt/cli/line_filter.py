"""Read lines, translate them and write the translations in order, for files and for streams without an end.

A thread reads a stream into a small buffer. A client that sends a line and waits gets its translation at
once; lines that arrive faster are translated together. Memory is bounded: if the reader of the output is
slow, the input is read slowly.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Condition, Thread
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from bytenmt.cli.progress import progress
from bytenmt.data.text_file import check_encoding, repair_warning
from bytenmt.decoding.line_batch import TranslationResult
from bytenmt.decoding.translator import Translator
from bytenmt.errors import DataError
from bytenmt.reporter import Bar, Reporter
from bytenmt.utf8 import BYTE_ORDER_MARK, describe_mistake, first_invalid, repair

if TYPE_CHECKING:
    from bytenmt.data.text_file import TextFile

BUFFER_SIZE = 1000  # lines that are translated together
BUFFER_BYTES = 1 << 24  # of lines that wait
LONGEST_LINE = 1 << 26  # bytes: what never ends is no line
STANDARD_INPUT = "standard input"
LINES_CHECKED = 100  # of a stream, after which its encoding is checked
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


def format_plain(results: Sequence[TranslationResult], first: int, seconds: Sequence[float]) -> bytes:
    """Write the best translation of each line as a line; see OutputFormat for the arguments."""
    return b"".join(result.best.text + b"\n" for result in results)


class LineQueue:
    """A bounded, thread-safe queue of input lines between the thread that reads and the one that
    translates.
    """

    def __init__(self, most_lines: int, most_bytes: int) -> None:
        self._lines: deque[Line] = deque()
        self._most_lines, self._most_bytes = most_lines, most_bytes
        self._n_bytes = 0
        self._ended = False
        self._error: Exception | None = None
        self._changed = Condition()

    def put(self, line: Line) -> None:
        """Add a line; wait until there is room for it."""
        with self._changed:
            while self._lines and (
                len(self._lines) >= self._most_lines or self._n_bytes + len(line.text) > self._most_bytes
            ):
                self._changed.wait()
            self._lines.append(line)
            self._n_bytes += len(line.text)
            self._changed.notify()

    def end(self, error: Exception | None = None) -> None:
        """Say that no line follows. error: the reason, if it is one."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify()

    def take(self, most: int, patience: float | None = None) -> tuple[list[Line], bool]:
        """Wait for a line, then return all lines that are there, and whether the stream has ended.

        patience: seconds after which it returns without a line; None waits for ever. Raises the error that
        ended the stream once the lines before it are taken.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._lines) or self._ended, patience):
                return [], False
            lines = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
            self._n_bytes -= sum(len(line.text) for line in lines)
            self._changed.notify()
            if self._error is not None and not lines:
                raise self._error
            return lines, self._ended and self._error is None and not self._lines


@dataclass(frozen=True, eq=False)
class Filter:
    """Translates lines in order.

    form: the output format; None shows the bytes of each line as they are decoded. buffer_size: lines that
    are read ahead, and that are translated together at most. n_done: first lines of the input that an earlier
    command has translated. translate: called instead of translator.lead, such as Workers.translate. In a
    group the leading process has a Filter, and the others follow.
    """

    translator: Translator
    output: BinaryIO
    form: OutputFormat | None = format_plain
    buffer_size: int = BUFFER_SIZE
    n_done: int = 0
    translate: Callable[[Sequence[bytes], int], list[TranslationResult]] | None = None

    def file(self, text: TextFile) -> None:
        """Write a line for each line of a file, with a progress bar where stderr is a terminal."""
        with progress(len(text), " lines") as (bar, reporter):
            self._check_done(len(text))
            bar.advance(self.n_done)
            for first in range(self.n_done, len(text), self.buffer_size):
                last = min(first + self.buffer_size, len(text))
                now = time.monotonic()
                lines = [Line(text.line(index), 1, now) for index in range(first, last)]
                self._answer(lines, first, str(text.path), bar, reporter)
            self.translator.release_followers()

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
        # The thread is a daemon: where this loop fails, it may be waiting for a line that never comes.
        with progress(size, "B") as (bar, reporter):
            reader = _LineReader(input, name, errors, waiting)
            Thread(target=reader.run, daemon=True).start()
            n_read, ended = 0, False
            patience = HEARTBEAT if self._in_group() else None
            while not ended:
                lines, ended = waiting.take(self.buffer_size, patience)
                n_skipped = min(max(0, self.n_done - n_read), len(lines))
                bar.advance(sum(line.n_read for line in lines[:n_skipped]))
                self._answer(lines[n_skipped:], n_read + n_skipped, name, bar, reporter)
                n_read += len(lines)
            if reader.n_repaired:
                reporter.warn(repair_warning(name, reader.n_repaired, reader.n_lines))
            self._check_done(n_read)
            self.translator.release_followers()

    def _check_done(self, n_lines: int) -> None:
        """Raise DataError where the input has fewer lines than are translated already."""
        if n_lines < self.n_done:
            raise DataError(
                f"--resume: the input has {n_lines:,} lines, but {self.n_done:,} are translated already: give"
                " the same input, or leave out --resume"
            )

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
        else:
            results = (self.translate or self.translator.lead)(texts, first)
            now = time.monotonic()
            self.output.write(form(results, first, [now - line.at for line in lines]))
            self.output.flush()
        bar.advance(sum(line.n_read for line in lines))

    def _in_group(self) -> bool:
        return self.translator.group is not None and self.translator.group.size > 1


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


class _LineReader:
    """Puts the lines of a stream into a queue, and counts those that are repaired."""

    def __init__(self, input: BinaryIO, name: str, errors: str, waiting: LineQueue) -> None:
        self._input, self._name, self._errors, self._waiting = input, name, errors, waiting
        self.n_lines = self.n_repaired = 0
        self._sample = b""

    def run(self) -> None:
        """Read all lines; the body of the reading thread."""
        try:
            while line := self._input.readline(LONGEST_LINE + 1):
                self._put(line)
            self._check_encoding()
            self._waiting.end()
        except (DataError, OSError) as error:
            self._waiting.end(error)

    def _put(self, line: bytes) -> None:
        self.n_lines += 1
        number = self.n_lines
        if len(line) > LONGEST_LINE:
            raise DataError(
                f"{self._name}, line {number} has over {LONGEST_LINE:,} bytes: split it into lines"
            )
        self.n_repaired += first_invalid(line) >= 0
        if number <= LINES_CHECKED:
            self._sample += line
        if number == LINES_CHECKED:
            self._check_encoding()
        text = clean(line, self._name, number, self._errors)
        self._waiting.put(Line(text, len(line), time.monotonic()))

    def _check_encoding(self) -> None:
        check_encoding(self._name, self.n_repaired, self.n_lines, self._sample)


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
