"""Android's string resources: a unit for each string, item of a string array and plural form.

The text of a resource is XML with escapes, quotes and folded white space of its own
(developer.android.com/guide/topics/resources/string-resource). A translation replaces the text between the
tags of its resource; xliff:g elements are kept as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from bytenmt.documents import markup
from bytenmt.documents.document import ALONE, TEXT, MalformedError, Parts, Unit, UnitPart
from bytenmt.documents.inline_tags import IN_STRINGS, escaped_tags
from bytenmt.documents.markup import Element
from bytenmt.documents.strings import unescape

NAMES = ("resources", "string", "string-array", "plurals", "item")
REFERENCE = re.compile(r"[@?][+*]?(?:[\w.]+:)?(?:\w+/)?[\w.]+|@null|@empty")  # @string/name: no text
CDATA = re.compile(r"<!\[CDATA\[((?:(?!\]\]>).)*+)\]\]>", re.DOTALL)
LEXEME = re.compile(r'(?P<text>(?:[^\\" \t\r\n]++|\\.)++)|(?P<quote>")|(?P<blank>[ \t\r\n]++)|\\', re.DOTALL)
SECOND_BLANK = re.compile("(?<= ) ")
KEPT_BLANK = "\\u0020"


def read(text: str) -> list[Unit]:
    """Return the units of a file of resources. Raises MalformedError."""
    root = markup.root_of(text, NAMES)
    if root is None or root.local != "resources":
        raise MalformedError("no <resources> element", 0)
    return [unit for one in root.children for unit in _units(text, one)]


def _units(text: str, one: Element) -> Iterator[Unit]:
    if one.attributes.get("translatable") == "false":
        return
    name = one.attributes.get("name", "")
    if one.local == "string":
        yield from _unit(text, one, name)
    elif one.local != "item":
        for number, item in enumerate(one.children):
            yield from _unit(text, item, f"{name}[{item.attributes.get('quantity', number)}]")


def _unit(text: str, one: Element, name: str) -> Iterator[Unit]:
    """Yield the unit of a resource, if it has a text."""
    raw = text[one.inside : one.outside]
    start, value = one.inside + len(raw) - len(raw.lstrip()), raw.strip()
    cdata = CDATA.fullmatch(value)
    if cdata is not None:
        start, value = start + cdata.start(1), cdata[1]
    is_plain = cdata is not None and not markup.TOKEN.search(value)  # else it is HTML, where & is &amp;
    escape = _escape_cdata if is_plain else markup.escape
    pieces = [UnitPart(value)] if is_plain else markup.split_tags(value, _is_kept)
    source = escaped_tags(_unescaped(pieces, start), lambda code: escape(_escaped(code)), IN_STRINGS)
    if source and not REFERENCE.fullmatch(value):
        yield Unit(start, name, source, start, start + len(value), source, _writer(escape))


def _is_kept(tag: str) -> bool:
    """Return whether the element of a start tag is copied with its content: xliff:g."""
    return markup.local_name(tag) == "g"


def _escape_cdata(text: str) -> str:
    return markup.FORBIDDEN.sub("\ufffd", text).replace("]]>", "]] >")


def _unescaped(pieces: Iterable[UnitPart], at: int) -> Iterator[UnitPart]:
    """Yield the pieces of a value with escapes resolved and white space outside of quotes folded.

    at: the position of the value, for messages. Raises MalformedError.
    """
    is_quoted, is_blank = False, True  # inside of quotes; at the beginning, or behind white space
    for piece in pieces:
        if piece.kind != TEXT:
            yield piece
            is_blank = is_blank and piece.kind != ALONE
            continue
        made = []
        for match in LEXEME.finditer(piece.text):
            if match["quote"]:
                is_quoted = not is_quoted
            elif match["blank"] and not is_quoted:
                made.append("" if is_blank else " ")
                is_blank = True
            else:
                made.append(unescape(match["text"], at) if match["text"] else match["blank"] or "")
                is_blank = False
        yield UnitPart("".join(made))


def _escaped(text: str) -> str:
    for letter, character in (("\\", "\\"), ('"', '"'), ("'", "'"), ("n", "\n"), ("t", "\t")):
        text = text.replace(character, f"\\{letter}")
    return SECOND_BLANK.sub(lambda _: KEPT_BLANK, text)


def _writer(escape: Callable[[str], str]) -> Callable[[Parts, bool], str]:
    def write(parts: Parts, _: bool) -> str:
        pieces = [escape(_escaped(part.text)) if part.kind == TEXT else part.text for part in parts]
        if parts and parts[0].kind == TEXT and pieces[0].startswith((" ", "@", "?")):
            pieces[0] = (KEPT_BLANK if pieces[0][0] == " " else f"\\{pieces[0][0]}") + pieces[0][1:]
        if parts and parts[-1].kind == TEXT and pieces[-1].endswith(" "):
            pieces[-1] = pieces[-1][:-1] + KEPT_BLANK
        return "".join(pieces)

    return write
