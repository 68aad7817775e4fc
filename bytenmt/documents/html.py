"""HTML by lxml: units are the text between blocks with its inline elements, and some attributes.

What programs write (code, pre, script and so on) and what is marked translate="no" stays as it is.
A fragment of a page comes back without <html> and <body>, and XHTML as XML: a file
with an XML declaration, or well-formed with a doctype of XHTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from html.entities import html5
from typing import Any
from urllib.parse import unquote

import lxml.html
from lxml import etree

from bytenmt.documents import inline_xml
from bytenmt.documents.inline_xml import LANG, Element, InlineContent, as_tag, local_name
from bytenmt.documents.unit import (
    CodedText,
    Document,
    EditedText,
    ReadOptions,
    Tag,
    Unit,
    text_writer,
)
from bytenmt.errors import DataError

INLINE_NAMES = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd mark math q rp"
    " rt ruby s samp small span strike strong sub sup svg time tt u var wbr"
)
KEPT_NAMES = (  # with their content
    "code iframe kbd math noembed noframes object pre samp script style svg template textarea"
    " tt var"
)
INLINE = frozenset(INLINE_NAMES.split())
KEPT = frozenset(KEPT_NAMES.split())
TEXT_ATTRIBUTES = ("alt", "title", "placeholder", "aria-label")
DESCRIPTIONS = frozenset(("description", "og:title", "og:description"))  # of <meta>
# An address with {{ a name }} in a template, where lxml escapes signs.
TEMPLATE = re.compile(r'\b(?:href|src|action|name)="[^"]*(?:\{|%7B)[^"]*"')
# A declaration of UTF-16 that can be read as ASCII is wrong.
CHARSET = re.compile(
    rb"<meta[^>]+charset\s*=\s*[\"']?\s*(?!utf-16)([A-Za-z0-9._:-]+)", re.IGNORECASE
)
# A whole page, and what a template has before it.
PAGE = re.compile(
    r"(?is)(?:\s|<!--.*?-->)*+((?:<([?%]).*?\2>|<!--.*?-->|[^<])*+)"
    r"<(!doctype|html|head|body)(?=[\s/>])"
)
XHTML = re.compile(rb"(?i)<!doctype\s+html\s+public\s+[\"'][^\"']*XHTML")
# lxml adds the second to pages with such a doctype.
HTTP_EQUIV = b"http-equiv"
ADDED_META = re.compile(rb"<meta http-equiv=\"Content-Type\"[^<>]*/>\n?")
ENTITY = re.compile(rb"&([A-Za-z][A-Za-z0-9]*);")
XML_CHARACTERS = "&<>\"'"  # whose names XML has, too
SPACE = re.compile(r"[ \t\r\n\f]+")


def read(data: bytes, options: ReadOptions) -> Document:
    """Read HTML: a translation unit for each run of text between block elements, such as <p>.

    The attributes alt, title, placeholder, aria-label and the page's descriptions are units, too.
    Raises DataError if the encoding is wrong or text stands before the page.
    """
    if (tree := _parse_xml(data)) is not None:
        return _read_xhtml(tree, data, options)
    declared = CHARSET.search(data[:2048])
    file = EditedText(data, declared[1].decode() if declared else None)
    start = PAGE.match(file.text)
    if start and start[1]:
        line = file.line(start.start(1))
        raise DataError(f"{line}: text or a template's code stands before the page")
    page = file.text if start else f"<html><body>{file.text}</body></html>"
    root = lxml.html.document_fromstring(page, lxml.html.HTMLParser(default_doctype=False))
    _declare_target(root, options)
    body = root.find("body")

    def dump() -> bytes:
        if start:
            written = etree.tostring(root.getroottree(), encoding="unicode", method="html")
        else:
            written = escape(body.text or "", quote=False)
            for node in body:
                written += etree.tostring(node, encoding="unicode", method="html")
        written = TEMPLATE.sub(lambda match: unquote(match[0].replace("%22", "&quot;")), written)
        return file.encoded(written.replace("\xa0", "&nbsp;"), "xmlcharrefreplace")

    return Document(list(_units(root if start else body)), dump)


def _read_xhtml(tree: Any, data: bytes, options: ReadOptions) -> Document:
    """Read a page that is XML, which its translation stays."""
    _declare_target(tree.getroot(), options)

    def dump() -> bytes:
        written = inline_xml.dump(tree, data)
        return written if HTTP_EQUIV in data else ADDED_META.sub(b"", written)

    return Document(list(_units(tree.getroot())), dump)


def _parse_xml(data: bytes) -> Any:
    """Return the tree of a page that is declared as XML, or is XML with a doctype of XHTML."""
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    is_declared = start.startswith(b"<?xml")
    if not is_declared and not XHTML.match(start):
        return None
    try:
        return inline_xml.parse(_replace_entities(data), "html")
    except (DataError, SyntaxError):
        if is_declared:
            raise
        return None


def _replace_entities(data: bytes) -> bytes:
    """Return a page with the numbers of characters for the names that only HTML has: &nbsp;."""

    def number(entity: re.Match[bytes]) -> bytes:
        characters = html5.get(f"{entity[1].decode()};", "")
        if not characters or characters in XML_CHARACTERS:
            return entity[0]
        return "".join(f"&#{ord(character)};" for character in characters).encode()

    return ENTITY.sub(number, data)


def _declare_target(root: Element, options: ReadOptions) -> None:
    """Set the language that a page declares to the target language."""
    for name in [name for name in ("lang", "xml:lang", LANG) if name in root.attrib] or ["lang"]:
        if target := options.target_to_declare(root.get(name)):
            root.set(name, target)


def _is_marked(element: Element) -> bool:
    """Return whether an element says that it is not translated."""
    is_class = "notranslate" in element.get("class", "").split()
    return is_class or element.get("translate", "").lower() == "no"


def _as_code(element: Element) -> Tag | None:
    return as_tag(element) if _is_marked(element) or local_name(element) in KEPT else None


def _is_inline(node: Element) -> bool:
    """Return whether a node may stand in a sentence: a comment or inline element without blocks."""
    if not isinstance(node.tag, str):
        return True
    return local_name(node) in INLINE and (_as_code(node) is not None or all(map(_is_inline, node)))


def _units(element: Element) -> Iterator[Unit]:
    """Yield the units in an element, those of the attributes in a sentence before the sentence."""
    yield from _attributes(element)
    if _as_code(element) is not None:
        return
    run = list[Element]()  # inline nodes
    before = None  # the block before them
    for node in element:
        if _is_inline(node):
            run.append(node)
        else:
            yield from _run(element, before, run)
            yield from _units(node)
            run = []
            before = node
    yield from _run(element, before, run)


def _attributes(element: Element) -> Iterator[Unit]:
    """Yield the units of the attributes of an element that people read."""
    name = local_name(element)
    kinds = {element.get(key, "").lower() for key in ("name", "property")}
    names: Sequence[str] = TEXT_ATTRIBUTES
    if name == "meta" and kinds & DESCRIPTIONS:
        names = ("content",)
    elif name in ("link", "style") or _is_marked(element):
        names = ()
    for attribute in names:
        if any(map(str.isalpha, element.get(attribute, ""))):
            write = text_writer(partial(element.set, attribute))
            yield Unit([element.get(attribute)], write, f"line {element.sourceline}")


def _run(parent: Element, before: Element | None, nodes: Sequence[Element]) -> Iterator[Unit]:
    """Yield the unit of a text with the inline nodes behind it, and those of their attributes.

    before: the block before the text, None if it stands at the beginning of the parent.
    """
    for inner in (element for node in nodes for element in node.iter(etree.Element)):
        if not any(_as_code(element) is not None for element in inner.iterancestors()):
            yield from _attributes(inner)
    text = (parent.text if before is None else before.tail) or ""
    end = (nodes[-1].tail or "") if nodes else text
    start_space = text[: len(text) - len(text.lstrip())]
    end_space = end[len(end.rstrip()) :]
    content = InlineContent(text, nodes, _as_code, partial(SPACE.sub, " "))
    source = list(content.source)
    if source and isinstance(first := source[0], str):
        source[0] = first.lstrip()
    if source and isinstance(last := source[-1], str):
        source[-1] = last.rstrip()

    def write(parts: CodedText, _: bool) -> None:
        made = content.build((start_space, *parts, end_space))
        for node in nodes:
            parent.remove(node)
        index = 0
        if before is None:
            parent.text = made.text
        else:
            before.tail = made.text
            index = parent.index(before) + 1
        parent[index:index] = list(made)

    place = parent if before is None else before
    yield Unit(source, write, f"line {place.sourceline}")
