"""Markdown by markdown-it: units are paragraphs, headings, items, cells and titles in the front
matter.

Code, maths, addresses and HTML blocks stay, and so does what is outside of the lines of a
translated unit. A paragraph of several lines comes back as one, which means the same, but for hard
breaks and the line ends beside the mark of an alert or a container, keys and badges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from bytenmt.documents.unit import (
    CodedText,
    Document,
    EditedText,
    ReadOptions,
    Tag,
    Unit,
    merge_strings,
    pair_codes,
    parse_tag,
    to_markup,
)
from bytenmt.documents.yaml import edit_scalars
from bytenmt.sentinels import Code

# Maths, by pandoc's rule: no blank inside next to the signs, and no digit behind, as in "$5 or $6";
# notes, keys and code in HTML. With their line ends: marks of alerts, lines that begin or end a
# container, and keys alone on a line. The line end before a line of images, which is no part of a
# sentence.
KEYS = r"(?i:<kbd>[^<\n]*</kbd>(?:\s?\+\s?<kbd>[^<\n]*</kbd>)*)"
KEPT = re.compile(
    r"(?<!\w)(?:\$\$[^$]++\$\$|\$`[^`$]++`\$|\$(?![\s$])(?:[^$\\`]++|\\.)*+(?<!\s)\$(?![\d$]))"
    rf"|\n?(?<![^\n])(?::{{3,}}.*\n?|:[ ]+)|\n{KEYS}(?:\n|\Z)|{KEYS}|\n(?=\s*\[?!\[.*[\])]\s*(?:\n|\Z))"
    r"|\[\^[^\]\s]+\]|\[![A-Z]+\]\n?|(?is:<(code|samp|tt|var)\b.{0,999}?</\1>)"
)
LINE_END = re.compile(r"(\A\n|\n\Z)")  # of what KEPT matches
# What stands before the text of an item or a note, and behind that of a heading.
BEFORE, BEHIND = re.compile(r"\[[ xX]\]\s+|\[\^[^\]\s]+\]:\s*"), re.compile(r"\s*\{[^{}]*\}$")
FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\n(.*?)^\1[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
TITLES = ("title", "subtitle", "linkTitle", "description", "summary")
ADDRESS = re.compile(r"[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*")  # which needs no <>
SPECIAL = re.compile(r"(^\s*\d{0,9}(?=[-+#>=|.):])|(?=[\\`*_~\[\]<&$]))(.)", re.MULTILINE)
CELLS = ("td_open", "th_open")
EMPHASIS = ("*", "**", "_", "__", "~~")


class _Markdown(MarkdownIt):
    """A parser that leaves addresses as they are."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"store_labels": True})
        self.enable(["table", "strikethrough"]).disable("text_join")
        self.inline.ruler.before("newline", "kept", _kept_rule)

    def normalizeLink(self, url: str) -> str:
        return url

    def validateLink(self, url: str) -> bool:
        return True


def _kept_rule(state: StateInline, silent: bool) -> bool:
    """Read what KEPT matches as one token."""
    match = KEPT.match(state.src, state.pos)
    if match is not None:
        state.pos = match.end()
        if not silent:
            state.push("kept", "", 0).content = match[0]
    return match is not None


def read(data: bytes, _: ReadOptions) -> Document:
    """Read Markdown: a unit for each paragraph, heading, list item, cell, and title in the front
    matter."""
    file, titles = EditedText(data), list[Unit]()
    text, matter = file.text, FRONT_MATTER.match(file.text)
    if matter is not None:
        with suppress(ValueError):  # no YAML
            titles += edit_scalars(
                file, *matter.span(2), is_wanted=lambda path: matter[1] == "---" and path in TITLES
            )
        text = "\n" * matter[0].count("\n") + text[matter.end() :]
    return Document([*titles, *_Reader(file, text).units()], file.dump)


class _Reader:
    """Reads the blocks of a text. text: of the file, from which the front matter may have been
    removed."""

    def __init__(self, file: EditedText, text: str) -> None:
        self._file, self._markdown, self._environment = file, _Markdown(), dict[str, Any]()
        self._lines = file.text.split("\n")
        self._begins = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._tokens = self._markdown.parse(text, self._environment)

    def units(self) -> Iterator[Unit]:
        """Yield the units of all blocks."""
        row, position = -1, 0  # of the table whose cells are read
        for around, token in pairwise(self._tokens):
            if token.type != "inline" or token.map is None:
                continue
            lines, first = token.content.split("\n"), token.map[0]
            places = [
                line.rfind(cell.strip())
                for line, cell in zip(self._lines[first:], lines, strict=False)
            ]
            if around.type in CELLS:
                lines = [token.content.replace("|", "\\|")]
                places = [self._lines[first].find(lines[0], position if row == first else 0)]
                if places[0] >= 0:
                    row, position = first, places[0] + len(lines[0])
            if min(places) >= 0:
                yield self._unit(token.content, lines, places, first, around.type)

    def _unit(
        self, content: str, lines: Sequence[str], places: Sequence[int], first: int, kind: str
    ) -> Unit:
        """Return the unit of a block. lines, places: how its lines stand in the file, from line
        `first`."""
        start = self._begins[first] + places[0]
        end = self._begins[first + len(lines) - 1] + places[-1] + len(lines[-1].strip())
        before, behind = (
            BEFORE.match(content),
            BEHIND.search(content) if kind == "heading_open" else None,
        )
        start += before.end() if before else 0
        end -= len(behind[0]) if behind else 0
        content = content[before.end() if before else 0 : behind.start() if behind else None]
        hard = "\\" if "\\\n" in content else "  " if "  \n" in content else ""
        line_end = f"{hard}\n{self._lines[first + 1][: places[1]]}" if len(lines) > 1 else " "

        def write(parts: CodedText, _: bool) -> None:
            # A text is escaped where it would be read in another way without.
            parts = _without_empty(parts)
            text = to_markup(parts)
            if not self._is_read_as(text, parts, kind):
                text = to_markup(map(_escaped, ("", *parts), parts))
            text = text.replace("|", "\\|") if kind in CELLS else text
            text = text.replace("\xa0", "&nbsp;").replace("\n", line_end)
            self._file.replace(start, end, text)

        return Unit(self._parts(content), write, f"line {first + 1}")

    def _is_read_as(self, text: str, parts: CodedText, kind: str) -> bool:
        """Return whether a text in Markdown has these parts, apart from white space."""
        if kind == "paragraph_open" and len(self._markdown.parse(text, self._environment)) != 3:
            return False
        return _outline(self._parts(text)) == _outline(parts)

    def _parts(self, content: str) -> list[str | Code]:
        """Return a text in Markdown as parts; a line end that stays is \\n."""
        return pair_codes(
            self._tags(self._markdown.parseInline(content, self._environment)[0].children or [])
        )

    def _tags(self, tokens: Iterable[Token]) -> Iterator[str | Tag]:
        links = list[Token]()
        following = iter(tokens)
        for token in following:
            if token.type in ("softbreak", "hardbreak"):
                yield " " if token.type == "softbreak" else "\n"
            elif token.type == "kept":
                yield from (
                    Tag(part) if part.strip() else part for part in LINE_END.split(token.content)
                )
            elif token.type in ("text", "text_special"):
                yield token.content.replace("\r", " ")
            elif token.type == "code_inline":
                pad = " " if "`" in (token.content[:1], token.content[-1:]) else ""
                yield Tag(f"{token.markup}{pad}{token.content}{pad}{token.markup}")
            elif token.type == "html_inline":
                yield parse_tag(token.content)
            elif token.type == "link_open" and token.info == "auto":
                yield Tag(f"<{next(following).content}{next(following).content}>")
            elif token.type == "image":
                yield Tag("![", "image", True)
                yield from self._tags(token.children or [])
                yield Tag(_target(token), "image", False)
            elif token.type == "link_open":
                links.append(token)
                yield Tag("[", "link", True)
            elif token.type == "link_close":
                yield Tag(_target(links.pop()), "link", False)
            elif token.nesting:
                yield Tag(token.markup, token.markup, token.nesting > 0)
            else:
                yield Tag(token.content)


def _outline(parts: Iterable[str | Code]) -> str:
    """Return a text without white space, and with a control character in place of each code."""
    return "".join(
        "".join(part.split()) if isinstance(part, str) else "\0\1"[part.pair >= 0] for part in parts
    )


def _without_empty(parts: CodedText) -> CodedText:
    """Return parts without emphasis around nothing, whose marks would be read as text."""
    made = list[str | Code]()
    for part in parts:
        if (
            isinstance(part, Code)
            and part.text in EMPHASIS
            and made[-1:] == [part._replace(opens=True)]
        ):
            made.pop()
        else:
            made.append(part)
    return merge_strings(made)


def _escaped(before: str | Code, part: str | Code) -> str | Code:
    """Return a text with escapes for what is special, at the beginning of a line if nothing is
    before it."""
    if isinstance(part, Code):
        return part
    inside = "\0" if before else ""  # no beginning of a line
    return SPECIAL.sub(r"\g<1>\\\2", inside + part)[len(inside) :]


def _target(token: Token) -> str:
    """Return what closes a link or an image."""
    if (label := token.meta.get("label")) is not None:
        return f"][{label.lower()}]"
    address = str(token.attrs.get("href", token.attrs.get("src", "")))
    address = address if ADDRESS.fullmatch(address) else f"<{address}>"
    title = str(token.attrs.get("title", "")).replace("\\", "\\\\").replace('"', '\\"')
    return f']({address} "{title}")' if title else f"]({address})"
