"""Markdown by markdown-it: units are paragraphs, headings, items, cells and titles in the front matter.

Code, maths, addresses and HTML blocks stay, and so does what is outside of the lines of a translated unit. A
paragraph of several lines comes back as one, which means the same, but for lines that end in a hard break
and those without words, such as the mark of an alert.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from bytenmt.documents.unit import (
    Document,
    Parts,
    ReadOptions,
    Tag,
    TextFile,
    Unit,
    joined,
    merged,
    paired,
    tag_of,
)
from bytenmt.documents.yaml import edit_scalars

# Maths, by pandoc's rule: no blank inside next to the signs, and no digit behind, as in "$5 or $6"; notes,
# the marks of alerts, and lines that begin or end a container.
KEPT = re.compile(
    r"(?<!\w)(?:\$\$[^$]++\$\$|\$`[^`$]++`\$|\$(?![\s$])(?:[^$\\`]++|\\.)*+(?<!\s)\$(?![\d$]))"
    r"|\[\^[^\]\s]+\]|\[![A-Z]+\]|(?<![^\n]):{3,}.*"
)
# What stands before the text of an item or a note, and behind that of a heading.
BEFORE, BEHIND = re.compile(r"\[[ xX]\]\s+|\[\^[^\]\s]+\]:\s*"), re.compile(r"\s*\{[^{}]*\}$")
# A line of MDX that imports or exports; it and the lines up to the next blank one are JavaScript.
JAVASCRIPT = re.compile(
    r"import\s++(?:[\w*{][^'\"]*\bfrom\s++)?+(?:'[^']*'|\"[^\"]*\");?\s*$"
    r"|export\s++(?:default|const|let|var|function|class|async|\*|\{)(?![^\W\d])",
    re.MULTILINE,
)
FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
TITLES = ("title", "subtitle", "linkTitle", "description", "summary")
LABEL = re.compile(r"^[ \t>]*\[([^\[\]]+)\]:", re.MULTILINE)
KEPT_HTML = re.compile(r"<(code|kbd|samp|tt|var)\b", re.IGNORECASE)
ADDRESS = re.compile(r"[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*")  # which needs no <>
SPECIAL = re.compile(r"[\\`*_~\[\]<&$]")
BEGINNING = re.compile(r"(?m)^(\s*\d{0,9})([-+#>=|.):])")
CELLS = ("td_open", "th_open")


class _Markdown(MarkdownIt):
    """A parser that leaves addresses as they are."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"store_labels": True})
        self.enable(["table", "strikethrough"]).disable("text_join")
        self.inline.ruler.before("escape", "kept", _kept_rule)

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


def read(data: bytes, options: ReadOptions) -> Document:
    """Return the units. No text is malformed."""
    file, titles = TextFile(data), list[Unit]()
    text, matter = file.text, FRONT_MATTER.match(file.text)
    if matter is not None:
        with suppress(ValueError):  # no YAML, so that it stays
            titles += edit_scalars(file, *matter.span(1), is_wanted=lambda path: path in TITLES)
        text = "\n" * matter[0].count("\n") + text[matter.end() :]
    return Document([*titles, *_Reader(file, text).units()], file.dump)


class _Reader:
    """Reads the blocks of a text. text: of the file, from which the front matter may have been removed."""

    def __init__(self, file: TextFile, text: str) -> None:
        self._file, self._markdown, self._environment = file, _Markdown(), dict[str, Any]()
        self._lines = file.text.split("\n")
        self._begins = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._tokens = self._markdown.parse(text, self._environment)
        self._labels = {label.upper(): label for label in LABEL.findall(text)}

    def units(self) -> Iterator[Unit]:
        """Yield the units of all blocks."""
        row, at = -1, 0  # of the table whose cells are read
        for around, token in pairwise(self._tokens):
            if token.type != "inline" or token.map is None:
                continue
            lines, first = token.content.split("\n"), token.map[0]
            if around.type in CELLS:
                cell = token.content.replace("|", "\\|")
                places = [self._lines[first].find(cell, at if row == first else 0)]
                row, at = first, places[0] + len(cell)
                lines = [cell]
            else:
                places = [
                    line.rfind(one.strip()) for line, one in zip(self._lines[first:], lines, strict=False)
                ]
            is_script = around.type == "paragraph_open" and JAVASCRIPT.match(token.content)
            if min(places) >= 0 and not is_script:
                yield self._unit(token.content, lines, places, first, around.type)

    def _unit(self, content: str, lines: Sequence[str], places: Sequence[int], first: int, kind: str) -> Unit:
        """Return the unit of a block. lines, places: how its lines stand in the file, from line `first`."""
        start = self._begins[first] + places[0]
        end = self._begins[first + len(lines) - 1] + places[-1] + len(lines[-1].strip())
        indent = self._lines[first + 1][: places[1]] if len(lines) > 1 else ""
        before, behind = BEFORE.match(content), BEHIND.search(content) if kind == "heading_open" else None
        start += before.end() if before else 0
        end -= len(behind[0]) if behind else 0
        content = content[before.end() if before else 0 : behind.start() if behind else None]
        source, breaks = self._parts(content)

        def write(parts: Parts, _: bool) -> None:
            text = self._written(parts, breaks, kind)
            text = text.replace("|", "\\|") if kind in CELLS else text
            self._file.replace(start, end, text.replace("\n", f"\n{indent}"))

        return Unit(source, write, f"line {first + 1}")

    def _parts(self, content: str) -> tuple[Parts, list[str]]:
        """Return a text in Markdown as parts, and how its line ends are written that stay."""
        tokens = self._markdown.parseInline(content, self._environment)[0].children or []
        parts, line, breaks = list[str | Tag](), list[str | Tag](), list[str]()
        end, had_words = "", False  # of the line before
        for tag in [*self._tags(iter(tokens)), "\n"]:
            if tag not in ("\n", "\r"):
                line.append(tag)
                continue
            has_words = any(isinstance(one, str) and any(map(str.isalpha, one)) for one in line)
            if end:
                # A line end stays where it is hard, or a line has no words.
                hard = "" if end == "\n" else "\\" if "\\\n" in content else "  "
                is_kept = hard or not (had_words and has_words)
                breaks += [f"{hard}\n"] if is_kept else []
                parts.append("\n" if is_kept else " ")
            parts += line
            line, end, had_words = [], str(tag), has_words
        return merged(paired(parts)), breaks

    def _tags(self, tokens: Iterator[Token]) -> Iterator[str | Tag]:
        """Yield texts and tags; a soft line end as \\n and a hard one as \\r."""
        links = list[Token]()
        for token in tokens:
            if token.type in ("softbreak", "hardbreak"):
                yield "\n" if token.type == "softbreak" else "\r"
            elif token.type in ("text", "text_special"):
                yield token.content.replace("\r", " ")
            elif token.type == "code_inline":
                pad = " " if "`" in (token.content[:1], token.content[-1:]) else ""
                yield Tag(f"{token.markup}{pad}{token.content}{pad}{token.markup}")
            elif token.type == "html_inline" and (kept := KEPT_HTML.match(token.content)):
                yield Tag(token.content + "".join(_until(tokens, f"</{kept[1].lower()}>")))
            elif token.type == "html_inline":
                yield tag_of(token.content)
            elif token.type == "link_open" and token.info == "auto":
                yield Tag(f"<{next(tokens).content}{next(tokens).content}>")
            elif token.type == "image":
                yield Tag("![", "image", True)
                yield from self._tags(iter(token.children or []))
                yield Tag(self._target(token), "image", False)
            elif token.type == "link_open":
                links.append(token)
                yield Tag("[", "link", True)
            elif token.type == "link_close":
                yield Tag(self._target(links.pop()), "link", False)
            elif token.nesting:
                yield Tag(token.markup, token.markup, token.nesting > 0)
            else:
                yield Tag(token.content)

    def _target(self, token: Token) -> str:
        """Return what closes a link or an image."""
        label = token.meta.get("label")
        if label is not None:
            return f"][{self._labels.get(label, label)}]"
        address = str(token.attrs.get("href", token.attrs.get("src", "")))
        address = address if ADDRESS.fullmatch(address) else f"<{address}>"
        title = str(token.attrs.get("title", "")).replace("\\", "\\\\").replace('"', '\\"')
        return f']({address} "{title}")' if title else f"]({address})"

    def _written(self, parts: Parts, breaks: Sequence[str], kind: str) -> str:
        """Return a translation in Markdown, with escapes where it would be read in another way without."""
        escaped = tuple(SPECIAL.sub(r"\\\g<0>", one) if isinstance(one, str) else one for one in parts)
        marked = tuple(BEGINNING.sub(r"\1\\\2", one) if isinstance(one, str) else one for one in escaped)
        texts = [_with_breaks(joined(one), breaks) for one in (parts, escaped, marked)]
        return next((one for one in texts if self._is_read_as(one, parts, kind)), texts[1])

    def _is_read_as(self, text: str, parts: Parts, kind: str) -> bool:
        """Return whether a text in Markdown has these parts."""
        if kind == "paragraph_open" and len(self._markdown.parse(text, self._environment)) != 3:
            return False
        return _outline(self._parts(text)[0]) == _outline(parts)


def _outline(parts: Parts) -> list[str | bool]:
    """Return the texts of parts without their white space, and whether each code is one of a pair."""
    return ["".join(part.split()) if isinstance(part, str) else part.pair >= 0 for part in merged(parts)]


def _until(tokens: Iterator[Token], end: str) -> Iterator[str]:
    """Yield the texts of tokens up to the one with an end tag."""
    for token in tokens:
        yield token.content or ("\n" if token.type.endswith("break") else token.markup)
        if token.content.lower() == end:
            return


def _with_breaks(text: str, breaks: Sequence[str]) -> str:
    """Return a text whose line ends are written as in its source."""
    following = iter(breaks)
    return re.sub("\n", lambda _: next(following, "\n"), text.replace("\xa0", "&nbsp;"))
