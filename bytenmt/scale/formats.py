"""How rows lie in files: text, JSON lines, CSV, and what parquet has in common with them.

A block's bytes are read by one process, translated by another and written by a third, and each can do it
again. Columns stay as they were: a line of CSV and the values of a JSON object byte for byte. Knows bytes;
knows no engine.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec

from bytenmt.errors import DataError
from bytenmt.scale.parquet import Parquet
from bytenmt.scale.translate import ERROR, Found, Unreadable, readable
from bytenmt.utf8 import BYTE_ORDER_MARK, repair

LONGEST_LINE = 1 << 26  # bytes
LOOKED_AT = 100  # lines among which an object is expected, for its columns
Span = tuple[int, int, int, int]  # begin, end, base and rows, see blocks.Block


class Format(Protocol):
    """suffixes: of files that are read; suffix: of those that are written."""

    suffixes: tuple[str, ...]
    suffix: str

    def columns(self, path: Path, column: str) -> list[str]:
        """Their names. Raises DataError where the file is not of this format."""

    def spans(self, path: Path, column: str, block_bytes: int) -> Iterator[Span]:
        """How a file is cut into blocks of about so many bytes."""

    def read(self, path: Path, begin: int, end: int, base: int) -> bytes:
        """A block, as `texts` and `written` take it."""

    def texts(self, data: bytes, column: str, errors: str) -> list[bytes | Unreadable]:
        """The text of each row. errors: as Translate has it."""

    def written(self, data: bytes, column: str, to: str, found: Sequence[Found]) -> bytes:
        """A file of a block's rows and of what was found for them."""


class Text:
    """A line a row. What is written are JSON lines: a line of text has no room for a reason."""

    suffixes: tuple[str, ...] = (".txt",)
    suffix = ".jsonl"

    def columns(self, path: Path, column: str) -> list[str]:
        return [column]

    def spans(self, path: Path, column: str, block_bytes: int) -> Iterator[Span]:
        with _opened(path) as file:
            begin = file.tell()
            lines = ((len(line), self._is_row(line)) for line in _lines(file, path))
            yield from _spans(lines, begin, 0, block_bytes)

    def read(self, path: Path, begin: int, end: int, base: int) -> bytes:
        return _part(path, begin, end)

    def texts(self, data: bytes, column: str, errors: str) -> list[bytes | Unreadable]:
        return [*self._rows(data)]

    def written(self, data: bytes, column: str, to: str, found: Sequence[Found]) -> bytes:
        lines = zip(self._rows(data), found, strict=True)
        return b"".join(_object(self._kept(line, column), to, one) for line, one in lines)

    def _rows(self, data: bytes) -> Iterator[bytes]:
        lines = data.removesuffix(b"\n").split(b"\n")
        return (line.removesuffix(b"\r") for line in lines if self._is_row(line))

    def _is_row(self, line: bytes) -> bool:
        return True

    def _kept(self, line: bytes, column: str) -> Mapping[str, Any]:
        return {column: repair(line).decode()}


class JsonLines(Text):
    """An object a line; empty lines are no rows. A line that is no object stays, as the text of its row."""

    suffixes: tuple[str, ...] = (".jsonl", ".ndjson", ".json")
    _decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def columns(self, path: Path, column: str) -> list[str]:
        with _opened(path) as file:
            for _, line in zip(range(LOOKED_AT), _lines(file, path), strict=False):
                try:
                    return [*self._decoder.decode(repair(line))]
                except (msgspec.MsgspecError, RecursionError):
                    continue
        raise DataError(f"{path}: none of its first {LOOKED_AT} lines is a JSON object: give --format")

    def texts(self, data: bytes, column: str, errors: str) -> list[bytes | Unreadable]:
        return [self._text(readable(line, errors), column) for line in self._rows(data)]

    def _text(self, line: bytes | Unreadable, column: str) -> bytes | Unreadable:
        if isinstance(line, Unreadable):
            return line
        try:
            row = self._decoder.decode(line)
            if column not in row:
                return Unreadable(f"no column {column}")
            text = msgspec.json.decode(row[column], type=str | None)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            return Unreadable(str(error))
        return Unreadable("no text") if text is None else text.encode()

    def _is_row(self, line: bytes) -> bool:
        return bool(line) and not line.isspace()

    def _kept(self, line: bytes, column: str) -> Mapping[str, Any]:
        valid = repair(line)
        try:
            return self._decoder.decode(valid)
        except (msgspec.MsgspecError, RecursionError):
            return {column: valid.decode()}


class Csv:
    """A table, as RFC 4180 has it, with names in its first row; empty lines are no rows. A row of too few or
    too many cells has no translation; it gets as many cells as there are names."""

    suffixes: tuple[str, ...] = (".csv",)
    suffix = ".csv"

    def columns(self, path: Path, column: str) -> list[str]:
        with _opened(path) as file:
            for _, names in _records(_lines(file, path), path):
                return [_utf8(name) for name in names]
        raise DataError(f"{path} is empty, expected a row of names")

    def spans(self, path: Path, column: str, block_bytes: int) -> Iterator[Span]:
        with _opened(path) as file:
            begin = file.tell()
            records = _records(_lines(file, path), path)
            begin += len(next(records)[0])
            rows = ((len(record), bool(cells)) for record, cells in records)
            yield from _spans(rows, begin, begin, block_bytes)

    def read(self, path: Path, begin: int, end: int, base: int) -> bytes:
        return _part(path, 0, base).removeprefix(BYTE_ORDER_MARK) + _part(path, begin, end)

    def texts(self, data: bytes, column: str, errors: str) -> list[bytes | Unreadable]:
        records = self._rows(data)
        names = [_utf8(name) for name in next(records)[1]]
        place = names.index(column)
        return [
            cells[place].encode("latin-1")
            if len(cells) == len(names)
            else Unreadable(f"{len(cells)} cells, expected {len(names)}")
            for _, cells in records
        ]

    def written(self, data: bytes, column: str, to: str, found: Sequence[Found]) -> bytes:
        records = self._rows(data)
        head, names = next(records)
        rows = [_row(head, names, len(names), (to, to + ERROR))]
        rows += [
            _row(raw, cells, len(names), (one.text, one.why))
            for (raw, cells), one in zip(records, found, strict=True)
        ]
        return b"".join(rows)

    def _rows(self, data: bytes) -> Iterator[tuple[bytes, list[str]]]:
        return (row for row in _records(_lines(io.BytesIO(data), "a block"), "a block") if row[1])


FORMATS: dict[str, Format] = {"parquet": Parquet(), "jsonl": JsonLines(), "csv": Csv(), "text": Text()}


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A file behind its byte order mark."""
    with open(path, "rb") as file:
        if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
            file.seek(0)
        yield file


def _part(path: Path, begin: int, end: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(begin)
        return file.read(end - begin)


def _lines(file: BinaryIO, name: object) -> Iterator[bytes]:
    """With their ends. Raises DataError."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise DataError(f"{name}, line {number} has over {LONGEST_LINE:,} bytes: it is no row")
        yield line


def _spans(rows: Iterable[tuple[int, bool]], begin: int, base: int, block_bytes: int) -> Iterator[Span]:
    """Cut where there are enough bytes. rows: the bytes of each line or record, and whether it is a row."""
    end, n_rows = begin, 0
    for n_bytes, is_row in rows:
        end, n_rows = end + n_bytes, n_rows + is_row
        if end - begin >= block_bytes and n_rows:
            yield begin, end, base, n_rows
            begin, n_rows = end, 0
    if n_rows:
        yield begin, end, base, n_rows


def _records(lines: Iterator[bytes], name: object) -> Iterator[tuple[bytes, list[str]]]:
    """The records of a CSV: their bytes, and their cells, in which a character stands for a byte. Raises
    DataError."""
    taken: list[bytes] = []

    def characters() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line.decode("latin-1")

    csv.field_size_limit(LONGEST_LINE)
    reader = csv.reader(characters())
    try:
        for cells in reader:
            yield b"".join(taken), cells
            taken.clear()
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num}: {error}") from None


def _utf8(cell: str) -> str:
    return cell.encode("latin-1").decode("utf-8", "replace")


def _row(raw: bytes, cells: Sequence[str], n_cells: int, more: Sequence[str | None]) -> bytes:
    """A record with two more cells."""
    end = b"\r\n" if raw.endswith(b"\r\n") else b"\n"
    if len(cells) != n_cells or raw.count(b'"') % 2:  # its end is not where more can be said
        cells = [*cells, *[""] * n_cells][:n_cells]
        raw = ",".join(map(_quoted, cells)).encode("latin-1")
    return b",".join([raw.rstrip(b"\r\n"), *(_cell(text).encode() for text in more)]) + end


def _cell(text: str | None) -> str:
    """A null is empty, a text never is."""
    return "" if text is None else _quoted(text) or '""'


def _quoted(cell: str) -> str:
    doubled = cell.replace('"', '""')
    return f'"{doubled}"' if any(sign in cell for sign in ',"\r\n') else cell


def _object(row: Mapping[str, Any], to: str, found: Found) -> bytes:
    """A line of JSON."""
    return msgspec.json.encode({**row, to: found.text, to + ERROR: found.why}) + b"\n"
