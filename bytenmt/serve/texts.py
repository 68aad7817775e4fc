"""A text as its lines and what stands between them, which is kept byte for byte: line ends, spaces at the
ends, and, of HTML, tags, comments, scripts and what is marked `translate="no"`.

Knows strings and a little of HTML's syntax; knows no engines. What a document's format keeps besides is that
format's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from typing import NamedTuple

LINE = re.compile(r"[^\r\n]+")
TAG_NAME = re.compile(r"</?([a-zA-Z][a-zA-Z0-9:-]*)")
KEPT_WHOLE = ("script", "style", "textarea", "code", "pre", "svg", "math")  # elements that hold no prose
NOT_TRANSLATED = re.compile(r"""\btranslate\s*=\s*["']?no\b|\bclass\s*=\s*["'][^"']*\bnotranslate\b""", re.I)


class Layout(NamedTuple):
    """lines (n): to translate, not blank, without line ends and spaces at the ends; between (n + 1): what
    stands before, between and behind them; html: whether lines are escaped when they are put back."""

    lines: list[str]
    between: list[str]
    html: bool = False

    def filled(self, translations: Sequence[str]) -> str:
        """The text with these (n) in place of its lines."""
        parts = [self.between[0]]
        for translation, behind in zip(translations, self.between[1:], strict=True):
            parts += self.shown(translation), behind
        return "".join(parts)

    def shown(self, part: str) -> str:
        """A translation, or a part of one, as the text has it."""
        return escape(part, quote=False) if self.html else part


def layout(text: str, html: bool = False) -> Layout:
    """What is to be translated of a text. Filled with its own lines it is the text again; of HTML, whose
    characters may be written in several ways, the same page."""
    lines: list[str] = []
    between = [""]
    at = 0
    for start, end in _prose(text) if html else [(0, len(text))]:
        for match in LINE.finditer(text, start, end):
            part = unescape(match[0]) if html else match[0]
            line = part.strip()
            if not line or "\n" in line or "\r" in line:  # of &#10;
                continue
            head = len(part) - len(part.lstrip())
            tail = len(part.rstrip())
            between[-1] += text[at : match.start()] + part[:head]
            lines.append(line)
            between.append(part[tail:])
            at = match.end()
    between[-1] += text[at:]
    return Layout(lines, between, html)


def _prose(text: str) -> Iterator[tuple[int, int]]:
    """Where text stands between tags: begin and end of each. Each `find` that fails is not tried again, so
    that a page of nothing but beginnings takes no longer than another."""
    at, begin, length = 0, 0, len(text)
    while begin < length:
        at = text.find("<", at)
        if at < 0:
            break
        name = TAG_NAME.match(text, at)
        if text.startswith("<!--", at):
            end = _behind(text, "-->", at)
        elif name is not None or text.startswith(("<!", "<?"), at):
            end = _behind(text, ">", at)
        else:  # a sign like any other
            at += 1
            continue
        yield begin, at
        tag = text[at:end]
        if name is not None and not tag.startswith("</") and not tag.endswith("/>"):
            kept = name[1].lower()
            if kept in KEPT_WHOLE or NOT_TRANSLATED.search(tag):
                end = _behind_element(text, kept, end)
        at = begin = end
    yield begin, length


def _behind(text: str, mark: str, at: int) -> int:
    """Behind the next mark; the end where there is none."""
    found = text.find(mark, at)
    return len(text) if found < 0 else found + len(mark)


def _behind_element(text: str, name: str, at: int) -> int:
    """Behind an element that was begun; elements of its name may lie in it."""
    depth = 1
    for tag in re.compile(rf"<(/?){re.escape(name)}\b[^<>]*>", re.I).finditer(text, at):
        if not tag[0].endswith("/>"):
            depth += -1 if tag[1] else 1
        if depth == 0:
            return tag.end()
    return len(text)
