"""A text file as data: its bytes in a memory map, and the position of each line.

There is no preprocessing: a file is scanned once, for its lines, for bytes that are not UTF-8 and for a
digest of all bytes, and is then read in place.
"""

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote_to_bytes

import numpy as np

from bytenmt.data.decompress import is_packed, unpack_into_cache, unpack_into_memory, unpacked
from bytenmt.data.line_scan import LONGEST_LINE, Bytes, Indices, Lengths, scan_lines, split_at_tabs
from bytenmt.data.lost_bytes import tell_of_lost_bytes
from bytenmt.errors import DataError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.utf8 import BYTE_ORDER_MARK, describe_mistake, first_invalid, repair

OTHER_PACKINGS = {".bz2", ".zip", ".7z", ".lz4", ".rar", ".tar", ".tgz"}


@dataclass(frozen=True, eq=False)
class TextFile:
    """A text file as its bytes in memory and the place of each line; invalid UTF-8 has been repaired.

    data (size,) uint8: the whole file, a memory map where it is plain.
    starts (n,) int64: where each line begins in data; below zero, line i was repaired and begins
    at ~starts[i] in side.
    lengths (n,) int32: bytes of each line without its line end, after repair.
    side (r,) uint8: the repaired lines, one behind the other.
    repaired (k,) int64: the numbers, from 1, of the repaired lines.
    digest: of the whole file's bytes, unpacked; see line_scan.scan_lines.
    """

    path: Path
    data: Bytes
    starts: Indices
    lengths: Lengths
    side: Bytes
    repaired: Indices
    digest: str

    @classmethod
    def open(
        cls,
        path: str | Path,
        errors: str = "replace",
        cache: Path | None = None,
        reporter: Reporter = SILENT,
        pipe: bool = False,
    ) -> "TextFile":
        """Open a plain or packed file. Raises DataError if it is not a readable text file.

        errors: "replace" puts U+FFFD where a line is not UTF-8; "strict" raises DataError. cache: the folder
        that a packed file is unpacked into; None unpacks into memory. reporter: receives the progress. pipe:
        the path may be a named pipe, which is read to its end into memory.
        """
        return cls.from_bytes(read_bytes(Path(path), cache, reporter, pipe), Path(path), errors)

    @classmethod
    def open_tsv(
        cls, path: str | Path, errors: str = "replace", cache: Path | None = None
    ) -> "tuple[TextFile, TextFile]":
        """Open a file of lines `source TAB target`: two texts over the same bytes.

        What follows a second tab belongs to neither; an empty line is an empty pair. Both name all repaired
        lines. Raises DataError as `open` does and for a line without a tab.
        """
        return cls.open(path, errors, cache).split()

    @classmethod
    def from_bytes(cls, content: bytes | Bytes, path: str | Path, errors: str = "replace") -> "TextFile":
        """Make a TextFile of bytes in memory; `path` only names it in messages."""
        if errors not in ("replace", "strict"):
            raise ValueError(f'errors is {errors!r}, expected "replace" or "strict"')
        data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
        marked = bytes(data[:3]) == BYTE_ORDER_MARK
        starts, lengths, invalid, digest = scan_lines(data, len(BYTE_ORDER_MARK) if marked else 0)
        if len(data) > LONGEST_LINE:
            _refuse_endless_lines(path, starts, len(data))
        side = bytearray()
        for line in invalid.tolist():
            text = data[starts[line] : starts[line] + lengths[line]].tobytes()
            if errors == "strict":
                raise DataError(describe_mistake(path, line + 1, text))
            fixed = repair(text)
            starts[line], lengths[line] = ~len(side), len(fixed)
            side += fixed
        return cls(
            path=Path(path),
            data=data,
            starts=starts,
            lengths=lengths,
            side=np.frombuffer(bytes(side), np.uint8),
            repaired=invalid + 1,
            digest=f"{digest:016x}",
        )

    def split(self) -> "tuple[TextFile, TextFile]":
        """Return the two columns of a tab-separated text, see open_tsv."""
        halves = split_at_tabs(self.data, self.side, self.starts, self.lengths)
        source_starts, source_lengths, target_starts, target_lengths, without_tab = halves
        if without_tab >= 0:
            raise DataError(
                f"{self.path}, line {without_tab + 1} has no tab: expected a source, a tab and a target"
            )
        source = replace(self, starts=source_starts, lengths=source_lengths)
        return source, replace(self, starts=target_starts, lengths=target_lengths)

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

    def check_whole(self) -> None:
        """Raise DataError if the mapped file has become shorter; see text_file.check_whole."""
        check_whole(self.path, self.data)

    def require_lines(self) -> None:
        """Raise DataError if there is no line at all."""
        if not len(self):
            raise DataError(f"{self.path} is empty: expected a text file with one sentence per line")


def stored_path(path: Path) -> str:
    """Return a file's absolute name for JSON, which has no bytes: a file: URL if it is not UTF-8."""
    whole = path.resolve()
    return str(whole) if first_invalid(os.fsencode(whole)) < 0 else whole.as_uri()


def restored_path(stored: str) -> Path:
    """Return the path of a name from stored_path."""
    if not stored.startswith("file://"):
        return Path(stored)
    return Path(os.fsdecode(unquote_to_bytes(stored.removeprefix("file://"))))


def check_file(path: Path, pipe: bool = False) -> None:
    """Raise DataError if the path is not a file, or one that is packed in an unknown way.

    pipe: it may be a named pipe, which can be read once, like a shell's <(command).
    """
    try:
        if path.is_dir():
            raise DataError(f"{path} is a directory: give the name of a file in it")
        if not path.exists():
            raise DataError(f"{path} does not exist: check its name")
        if not path.is_file() and not (pipe and path.is_fifo()):
            raise DataError(f"{path} is not a regular file: write its text to a file and give that one")
    except OSError as error:
        raise _unreadable(path, error) from error
    if path.suffix in OTHER_PACKINGS:
        raise DataError(f"{path} is packed as {path.suffix}: unpack it, or pack it as .gz, .xz or .zst")


def pieces_of(path: Path, size: int = 1 << 16, reporter: Reporter = SILENT) -> Iterator[bytes]:
    """Yield the bytes of a file or a pipe, unpacked where it is packed, in pieces of about `size`: a file of
    any length in constant memory. Raises DataError."""
    check_file(path, pipe=True)
    if is_packed(path):
        yield from unpacked(path, reporter)
        return
    try:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(size):
                yield piece
    except OSError as error:
        raise _unreadable(path, error) from error


def read_bytes(
    path: Path, cache: Path | None = None, reporter: Reporter = SILENT, pipe: bool = False
) -> Bytes:
    """Return the bytes of a file: mapped if it is plain or unpacked into the cache, else in memory.

    pipe: the path may be a named pipe, which is read into memory. Raises DataError.
    """
    check_file(path, pipe)
    try:
        if path.is_fifo():
            return np.frombuffer(path.read_bytes(), np.uint8)
        plain = path
        if is_packed(path):
            if cache is None:
                return np.frombuffer(unpack_into_memory(path, reporter), np.uint8)
            plain = unpack_into_cache(path, cache, reporter=reporter)
        if plain.stat().st_size == 0:  # which cannot be mapped
            return np.frombuffer(b"", np.uint8)
        tell_of_lost_bytes()
        with open(plain, "rb") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise _unreadable(path, error) from error


def check_whole(path: Path, data: Bytes) -> None:
    """Raise DataError if a mapped file has become shorter since read_bytes mapped it; call it before reading.

    Its last bytes would be nowhere. path: the mapped file; data: all of it.
    """
    if isinstance(data.base, memoryview) and isinstance(data.base.obj, mmap.mmap):
        size = data.base.obj.size()
        if size < len(data):
            raise DataError(
                f"{path} was truncated while it was read ({size:,} bytes of {len(data):,}): restore it and"
                f" start again; a training continues from its last checkpoint with --resume"
            )


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be read ({error.strerror}): check its permissions")


def _refuse_endless_lines(path: str | Path, starts: Indices, size: int) -> None:
    spans = np.diff(starts, append=size)
    if int(spans.max()) > LONGEST_LINE:
        line = int(spans.argmax()) + 1
        raise DataError(f"{path}, line {line} has over {LONGEST_LINE} bytes: cut it into lines")
