"""A text file as data: its bytes in a memory map, and the position of each line.

There is no preprocessing: a file is scanned once, for its lines and for bytes that are not UTF-8, and is then
read in place. A packed file is decompressed into memory by the libraries, which say what is damaged.
"""

import gzip
import lzma
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bytenmt.errors import DataError
from bytenmt.utf8 import BYTE_ORDER_MARK, describe_mistake, repair

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]

NEWLINE, RETURN, TAB = 0x0A, 0x0D, 0x09
PIECE = 1 << 18  # bytes that are scanned together
LONGEST_LINE = 2**31 - 1  # bytes, what an int32 can hold
PACKINGS = {".gz", ".xz", ".zst"}
OTHER_PACKINGS = {".bz2", ".zip", ".7z", ".lz4", ".rar", ".tar", ".tgz"}
MOST_INVALID = 0.5  # share of lines above which a text is taken to be in another encoding
MOST_ZEROS = 0.2  # share of zero bytes above which it is taken to be UTF-16: English has 0.5


@dataclass(frozen=True, eq=False)
class TextFile:
    """A text file as its bytes in memory and the place of each line; invalid UTF-8 has been repaired.

    data (size,) uint8: the whole file, a memory map where it is plain.
    starts (n,) int64: where each line begins in data; below zero, line i was changed and begins
    at ~starts[i] in side.
    lengths (n,) int32: bytes of each line without its line end, after changes.
    side (r,) uint8: the repaired and otherwise changed lines, one behind the other.
    repaired (k,) int64: the numbers, from 1, of the repaired lines.
    """

    path: Path
    data: Bytes
    starts: Indices
    lengths: Lengths
    side: Bytes
    repaired: Indices

    @classmethod
    def open(cls, path: str | Path, errors: str = "replace") -> "TextFile":
        """Open a file, plain or packed, or a named pipe. Raises DataError if it is not a readable text.

        errors: "replace" puts U+FFFD where a line is not UTF-8; "strict" raises DataError.
        """
        return cls.from_bytes(read_bytes(Path(path)), path, errors)

    @classmethod
    def from_bytes(cls, content: bytes | Bytes, path: str | Path, errors: str = "replace") -> "TextFile":
        """Make a TextFile of bytes in memory; `path` only names it in messages."""
        if errors not in ("replace", "strict"):
            raise ValueError(f'errors is {errors!r}, expected "replace" or "strict"')
        data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
        marked = bytes(data[: len(BYTE_ORDER_MARK)]) == BYTE_ORDER_MARK
        starts, lengths = _find_lines(data, len(BYTE_ORDER_MARK) if marked else 0)
        if lengths.max(initial=0) > LONGEST_LINE:
            raise DataError(f"{path}, line {lengths.argmax() + 1} has over {LONGEST_LINE} bytes: cut it")
        invalid = _find_invalid_lines(data, starts, lengths)
        nothing = np.frombuffer(b"", np.uint8)
        text = cls(Path(path), data, starts, lengths.astype(np.int32), nothing, invalid + 1)
        if not len(invalid):
            return text
        if errors == "strict":
            raise DataError(describe_mistake(path, invalid[0] + 1, text.line(invalid[0])))
        return text.with_lines({line: repair(text.line(line)) for line in invalid.tolist()})

    def with_lines(self, lines: Mapping[int, bytes]) -> "TextFile":
        """Return the text with other lines at some places; they lie beside the mapped file."""
        side, starts, lengths = bytearray(self.side), self.starts.copy(), self.lengths.copy()
        for index, line in lines.items():
            starts[index], lengths[index] = ~len(side), len(line)
            side += line
        return replace(self, starts=starts, lengths=lengths, side=np.frombuffer(bytes(side), np.uint8))

    def split(self) -> "tuple[TextFile, TextFile]":
        """Return the columns of lines `source TAB target`: two texts over the same bytes.

        What follows a second tab belongs to neither; an empty line is an empty pair. Both name all repaired
        lines. Raises DataError for a line without a tab.
        """
        sides = [(self.data, self.starts >= 0), (self.side, self.starts < 0)]
        starts = np.where(self.starts < 0, ~self.starts, self.starts)
        ends = starts + self.lengths
        cuts = np.stack([ends, ends])  # of each line, its first and its second tab
        for text, lines in sides:
            tabs = np.append(_positions(text, TAB), np.array([len(text)] * 2))
            first = np.searchsorted(tabs[:-1], starts[lines])
            cuts[:, lines] = np.minimum(np.stack([tabs[first], tabs[first + 1]]), ends[lines])
        without_tab = np.flatnonzero((cuts[0] == ends) & (self.lengths > 0))
        if len(without_tab):
            raise DataError(
                f"{self.path}, line {without_tab[0] + 1} has no tab: expected a source, a tab and a target"
            )
        second = np.minimum(cuts[0] + 1, ends)
        target_starts = np.where(self.starts < 0, ~second, second)
        source = replace(self, lengths=(cuts[0] - starts).astype(np.int32))
        return source, replace(self, starts=target_starts, lengths=(cuts[1] - second).astype(np.int32))

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, index: int) -> bytes:
        """Return line `index`, from 0, without its line end."""
        start, length = int(self.starts[index]), int(self.lengths[index])
        if start < 0:
            return self.side[~start : ~start + length].tobytes()
        return self.data[start : start + length].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return (self.line(index) for index in range(len(self)))

    def require_lines(self) -> None:
        """Raise DataError if there is no line at all, or the text is in another encoding than UTF-8."""
        if not len(self):
            raise DataError(f"{self.path} is empty: expected a text file with one sentence per line")
        check_encoding(self.path, len(self.repaired), len(self), self.data[:PIECE].tobytes())


def _positions(data: Bytes, byte: int) -> Indices:
    """Return where a byte occurs."""
    found = [at + np.flatnonzero(data[at : at + PIECE] == byte) for at in range(0, len(data), PIECE)]
    return np.concatenate([np.zeros(0, np.int64), *found])


def _find_lines(data: Bytes, first: int) -> tuple[Indices, Indices]:
    """Return where lines begin, the first one at `first`, and their lengths without line ends."""
    ends = _positions(data, NEWLINE)
    n_ended = len(ends)
    if (ends[-1] + 1 if n_ended else first) < len(data):
        ends = np.append(ends, len(data))
    starts = np.concatenate([[first], ends[:-1] + 1]) if len(ends) else ends
    lengths = ends - starts
    lengths[:n_ended] -= (lengths[:n_ended] > 0) & (data[ends[:n_ended] - 1] == RETURN)
    return starts, lengths


def _find_invalid_lines(data: Bytes, starts: Indices, lengths: Indices) -> Indices:
    """Return the lines that are not UTF-8: many are checked together, and each alone where that fails."""
    invalid: list[int] = []
    begin = 0
    while begin < len(starts):
        end = max(begin + 1, int(np.searchsorted(starts, starts[begin] + PIECE)))
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
    """Raise DataError if so many lines are not UTF-8 that the text must be in another encoding.

    name: of the text; sample: bytes from its beginning.
    """
    is_utf16 = sample.count(0) > MOST_ZEROS * len(sample)
    if is_utf16 or n_invalid > MOST_INVALID * n_lines:
        raise DataError(
            f"{name} is not UTF-8 ({n_invalid:,} of {n_lines:,} lines): convert it, for example by"
            f" `iconv -f {'UTF-16' if is_utf16 else _likely_encoding(sample)} -t UTF-8`"
        )


def _likely_encoding(sample: bytes) -> str:
    """Return the likely encoding of bytes that are neither UTF-8 nor UTF-16, by a name that iconv knows."""
    try:
        sample[: sample.rfind(b"\n") + 1].decode("cp949")  # the usual one of Korean files
    except UnicodeDecodeError:
        return "LATIN1"
    return "CP949"


def repair_warning(name: object, n_repaired: int, n_lines: int) -> str:
    """Return a message about lines in which invalid UTF-8 was replaced."""
    return f"{name}: {n_repaired:,} of {n_lines:,} lines are not UTF-8 and were repaired (U+FFFD)"


def stored_path(path: Path) -> str:
    """Return a file's absolute name for JSON, with U+FFFD where it is not UTF-8."""
    return os.fsencode(path.resolve()).decode("utf-8", "replace")


def check_file(path: Path) -> None:
    """Raise DataError if the path is neither a file nor a named pipe, or is packed in an unknown way."""
    if os.path.isdir(path):  # unlike Path.is_dir, whatever the name
        raise DataError(f"{path} is a directory: give the name of a file in it")
    if not os.path.exists(path):
        raise DataError(f"{path} does not exist: check its name")
    if not path.is_file() and not path.is_fifo():
        raise DataError(f"{path} is not a regular file: write its text to a file and give that one")
    if path.suffix in OTHER_PACKINGS:
        raise DataError(f"{path} is packed as {path.suffix}: unpack it, or pack it as .gz, .xz or .zst")


def read_bytes(path: Path) -> Bytes:
    """Return the bytes of a file or a named pipe: mapped if it is plain, else in memory. Raises DataError."""
    check_file(path)
    try:
        if is_packed(path) or path.is_fifo() or path.stat().st_size == 0:  # which cannot be mapped
            return np.frombuffer(bytearray().join(pieces_of(path)), np.uint8)
        with open(path, "rb") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def pieces_of(path: Path, size: int = 1 << 16) -> Iterator[bytes]:
    """Yield the bytes of a file or a pipe, decompressed where it is packed, in pieces of at most `size`.

    Raises DataError, also for a packed file whose library finds it damaged or cut off.
    """
    check_file(path)
    try:
        with _open(path) as file:
            while piece := file.read1(size):  # of a pipe as much as there is
                yield piece
    except Exception as error:  # each library has errors of its own
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {reason}") from error


def is_packed(path: Path) -> bool:
    """Return whether the file's name says that it is packed in a known way."""
    return path.suffix in PACKINGS


def _open(path: Path) -> Any:
    """Open a file of bytes, decompressed where its name says that it is packed."""
    if path.suffix == ".gz":
        return gzip.open(path)
    if path.suffix == ".xz":
        return lzma.open(path)
    if path.suffix == ".zst":
        import zstandard

        decompressor = zstandard.ZstdDecompressor(max_window_size=2**31)
        return decompressor.stream_reader(open(path, "rb"), read_across_frames=True)
    return open(path, "rb")
