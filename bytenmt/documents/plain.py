"""Tables (CSV, TSV), of which one column is translated, and plain text with paragraphs."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from bytenmt.documents.unit import Document, EditedText, ReadOptions, Unit, text_writer
from bytenmt.errors import DataError

PARAGRAPH = re.compile(r"(?:[^\n]*\S[^\n]*(?:\n|$))+")
SAMPLE = 4096  # characters of a table by which its delimiter is told
# The end of a line that is a sentence; of a paragraph with many (MOST of the lines), each line stays one.
SENTENCE_END, MOST = re.compile(r"[.?!:\u3002\uff1f\uff01\uff1a][\"'\u2019\u201c\u201d)\]]*\s*$"), 0.8
WRAPPED_WIDTH, FULL = 40, 0.6  # of the widest line in a paragraph that is wrapped; of it that others have


def read_table(data: bytes, options: ReadOptions) -> Document:
    """Read a CSV file, or TSV, which has no quotes: a unit for each cell of a column. Raises DataError."""
    file = EditedText(data)
    style: dict[str, Any] = {"delimiter": ",", "strict": True, "lineterminator": "\n"}
    with suppress(csv.Error):  # none can be told
        style["delimiter"] = csv.Sniffer().sniff(file.text[:SAMPLE], ",;\t|").delimiter
    if options.format == "tsv":
        style |= {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}
    try:
        rows = list(csv.reader(io.StringIO(file.text, newline=""), **style))
    except csv.Error as error:
        raise DataError(f"a quotation mark is wrong: {error}") from None

    def dump() -> bytes:
        out = io.StringIO(newline="")
        csv.writer(out, **style).writerows(rows)
        return file.encoded(out.getvalue())

    return Document(list(_column_units(rows, options)), dump)


def _column_units(rows: list[list[str]], options: ReadOptions) -> Iterator[Unit]:
    """Yield the units of a column, given by its name in the first row or its number from 1.

    Where a column is given by its name, the first row is a header, which is not translated.
    """
    if options.column is None:
        raise DataError("no column to translate: give --column NAME or --column NUMBER")
    header = rows[0] if rows else []
    source, target = (_column(header, column) for column in (options.column, options.into or options.column))
    has_header = options.column in header or options.into in header
    for number, row in enumerate(rows):
        if not any(row) or (number == 0 and has_header):
            continue
        if len(row) <= max(source, target):
            raise DataError(f"row {number + 1} has {len(row)} columns, not {max(source, target) + 1} or more")

        def put(text: str, row: list[str] = row) -> None:
            row[target] = re.sub(r"[\t\n]+", " ", text) if options.format == "tsv" else text

        is_done = bool(options.into and row[target].strip())
        yield Unit([row[source]], text_writer(put), f"row {number + 1}", "", (row[target],), is_done)


def _column(header: Sequence[str], column: str) -> int:
    """Return the number of a column from 0."""
    if column in header:
        return list(header).index(column)
    if column.isdigit() and int(column) > 0:
        return int(column) - 1
    raise DataError(f"{column} is not one of the columns {', '.join(name[:50] for name in header[:20])}")


def read_text(data: bytes, _: ReadOptions) -> Document:
    """Read plain text: a unit for each line, or hard-wrapped paragraph, whose translation is wrapped, too."""
    file = EditedText(data)
    units = list[Unit]()
    for paragraph in PARAGRAPH.finditer(file.text):
        start, text = paragraph.start(), paragraph[0].rstrip("\n")
        lines = text.split("\n")
        widest = max(map(len, lines))
        indents = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
        is_wrapped = len(set(indents[1:])) == 1 and widest >= WRAPPED_WIDTH
        is_wrapped &= len(list(filter(SENTENCE_END.search, lines))) < MOST * len(lines)
        if is_wrapped and min(map(len, lines[:-1])) >= FULL * widest:
            wrap = partial(
                textwrap.fill, width=widest, initial_indent=indents[0], subsequent_indent=indents[1]
            )

            def put(text: str, start: int = start, end: int = start + len(text), wrap: Any = wrap) -> None:
                file.replace(start, end, wrap(text, break_long_words=False, break_on_hyphens=False))

            units.append(Unit([" ".join(map(str.strip, lines))], text_writer(put), file.line(start)))
            continue
        for line in lines:
            write = text_writer(partial(file.replace, start, start + len(line)))
            units.append(Unit([line], write, file.line(start)))
            start += len(line) + 1
    return Document(units, file.dump)
