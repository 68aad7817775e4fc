"""Tables (CSV, TSV), of which one column is translated, and plain text, line by line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from bytenmt.documents.unit import Document, EditedText, ReadOptions, Unit, text_writer
from bytenmt.errors import DataError

SAMPLE_CHARS = 4096  # of a table by which its delimiter is guessed


def read_csv(data: bytes, options: ReadOptions) -> Document:
    """Read a CSV file: a translation unit for the cell of each row in the column options.column.

    If a column is given by its name, the first row is a header, which gets no unit. Translations
    replace the texts, or go to the column options.into. Raises DataError for a missing column or a
    malformed file.
    """
    file = EditedText(data)
    style: dict[str, Any] = {"delimiter": ",", "strict": True}
    with suppress(csv.Error):  # no delimiter can be guessed
        style["delimiter"] = csv.Sniffer().sniff(file.text[:SAMPLE_CHARS], ",;\t|").delimiter
    return _read_table(file, options, style, str)


def read_tsv(data: bytes, options: ReadOptions) -> Document:
    """Read a TSV file, which has no quotes; otherwise as read_csv. Raises DataError."""
    style: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}
    return _read_table(EditedText(data), options, style, partial(re.sub, r"[\t\n]+", " "))


def _read_table(
    file: EditedText, options: ReadOptions, style: dict[str, Any], to_cell: Callable[[str], str]
) -> Document:
    """Read a table. style: options of the module csv. to_cell: makes a text fit for a cell."""
    try:
        rows = list(csv.reader(io.StringIO(file.text, newline=""), **style))
    except csv.Error as error:
        raise DataError(f"a quotation mark is wrong: {error}") from None

    def dump() -> bytes:
        out = io.StringIO(newline="")
        csv.writer(out, lineterminator="\n", **style).writerows(rows)
        return file.encoded(out.getvalue())

    return Document(list(_column_units(rows, options, to_cell)), dump)


def _column_units(
    rows: list[list[str]], options: ReadOptions, to_cell: Callable[[str], str]
) -> Iterator[Unit]:
    """Yield the units of a column, given by number from 1 or, of a table with a header, by name."""
    if options.column is None:
        raise DataError("no column to translate: give --column NAME or --column NUMBER")
    header = next(iter(rows), [])
    names = options.column, options.into or options.column
    source, target = (_column(header, name) for name in names)
    n_columns = max(source, target) + 1
    has_header = not all(map(str.isdecimal, names))
    for number, row in enumerate(rows, 1):
        if not any(row) or (number == 1 and has_header):
            continue
        if len(row) < n_columns:
            raise DataError(f"row {number} has {len(row)} columns, not {n_columns} or more")

        def put(text: str, row: list[str] = row) -> None:
            row[target] = to_cell(text)

        is_done = bool(options.into and row[target].strip())
        yield Unit([row[source]], text_writer(put), f"row {number}", "", (row[target],), is_done)


def _column(header: Sequence[str], column: str) -> int:
    """Return the number of a column from 0."""
    if column.isdecimal() and int(column) > 0:
        return int(column) - 1
    if column in header:
        return list(header).index(column)
    raise DataError(
        f"{column} is not one of the columns {', '.join(name[:50] for name in header[:20])}"
    )


def read_text(data: bytes, _: ReadOptions) -> Document:
    """Read plain text: a translation unit for each line."""
    file = EditedText(data)
    units = list[Unit]()
    start = 0
    for line in file.text.split("\n"):
        write = text_writer(partial(file.replace, start, start + len(line)))
        units.append(Unit([line], write, file.line(start)))
        start += len(line) + 1
    return Document(units, file.dump)
