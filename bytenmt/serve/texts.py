"""Plain texts as lines to translate and the separators between them, which are kept byte for byte."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

LINE = re.compile(r"[^\r\n]+")
OnPart = Callable[[int, str], None]  # is given a text's number and the next part of its translation


class PlainText(NamedTuple):
    """The lines of a text to translate, and what stands around them.

    lines (n): not blank, without line ends and without white space at either end. separators (n + 1): what
    stands before, between and after them.
    """

    lines: list[str]
    separators: list[str]

    @staticmethod
    def from_text(text: str) -> PlainText:
        """Split a text; with its own lines as translations it is the same text again."""
        lines: list[str] = []
        separators: list[str] = []
        end = 0
        for match in LINE.finditer(text):
            line = match[0].strip()
            if not line:
                continue
            start = match.start() + match[0].index(line)
            separators.append(text[end:start])
            lines.append(line)
            end = start + len(line)
        return PlainText(lines, [*separators, text[end:]])

    def with_translations(self, translations: Sequence[str]) -> str:
        """Return the text with translations in place of the lines."""
        parts = [self.separators[0]]
        for translation, separator in zip(translations, self.separators[1:], strict=True):
            parts += translation, separator
        return "".join(parts)


class PartialTexts:
    """Turns parts of translated lines, as they are decoded, into parts of translated texts.

    texts: whose lines are translated one after another. numbers: of the texts, for `on_part`.
    """

    def __init__(self, texts: Sequence[PlainText], numbers: Sequence[int], on_part: OnPart) -> None:
        self._texts, self._numbers, self._on_part = texts, numbers, on_part
        self._first_lines = [0, *accumulate(len(text.lines) for text in texts)]
        self._text, self._n_separators = 0, 0  # how far the separators have been passed on

    def add(self, line: int, part: bytes) -> None:
        """Pass on the next part of a line. line: counted over all texts."""
        text = bisect_right(self._first_lines, line) - 1
        self._add_separators(text, line - self._first_lines[text] + 1)
        self._on_part(self._numbers[text], part.decode())

    def finish(self) -> None:
        """Pass on what stands after the last line."""
        last = len(self._texts) - 1
        self._add_separators(last, len(self._texts[last].separators))

    def _add_separators(self, text: int, n_separators: int) -> None:
        """Pass on all separators up to the n-th of a text."""
        while (self._text, self._n_separators) < (text, n_separators):
            separators = self._texts[self._text].separators
            if self._n_separators == len(separators):
                self._text, self._n_separators = self._text + 1, 0
                continue
            if separators[self._n_separators]:
                self._on_part(self._numbers[self._text], separators[self._n_separators])
            self._n_separators += 1
