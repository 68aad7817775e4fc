"""Markdown: units are paragraphs, headings, items, cells, alternative texts of images, and titles in the
front matter; code, addresses and HTML blocks stay.

The marks of a line (a quote's, an item's, a heading's) stand outside its unit. A paragraph of several lines
comes back as one, which means the same. The patterns are possessive (*+) where a failed match would otherwise
be tried again at every place of a long run.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from bytenmt.documents.document import ALONE, CLOSE, LINES, OPEN, TEXT, Parts, Unit, UnitPart, joined_text
from bytenmt.documents.inline_tags import kind_of_tag, paired, separate_tags
from bytenmt.documents.nested import InnerUnit, nested
from bytenmt.spans.grammar import TAG

QUOTES = re.compile(r"(?:[ ]{0,3}>[ ]?)*+")
ITEM = re.compile(r"([ \t]*+)(?:[-+*]|\d{1,9}[.)])(?:[ \t]++|$)(?:\[[ xX]\][ \t]++)?")
FENCE = re.compile(r"[ \t]*+(`{3,}+(?=[^`]*+$)|~{3,}|:{3,}|\$\$)")
HEADING = re.compile(r"[ \t]*+#{1,6}(?:[ \t]++|$)")
RULE = re.compile(r"[ \t]*+(?:(?:[-_*][ \t]*+){3,}+|=++|-++)$")
DEFINITION = re.compile(r"[ \t]*+\[([^\]]++)\]:")
LABEL_DEFINITION = re.compile(r"\[([^\[\]]++)\]:")
HTML_BLOCK = re.compile(r"[ ]{0,3}<(?:[!?]|/?([A-Za-z][A-Za-z0-9-]*)(?=[\s/>]|$))")
# A line of MDX that imports or exports; it and the lines up to the next blank one are JavaScript.
JAVASCRIPT = re.compile(
    r"import\s++(?:[\w*{][^'\"]*\bfrom\s++)?+(?:'[^']*'|\"[^\"]*\");?\s*$"
    r"|export\s++(?:default|const|let|var|function|class|async|\*|\{)(?![^\W\d])"
)
INLINE_NAMES = "a abbr b bdi br cite code del em i img ins kbd mark q s samp small span strong sub sup u"
INLINE_HTML = frozenset(INLINE_NAMES.split())
DIVIDER = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$")
CELL = re.compile(r"(?:\\.|(?<!`)`++[^`]*+`++|[^|\\`]++|\\|`++)++")
IMAGE = re.compile(r"!\[([^\[\]]*+)\](?:\(|\[[^\]])")  # not ![alt][], whose text is a label
FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*+\r?\n(.*?)^\1[ \t]*+(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
# A title in YAML or TOML: in quotes; or plain, up to a comment, and not going on in the next line.
TITLE = re.compile(
    r"^(?:title|subtitle|linkTitle|description|summary)[ \t]*+[:=][ \t]++"
    r"(?P<value>\"(?:[^\"\\\r\n]|\\.)*+\"|'(?:[^'\r\n]|'')*+'"
    r"|(?P<plain>[^\W\d_](?:[^:#\r\n]|:(?!\s)|(?<!\s)#)*+))"
    r"[ \t]*+(?:#[^\r\n]*+)?\r?$(?!\n[ \t])",
    re.MULTILINE,
)
PLAIN = re.compile(r"[^\W\d_][\w ,.;()!?/'-]*+")  # what needs no quotes in YAML
YAML_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null"))
NOTE = re.compile(r"[ \t]*+\[\^[^\]]++\]:[ \t]*+")
MARK = re.compile(r"#{1,6}(?:\s|$)|>|[-+*](?:\s|$)|=+\s*$|-+\s*$|\|")
# What a text would be no paragraph with, at its beginning, and what might be read as a code.
BEGINNING = re.compile(f"{MARK.pattern}|{HTML_BLOCK.pattern}|{FENCE.pattern}|{DEFINITION.pattern}")
SPECIAL = re.compile(r"[\\`*_~\[\]<&$]")
NUMBER = re.compile(r"(\d{1,9})([.)](?:\s|$))")
LABEL = re.compile(r"\[([^\[\]]++)\](?![(\[])")
# Maths, by pandoc's rule: no blank inside next to the signs, and no digit behind, as in "$5 or $6". Unlike
# there, no letter or digit stands before it, as in "5$/6$".
MATHS = r"(?<!\w)(?:\$\$[^$]++\$\$|\$`[^`$]++`\$|\$(?![\s$])(?:[^$\\`]++|\\.)*+(?<!\s)\$(?![\d$]))"
CODES = re.compile(
    rf"{MATHS}|"
    r"(?P<ticks>(?<!`)`++)|(?P<comment><!--)"
    r"|<(?:[A-Za-z][A-Za-z0-9+.-]*+:[^\s<>]*+|[^\s<>@]++@[^\s<>]++)>"
    rf"|(?P<tag>{TAG})"
    r"|!\[[^\[\]]*+\](?:\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)|\[[^\]]*+\])|(?P<note>\[\^)|\[![A-Z]++\]"
    r"|(?P<close>\](?:\([^()\s]*+(?:\([^()]*+\)[^()\s]*+)*+(?:\s++(?:\"[^\"]*+\"|'[^']*+'))?\)|\[[^\[\]]*+\]))"
    r"|(?P<open>\[)"
    r"|\\[!-/:-@\[-`{-~]|&(?:\w++|#\d++|#[xX][0-9a-fA-F]++);|https?://[^\s<>()]*[^\s<>().,:;!?'\"*_]"
    r"|(?P<strong>\*\*\*|\*\*|\*|~~|(?<![^\W_])_{1,3}(?=[^\W_])|(?<=[^\s_])_{1,3}(?![^\W_]))",
    re.DOTALL,
)


@dataclass
class _Block:
    """A paragraph. lines: begin and end of the text of each line."""

    lines: list[tuple[int, int]] = field(default_factory=list)


class _Reader:
    """Reads a text line by line. units: of the blocks that have ended."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.units: list[Unit] = []
        self.labels = {match[1].lower() for match in LABEL_DEFINITION.finditer(text)}
        self._block = _Block()
        self._fence = ""
        self._html = False
        self._indent = 0  # of the content of the item that we are in
        self._blank = True  # whether the line before was blank, or code
        self._table = False

    def read(self) -> list[Unit]:
        at = self._front_matter()
        matches = list(LINES.finditer(self.text, at))
        for number, match in enumerate(matches):
            following = matches[number + 1][1] if number + 1 < len(matches) else ""
            self._line(match.start(1), match[1], following)
        self._end()
        return self.units

    def _front_matter(self) -> int:
        """Add the units of titles before the text; return where the text begins."""
        match = FRONT_MATTER.match(self.text)
        if match is None:
            return 0
        for title in TITLE.finditer(self.text, match.start(2), match.end(2)):
            value, start = title["value"].rstrip(), title.start("value")
            text = _title(value)
            if text and text.lower() not in YAML_WORDS:
                source = (UnitPart(text),)
                write = _title_writer("" if title["plain"] else value[0], is_toml=match[1] == "+++")
                self.units.append(Unit(start, "", source, start, start + len(value), source, write))
        return match.end()

    def _line(self, start: int, line: str, following: str) -> None:
        quotes = QUOTES.match(line)
        assert quotes is not None
        bare = line[quotes.end() :]
        at = start + quotes.end()
        if self._opaque(bare):
            return
        if not bare.strip():
            self._end()
            self._blank = True
            return
        indent = len(bare.expandtabs(4)) - len(bare.expandtabs(4).lstrip())
        if indent == 0 and self._blank and not ITEM.match(bare):
            self._indent = 0
        if self._blank and indent >= self._indent + 4:
            return  # code
        item = None if RULE.match(bare) else ITEM.match(bare)
        if item is not None and (self._blank or self._indent or not self._block.lines or item[0].strip()):
            self._end()
            begin = 0  # of the content of the innermost item
            while item is not None:
                self._indent = indent + item.end() - begin - len(item[1])
                begin = item.end()
                item = ITEM.match(bare, begin)
            at, bare = at + begin, bare[begin:]
            if not bare.strip() or FENCE.match(bare) and self._opaque(bare):
                self._blank = False
                return
        self._content(at, bare, following)
        self._blank = False

    def _opaque(self, bare: str) -> bool:
        """Return whether a line is not translated: fenced code, an HTML block, JavaScript of MDX."""
        fence = FENCE.match(bare)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and bare.strip() == fence[1]:
                self._fence = ""
            return True
        if self._html:
            self._html = bool(bare.strip())
            return self._html
        if fence:
            self._end()
            self._fence = "" if fence[1] == "$$" and bare.strip().count("$$") > 1 else fence[1]
            if fence[1].startswith(":"):
                self._fence = ""  # what stands between is text
            self._blank = True
            return True
        block = HTML_BLOCK.match(bare)
        if block and not self._block.lines and (block[1] or "").lower() not in INLINE_HTML:
            closed = block[1] is None and "-->" in bare
            self._html = not closed
            return True
        if not self._block.lines and JAVASCRIPT.match(bare):
            self._html = True
            return True
        return False

    def _content(self, at: int, bare: str, following: str) -> None:
        """Read a line of text without its quote and item marks."""
        heading = HEADING.match(bare)
        if heading:
            self._end()
            self._add([(at + heading.end(), at + _heading_end(bare, heading.end()))], joined_text)
        elif RULE.match(bare) or (DEFINITION.match(bare) and not bare.lstrip().startswith("[^")):
            self._end()
        elif self._table or ("|" in bare and DIVIDER.match(following) and "-" in following):
            if not self._table:
                self._end()
            self._table = True
            if not DIVIDER.match(bare):
                self._cells(at, bare)
        else:
            note = NOTE.match(bare)
            begin = note.end() if note else len(bare) - len(bare.lstrip())
            text = bare.rstrip(" ")
            is_broken = len(bare) - len(text) >= 2 or bare.endswith("\\")
            end = len(bare) - 1 if bare.endswith("\\") else len(text if is_broken else bare.rstrip())
            self._block.lines.append((at + begin, at + end))
            if is_broken:
                self._end()

    def _cells(self, at: int, bare: str) -> None:
        for match in CELL.finditer(bare):
            inner = match[0].strip()
            if inner:
                start = at + match.start() + len(match[0]) - len(match[0].lstrip())
                self._add([(start, start + len(inner))], _cell)

    def _end(self) -> None:
        """End the current block."""
        self._table = False
        if self._block.lines:
            marked = MARK.match(self.text, self._block.lines[0][0])
            self._add(self._block.lines, joined_text if marked else _paragraph)
            self._block = _Block()

    def _add(self, lines: list[tuple[int, int]], write: Callable[[Parts], str]) -> None:
        start, end = lines[0][0], lines[-1][1]
        pieces = [self.text[begin:stop].rstrip() for begin, stop in lines]
        parts = list(_parts(" ".join(pieces), self.labels))
        images = list[InnerUnit]()
        begins = list(accumulate((len(piece) + 1 for piece in pieces), initial=0))
        at = 0  # in the joined lines
        for part in parts:
            image = IMAGE.match(part.text) if part.kind == ALONE else None
            if image is not None and any(map(str.isalpha, image[1])):
                line = bisect_right(begins, at) - 1
                begin = lines[line][0] + at - begins[line]
                if at + len(part.text) < begins[line + 1]:
                    alt = self._unit(
                        begin + image.start(1), begin + image.end(1), _parts(image[1], self.labels), _alt
                    )
                    images.append(InnerUnit(begin, begin + len(part.text), alt))
            at += len(part.text)
        has_text = any(part.kind == TEXT and part.text.strip() for part in parts)
        self.units += nested(self.text, [self._unit(start, end, parts, write)] if has_text else [], images)

    def _unit(self, start: int, end: int, parts: Iterable[UnitPart], write: Callable[[Parts], str]) -> Unit:
        def written(parts: Parts, _: bool) -> str:
            return write(separate_tags(parts, lambda text: _parts(text, self.labels), _escaped))

        source = paired(parts)
        return Unit(start, "", source, start, end, source, written)


def read(text: str) -> list[Unit]:
    """Return the units. No text is malformed."""
    return _Reader(text).read()


def _heading_end(line: str, begin: int) -> int:
    """Return where the text of a heading ends: before its closing #, its attributes in braces, and blanks."""
    end = len(line.rstrip(" \t"))
    brace = line.rfind("{", begin, end)
    if line.endswith("}", begin, end) and brace >= 0 and line.find("}", brace) == end - 1:
        end = len(line[:brace].rstrip(" \t"))
    bare = line[begin:end].rstrip("#")
    if len(bare) < end - begin and bare.endswith((" ", "\t")):
        return begin + len(bare.rstrip(" \t"))
    return max(begin, end)


def _parts(raw: str, labels: set[str]) -> Iterator[UnitPart]:
    """Yield the text and the codes of a paragraph.

    labels: those that the document defines; their links are codes, or they would lead nowhere.
    """
    ticks = dict[int, list[int]]()  # the beginnings of the runs of backticks, by their length
    for run in re.finditer("`+", raw):
        ticks.setdefault(len(run[0]), []).append(run.start())
    missing = set[str]()  # what is not in the rest of the text, so that it is not looked for again

    def behind(closing: str, begin: int) -> int | None:
        found = -1 if closing in missing else raw.find(closing, begin)
        if found < 0:
            missing.add(closing)
        return None if found < 0 else found + len(closing)

    last = at = 0
    while (match := CODES.search(raw, at)) is not None:
        start, end, kind = match.start(), match.end(), ALONE
        at = end
        if match["ticks"]:  # a code span ends with the next run of as many backticks
            same = ticks[end - start]
            following = bisect_right(same, start)
            if following == len(same):
                continue
            end += same[following] - start
        elif match["comment"]:
            closed = behind("-->", end)
            if closed is None:
                continue
            end = closed
        elif match["note"] and (closed := behind("]", end)) is not None and closed > end + 1:
            end = closed
        elif match["open"] or match["note"]:
            label = LABEL.match(raw, start)
            at = start + 1  # behind the bracket alone
            if label is None:
                kind = OPEN
            elif label[1].lower() not in labels:
                continue
            end = at if label is None else label.end()
        elif match["tag"]:
            kind = kind_of_tag(match[0])
        elif match["close"]:
            kind = CLOSE
        elif match["strong"]:
            kind = _side(raw, start, end)
        yield UnitPart(raw[last:start])
        yield UnitPart(raw[start:end], kind)
        last = at = end
    yield UnitPart(raw[last:])


def _side(raw: str, start: int, end: int) -> str:
    """Return whether a mark of emphasis opens, closes or stands alone, by what stands beside it."""
    before, after = raw[start - 1 : start] or " ", raw[end : end + 1] or " "
    if after.isspace():
        return ALONE if before.isspace() else CLOSE
    if before.isspace() or not before.isalnum() and after.isalnum():
        return OPEN
    return CLOSE


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\g<0>", text)


def _alt(parts: Parts) -> str:
    """Write the alternative text of an image, which may stand in a table."""
    return _cell(parts).replace("[", "&#91;").replace("]", "&#93;")


def _title(value: str) -> str:
    """Return the text of a title of YAML or TOML; empty where its escapes are none of JSON's."""
    if value.startswith("'"):
        return value[1:-1].replace("''", "'")
    try:
        return str(json.loads(value)) if value.startswith('"') else value
    except ValueError:
        return ""


def _title_writer(quote: str, is_toml: bool) -> Callable[[Parts, bool], str]:
    """Return a function that writes a title with the quotes that it had, if it can have them."""

    def write(parts: Parts, _: bool) -> str:
        text = joined_text(parts)
        if not quote and not is_toml and PLAIN.fullmatch(text) and text.lower() not in YAML_WORDS:
            return text
        if quote == "'" and text.isprintable() and not (is_toml and "'" in text):
            doubled = text.replace("'", "''")
            return f"'{doubled}'"
        return json.dumps(text, ensure_ascii=not text.isprintable())

    return write


def _cell(parts: Parts) -> str:
    return "".join(part.text.replace("|", "\\|") if part.kind == TEXT else part.text for part in parts)


def _paragraph(parts: Parts) -> str:
    """Write a paragraph as one line, escaped if it begins like a heading, an item or a quote."""
    if parts and parts[0].kind == TEXT:
        first = parts[0].text.lstrip()
        first = NUMBER.sub(r"\1\\\2", first, count=1) if NUMBER.match(first) else first
        parts = (UnitPart("\\" + first if BEGINNING.match(first) else first), *parts[1:])
    return joined_text(parts)
