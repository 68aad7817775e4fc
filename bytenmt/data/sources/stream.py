"""Pairs from an endless stream of lines `source TAB target`, one window of lines after the other.

A window is a corpus, planned and shuffled like an epoch of a file: a stream that repeats a text of n lines,
read in windows of n, is trained on exactly as the file is.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import chain, islice
from threading import Thread
from typing import BinaryIO, NamedTuple

from bytenmt.config.facts import StreamPlace
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.text_file import TextFile
from bytenmt.errors import DataError

DIGEST_BYTES = 16


class StreamBlock(NamedTuple):
    """Whole lines of a stream, each with its end; place: their position in it."""

    text: bytes
    place: StreamPlace


First = Callable[[Callable[[], StreamBlock]], StreamBlock]  # what one process makes, for all


class PairStream:
    """Windows of a stream: the first one when it is made, then one at a time.

    corpus, place: the window that is open, and its position.
    """

    def __init__(
        self,
        stream: BinaryIO | None,
        window: int,
        limits: tuple[int | None, int | None] = (None, None),
        errors: str = "replace",
        first: First = lambda make: make(),
    ) -> None:
        """Open the stream and its first window.

        stream: None in processes that do not read it; window: lines; limits: bytes of a source and of a
        target; errors: see TextFile.open; first: passes a value of the process that reads to all processes.
        Raises DataError.
        """
        self._lines = None if stream is None else _LineReader(stream)
        self._window, self._limits, self._errors, self._first = window, limits, errors, first
        self._open(self._next())

    def windows(self, number: int) -> Iterator[tuple[int, ParallelCorpus, StreamPlace]]:
        """Yield the open window, which has this number, then all that follow until the stream ends.

        Raises DataError for a window of which no pair can be used.
        """
        while self.place.lines:
            if self._lines is not None:
                self._lines.read_ahead(self._window)
            if self.place.lines >= self._window:
                self.corpus.require_pairs()
            yield number, self.corpus, self.place
            self._open(self._next())
            number += 1

    def go_to(self, place: StreamPlace) -> None:
        """Open the window at an earlier position, with as many lines as it had then, though more may have
        arrived since.

        To be called before `windows`. Raises DataError if the stream differs or has ended before.
        """

        def block_at_place() -> StreamBlock:
            assert self._lines is not None
            self._lines.skip(place.before, self._window)
            block = self._lines.take(place.lines)
            if block.place != place:
                n_lines = block.place.before + block.place.lines
                raise DataError(
                    f"the first {n_lines:,} lines of the stream differ from the"
                    f" {place.before + place.lines:,} lines that the run was trained on:"
                    " give the same stream again from its start"
                )
            return block

        if place != self.place:
            self._open(self._first(block_at_place))

    def _next(self) -> StreamBlock:
        def next_block() -> StreamBlock:
            assert self._lines is not None
            return self._lines.take(self._window)

        return self._first(next_block)

    def _open(self, block: StreamBlock) -> None:
        self.place = place = block.place
        name = f"stream, lines {place.before + 1:,} to {place.before + place.lines:,}"
        source, target = TextFile.from_bytes(block.text, name, self._errors).split()
        self.corpus = ParallelCorpus.from_texts(source, target, *self._limits)


class _LineReader:
    """The lines of a stream, counted and digested; a thread may read the next block ahead."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines: Iterator[bytes] = iter(stream)
        self._taken = StreamBlock(b"", StreamPlace())  # the last one
        self._digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._coming: Future[bytes] | None = None

    def take(self, n_lines: int) -> StreamBlock:
        """Return the next lines, fewer if the stream ends; after read_ahead, the lines that were read."""
        text = self._read(n_lines) if self._coming is None else self._coming.result()
        self._coming = None
        self._digest.update(text)
        before = self._taken.place.before + self._taken.place.lines
        self._taken = StreamBlock(text, StreamPlace(before, text.count(b"\n"), self._digest.hexdigest()))
        return self._taken

    def read_ahead(self, n_lines: int) -> None:
        """Start a thread that reads the next lines; it does not keep the program alive."""
        coming = self._coming = Future[bytes]()

        def read() -> None:
            try:
                coming.set_result(self._read(n_lines))
            except BaseException as error:
                coming.set_exception(error)

        Thread(target=read, name="stream", daemon=True).start()

    def skip(self, n_lines: int, at_once: int) -> None:
        """Skip to the line after the first n_lines, after one block was taken."""
        self._lines = chain(io.BytesIO(self._taken.text), self._lines)
        self._taken = StreamBlock(b"", StreamPlace())
        self._digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
        while n_lines and (taken := self.take(min(n_lines, at_once)).place.lines):
            n_lines -= taken

    def _read(self, n_lines: int) -> bytes:
        text = b"".join(islice(self._lines, n_lines))
        return text + b"\n" if text and not text.endswith(b"\n") else text
