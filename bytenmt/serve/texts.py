"""A text as its lines and what stands between them, which is kept byte for byte: line ends and spaces at the
ends; a document as its segments, whose tags and placeholders are kept by the search.

Knows strings and documents; knows no engines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

from bytenmt.documents import formats
from bytenmt.documents.document import Document
from bytenmt.documents.segments import Segment
from bytenmt.documents.translation import Found, translate, wanted

LINE = re.compile(r"[^\r\n]+")
OnPart = Callable[[int, str], None]  # is given a text's number, and what its translation goes on with
SEGMENT = 1000  # bytes at most; models that know shorter lines have them cut once more


class Translation(NamedTuple):
    """Of a line. bits_per_byte: how sure the model was, None of an empty one."""

    text: str
    bits_per_byte: float | None = None


class Layout(Protocol):
    """lines: to translate, not blank, without line ends and spaces at the ends."""

    @property
    def lines(self) -> Sequence[str]: ...

    def filled(self, translations: Sequence[Translation]) -> str:
        """The text with these, as many as lines, in their place."""
        ...


class Lines(NamedTuple):
    """lines (n): see Layout; between (n + 1): what stands before, between and behind them."""

    lines: list[str]
    between: list[str]

    @staticmethod
    def of(text: str) -> Lines:
        """Filled with its own lines it is the text again."""
        lines: list[str] = []
        between = [""]
        at = 0
        for match in LINE.finditer(text):
            line = match[0].strip()
            if not line:
                continue
            begin = match.start() + match[0].index(line)
            between[-1] += text[at:begin]
            lines.append(line)
            between.append("")
            at = begin + len(line)
        between[-1] += text[at:]
        return Lines(lines, between)

    def filled(self, translations: Sequence[Translation]) -> str:
        parts = [self.between[0]]
        for translation, behind in zip(translations, self.between[1:], strict=True):
            parts += translation.text, behind
        return "".join(parts)


@dataclass(frozen=True, eq=False)
class Paper:
    """A document's segments as lines, each of them once."""

    document: Document

    @staticmethod
    def of(data: bytes, name: str, path: str, pair: tuple[str, str] | None = None) -> Paper:
        """A file's bytes. name: of its format; pair: its source and target language. Raises DataError."""
        pair = pair if "pair" in formats.FORMATS[name].options else None
        return Paper(formats.read(data, name, Path(path), formats.Wanted(pair, strict=True)))

    @staticmethod
    def of_page(text: str) -> Paper:
        """A piece of HTML, however it says that it was encoded."""
        return Paper(formats.read(text.encode(), "html", Path("the text"), formats.Wanted(encoding="utf-8")))

    @cached_property
    def segments(self) -> list[Segment]:
        """Those that are not translated yet."""
        return wanted(self.document, SEGMENT, overwrite=False)

    @property
    def lines(self) -> list[str]:
        return [segment.text.decode() for segment in self.segments]

    def written(self, translations: Sequence[Translation]) -> bytes:
        """The file with these in the segments' place."""
        found = {
            segment: Found(one.text.encode(), _log_p(one))
            for segment, one in zip(self.segments, translations, strict=True)
        }
        return translate(self.document, lambda asked: [found[one] for one in asked], limit=SEGMENT)[0]

    def filled(self, translations: Sequence[Translation]) -> str:
        return self.written(translations).decode("utf-8", "replace")


def _log_p(one: Translation) -> float:
    """Natural, of the whole line."""
    return -(one.bits_per_byte or 0.0) * math.log(2) * len(one.text.encode())


def layout(text: str, html: bool = False) -> Layout:
    """What is to be translated of a text, or of a page."""
    return Paper.of_page(text) if html else Lines.of(text)


@dataclass
class Parts:
    """Parts of lines -> parts of texts, with what stands between the lines."""

    layouts: list[Lines]
    numbers: list[int]
    on_part: OnPart
    at: tuple[int, int] = (0, -1)  # the layout, and its line that was begun last

    def part(self, line: int, text: bytes) -> None:
        """A part of the line of this number, counted over all layouts."""
        which = 0
        while line >= len(self.layouts[which].lines):
            line -= len(self.layouts[which].lines)
            which += 1
        self._reach(which, line)
        self.on_part(self.numbers[which], text.decode())

    def end(self) -> None:
        """What is left."""
        self._reach(len(self.layouts) - 1, len(self.layouts[-1].lines))

    def _reach(self, which: int, line: int) -> None:
        """Tell all that stands before a line."""
        here, begun = self.at
        while (here, begun) < (which, line):
            if begun == len(self.layouts[here].lines):
                here, begun = here + 1, -1
                continue
            begun += 1
            if self.layouts[here].between[begun]:
                self.on_part(self.numbers[here], self.layouts[here].between[begun])
        self.at = here, begun
