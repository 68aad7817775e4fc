"""XML: where the elements of a text lie, and the content of an element as the parts of a unit.

Expat checks the text and gives the places, also of a text that comes in pieces; no tree is built and no
entity is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from bytenmt.documents.document import ALONE, TEXT, MalformedError, Parts, UnitPart
from bytenmt.documents.html import unescape_text
from bytenmt.documents.inline_tags import PLACEHOLDERS, escaped_tags, kind_of_tag

# Possessive (++, *+): a pattern that may backtrack remembers every character of a long tag.
TAG = re.compile(r"<(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+>")
TOKEN = re.compile(
    r"(?P<comment><!--.*?-->)|<!\[CDATA\[(?P<cdata>.*?)\]\]>|(?P<pi><\?.*?\?>)"
    r"|(?P<tag></?[^!?<>\"'](?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+>)|(?P<entity>&[^;\s&<]++;)",
    re.DOTALL,
)
DECLARED = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)")
KNOWN = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}
BLANKS = re.compile(r"[ \t\r\n]+")
INHERITED = ("translate", "xml:space")
ATTRIBUTE = re.compile(r"\s([^\s=\"'<>/]+)\s*=\s*(?:\"[^\"]*\"|'[^']*')")
# What may not stand in XML, however it is written.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(eq=False)
class Element:
    """An element and its position in the text.

    name: as written, with its prefix. start, end: of the element. inside, outside: of its content. inherited:
    the attributes of INHERITED that hold for its content, its own or those of the nearest ancestor.
    """

    name: str
    attributes: Mapping[str, str]
    start: int
    inside: int
    parent: Element | None
    outside: int = 0
    end: int = 0
    children: list[Element] = field(default_factory=list)
    inherited: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        around = self.parent.inherited if self.parent else {}
        own = {name: self.attributes[name] for name in INHERITED if name in self.attributes}
        self.inherited = {**around, **own} if own else around

    @property
    def local(self) -> str:
        return self.name.rpartition(":")[2]

    def child(self, name: str) -> Element | None:
        """Return the first child of this local name."""
        return next((one for one in self.children if one.local == name), None)


class MarkupScanner:
    """Finds elements in a text that comes in pieces.

    names: the local names of the elements to find, None for all; others are skipped, but not their content.
    ended: called with every element that has ended; if it returns True, the element is removed from its
    parent.
    """

    def __init__(
        self, names: Iterable[str] | None, ended: Callable[[Element], bool] = lambda _: False
    ) -> None:
        self.root: Element | None = None
        self._names, self._ended = None if names is None else frozenset(names), ended
        self._open: list[Element | None] = []
        self._innermost: Element | None = None
        self._text, self._first = "", 0  # what is held of the text, and the number of its first character
        self._data, self._first_byte = b"", 0  # the same from the place that was asked for last
        self._seen = (0, 0)  # bytes and characters up to there
        self._passed = (0, 0)  # line ends that are not held any more, and the character behind the last one
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = False
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.DefaultHandler = lambda _: None  # then no entity is expanded

    def feed(self, text: str, last: bool = True) -> None:
        """Take the next piece of the text. Raises MalformedError with its place in the whole text."""
        n_bytes, n_chars = self._seen
        held = next((one.start for one in self._open if one is not None), n_chars)
        self._pass(held)
        self._text += text
        if "\0" in text:  # as of UTF-16 that was decoded as Latin-1: expat would take it for UTF-16 again
            at = self._first + len(self._text) - len(text) + text.index("\0")
            raise MalformedError("not XML: a zero byte", at)
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            at = self._first + len(self._text) - len(text) + error.start
            raise MalformedError("bytes that are not UTF-8", at) from None
        self._data, self._first_byte = self._data[n_bytes - self._first_byte :] + data, n_bytes
        try:
            self._parser.Parse(data, last)
        except expat.ExpatError as error:
            at = self._at(max(self._seen[0], self._parser.ErrorByteIndex))
            raise MalformedError(f"not XML: {expat.ErrorString(error.code)}", at) from None

    def _pass(self, held: int) -> None:
        """Drop the text before this character."""
        gone = self._text[: held - self._first]
        if "\n" in gone:
            self._passed = self._passed[0] + gone.count("\n"), self._first + gone.rindex("\n") + 1
        self._text, self._first = self._text[held - self._first :], held

    def place(self, at: int) -> str:
        """Return line and column, from 1, of a character that is still held."""
        n_lines, begin = self._passed
        before = self._text[: at - self._first]
        if "\n" in before:
            begin = self._first + before.rindex("\n") + 1
        return f"line {n_lines + before.count(chr(10)) + 1}, column {at - begin + 1}"

    def slice(self, start: int, end: int) -> str:
        """Return a part of the text, by positions in the whole; of an element that has just ended."""
        return self._text[start - self._first : end - self._first]

    def _at(self, byte: int) -> int:
        """Convert a byte offset into a position in characters; offsets must not decrease."""
        n_bytes, n_chars = self._seen
        between = self._data[n_bytes - self._first_byte : byte - self._first_byte]
        self._seen = byte, n_chars + len(between.decode("utf-8", "ignore"))
        return self._seen[1]

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._names is not None and name.rpartition(":")[2] not in self._names:
            self._open.append(None)
            return
        start = self._at(self._parser.CurrentByteIndex)
        tag = TAG.match(self._text, start - self._first)
        assert tag is not None
        one = Element(name, attributes, start, self._first + tag.end(), self._innermost)
        one.outside = one.inside if tag[0].endswith("/>") else -1
        if self._innermost is not None:
            self._innermost.children.append(one)
        elif self.root is None:
            self.root = one
        self._open.append(one)
        self._innermost = one

    def _end(self, name: str) -> None:
        one = self._open.pop()
        if one is None:
            return
        if one.outside < 0:
            one.outside = self._at(self._parser.CurrentByteIndex)
            one.end = self._first + self._text.index(">", one.outside - self._first) + 1
        else:
            one.end = one.outside
        self._innermost = one.parent
        if self._ended(one) and one.parent is not None:
            one.parent.children.remove(one)


def root_of(text: str, names: Iterable[str]) -> Element | None:
    """Parse a text; return the outermost of these elements. Raises MalformedError."""
    scanner = MarkupScanner(names)
    scanner.feed(text)
    return scanner.root


def preserved(element: Element) -> bool:
    """Return whether xml:space says that white space is significant."""
    return element.inherited.get("xml:space") == "preserve"


def content(raw: str, is_opaque: Callable[[str], bool] = lambda _: False, preserve: bool = False) -> Parts:
    """Return the content of an element as parts: text with references resolved, and tags.

    is_opaque: see split_tags. preserve: keep line ends; otherwise a line end and the white space around it
    become a space.
    """
    parts = split_tags(raw, is_opaque)
    if not preserve:
        parts = [UnitPart(folded(part.text)) if part.kind == TEXT else part for part in parts]
    return escaped_tags(parts, escape)


def split_tags(raw: str, is_opaque: Callable[[str], bool] = lambda _: False) -> list[UnitPart]:
    """Return the content of an element as texts, with references resolved, and tags; without comments.

    is_opaque: returns for a start tag whether its element is one code, content included.
    """
    parts: list[UnitPart] = []
    last, closing, depth, code = 0, "", 0, 0
    for match in TOKEN.finditer(raw):
        tag = match["tag"]
        if closing:  # inside an opaque element
            if tag and local_name(tag) == closing and not tag.endswith("/>"):
                depth += -1 if tag.startswith("</") else 1
                if not depth:
                    parts.append(UnitPart(raw[code : match.end()], ALONE))
                    closing, last = "", match.end()
            continue
        parts.append(UnitPart(raw[last : match.start()]))
        last = match.end()
        if tag and not tag.startswith("</") and not tag.endswith("/>") and is_opaque(tag):
            closing, depth, code = local_name(tag), 1, match.start()
        elif tag:
            parts.append(UnitPart(tag, kind_of_tag(tag)))
        elif match["cdata"] is not None:
            parts.append(UnitPart(match["cdata"]))
        elif match["pi"]:
            parts.append(UnitPart(match["pi"], ALONE))
        elif match["entity"]:
            parts.append(_entity(match["entity"]))
    return [*parts, UnitPart(raw[last:])]


def folded(text: str) -> str:
    """Return the text with every line end, and the blanks around it, as one space."""
    if "\n" not in text and "\r" not in text:
        return text
    return BLANKS.sub(lambda blanks: " " if set(blanks[0]) & {"\r", "\n"} else blanks[0], text)


def with_placeholders(raw: str, is_opaque: Callable[[str], bool], preserve: bool) -> Parts:
    """Return the content of an element as parts, with placeholders in the text as codes."""
    return escaped_tags(content(raw, is_opaque, preserve), escape, PLACEHOLDERS)


TAG_NAME = re.compile(r"</?([^\s/>]+)")


def local_name(tag: str) -> str:
    """Return the name of a tag without its prefix: g of <xlf:g id="1">."""
    name = TAG_NAME.match(tag)
    return name[1].rpartition(":")[2] if name else ""


def _entity(entity: str) -> UnitPart:
    """Return a reference resolved; one that only the document's own definitions resolve is a code."""
    if entity in KNOWN:
        return UnitPart(KNOWN[entity])
    return UnitPart(unescape_text(entity)) if entity.startswith("&#") else UnitPart(entity, ALONE)


def escaped(parts: Iterable[UnitPart]) -> str:
    """Return parts as XML; the inverse of `content`."""
    return "".join(escape(part.text) if part.kind == TEXT else part.text for part in parts)


def escape(text: str) -> str:
    """Escape text for the content of an element; characters that XML forbids become U+FFFD."""
    text = FORBIDDEN.sub("\ufffd", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def attribute_value(tag: str, name: str) -> str | None:
    """Return the value of an attribute of a tag as it is written, or None."""
    span = attribute_span(tag, name)
    return None if span is None else tag[span[0] : span[1]].partition("=")[2].strip()[1:-1]


def attribute_span(tag: str, name: str) -> tuple[int, int] | None:
    """Return where an attribute stands in a start tag, with its quotes and the blanks before it."""
    return next(((match.start(), match.end()) for match in ATTRIBUTE.finditer(tag) if match[1] == name), None)


def attribute(tag: str, name: str, value: str) -> str:
    """Return a start tag with an attribute set, everything else in it as it was."""
    quoted = value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    span = attribute_span(tag, name)
    if span is not None:
        end = span[1]
        start = tag.rindex(tag[end - 1], 0, end - 1)  # of its value, with the quotes
        return f'{tag[:start]}"{quoted}"{tag[end:]}'
    end = len(tag) - (2 if tag.endswith("/>") else 1)
    end = len(tag[:end].rstrip())
    return f'{tag[:end]} {name}="{quoted}"{tag[end:]}'


def without_attribute(tag: str, name: str) -> str:
    """Return a start tag without an attribute."""
    span = attribute_span(tag, name)
    return tag if span is None else tag[: span[0]] + tag[span[1] :]


def opened(tag: str) -> str:
    """Return a start tag, or one that closes itself, as a start tag."""
    return f"{tag[:-2].rstrip()}>" if tag.endswith("/>") else tag
