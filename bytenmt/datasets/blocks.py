"""Divide the files of a data set into blocks: the units that are read, translated, written and retried.

The same files always give the same blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from bytenmt.datasets.formats import FORMATS, DatasetFormat
from bytenmt.datasets.translate import check_columns
from bytenmt.errors import BytenmtError, DataError

BLOCK_BYTES = 1 << 20  # of the input
PACKED = (".gz", ".xz", ".zst", ".bz2")
HIDDEN = (".", "_")  # first characters of names that readers of data sets ignore


class RowBlock(Struct, frozen=True):
    """A part of a file.

    number: from 0, in the order of the rows. begin, end: in bytes of the file, or in rows of a row group.
    base: the number of the row group, or the bytes of a table's header. first: the number of the first row in
    the data set. rows: the number of rows.
    """

    number: int
    path: str
    begin: int
    end: int
    base: int
    first: int
    rows: int


def files_of(path: Path) -> list[Path]:
    """Return a file, or the files below a folder, sorted by name. Raises DataError."""
    if not path.is_dir():
        if not path.is_file():
            raise DataError(f"{path} does not exist: give a file or a folder")
        return [path]
    found = [one for one in sorted(path.rglob("*")) if one.is_file()]
    shown = [one for one in found if not any(p.startswith(HIDDEN) for p in one.relative_to(path).parts)]
    if not shown:
        raise DataError(f"{path} has no files")
    return shown


def format_of(files: list[Path], named: str | None) -> str:
    """Return the common format of the files, by their suffixes unless it is named. Raises DataError."""
    for file in files:
        if file.suffix in PACKED:
            raise DataError(f"{file} is packed: unpack it, so that its parts can be read independently")
    if named is not None:
        return named
    kinds = {file: _format_of(file) for file in files}
    first = files[0]
    for file, kind in kinds.items():
        if kind != kinds[first]:
            raise DataError(
                f"{first} is {kinds[first]} and {file} is {kind}: give --format, or a folder of one kind"
            )
    return kinds[first]


def _format_of(file: Path) -> str:
    """Return the format of a file by its suffix; text for unknown suffixes."""
    return next((name for name, one in FORMATS.items() if file.suffix.lower() in one.suffixes), "text")


def blocks_of(
    files: list[Path], form: DatasetFormat, column: str, to: str, block_bytes: int = BLOCK_BYTES
) -> Iterator[RowBlock]:
    """Yield the blocks of files. Raises BytenmtError for a file of another format or without the column."""
    number = first = 0
    for file in files:
        try:
            check_columns(form.columns(file, column), column, to, file)
            for begin, end, base, rows in form.spans(file, column, block_bytes):
                yield RowBlock(number, str(file), begin, end, base, first, rows)
                number, first = number + 1, first + rows
        except OSError as error:
            raise BytenmtError(f"cannot read {file}: {error.strerror or error}") from None
