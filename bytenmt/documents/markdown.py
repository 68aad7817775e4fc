"""Markdown by markdown-it: a unit for each paragraph, heading, item, cell and front matter title.

Code, maths, addresses and HTML blocks stay, and so does what is outside of the lines of a
translated unit. A paragraph of several lines comes back as one, which means the same, but for hard
breaks and the line ends beside the mark of an alert or a container, keys and badges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
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
    text_writer,
    to_markup,
)
from bytenmt.documents.yaml import edit_scalars
from bytenmt.sentinels import Code

# Maths, by pandoc's rule: no blank inside next to the signs, and no digit behind: not "$5 or $6";
# notes, keys and code in HTML. With their line ends: marks of alerts, lines that begin or end a
# container, and keys alone on a line. The line end before a line of images, which is not part of a
# sentence.
MATHS = r"(?<!\w)(?:\$\$[^$]++\$\$|\$`[^`$]++`\$|\$(?![\s$])(?:[^$\\`]++|\\.)*+(?<!\s)\$(?![\d$]))"
CONTAINER = r"\n?(?<![^\n])(?::{3,}.*\n?|:[ ]+)"
# Codes of a template: {{< note >}} of Hugo, {% include %} of Liquid. Lines of them alone, and of
# signs such as <---> between columns.
TEMPLATE = r"(?:\{\{(?:<[^\n{}]*>|%[^\n{}]*%)\}\}|\{%[^\n{}]*%\})"
TEMPLATE_LINE = rf"\n?(?<![^\n])[ \t]*(?:{TEMPLATE}|[-<>=+~]{{3,}})[ \t]*(?:\n|\Z)"
TEMPLATE_NAME = re.compile(r"\{[{%][<%]?\s*(/|end)?(\w+)")
KEYS = r"(?i:<kbd>[^<\n]*</kbd>(?:\s?\+\s?<kbd>[^<\n]*</kbd>)*)"
LINE_OF_KEYS = rf"\n{KEYS}(?:\n|\Z)"
BEFORE_IMAGES = r"\n(?=\s*\[?!\[.*[\])]\s*(?:\n|\Z))"
NOTE = r"\[\^[^\]\s]+\]"
ALERT = r"\[![A-Z]+\]\n?"
HTML_CODE = r"(?is:<(code|kbd|samp|tt|var)\b.{0,999}?</\1>)"
KEPT = re.compile(
    f"{MATHS}|{CONTAINER}|{TEMPLATE_LINE}|{TEMPLATE}"
    f"|{LINE_OF_KEYS}|{BEFORE_IMAGES}|{NOTE}|{ALERT}|{HTML_CODE}"
)
LINE_END = re.compile(r"(\A\n|\n\Z)")  # of what KEPT matches
# What stands before the text of an item or a note, and behind that of a heading.
BEFORE = re.compile(r"\[[ xX]\]\s+|\[\^[^\]\s]+\]:\s*")
BEHIND_HEADING = re.compile(r"\s*\{[^{}]*\}$")
# The head of an admonition of MkDocs or a tab, whose body is indented: !!! note "Title".
ADMONITION = re.compile(r'([ \t]*)(?:!!!|\?\?\?\+?|===[!+]?)[ ]+[^"\n]*?(?:"(.*)")?[ \t]*')
FENCE = re.compile(r"[ \t]*(?:```|~~~)")
FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\n(.*?)^\1[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
# Keys of YAML front matter whose values are translated.
FRONT_MATTER_KEYS = ("title", "subtitle", "linkTitle", "description", "summary")
ADDRESS = re.compile(r"[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*")  # which needs no <>
SPECIAL = re.compile(r"(^\s*\d{0,9}(?=[-+#>=|.):])|(?=[\\`*_~\[\]<&$]))(.)", re.MULTILINE)
# Tokens that are texts: what they become, "" for their content.
TEXT_OF_TOKENS = {"softbreak": " ", "hardbreak": "\n", "text": "", "text_special": ""}
BODY_INDENTATION = 4  # of the body of an admonition
HARD_BREAKS = ("\\", "  ")  # at the end of a line
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
    """Read Markdown: a translation unit for each paragraph, heading, list item and table cell.

    The titles and descriptions of YAML front matter are units as well.
    """
    file = EditedText(data)
    text = file.text
    titles = list[Unit]()
    if matter := FRONT_MATTER.match(text):
        if matter[1] == "---":
            with suppress(ValueError):  # not YAML
                titles += edit_scalars(file, *matter.span(2), FRONT_MATTER_KEYS.__contains__)
        text = "\n" * matter[0].count("\n") + text[matter.end() :]
    text, heads = _unfold_admonitions(file, text)
    return Document([*titles, *heads, *_Reader(file, text).units()], file.dump)


def _unfold_admonitions(file: EditedText, text: str) -> tuple[str, list[Unit]]:
    """Return a text without the heads of admonitions and the indentation of their bodies.

    Its lines stay where they are. text: as for _Reader. The second item has the units of titles.
    """
    titles = list[Unit]()
    lines = list[str]()
    bodies = list[int]()  # the indentations of the bodies of open admonitions
    is_code = False
    begins = [0, *accumulate(len(line) + 1 for line in file.text.split("\n"))]
    for number, line in enumerate(text.split("\n")):
        indentation = len(line) - len(line.lstrip())
        while line.strip() and bodies and indentation < bodies[-1]:
            bodies.pop()
        is_code = is_code != bool(FENCE.match(line))
        head = ADMONITION.fullmatch(line)
        if head is None or is_code:
            lines.append(line[BODY_INDENTATION * len(bodies) :])
            continue
        lines.append("")
        bodies.append(len(head[1]) + BODY_INDENTATION)
        if head[2]:
            start = begins[number] + head.start(2)
            put = partial(file.replace, start, start + len(head[2]))
            titles.append(Unit([head[2]], text_writer(put), file.line(start)))
    return "\n".join(lines), titles


class _Reader:
    """A reader of the blocks of a text, in which front matter and admonition heads are blank."""

    def __init__(self, file: EditedText, text: str) -> None:
        self._file = file
        self._markdown = _Markdown()
        self._environment = dict[str, Any]()
        self._lines = file.text.split("\n")
        self._begins = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._tokens = self._markdown.parse(text, self._environment)

    def units(self) -> Iterator[Unit]:
        """Yield the units of all blocks."""
        row = -1  # the line of the table's row that is read
        position = 0  # in it, behind the last cell
        for around, token in pairwise(self._tokens):
            if token.type != "inline" or token.map is None:
                continue
            first = token.map[0]
            if around.type in CELLS:
                if first != row:
                    row = first
                    position = 0
                cell = token.content.replace("|", "\\|")
                place = self._lines[first].find(cell, position)
                if place >= 0:
                    position = place + len(cell)
                    yield self._unit(token.content, [cell], [place], first, around.type)
                continue
            lines = token.content.split("\n")
            places = [
                in_file.rfind(line.strip())
                for in_file, line in zip(self._lines[first:], lines, strict=False)
            ]
            if min(places) >= 0:
                yield self._unit(token.content, lines, places, first, around.type)

    def _unit(
        self, content: str, lines: Sequence[str], places: Sequence[int], first: int, kind: str
    ) -> Unit:
        """Return the unit of a block.

        lines, places: how its lines stand in the file, from line `first`. kind: the type of the
        token that opens the block.
        """
        start = self._begins[first] + places[0]
        end = self._begins[first + len(lines) - 1] + places[-1] + len(lines[-1].strip())
        if before := BEFORE.match(content):
            start += before.end()
            content = content[before.end() :]
        if kind == "heading_open" and (behind := BEHIND_HEADING.search(content)):
            end -= len(behind[0])
            content = content[: behind.start()]
        line_end = " "
        if len(lines) > 1:
            hard_break = next((mark for mark in HARD_BREAKS if f"{mark}\n" in content), "")
            line_end = f"{hard_break}\n{self._lines[first + 1][: places[1]]}"

        def write(parts: CodedText, _: bool) -> None:
            # A text is escaped where it would be read in another way without.
            parts = _without_empty(parts)
            text = to_markup(parts)
            if not self._is_read_as(text, parts, kind):
                text = to_markup(map(_escaped, ("", *parts), parts))
            if kind in CELLS:
                text = text.replace("|", "\\|")
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
        (block,) = self._markdown.parseInline(content, self._environment)
        return pair_codes(self._tags(block.children or []))

    def _tags(self, tokens: Iterable[Token]) -> Iterator[str | Tag]:
        """Yield the texts and codes of the tokens of a block."""
        links = list[Token]()
        following = iter(tokens)
        for token in following:
            if token.type in TEXT_OF_TOKENS:
                yield TEXT_OF_TOKENS[token.type] or token.content.replace("\r", " ")
            elif token.type == "kept":
                for part in LINE_END.split(token.content):
                    yield _kept_tag(part) if part.strip() else part
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
            else:
                yield _inline_tag(token)


def _kept_tag(text: str) -> Tag:
    """Return the code of what KEPT matches; templates' opening and closing codes are paired."""
    name = TEMPLATE_NAME.match(text.strip())
    return Tag(text, f"template {name[2]}", not name[1]) if name else Tag(text)


def _inline_tag(token: Token) -> Tag:
    """Return the code of inline code, of HTML, or of the mark of an emphasis."""
    if token.type == "code_inline":
        pad = " " if "`" in (token.content[:1], token.content[-1:]) else ""
        return Tag(f"{token.markup}{pad}{token.content}{pad}{token.markup}")
    if token.type == "html_inline":
        return parse_tag(token.content)
    if token.nesting:
        return Tag(token.markup, token.markup, token.nesting > 0)
    return Tag(token.content)


def _outline(parts: Iterable[str | Code]) -> str:
    """Return a text without white space, and with a control character in place of each code."""
    outline = ""
    for part in parts:
        if isinstance(part, str):
            outline += "".join(part.split())
        else:
            outline += "\0" if part.pair < 0 else "\1"
    return outline


def _without_empty(parts: CodedText) -> CodedText:
    """Return parts without emphasis around nothing, whose marks would be read as text."""
    made = list[str | Code]()
    for part in parts:
        if isinstance(part, Code) and part.text in EMPHASIS and made[-1:] == [_opening(part)]:
            made.pop()
        else:
            made.append(part)
    return merge_strings(made)


def _opening(code: Code) -> Code:
    return code._replace(opens=True)


def _escaped(before: str | Code, part: str | Code) -> str | Code:
    """Return a text with escapes for what is special there; before: what stands before it."""
    if isinstance(part, Code):
        return part
    inside = "\0" if before else ""  # not the beginning of a line
    return SPECIAL.sub(r"\g<1>\\\2", inside + part)[len(inside) :]


def _target(token: Token) -> str:
    """Return what closes a link or an image."""
    if (label := token.meta.get("label")) is not None:
        return f"][{label.lower()}]"
    address = str(token.attrs.get("href", token.attrs.get("src", "")))
    if not ADDRESS.fullmatch(address):
        address = f"<{address}>"
    title = str(token.attrs.get("title", "")).replace("\\", "\\\\").replace('"', '\\"')
    if title:
        address += f' "{title}"'
    return f"]({address})"
