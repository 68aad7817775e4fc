"""A document: the text of a file, the units in it that can be translated, and the file again with other bytes
in their places.

Only the places of units are ever replaced: all that stands between them comes back byte for byte. Knows
encodings and places; knows no format and no translator.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from bytenmt.errors import BytenmtError

TEXT, ALONE, OPEN, CLOSE = "text", "alone", "open", "close"
MARKS = (  # the longer one first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Part(NamedTuple):
    """A stretch of a unit. kind: TEXT, or a code, which a translation has as it is: one that stands ALONE
    (a placeholder, a line break), or one that OPENs or CLOSEs a pair. text: of a code as the unit has it, of
    TEXT as a reader sees it."""

    text: str
    kind: str = TEXT


Parts = tuple[Part, ...]


class Edit(NamedTuple):
    """Put `text` in place of the characters start to end."""

    start: int
    end: int
    text: str


class Malformed(BytenmtError):  # noqa: N818 - it is told with its place as DataError
    """A text that is not in its format. at: the place of the mistake in it, in characters."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message, self.at = message, at


@dataclass(frozen=True, eq=False)
class Unit:
    """What is translated in one piece.

    at: where its source begins, in characters. name: its id, context or key, or empty.
    source: what is translated.
    start, end: what a translation takes the place of, in characters; the same number where there was
    nothing. target: how that reads now, None where there was nothing. write: a translation, and whether it
    wants a review -> the text of that place. done: whether it is translated already;
    doubted: by its state. mark: what else changes when a translation is put in, by whether it wants a review;
    units that share one are marked once, for review where one of them wants it.
    """

    at: int
    name: str
    source: Parts
    start: int
    end: int
    target: Parts | None
    write: Callable[[Parts, bool], str]
    done: bool = False
    doubted: bool = False
    mark: Callable[[bool], Sequence[Edit]] | None = None


@dataclass(frozen=True, eq=False)
class Document:
    """text: of the whole file. lead: the byte order mark. encoding: Python's name of it. charref: whether a
    character that the encoding lacks can be written as a reference."""

    text: str
    lead: bytes
    encoding: str
    units: tuple[Unit, ...]
    charref: bool = False

    def place(self, at: int) -> str:
        """Line and column, from 1, of a character."""
        line = bisect_right(self._lines, at)
        return f"line {line}, column {at - self._lines[line - 1] + 1}"

    @cached_property
    def _lines(self) -> list[int]:
        """Where each line begins."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def replaced(self, edits: Iterable[Edit]) -> bytes:
        """The bytes of the file with these places replaced; equal edits count once. Raises BytenmtError where
        the encoding has no place for a character."""
        pieces, last = [], 0
        for edit in sorted(dict.fromkeys(edits)):
            if edit.start < last:
                raise ValueError(f"edits at {edit.start} overlap")
            pieces += [self.text[last : edit.start], edit.text]
            last = edit.end
        whole = "".join([*pieces, self.text[last:]])
        return self.lead + encode(whole, self.encoding, self.charref)

    def with_units(self, values: Sequence[tuple[Parts, bool] | None]) -> bytes:
        """The bytes of the file with a translation, and whether it wants a review, in place of each unit that
        has one; a translation that is what stands there already changes nothing."""
        edits, marks = [], dict[Callable[[bool], Sequence[Edit]], bool]()
        for unit, value in zip(self.units, values, strict=True):
            if value is not None and value[0] != unit.target:
                edits.append(Edit(unit.start, unit.end, unit.write(*value)))
                if unit.mark is not None:
                    marks[unit.mark] = marks.get(unit.mark, False) or value[1]
        return self.replaced(edits + [edit for mark, review in marks.items() for edit in mark(review)])


def flat(parts: Iterable[Part]) -> str:
    """The parts one behind the other, as a translator sees them."""
    return "".join(part.text for part in parts)


def marked(data: bytes) -> tuple[bytes, str]:
    """The byte order mark that a file begins with and the encoding that it says; empty without."""
    return next(((mark, name) for mark, name in MARKS if data.startswith(mark)), (b"", ""))


def decode(data: bytes, declared: str | None) -> tuple[str, bytes, str]:
    """The text of a file, its byte order mark, and the name of its encoding.

    declared: what the format or the user says it is; UTF-8 without. In UTF-8 bytes that are none are kept as
    Python's surrogates. Raises BytenmtError where the text could not be given back byte for byte.
    """
    lead, encoding = marked(data)
    encoding = encoding or declared or "utf-8"
    try:
        encoding = codecs.lookup(encoding).name
        if not lead and encoding in ("utf-16", "utf-32"):
            encoding += "-le" if data[1:2] == b"\0" else "-be"
        errors = "surrogateescape" if encoding == "utf-8" else "strict"
        text = data[len(lead) :].decode(encoding, errors)
        exact = text.encode(encoding, errors) == data[len(lead) :]
    except LookupError:
        raise BytenmtError(f"unknown encoding {encoding}: give --encoding NAME") from None
    except UnicodeDecodeError as error:
        raise BytenmtError(
            f"byte {len(lead) + error.start} is not {encoding} ({error.reason}): give --encoding NAME"
        ) from None
    if not exact:
        raise BytenmtError(f"{encoding} cannot be given back byte for byte: convert the file to UTF-8")
    return text, lead, encoding


def encode(text: str, encoding: str, charref: bool) -> bytes:
    """The inverse. Raises BytenmtError."""
    if encoding == "utf-8":
        return text.encode(encoding, "surrogateescape")
    try:
        return text.encode(encoding, "xmlcharrefreplace" if charref else "strict")
    except UnicodeEncodeError as error:
        letter = text[error.start]
        raise BytenmtError(
            f"the file is in {encoding}, which has no {letter!r} of a translation: convert it to UTF-8"
        ) from None
