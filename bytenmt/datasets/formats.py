"""Formats of data sets: text, JSON lines, CSV, and the protocol that they share with parquet.

One process reads the bytes of a block, another translates them and a third writes them; each step can be
repeated. All columns stay as they were: lines of CSV and values of JSON objects byte for byte.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec

from bytenmt.datasets.parquet import Parquet
from bytenmt.datasets.translate import ERROR, RowError, readable, text_and_error
from bytenmt.errors import DataError
from bytenmt.utf8 import BYTE_ORDER_MARK, repair

MAX_LINE_BYTES = 1 << 26  # bytes
HEADER_LINES = 100  # lines among which the first object is looked for, for its columns
Span = tuple[int, int, int, int]  # begin, end, base and rows, see blocks.RowBlock


class DatasetFormat(Protocol):
    """A format of data sets. suffixes: of files that are read. suffix: of files that are written."""

    suffixes: tuple[str, ...]
    suffix: str

    def columns(self, path: Path, column: str) -> list[str]:
        """Return the names of the columns. Raises DataError if the file is not of this format."""

    def spans(self, path: Path, column: str, block_bytes: int) -> Iterator[Span]:
        """Yield the spans of blocks of about so many bytes."""

    def read(self, path: Path, begin: int, end: int, base: int) -> bytes:
        """Return the bytes of a block, for `texts` and `write`."""

    def texts(self, data: bytes, column: str, errors: str) -> list[bytes | RowError]:
        """Return the text of each row. errors: as for Translate."""

    def write(self, data: bytes, column: str, to: str, results: Sequence[str | RowError]) -> bytes:
        """Return a file with the rows of a block and their translations."""


class TextLines:
    """Plain text, a row a line. Output is JSON lines, as a line of text has no room for an error."""

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

    def texts(self, data: bytes, column: str, errors: str) -> list[bytes | RowError]:
        return [*self._rows(data)]

    def write(self, data: bytes, column: str, to: str, results: Sequence[str | RowError]) -> bytes:
        lines = zip(self._rows(data), results, strict=True)
        return b"".join(_object(self._columns_of(line, column), to, one) for line, one in lines)

    def _rows(self, data: bytes) -> Iterator[bytes]:
        lines = data.removesuffix(b"\n").split(b"\n")
        return (line.removesuffix(b"\r") for line in lines if self._is_row(line))

    def _is_row(self, line: bytes) -> bool:
        return True

    def _columns_of(self, line: bytes, column: str) -> Mapping[str, Any]:
        return {column: repair(line).decode()}


class JsonLines(TextLines):
    """JSON lines; empty lines are skipped. A line that is no object is kept as the text of its row."""

    suffixes: tuple[str, ...] = (".jsonl", ".ndjson", ".json")
    _decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def columns(self, path: Path, column: str) -> list[str]:
        with _opened(path) as file:
            for _, line in zip(range(HEADER_LINES), _lines(file, path), strict=False):
                try:
                    return [*self._decoder.decode(repair(line))]
                except (msgspec.MsgspecError, RecursionError):
                    continue
        raise DataError(f"{path}: none of its first {HEADER_LINES} lines is a JSON object: give --format")

    def texts(self, data: bytes, column: str, errors: str) -> list[bytes | RowError]:
        return [self._text(readable(line, errors), column) for line in self._rows(data)]

    def _text(self, line: bytes | RowError, column: str) -> bytes | RowError:
        if isinstance(line, RowError):
            return line
        try:
            row = self._decoder.decode(line)
            if column not in row:
                return RowError(f"no column {column}")
            text = msgspec.json.decode(row[column], type=str | None)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            return RowError(str(error))
        return RowError("no text") if text is None else text.encode()

    def _is_row(self, line: bytes) -> bool:
        return bool(line) and not line.isspace()

    def _columns_of(self, line: bytes, column: str) -> Mapping[str, Any]:
        valid = repair(line)
        try:
            return self._decoder.decode(valid)
        except (msgspec.MsgspecError, RecursionError):
            return {column: valid.decode()}


class CSV:
    """Tables of RFC 4180 with a header row; empty lines are skipped.

    A row with too few or too many cells is not translated; it is written with as many cells as the header.
    """

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

    def texts(self, data: bytes, column: str, errors: str) -> list[bytes | RowError]:
        records = self._rows(data)
        names = [_utf8(name) for name in next(records)[1]]
        place = names.index(column)
        return [
            cells[place].encode("latin-1")
            if len(cells) == len(names)
            else RowError(f"{len(cells)} cells, expected {len(names)}")
            for _, cells in records
        ]

    def write(self, data: bytes, column: str, to: str, results: Sequence[str | RowError]) -> bytes:
        records = self._rows(data)
        head, names = next(records)
        rows = [_row(head, names, len(names), (to, to + ERROR))]
        rows += [
            _row(raw, cells, len(names), text_and_error(one))
            for (raw, cells), one in zip(records, results, strict=True)
        ]
        return b"".join(rows)

    def _rows(self, data: bytes) -> Iterator[tuple[bytes, list[str]]]:
        return (row for row in _records(_lines(io.BytesIO(data), "a block"), "a block") if row[1])


FORMATS: dict[str, DatasetFormat] = {
    "parquet": Parquet(),
    "jsonl": JsonLines(),
    "csv": CSV(),
    "text": TextLines(),
}


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file and skip its byte order mark."""
    with open(path, "rb") as file:
        if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
            file.seek(0)
        yield file


def _part(path: Path, begin: int, end: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(begin)
        return file.read(end - begin)


def _lines(file: BinaryIO, name: object) -> Iterator[bytes]:
    """Yield lines with their ends. Raises DataError for a line that is too long."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise DataError(f"{name}, line {number} has over {MAX_LINE_BYTES:,} bytes: split it into rows")
        yield line


def _spans(rows: Iterable[tuple[int, bool]], begin: int, base: int, block_bytes: int) -> Iterator[Span]:
    """Yield spans of at least block_bytes. rows: the bytes of each line, and whether it is a row."""
    end, n_rows = begin, 0
    for n_bytes, is_row in rows:
        end, n_rows = end + n_bytes, n_rows + is_row
        if end - begin >= block_bytes and n_rows:
            yield begin, end, base, n_rows
            begin, n_rows = end, 0
    if n_rows:
        yield begin, end, base, n_rows


def _records(lines: Iterator[bytes], name: object) -> Iterator[tuple[bytes, list[str]]]:
    """Yield the bytes of each record of a CSV, and its cells decoded as Latin-1. Raises DataError."""
    taken: list[bytes] = []

    def characters() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line.decode("latin-1")

    csv.field_size_limit(MAX_LINE_BYTES)
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
    """Return a record with two more cells."""
    end = b"\r\n" if raw.endswith(b"\r\n") else b"\n"
    if len(cells) != n_cells or raw.count(b'"') % 2:  # its end is not where more can be said
        cells = [*cells, *[""] * n_cells][:n_cells]
        raw = ",".join(map(_quoted, cells)).encode("latin-1")
    return b",".join([raw.rstrip(b"\r\n"), *(_cell(text).encode() for text in more)]) + end


def _cell(text: str | None) -> str:
    """Quote a cell; None becomes an empty one, and an empty text two quotes."""
    return "" if text is None else _quoted(text) or '""'


def _quoted(cell: str) -> str:
    doubled = cell.replace('"', '""')
    return f'"{doubled}"' if any(sign in cell for sign in ',"\r\n') else cell


def _object(row: Mapping[str, Any], to: str, result: str | RowError) -> bytes:
    """Return a row with its translation as a line of JSON."""
    text, error = text_and_error(result)
    return msgspec.json.encode({**row, to: text, to + ERROR: error}) + b"\n"
