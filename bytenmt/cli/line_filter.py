"""Read lines, translate them and write the translations in order.

The lines are those of files, or of streams without an end.

A thread reads a stream into a small buffer. A client that sends a line and waits gets its
translation at once; lines that arrive faster are translated together. Memory is bounded: if the
reader of the output is slow, the input is read slowly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from queue import Queue
from threading import Thread
from typing import BinaryIO, NamedTuple

from bytenmt.cli.console import CONSOLE
from bytenmt.data.text_file import TextFile, check_encoding, repair_warning
from bytenmt.errors import DataError
from bytenmt.reporter import Bar
from bytenmt.translation.line_batch import TranslationResult
from bytenmt.utf8 import BYTE_ORDER_MARK, first_invalid, repair

MAX_LINE_BYTES = 1 << 24  # what never ends is not a line
N_CHECKED_LINES = 100  # of a stream, after which its encoding is checked

# Returns translations as bytes to write. Its other arguments: the number of the first line, from 0;
# seconds since each line arrived.
OutputFormat = Callable[[Sequence[TranslationResult], int, Sequence[float]], bytes]


class InputLine(NamedTuple):
    """A line of input."""

    text: bytes  # valid UTF-8 without the line end
    at: float  # time.monotonic() of its arrival


def format_plain(
    results: Sequence[TranslationResult], first: int, seconds: Sequence[float]
) -> bytes:
    """Return the best translations, a line each. first and seconds are for other formats."""
    return b"".join(result.best.text + b"\n" for result in results)


class LineQueue(Queue["InputLine | Exception | None"]):
    """A bounded queue of the lines that a thread reads, then None or the error of reading."""

    def batches(self) -> Iterator[list[InputLine]]:
        """Yield the lines that have arrived, 1 to maxsize at a time, until the end of input.

        Raises the error that ended the reading after the lines before it.
        """
        while isinstance(item := self.get(), InputLine):
            lines = [item]
            while (
                len(lines) < self.maxsize
                and not self.empty()
                and isinstance(item := self.get(), InputLine)
            ):
                lines.append(item)
            yield lines
            if not isinstance(item, InputLine):
                break
        if isinstance(item, Exception):
            raise item

    def fill(self, lines: Iterable[InputLine]) -> None:
        """Put all lines, then None, or the error of reading them. The reading thread runs it."""
        try:
            for line in lines:
                self.put(line)
            self.put(None)
        except (DataError, OSError) as error:
            self.put(error)


@dataclass(frozen=True, eq=False)
class LineFilter:
    """Translates the lines of a file or a stream and writes the translations in order."""

    # Called with lines and the number of the first one, from 0.
    translate: Callable[[Sequence[bytes], int], list[TranslationResult]]
    output: BinaryIO
    form: OutputFormat = format_plain  # makes the bytes to write from the results of lines
    buffer_size: int = 1000  # lines that are translated together
    n_done: int = 0  # lines that the output has already, which are skipped

    def file(self, text: TextFile) -> None:
        """Translate all lines of a file to the output, with a progress bar on a terminal."""
        with CONSOLE.bar(len(text), " lines") as bar:
            self._answer_all(self._batches(text), bar)

    def _batches(self, text: TextFile) -> Iterator[list[InputLine]]:
        """Yield all lines of a file, buffer_size at a time."""
        for first in range(0, len(text), self.buffer_size):
            end = min(first + self.buffer_size, len(text))
            yield [InputLine(text.line(k), time.monotonic()) for k in range(first, end)]

    def stream(self, input: BinaryIO, name: str = "standard input") -> None:
        """Translate the lines of a stream to the output, each batch once its lines have arrived.

        name: of the stream, for messages. Raises the DataError or OSError of the input, once the
        lines before it are written.
        """
        queue = LineQueue(self.buffer_size)
        # A daemon: where this loop fails, the thread may be waiting for a line that never comes.
        Thread(target=queue.fill, args=(read_lines(input, name),), daemon=True).start()
        self._answer_all(queue.batches(), Bar())

    def _answer_all(self, batches: Iterable[list[InputLine]], bar: Bar) -> None:
        """Write a line for each one after the first n_done. Raises DataError if there are fewer."""
        n_read = 0
        for lines in batches:
            n_skipped = min(max(0, self.n_done - n_read), len(lines))
            if not n_skipped or n_skipped < len(lines):
                self._answer(lines[n_skipped:], n_read + n_skipped)
            n_read += len(lines)
            bar.advance(len(lines))
        if n_read < self.n_done:
            raise DataError(
                f"--resume: the input has {n_read:,} lines, but {self.n_done:,} are translated"
                " already: give the same input, or delete the .part file"
            )

    def _answer(self, lines: Sequence[InputLine], first: int) -> None:
        """Translate lines and write them; `first`: number of the first one, from 0."""
        results = self.translate([line.text for line in lines], first)
        now = time.monotonic()
        self.output.write(self.form(results, first, [now - line.at for line in lines]))
        self.output.flush()


def read_lines(input: BinaryIO, name: str) -> Iterator[InputLine]:
    """Yield the lines of a stream, invalid UTF-8 in them replaced by U+FFFD; warn of it at the end.

    name: of the stream, for messages. Raises DataError if so many lines are invalid that the text
    must be in another encoding, and for a line of more than 16 MiB.
    """
    n_lines = n_repaired = 0
    sample = b""
    while line := input.readline(MAX_LINE_BYTES + 1):
        n_lines += 1
        if len(line) > MAX_LINE_BYTES:
            raise DataError(
                f"{name}, line {n_lines} has over {MAX_LINE_BYTES:,} bytes: split it into lines"
            )
        n_repaired += first_invalid(line) >= 0
        if n_lines <= N_CHECKED_LINES:
            sample += line
        if n_lines == N_CHECKED_LINES:
            check_encoding(name, n_repaired, n_lines, sample)
        yield InputLine(clean(line, n_lines), time.monotonic())
    check_encoding(name, n_repaired, n_lines, sample)
    if n_repaired:
        CONSOLE.warn(repair_warning(name, n_repaired, n_lines))


def clean(line: bytes, number: int) -> bytes:
    """Return a line without its line end, and with U+FFFD in place of invalid UTF-8.

    number: of the line, from 1; line 1 also loses its byte order mark.
    """
    if line.endswith(b"\n"):
        line = line[:-1].removesuffix(b"\r")
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    return repair(line)
