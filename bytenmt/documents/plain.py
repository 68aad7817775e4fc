"""Tables (CSV, TSV), of which one column is translated, and plain text with paragraphs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from bytenmt.documents.document import LINES, MalformedError, Parts, Unit, UnitPart, joined_text

QUOTED = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"')
LINE_END = re.compile(r"\r\n|\n|\r|$")
BLANKS = re.compile(r"\s+")
MAX_NAME = 50  # characters of a column's name in a message
WRAPPED_WIDTH, FULL = 40, 0.6  # of the widest line in a paragraph that is wrapped; of it that others have


class Cell(NamedTuple):
    """A cell of a table. start, end: including its quotes. value: without them."""

    start: int
    end: int
    value: str


def read_table(text: str, column: str | None, into: str | None, tabs: bool) -> list[Unit]:
    """Return the units of a column, given by its name in the first row or its number from 1.

    into: the column for the translations, the same one if None. Where one of them is a name, the first row is
    a header, which is not translated. tabs: whether it is a TSV, which has no quotes. Raises MalformedError.
    """
    if column is None:
        raise MalformedError("no column to translate: give --column NAME or --column NUMBER", 0)
    delimiter = "\t" if tabs else _delimiter(text)
    rows = _rows(text, delimiter, quotes=not tabs)
    if not rows:
        return []
    source, named = _column(rows[0], column, "--column")
    target, target_named = (source, named) if into is None else _column(rows[0], into, "--to-column")
    units = []
    for row in rows[1:] if named or target_named else rows:
        if len(row) <= max(source, target):
            if len(row) == 1 and not row[0].value:  # an empty line
                continue
            raise MalformedError(
                f"{len(row)} columns, expected {max(source, target) + 1} or more", row[0].start
            )
        value, begun = (_parts(row[at].value) for at in (source, target))
        write = _tsv if tabs else _csv(delimiter, text[row[target].start : row[target].end].startswith('"'))
        done = into is not None and bool(joined_text(begun).strip())
        start, end = row[target].start, row[target].end
        units.append(Unit(row[source].start, "", value, start, end, begun, write, done))
    return units


def _parts(value: str) -> Parts:
    return (UnitPart(value),) if value else ()


def _column(header: list[Cell], column: str, option: str) -> tuple[int, bool]:
    """Return the number of a column from 0, and whether it was found by its name."""
    names = [cell.value for cell in header]
    if column in names:
        return names.index(column), True
    if column.isdigit() and int(column) > 0:
        return int(column) - 1, False
    known = ", ".join(name[:MAX_NAME] for name in names[:20])
    raise MalformedError(f"{option} {column} is not one of the columns {known}", 0)


def _delimiter(text: str) -> str:
    """Guess the delimiter: the most frequent one of the first line that gives rows of equal length."""
    begin = text[: 1 << 16].rpartition("\n")[0] if len(text) > 1 << 16 else text
    first = re.sub(r'"[^"]*"', "", begin.partition("\n")[0])
    known = sorted(",;\t|", key=first.count, reverse=True)
    return next((one for one in known if one in first and _is_even(begin, one)), known[0])


def _is_even(text: str, delimiter: str) -> bool:
    """Return whether all rows except empty lines have the same number of cells."""
    try:
        rows = _rows(text, delimiter, quotes=True)
    except MalformedError:
        return False
    return len({len(row) for row in rows if len(row) > 1 or row[0].value}) == 1


def _rows(text: str, delimiter: str, quotes: bool) -> list[list[Cell]]:
    """Parse the rows of a table. Raises MalformedError."""
    bare = re.compile(f"[^{re.escape(delimiter)}\r\n]*")
    rows, row, at = list[list[Cell]](), list[Cell](), 0
    while at < len(text) or row:
        if quotes and text.startswith('"', at):
            match = QUOTED.match(text, at)
            if match is None:
                raise MalformedError("a quotation mark that is not closed", at)
            value = match[1].replace('""', '"')
        else:
            match = bare.match(text, at)
            assert match is not None
            value = match[0]
        row.append(Cell(at, match.end(), value))
        at = match.end()
        if text.startswith(delimiter, at):
            at += 1
            continue
        ended = LINE_END.match(text, at)
        if ended is None:
            raise MalformedError("text after the closing quote of a cell", at)
        rows.append(row)
        row, at = [], ended.end()
    return rows


def _csv(delimiter: str, quoted: bool) -> Callable[[Parts, bool], str]:
    def write(parts: Parts, _: bool) -> str:
        value = joined_text(parts)
        if quoted or any(one in value for one in (delimiter, '"', "\n", "\r")):
            doubled = value.replace('"', '""')
            return f'"{doubled}"'
        return value

    return write


def _tsv(parts: Parts, _: bool) -> str:
    return re.sub(r"[\t\r\n]+", " ", joined_text(parts))


def read_text(text: str) -> list[Unit]:
    """Return the units of plain text: lines, and hard-wrapped paragraphs, which are wrapped again."""
    units: list[Unit] = []
    paragraph: list[tuple[int, int]] = []
    for match in LINES.finditer(text):
        if match[1].strip():
            paragraph.append((match.start(1), match.end(1)))
        else:
            units += _paragraph(text, paragraph)
            paragraph = []
    return units + _paragraph(text, paragraph)


def _paragraph(text: str, lines: list[tuple[int, int]]) -> list[Unit]:
    widths = [end - start for start, end in lines]
    widest = max(widths, default=0)
    indents = {re.match(r"[ \t]*", text[start:end])[0] for start, end in lines[1:]}  # type: ignore[index]
    wrapped = len(lines) > 1 and widest >= WRAPPED_WIDTH and len(indents) == 1
    if wrapped and min(widths[:-1]) >= FULL * widest:
        newline = text[lines[0][1] : lines[1][0]]
        return [_unit(text, lines[0][0], lines[-1][1], _wrapper(newline + indents.pop(), widest))]
    return [_unit(text, start, end, lambda parts, _: joined_text(parts)) for start, end in lines]


def _unit(text: str, start: int, end: int, write: Callable[[Parts, bool], str]) -> Unit:
    raw = text[start:end]
    start, end = start + len(raw) - len(raw.lstrip()), end - len(raw) + len(raw.rstrip())
    source = (UnitPart(BLANKS.sub(_folded, text[start:end])),)
    return Unit(start, "", source, start, end, source, write)


def _folded(blanks: re.Match[str]) -> str:
    """Return a line end and the blanks around it as one space, other blanks as they are."""
    return " " if set(blanks[0]) & {"\r", "\n"} else blanks[0]


def _wrapper(newline: str, width: int) -> Callable[[Parts, bool], str]:
    def write(parts: Parts, _: bool) -> str:
        lines, length = [list[str]()], 0
        for word in joined_text(parts).split(" "):
            if length and length + 1 + len(word) > width:
                lines.append([])
                length = 0
            if not length:
                lines[-1] = [word]  # blanks at the beginning of a line are left out
            else:
                lines[-1].append(word)
            length += len(word) + (1 if length else 0)
        return newline.join(" ".join(line) for line in lines)

    return write
