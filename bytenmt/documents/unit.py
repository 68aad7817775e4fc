"""Units of a document, their parts, and the text of a file."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from bytenmt.errors import DataError
from bytenmt.sentinels import Code, match_pairs

BYTE_ORDER_MARKS = {"utf-8-sig": (b"\xef\xbb\xbf",), "utf-16": (b"\xff\xfe", b"\xfe\xff")}
TAG_NAME = re.compile(r"</?([A-Za-z][^\s/>.]*)")

CodedText = tuple[str | Code, ...]  # a text in order: strings, and inline codes, which are kept


class Tag(NamedTuple):
    """An inline code, such as <b>, as a reader finds it; `pair_codes` makes a Code of it."""

    text: str  # its markup
    key: str = ""  # the same for an opening tag and its closing one; empty if it stands alone
    opens: bool = False  # whether it is an opening tag; without meaning if key is empty


def pair_codes(parts: Iterable[str | Tag]) -> list[str | Code]:
    """Replace each Tag by a Code, whose `pair` tells which opening and closing tags match.

    The list is as long as `parts`; the number of a pair is the index of its opening tag. Tags
    without a partner stand alone. Pairs do not cross: of two that do, only the one that ends first
    stays a pair.
    """
    read = list(parts)
    opening_of = match_pairs(
        (part.key, part.opens) if isinstance(part, Tag) and part.key else None for part in read
    )
    pair_of = opening_of | {opening: opening for opening in opening_of.values()}
    coded = list[str | Code]()
    for index, part in enumerate(read):
        pair = pair_of.get(index, -1)
        coded.append(Code(part.text, pair, pair == index) if isinstance(part, Tag) else part)
    return coded


def merge_strings(parts: Iterable[str | Code]) -> CodedText:
    """Join adjacent strings of a text and drop empty ones; inline codes stay where they are."""
    from bytenmt.translation.kept_spans import merge_texts  # here: --help does without NumPy

    return tuple(merge_texts(parts))


def split_codes(text: str, pattern: re.Pattern[str]) -> CodedText:
    """Split a text into strings and inline codes: each match of `pattern` becomes a Code.

    Opening and closing tags, such as <b> and </b>, are paired by their names.
    """
    parts = list[str | Tag]()
    last = 0
    for match in pattern.finditer(text):
        parts += [text[last : match.start()], parse_tag(match[0])]
        last = match.end()
    return merge_strings(pair_codes([*parts, text[last:]]))


def parse_tag(text: str) -> Tag:
    """Return the Tag for the markup of one inline code.

    Its key is the lower-case name of an element of HTML or XML, such as "b" for <b>; empty for any
    other code, such as <br/> or {name}, which stands alone.
    """
    name = TAG_NAME.match(text)
    if name is None or text.endswith("/>"):
        return Tag(text)
    return Tag(text, name[1].lower(), not text.startswith("</"))


def to_markup(parts: Iterable[str | Code]) -> str:
    """Return all parts as one string, in which a code is its markup (Code.text)."""
    return "".join(part if isinstance(part, str) else part.text for part in parts)


def primary(code: str) -> str:
    """Return a language code in lower case, without region and script: "de" for de-AT and de_AT."""
    return re.split("[-_]", code.lower())[0]


def text_writer(put: Callable[[str], object]) -> Callable[[CodedText, bool], object]:
    """Return a function for Unit.write: it calls `put` with a translation as one string.

    Inline codes are in it as their markup. Whether people should review the translation is ignored:
    for formats that cannot mark that.
    """
    return lambda parts, _: put(to_markup(parts))


class Context(str):
    """A name that tells units with equal sources apart by their meaning, such as msgctxt of PO."""


@dataclass(eq=False)
class Unit:
    """A text of a document that is translated as a whole, such as a paragraph or a message."""

    source: Iterable[str | Code]  # the text in order: strings, and inline codes such as tags
    # Stores a translation in place of one before; the bool: whether people should review it.
    write: Callable[[CodedText, bool], object]
    place: str  # where the unit stands in the file, for messages, such as "line 12"
    # Id, context or key, which tells units with the same source apart in a translation memory.
    name: str = ""
    # The translation in the file, () for none; None: the format holds texts of one language.
    target: CodedText | None = None
    is_done: bool = False  # whether the file's translation is finished, so that it stays
    is_doubted: bool = False  # whether the file marks its translation for review
    # Returns whether a program could use a translation, such as one with the same %s as the source.
    is_valid: Callable[[str], bool] = lambda translation: True

    @cached_property
    def parts(self) -> CodedText:
        """The source as a tuple, with adjacent strings joined."""
        return merge_strings(self.source)


@dataclass(eq=False)
class Document:
    """A parsed file: the units to translate, and a function that makes the translated file."""

    units: Iterable[Unit]
    dump: Callable[[], bytes]  # returns the file with the translations that Unit.write has stored
    targets: Sequence[str] = ()  # the target languages that the file declares, "" where it does not
    warnings: Sequence[str] = ()  # for people, each a sentence without its final period


class ReadOptions(NamedTuple):
    """Options for reading a file as a Document; only tables use the columns."""

    format: str  # name of the format, a key of formats.FORMATS
    pair: tuple[str, str] | None = None  # codes of source and target language; None: not given
    column: str | None = None  # to translate, by its name in the first row or by number from 1
    into: str | None = None  # the column for translations; None: they replace the texts

    def target_to_declare(self, declared: str | None) -> str | None:
        """Return the target language, pair[1], if a file must be changed to declare it, else None.

        declared: the language that the file declares now, None for none. If it is the target
        language or a region of it (de-AT for de), or `pair` is None, the result is None.
        """
        if self.pair is None:
            return None
        current = (declared or "").lower().replace("_", "-")
        wanted = self.pair[1].lower().replace("_", "-")
        return None if f"{current}-".startswith(f"{wanted}-") else self.pair[1]


class EditedText:
    """The text of a file, in which parts are replaced, and which `dump` encodes as the file was.

    text: the decoded file, with \\n for \\r\\n if all its lines end in \\r\\n. Positions are
    indices into it.
    """

    def __init__(self, data: bytes, declared: str | None = None) -> None:
        """Decode the bytes of a file by its byte order mark, else by the encoding `declared`.

        declared: the name of an encoding that the file declares; None: UTF-8. Raises DataError if
        the encoding is unknown, or if the bytes are invalid in it.
        """
        marked = (name for name, mark in BYTE_ORDER_MARKS.items() if data.startswith(mark))
        self.encoding = next(marked, declared or "utf-8")
        try:
            self.text = data.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise DataError(
                f"line {data.count(10, 0, error.start) + 1}: 0x{data[error.start]:02X} is not valid"
                f" {self.encoding.upper()}: convert the file, such as by iconv -f CP1252 -t UTF-8"
            ) from None
        except LookupError:
            message = f"unknown encoding {self.encoding:.60}: convert the file to UTF-8"
            raise DataError(message) from None
        self._edits = dict[tuple[int, int], str]()
        self._line_ends = list[int]()
        self._has_crlf = "\n" in self.text and self.text.count("\r\n") == self.text.count("\n")
        if self._has_crlf:
            self.text = self.text.replace("\r\n", "\n")

    def line(self, position: int) -> str:
        """Return the line of the character text[position] for messages: "line 12", from 1."""
        if not self._line_ends:
            self._line_ends = [match.start() for match in re.finditer("\n|$", self.text)]
        return f"line {bisect_left(self._line_ends, position) + 1}"

    def replace(self, start: int, end: int, text: str) -> None:
        """Have `dump` write `text` in place of self.text[start:end]; ranges must not overlap."""
        self._edits[start, end] = text

    def dump(self) -> bytes:
        """Return the bytes of the file with all replacements.

        Raises UnicodeEncodeError if its encoding lacks a character of them.
        """
        pieces = list[str]()
        last = 0
        for (start, end), text in sorted(self._edits.items()):
            pieces += [self.text[last:start], text]
            last = end
        return self.encoded("".join([*pieces, self.text[last:]]))

    def encoded(self, text: str, errors: str = "strict") -> bytes:
        """Encode a text with the file's encoding and line ends; errors: as in str.encode."""
        if self._has_crlf:
            text = text.replace("\n", "\r\n")
        return text.encode(self.encoding, errors)
