"""HTML: units are stretches of text and inline tags between tags of blocks.

What programs write (code, pre, script, …) and what says translate="no" stays; so do attributes. Python's own
parser gives the places. Knows this format; knows no translator.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import NamedTuple

from bytenmt.documents.codes import escaped_tags, partners
from bytenmt.documents.document import ALONE, CLOSE, OPEN, TEXT, Part, Parts, Unit

OPAQUE_INLINE = frozenset(["code", "kbd", "samp", "var", "tt", "math", "svg", "script", "style"])
INLINE = OPAQUE_INLINE | frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "ins",
        "mark",
        "q",
        "rp",
        "rt",
        "ruby",
        "s",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "u",
        "wbr",
    ]
)
OPAQUE = OPAQUE_INLINE | frozenset(
    [
        "pre",
        "textarea",
        "template",
        "iframe",
        "object",
    ]
)
DRAWN = ("svg", "math")  # which have elements of their own
VOID = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    ]
)
CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]+)", re.IGNORECASE)
SPACE = re.compile(r"[ \t\r\n\f]+")


class Token(NamedTuple):
    """kind: as of a Part, or "" for a comment and the like. keep: the element is not for translators."""

    kind: str
    name: str
    start: int
    end: int = 0
    keep: bool = False


class _Tokens(HTMLParser):
    """Notes where each token begins; the next one begins where it ends."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.tokens: list[Token] = []
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.feed(text)
        self.close()

    def _note(self, kind: str, name: str = "", keep: bool = False) -> None:
        line, column = self.getpos()
        self.tokens.append(Token(kind, name, self._lines[line - 1] + column, 0, keep))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        keep = known.get("translate") == "no" or "notranslate" in (known.get("class") or "").split()
        self._note(ALONE if tag in VOID else OPEN, tag, keep or tag in OPAQUE)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(ALONE, tag)

    def handle_endtag(self, tag: str) -> None:
        self._note(CLOSE, tag)

    def handle_data(self, data: str) -> None:
        self._note(TEXT)

    def handle_entityref(self, name: str) -> None:
        self._note(TEXT)

    def handle_charref(self, name: str) -> None:
        self._note(TEXT)

    def handle_comment(self, data: str) -> None:
        self._note("")

    def handle_decl(self, decl: str) -> None:
        self._note("")

    def handle_pi(self, data: str) -> None:
        self._note("")

    def unknown_decl(self, data: str) -> None:
        self._note("")


def charset(data: bytes) -> str | None:
    """What the page says that it is written in."""
    declared = CHARSET.search(data[:2048])
    return None if declared is None else declared[1].decode()


def tokens(text: str) -> list[Token]:
    """The tokens of a page, one behind the other; of text the stretches that touch are one."""
    raw = [token for token in _Tokens(text).tokens]
    ends = [*(token.start for token in raw[1:]), len(text)][: len(raw)]  # an empty page has none
    joined: list[Token] = []
    for token, end in zip(raw, ends, strict=True):
        if joined and joined[-1].end == token.start and token.kind == TEXT == joined[-1].kind:
            joined[-1] = joined[-1]._replace(end=end)
        elif token.start < end:
            joined.append(token._replace(end=end))
    return joined


def read(text: str) -> list[Unit]:
    """The units. No page is malformed: what browsers make sense of is read as they do."""
    units: list[Unit] = []
    run: list[tuple[Part, int]] = []  # each with its beginning
    found = tokens(text)
    index = 0
    while index < len(found):
        token, following = found[index], index + 1
        inline = token.kind in ("", TEXT) or token.name in INLINE
        if token.keep and token.kind == OPEN:
            following = _closing(found, index, inline)
            kind = ALONE if following > index + 1 else OPEN
            token = token._replace(kind=kind, end=found[following - 1].end)
        if inline:
            run.append((Part(text[token.start : token.end], token.kind or ALONE), token.start))
        else:
            units += _units(text, run)
            run = []
        index = following
    return units + list(_units(text, run))


def _closing(found: Sequence[Token], index: int, inline: bool) -> int:
    """Behind the end of the element that begins here; of an inline one before the next block, or it has
    none."""
    name, depth = found[index].name, 0
    for at in range(index, len(found)):
        token = found[at]
        if token.name == name:
            depth += {OPEN: 1, CLOSE: -1}.get(token.kind, 0)
            if not depth:
                return at + 1
        elif inline and token.kind in (OPEN, CLOSE) and token.name not in INLINE and name not in DRAWN:
            break
    return index + 1


def _units(text: str, run: list[tuple[Part, int]]) -> Iterator[Unit]:
    """A run of text and inline tags, cut at tags without a partner in it, without what stands about it."""
    partner = partners([part for part, _ in run])
    begin = 0
    for index, (part, _) in enumerate([*run, (Part("", CLOSE), 0)]):
        if part.kind in (OPEN, CLOSE) and index not in partner:
            low, high = _trimmed(run, begin, index, partner)
            if low < high:
                yield _unit(text, run[low:high])
            begin = index + 1


def _trimmed(run: list[tuple[Part, int]], low: int, high: int, partner: dict[int, int]) -> tuple[int, int]:
    """The part of a run without the codes and the blanks about its text; empty where it has none."""

    def has_text(begin: int, end: int) -> bool:
        return any(part.kind == TEXT and _text(part.text).strip() for part, _ in run[begin:end])

    while low < high:
        if run[low][0].kind != OPEN and not has_text(low, low + 1):
            low += 1
        elif run[high - 1][0].kind != CLOSE and not has_text(high - 1, high):
            high -= 1
        elif run[low][0].kind == OPEN and partner[low] == high - 1:
            low, high = low + 1, high - 1
        elif run[low][0].kind == OPEN and not has_text(low, partner[low]):
            low = partner[low] + 1
        elif run[high - 1][0].kind == CLOSE and not has_text(partner[high - 1], high):
            high = partner[high - 1]
        else:
            break
    return low, high


def _unit(text: str, run: list[tuple[Part, int]]) -> Unit:
    first, start = run[0]
    last, at = run[-1]
    end = at + len(last.text)
    if first.kind == TEXT:
        start += len(first.text) - len(first.text.lstrip(" \t\r\n\f"))
    if last.kind == TEXT:
        end -= len(last.text) - len(last.text.rstrip(" \t\r\n\f"))
    parts = [Part(_text(part.text)) if part.kind == TEXT else part for part, _ in run]
    if parts[0].kind == TEXT:
        parts[0] = Part(parts[0].text.lstrip(" "))
    if parts[-1].kind == TEXT:
        parts[-1] = Part(parts[-1].text.rstrip(" "))
    source = escaped_tags(parts, lambda tag: html.escape(tag, quote=False))
    return Unit(start, "", source, start, end, source, lambda value, _: escaped(value))


def _text(raw: str) -> str:
    return SPACE.sub(" ", html.unescape(raw))


def escaped(parts: Parts) -> str:
    """Parts as HTML."""
    return "".join(
        html.escape(part.text, quote=False).replace("\xa0", "&nbsp;") if part.kind == TEXT else part.text
        for part in parts
    )
