"""A document: the text of a file, its translatable units, and the bytes of the file with translations put in.

Only the places of units and the declaration of the target language are ever replaced; everything else comes
back byte for byte.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from bytenmt.errors import BytenmtError, DataError

TEXT, ALONE, OPEN, CLOSE = "text", "alone", "open", "close"
MARKS = (  # the longer one first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Codecs of Python that are no encoding of files; some take quadratic time.
NOT_OF_FILES = frozenset(
    ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "mbcs", "oem")
)
SAMPLE_BYTES = 4096  # of a file without a byte order mark, whose zero bytes may show UTF-16 or UTF-32
WIDE_SHARE = 0.2  # of zero bytes among the high bytes of UTF-16 text that is mostly ASCII
# What typographic signs are written as where an encoding lacks them: in ISO 8859-1 most of them.
PLAIN_SIGNS = {
    sign: plain
    for plain, signs in (
        ('"', "\u201c\u201d\u201e\u201f\u00ab\u00bb"),
        ("'", "\u2018\u2019\u201a\u201b\u2039\u203a"),
        ("-", "\u2010\u2011\u2012\u2013\u2014\u2212"),
        (" ", "\u00a0\u2009\u202f"),
        ("...", "\u2026"),
    )
    for sign in signs
}
# A line and its end: one \n with all \r before it, or one \r. The look-behind keeps a long run of \r from
# being searched for its \n at every one of them.
LINES = re.compile(r"([^\r\n]*)((?<!\r)\r*+\n|\r|$)")


class UnitPart(NamedTuple):
    """A piece of a unit: text, or an inline code (a tag or a placeholder) that a translation keeps.

    text: as a reader sees it; of a code as the file has it. kind: TEXT; OPEN or CLOSE for a code that opens
    or closes a pair; ALONE for any other code, such as a placeholder or a line break.
    """

    text: str
    kind: str = TEXT


Parts = tuple[UnitPart, ...]


class Edit(NamedTuple):
    """Put `text` in place of the characters start to end."""

    start: int
    end: int
    text: str


class MalformedError(BytenmtError):  # formats.read turns it into a DataError with its place
    """A text that is not in its format. at: the position of the mistake, in characters."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message, self.at = message, at


class UnencodableError(DataError):
    """A character of a translation that the encoding of its file lacks."""


Value = tuple[Parts, bool]  # a translation, and whether it needs a review


@dataclass(frozen=True, eq=False)
class Unit:
    """A piece of text that is translated as a whole.

    at: where its source begins, in characters. name: its id, context or key, or empty. has_context: whether
    the name is a context (msgctxt), which tells apart what the same source means.
    source: what is translated.
    start, end: the characters that a translation replaces; start == end where there was no target.
    target: what stands there now, None where there was nothing.
    write: the text to put there, for a translation and whether it needs a review.
    done: whether it is translated already. doubted: whether the file says that its target needs a review.
    mark: further edits when a translation is put in, for whether it needs a review. Units may share one; it
    is then called once, with True if any of them needs a review.
    insert: for units that have no place of their own, such as the segments of a target that is missing. It is
    called instead of `write`, once for all units that share it, with the values of all of them in their
    order, None for one without a translation.
    as_match: returns the unit with the `write` and `mark` of a translation that comes from a translation
    memory, where the format tells it.
    is_valid: whether a program could use a translation; one that it could not use needs a review.
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
    insert: Callable[[Sequence[Value | None]], Sequence[Edit]] | None = None
    as_match: Callable[[], Unit] | None = None
    has_context: bool = False
    is_valid: Callable[[Parts], bool] = lambda _: True


class DeclaredLanguages(NamedTuple):
    """The languages that a file declares, as it writes them; None where it declares none."""

    source: str | None = None
    target: str | None = None


class Content(NamedTuple):
    """The result of a reader: the units of a text and its languages.

    language_edits: edits that declare the target language; they are made as soon as a translation is put in.
    warnings: what a user should know of the file, each without its name. other_languages: of further parts of
    the file.
    """

    units: Sequence[Unit]
    languages: DeclaredLanguages = DeclaredLanguages()
    language_edits: Sequence[Edit] = ()
    warnings: Sequence[str] = ()
    other_languages: Sequence[DeclaredLanguages] = ()


@dataclass(frozen=True, eq=False)
class Document:
    """The text of a file and its units.

    text: of the whole file. lead: its byte order mark, or empty. encoding: Python's name of it. charref:
    whether a character that the encoding lacks can be written as a reference. languages, language_edits,
    warnings, other_languages: see Content. is_xml: whether only tags of the file itself may stand in a unit.
    path: for messages.
    """

    text: str
    lead: bytes
    encoding: str
    units: tuple[Unit, ...]
    charref: bool = False
    languages: DeclaredLanguages = DeclaredLanguages()
    language_edits: tuple[Edit, ...] = ()
    is_xml: bool = False
    path: Path = Path("the document")
    warnings: tuple[str, ...] = ()
    other_languages: tuple[DeclaredLanguages, ...] = ()

    def place(self, at: int) -> str:
        """Return line and column of a character, both from 1."""
        line = bisect_right(self._lines, at)
        return f"line {line}, column {at - self._lines[line - 1] + 1}"

    @cached_property
    def _lines(self) -> list[int]:
        """The position of the first character of every line."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def replaced(self, edits: Iterable[Edit]) -> bytes:
        """Return the bytes of the file with edits applied; equal edits count once.

        Raises UnencodableError with the place of a character that the encoding lacks.
        """
        pieces, last = [], 0
        ordered = sorted(dict.fromkeys(edits))
        for edit in ordered:
            if edit.start < last:
                raise ValueError(f"edits at {edit.start} overlap")
            pieces += [self.text[last : edit.start], edit.text]
            last = edit.end
        whole = "".join([*pieces, self.text[last:]])
        try:
            return self.lead + encode(whole, self.encoding, self.charref)
        except UnicodeEncodeError as error:
            letter = whole[error.start]
            at = next((edit.start for edit in ordered if letter in edit.text), 0)
            raise UnencodableError(
                f"{self.path}, {self.place(at)}: the file is in {self.encoding}, which lacks the {letter!r}"
                " of the translation there: convert the file to UTF-8"
            ) from None

    def with_units(self, values: Sequence[Value | None], matches: Collection[int] = ()) -> bytes:
        """Return the bytes of the file with the units' translations put in.

        values: for each unit its translation and whether it needs a review, or None to leave the unit as it
        is. A translation that is what stands there already changes nothing. matches: the indices of the
        units whose translation comes from a translation memory. Typographic signs that the encoding lacks are
        written as plain ones. Raises UnencodableError.
        """
        try:
            return self._with_units(values, matches)
        except UnencodableError:
            signs = str.maketrans(dict(_missing_signs(self.encoding)))
            plain = [value and (_translated_texts(value[0], signs), value[1]) for value in values]
            return self._with_units(plain, matches)

    def _with_units(self, values: Sequence[Value | None], matches: Collection[int]) -> bytes:
        """Return the bytes of the file with translations; see with_units."""
        edits, marks = list[Edit](), dict[Callable[[bool], Sequence[Edit]], bool]()
        inserted = dict[Callable[[Sequence[Value | None]], Sequence[Edit]], list[Value | None]]()
        for index, (unit, value) in enumerate(zip(self.units, values, strict=True)):
            if index in matches and unit.as_match is not None:
                unit = unit.as_match()
            if unit.insert is not None:
                inserted.setdefault(unit.insert, []).append(value)
            if value is None or value[0] == unit.target:
                continue
            if unit.insert is None:
                edits.append(Edit(unit.start, unit.end, unit.write(*value)))
            if unit.mark is not None:
                marks[unit.mark] = marks.get(unit.mark, False) or value[1]
        for insert, together in inserted.items():
            if any(value is not None for value in together):
                edits += insert(together)
        edits += [edit for mark, review in marks.items() for edit in mark(review)]
        return self.replaced([*edits, *self.language_edits] if edits else [])


def is_language_or_region(declared: str | None, language: str) -> bool:
    """Return whether a declared language is a language or one of its regions: de_AT is one of de."""
    folded, wanted = (one.lower().replace("_", "-") for one in (declared or "", language))
    return folded == wanted or folded.startswith(f"{wanted}-")


def _missing_signs(encoding: str) -> Iterator[tuple[str, str]]:
    """Yield the typographic signs that an encoding lacks, each with what is written for it."""
    for sign, plain in PLAIN_SIGNS.items():
        try:
            sign.encode(encoding)
        except UnicodeEncodeError:
            yield sign, plain


def _translated_texts(parts: Parts, table: Mapping[int, str]) -> Parts:
    """Return parts with the characters of their texts, but not of codes, replaced by a table."""
    return tuple(UnitPart(part.text.translate(table)) if part.kind == TEXT else part for part in parts)


def joined_text(parts: Iterable[UnitPart]) -> str:
    """Return the texts of all parts as one string."""
    return "".join(part.text for part in parts)


def marked(data: bytes) -> tuple[bytes, str]:
    """Return the byte order mark that a file begins with and its encoding; both are empty without one."""
    return next(((mark, name) for mark, name in MARKS if data.startswith(mark)), (b"", ""))


def lookup_encoding(name: str) -> str:
    """Return Python's name of a text encoding. Raises BytenmtError for one that files are not written in."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        found = None
    # Python marks codecs such as base64, which are no text encodings, with an attribute of its own.
    if found is None or found.name in NOT_OF_FILES or not getattr(found, "_is_text_encoding", True):
        raise BytenmtError(f"unknown encoding {name:.60}: give --encoding NAME")
    return found.name


def wide_encoding(data: bytes) -> str | None:
    """Return the UTF-16 or UTF-32 encoding that the zero bytes of a file without a byte order mark show."""
    sample = data[:SAMPLE_BYTES]
    if b"\0" not in sample or len(data) % 2:
        return None
    of_four = [sample[at::4] for at in range(4)]
    if len(data) % 4 == 0:
        for high, next_high, name in ((3, 2, "utf-32-le"), (0, 1, "utf-32-be")):
            if not any(of_four[high]) and max(of_four[next_high], default=0) <= 0x10:
                return name
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    zeros, fewer, name = (odd, even, "utf-16-le") if odd > even else (even, odd, "utf-16-be")
    if zeros <= 3 * fewer:
        return None
    # UTF-8 with a stray zero byte is still UTF-8; UTF-16 is not, unless most of it is ASCII.
    return name if zeros > WIDE_SHARE * len(sample) / 2 or not _is_utf8(sample) else None


def _is_utf8(sample: bytes) -> bool:
    """Return whether the beginning of a file, which may end within a character, is UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def decode(data: bytes, declared: str | None) -> tuple[str, bytes, str]:
    """Return the text of a file, its byte order mark, and the name of its encoding.

    declared: the encoding that the file or the user names; without it, UTF-16 and UTF-32 are recognised by
    their zero bytes, and everything else is UTF-8, where invalid bytes become Python's surrogates.
    Raises BytenmtError where the text could not be given back byte for byte.
    """
    lead, encoding = marked(data)
    encoding = lookup_encoding(encoding or declared or wide_encoding(data) or "utf-8")
    if not lead and encoding in ("utf-16", "utf-32"):
        wide = wide_encoding(data)
        little = wide.endswith("le") if wide else data[1:2] == b"\0"
        encoding += "-le" if little else "-be"
    errors = "surrogateescape" if encoding == "utf-8" else "strict"
    try:
        text = data[len(lead) :].decode(encoding, errors)
        exact = text.encode(encoding, errors) == data[len(lead) :]
    except UnicodeDecodeError as error:
        line = error.object[: error.start].decode(encoding, "ignore").count("\n") + 1
        raise BytenmtError(
            f"0x{error.object[error.start]:02X} in line {line} is not {encoding} ({error.reason}): give"
            " --encoding NAME"
        ) from None
    except UnicodeError:
        exact = False
    if not exact:
        raise BytenmtError(f"{encoding} cannot be written back byte for byte: convert the file to UTF-8")
    return text, lead, encoding


def encode(text: str, encoding: str, charref: bool) -> bytes:
    """Return the bytes of a text; the inverse of decode.

    charref: write characters that the encoding lacks as references. Raises UnicodeEncodeError.
    """
    errors = "surrogateescape" if encoding == "utf-8" else "xmlcharrefreplace" if charref else "strict"
    return text.encode(encoding, errors)
