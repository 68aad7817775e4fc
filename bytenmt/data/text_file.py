"""A text file as data: its bytes in a memory map, and the position of each line.

There is no preprocessing: a file is scanned once, for its lines and for bytes that are not UTF-8,
and is then read in place. A packed file is decompressed into memory by the libraries, which say
what is damaged, and one with lines that are not UTF-8 is copied there, repaired.
"""

import errno
import gzip
import lzma
import mmap
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bytenmt.errors import DataError
from bytenmt.utf8 import BYTE_ORDER_MARK, CARRIAGE_RETURN, NEWLINE, TAB, repair

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]

PIECE_BYTES = 1 << 18  # bytes that are scanned together
MAX_LINE_BYTES = 2**31 - 1  # what an int32 can hold
PACKINGS = {".gz", ".xz", ".zst"}
OTHER_PACKINGS = {".bz2", ".zip", ".7z", ".lz4", ".rar", ".tar", ".tgz"}
MAX_INVALID_SHARE = 0.5  # of lines, above which a text is taken to be in another encoding
MAX_ZERO_SHARE = 0.2  # of zero bytes, above which it is taken to be UTF-16: English has 0.5


@dataclass(frozen=True, eq=False)
class TextFile:
    """A text file as its bytes in memory and the place of each line; invalid UTF-8 is repaired."""

    path: Path
    data: Bytes  # (size,) uint8: the whole file, a memory map where it is plain and valid
    starts: Indices  # (n,) int64: where each line begins in data
    lengths: Lengths  # (n,) int32: bytes of each line without its line end
    repaired: Indices  # (k,) int64: the numbers, from 1, of the repaired lines

    @classmethod
    def open(cls, path: str | Path) -> "TextFile":
        """Read a file, plain or compressed (.gz, .xz, .zst), or a named pipe.

        Raises DataError if it cannot be read or a line has over 2 GiB, not for invalid UTF-8.
        """
        return cls.from_bytes(read_bytes(Path(path)), path)

    @classmethod
    def from_bytes(cls, content: bytes | Bytes, path: str | Path) -> "TextFile":
        """Find the lines of bytes in memory and replace invalid UTF-8 by U+FFFD.

        path: only names the text in messages. Raises DataError for a line of over 2 GiB.
        """
        data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
        has_mark = data[: len(BYTE_ORDER_MARK)].tobytes() == BYTE_ORDER_MARK
        first = len(BYTE_ORDER_MARK) if has_mark else 0
        starts, lengths = _find_lines(data, first)
        if lengths.max(initial=0) > MAX_LINE_BYTES:
            raise DataError(
                f"{path}, line {lengths.argmax() + 1} has over {MAX_LINE_BYTES} bytes: cut it"
            )
        invalid = _find_invalid_lines(data, starts, lengths)
        if len(invalid):
            data = _repaired(data, starts[invalid], lengths[invalid])
            starts, lengths = _find_lines(data, first)
        return cls(Path(path), data, starts, lengths.astype(np.int32), invalid + 1)

    def split(self) -> "tuple[TextFile, TextFile]":
        """Return the texts of sources and targets of a table; its lines are `source TAB target`.

        They share its `data` and `repaired`. What follows a second tab belongs to neither; an empty
        line is an empty pair. Raises DataError for another line without a tab.
        """
        ends = self.starts + self.lengths
        tabs = np.append(_positions(self.data, TAB), np.array([len(self.data)] * 2))
        first = np.searchsorted(tabs[:-1], self.starts)
        first_tabs = np.minimum(tabs[first], ends)
        second_tabs = np.minimum(tabs[first + 1], ends)
        without_tab = np.flatnonzero((first_tabs == ends) & (self.lengths > 0))
        if len(without_tab):
            raise DataError(
                f"{self.path}, line {without_tab[0] + 1} has no tab:"
                " expected a source, a tab and a target"
            )
        targets = np.minimum(first_tabs + 1, ends)
        source_lengths = (first_tabs - self.starts).astype(np.int32)
        target_lengths = (second_tabs - targets).astype(np.int32)
        source = replace(self, lengths=source_lengths)
        return source, replace(self, starts=targets, lengths=target_lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, index: int) -> bytes:
        """Return line `index`, from 0, without its line end."""
        start = int(self.starts[index])
        return self.data[start : start + int(self.lengths[index])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return (self.line(index) for index in range(len(self)))

    def check_content(self) -> None:
        """Raise DataError if there is no line, or the text seems to be in another encoding.

        It seems so if more than half of the lines were not UTF-8, or if it begins like UTF-16.
        """
        if not len(self):
            raise DataError(
                f"{self.path} is empty: expected a text file with one sentence per line"
            )
        sample = self.data[:PIECE_BYTES].tobytes()
        check_encoding(self.path, len(self.repaired), len(self), sample)


def _positions(data: Bytes, byte: int) -> Indices:
    """Return where a byte occurs."""
    places = [np.zeros(0, np.int64)]
    for begin in range(0, len(data), PIECE_BYTES):
        places.append(begin + np.flatnonzero(data[begin : begin + PIECE_BYTES] == byte))
    return np.concatenate(places)


def _find_lines(data: Bytes, first: int) -> tuple[Indices, Indices]:
    """Return where lines begin, the first one at `first`, and their lengths without line ends."""
    ends = _positions(data, NEWLINE)
    n_ended = len(ends)
    begin = ends[-1] + 1 if n_ended else first
    if begin < len(data):  # a line without an end
        ends = np.append(ends, len(data))
    starts = np.concatenate([[first], ends[:-1] + 1]) if len(ends) else ends
    lengths = ends - starts
    lengths[:n_ended] -= (lengths[:n_ended] > 0) & (data[ends[:n_ended] - 1] == CARRIAGE_RETURN)
    return starts, lengths


def _repaired(data: Bytes, starts: Indices, lengths: Indices) -> Bytes:
    """Return a copy of a text with some lines repaired. starts, lengths (k,): of these lines."""
    pieces = []
    end = 0
    for begin, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        pieces.append(data[end:begin].tobytes())
        end = begin + length
        pieces.append(repair(data[begin:end].tobytes()))
    pieces.append(data[end:].tobytes())
    return np.frombuffer(b"".join(pieces), np.uint8)


def _find_invalid_lines(data: Bytes, starts: Indices, lengths: Indices) -> Indices:
    """Return the lines that are not UTF-8; many are checked together, each alone if that fails."""
    invalid: list[int] = []
    begin = 0
    while begin < len(starts):
        end = max(begin + 1, int(np.searchsorted(starts, starts[begin] + PIECE_BYTES)))
        if not _is_valid(data[starts[begin] : starts[end - 1] + lengths[end - 1]]):
            lines = range(begin, end)
            invalid += [k for k in lines if not _is_valid(data[starts[k] : starts[k] + lengths[k]])]
        begin = end
    return np.array(invalid, np.int64)


def _is_valid(data: Bytes) -> bool:
    try:
        str(data.data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def check_encoding(name: object, n_invalid: int, n_lines: int, sample: bytes) -> None:
    """Raise DataError if more than half of a text's lines are not UTF-8, or it looks like UTF-16.

    name: of the text, for the message; n_invalid: how many of its n_lines lines are not UTF-8;
    sample: its first bytes, as read or with U+FFFD for invalid ones: UTF-16 has a byte order mark
    or many zeros there.
    """
    marks = (BOM_UTF16_BE, BOM_UTF16_LE, repair(BOM_UTF16_LE))
    problem = f"{name} is not UTF-8 ({n_invalid:,} of {n_lines:,} lines): convert it by"
    if sample.count(0) > MAX_ZERO_SHARE * len(sample) or sample.startswith(marks):
        raise DataError(f"{problem} `iconv -f UTF-16 -t UTF-8`")
    if n_invalid > MAX_INVALID_SHARE * n_lines:
        raise DataError(
            f"{problem} `iconv -f ENCODING -t UTF-8`, whatever its ENCODING is, such as CP949"
            " (Korean) or CP1252 (Western)"
        )


def repair_warning(name: object, n_repaired: int, n_lines: int) -> str:
    """Return a message that invalid UTF-8 was replaced in some lines of the text called `name`."""
    return f"{name}: {n_repaired:,} of {n_lines:,} lines are not UTF-8 and were repaired (U+FFFD)"


def stored_path(path: Path) -> str:
    """Return the absolute path of a file for JSON, with U+FFFD for bytes that are not UTF-8."""
    return os.fsencode(path.resolve()).decode("utf-8", "replace")


def read_bytes(path: Path) -> Bytes:
    """Return the bytes of a file or a named pipe as (size,) uint8.

    They are a memory map of a plain file, else a copy in memory, decompressed. Raises DataError
    if the file cannot be read.
    """
    try:
        if is_packed(path) or path.is_fifo() or path.stat().st_size == 0:  # which cannot be mapped
            return np.frombuffer(bytearray().join(pieces_of(path)), np.uint8)
        with _open(path) as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def pieces_of(path: Path, size: int = 1 << 16) -> Iterator[bytes]:
    """Yield the bytes of a file or a pipe, decompressed, in pieces of at most `size` bytes.

    Raises DataError if it cannot be read, or is a damaged or truncated compressed file.
    """
    try:
        with _open(path) as file:
            while piece := file.read1(size):  # of a pipe as much as there is
                yield piece
    except Exception as error:  # each library has errors of its own
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {reason}") from error


def is_packed(path: Path) -> bool:
    """Return whether a file is read as compressed, by its name: .gz, .xz or .zst."""
    return path.suffix in PACKINGS


def _open(path: Path) -> Any:
    """Open a file of bytes, decompressed where its name says that it is packed.

    Raises OSError, also for packings that are not supported.
    """
    if path.suffix in OTHER_PACKINGS:
        raise OSError(errno.EINVAL, "unpack it, or pack it as .gz, .xz or .zst")
    if path.suffix == ".gz":
        return gzip.open(path)
    if path.suffix == ".xz":
        return lzma.open(path)
    if path.suffix == ".zst":
        import zstandard

        decompressor = zstandard.ZstdDecompressor(max_window_size=2**31)
        return decompressor.stream_reader(open(path, "rb"), read_across_frames=True)
    return open(path, "rb")
