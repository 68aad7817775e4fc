"""Units of a document, their parts, and the text of a file."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from bytenmt.errors import DataError
from bytenmt.sentinels import Code

BYTE_ORDER_MARKS = {"utf-8-sig": (b"\xef\xbb\xbf",), "utf-16": (b"\xff\xfe", b"\xfe\xff")}
TAG_NAME = re.compile(r"</?([A-Za-z][^\s/>.]*)")


Parts = tuple[str | Code, ...]


class Tag(NamedTuple):
    """An inline code whose partner is not known yet.

    key: what an opening tag shares with its closing one, empty for a code that stands alone.
    """

    text: str
    key: str = ""
    opens: bool = False


def paired(parts: Iterable[str | Tag]) -> list[str | Code]:
    """Return the parts with a code for each tag; a tag without a partner stands alone.

    Pairs are properly nested: of two pairs that cross, the one that ends first counts.
    """
    made, opened = list[str | Code](), list[tuple[str, int]]()
    for number, part in enumerate(parts):
        made.append(part if isinstance(part, str) else Code(part.text))
        if isinstance(part, str) or not part.key:
            continue
        if part.opens:
            opened.append((part.key, number))
        elif any(key == part.key for key, _ in opened):
            while opened[-1][0] != part.key:
                opened.pop()
            opening = opened.pop()[1]
            made[opening] = Code(made[opening].text, opening, True)  # type: ignore[union-attr]
            made[number] = Code(part.text, opening, False)
    return made


def merged(parts: Iterable[str | Code]) -> Parts:
    """Return the parts with adjacent texts joined and without empty ones."""
    made = list[str | Code]()
    for part in parts:
        if isinstance(part, str) and made and isinstance(made[-1], str):
            made[-1] += part
        elif part != "":
            made.append(part)
    return tuple(made)


def split_codes(text: str, pattern: re.Pattern[str]) -> Parts:
    """Return a text as parts, with the matches of a pattern as codes; tags are paired by their names."""
    parts, last = list[str | Tag](), 0
    for match in pattern.finditer(text):
        parts += [text[last : match.start()], parse_tag(match[0])]
        last = match.end()
    return merged(paired([*parts, text[last:]]))


def parse_tag(text: str) -> Tag:
    """Return an inline code as a Tag, whose key pairs it: the lower-case name of an element of HTML or XML.

    Codes that stand alone, such as <br/>, have no key.
    """
    name = TAG_NAME.match(text)
    if name is None or text.endswith("/>"):
        return Tag(text)
    return Tag(text, name[1].lower(), not text.startswith("</"))


def joined(parts: Iterable[str | Code]) -> str:
    """Return the texts of all parts, codes included, as one string."""
    return "".join(part if isinstance(part, str) else part.text for part in parts)


def text_writer(put: Callable[[str], object]) -> Callable[[Parts, bool], None]:
    """Return the `write` of a unit whose translation is one string, in a format without marks for doubts."""

    def write(parts: Parts, _: bool) -> None:
        put(joined(parts))

    return write


@dataclass(eq=False)
class Unit:
    """A piece of text that is translated as a whole, bound to the tree of its document."""

    source: Iterable[str | Code]
    # Puts a translation into the document, and whether it is doubtful.
    write: Callable[[Parts, bool], None]
    # Where it stands, for people.
    place: str
    # Its id, context or key.
    name: str = ""
    # In a format with two languages: the translation that the document has, whether it counts as one, and
    # whether it needs a review.
    target: Parts | None = None
    is_done: bool = False
    is_doubted: bool = False
    # Whether a program could use a translation; one that it could not use is wrong.
    is_valid: Callable[[str], bool] = lambda translation: True

    @cached_property
    def parts(self) -> Parts:
        """The source, with adjacent texts joined."""
        return merged(self.source)


@dataclass(eq=False)
class Document:
    """The units of a file."""

    units: Iterable[Unit]
    # Returns the bytes of the file with what was written into its units.
    dump: Callable[[], bytes]


class ReadOptions(NamedTuple):
    """Options for reading a file."""

    # Its format, see formats.FORMATS.
    format: str
    # Source and target language; the file declares the target language afterwards.
    pair: tuple[str, str] | None = None
    # Of a table: the column to translate, by name or number, and the one for the translations (the same one).
    column: str | None = None
    into: str | None = None

    def target_to_declare(self, declared: str | None) -> str | None:
        """Return the target language for a file that declares another one, which is no region of it."""
        if self.pair is None:
            return None
        folded, wanted = (one.lower().replace("_", "-") for one in (declared or "", self.pair[1]))
        return None if folded == wanted or folded.startswith(f"{wanted}-") else self.pair[1]


class TextFile:
    """The text of a file, whose line ends, encoding and byte order mark come back as they were.

    In the text every line ends with \\n, if all lines of the file end alike.
    """

    def __init__(self, data: bytes, declared: str | None = None) -> None:
        """declared: the encoding that the file names; UTF-8 otherwise. Raises DataError."""
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
            raise DataError(f"unknown encoding {self.encoding:.60}: convert the file to UTF-8") from None
        self._edits = dict[tuple[int, int], str]()
        self._line_ends = list[int]()
        self._has_crlf = "\n" in self.text and self.text.count("\r\n") == self.text.count("\n")
        if self._has_crlf:
            self.text = self.text.replace("\r\n", "\n")

    def line(self, at: int) -> str:
        """Return the line of a character, in words."""
        if not self._line_ends:
            self._line_ends = [match.start() for match in re.finditer("\n|$", self.text)]
        return f"line {bisect_left(self._line_ends, at) + 1}"

    def replace(self, start: int, end: int, text: str) -> None:
        """Put a text in place of the characters start to end."""
        self._edits[start, end] = text

    def dump(self) -> bytes:
        """Return the bytes of the file with the replacements."""
        pieces, last = list[str](), 0
        for (start, end), text in sorted(self._edits.items()):
            pieces += [self.text[last:start], text]
            last = end
        return self.encoded("".join([*pieces, self.text[last:]]))

    def encoded(self, text: str, errors: str = "strict") -> bytes:
        """Return the bytes of another text in the same file. Raises UnicodeEncodeError."""
        return (text.replace("\n", "\r\n") if self._has_crlf else text).encode(self.encoding, errors)
