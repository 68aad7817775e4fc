"""XML by lxml: parsed safely, its inline elements as codes, and codes as elements again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

from lxml import etree

from bytenmt.documents.unit import BYTE_ORDER_MARKS, CodedText, Tag, merge_strings, pair_codes
from bytenmt.errors import DataError
from bytenmt.sentinels import Code

Element = Any  # lxml has no types
# No entity is expanded and nothing is loaded; lxml limits depths and sizes.
SAFE: dict[str, Any] = {"resolve_entities": False, "no_network": True, "huge_tree": False}
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# What may not stand in XML, however it is written.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
PROLOGUE = re.compile(
    r"(?s)(?:\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[\]<>]*(?:\[.*?\]\s*)?>)*+(?=<[^!?])"
)
WRAPPED = re.compile(r"[ \t]*[\r\n]+(?:\t|[ ]{2})[ \t\r\n]*")


def parse(data: bytes, root: str = "") -> Any:
    """Parse XML into an lxml tree. Raises SyntaxError for malformed XML.

    root: name that the root element must have, without namespace, else DataError; "" for any.
    """
    tree = etree.fromstring(data, etree.XMLParser(strip_cdata=False, **SAFE)).getroottree()
    if root and local_name(tree.getroot()) != root:
        raise DataError(f"no <{root}> element")
    return tree


def dump(tree: Any, data: bytes) -> bytes:
    """Serialise an lxml tree with the prologue, byte order mark and line ends of the original file.

    data: the bytes of the file from which the tree was parsed.
    """
    root = tree.getroot()
    encoding = tree.docinfo.encoding or "UTF-8"
    original = data.decode(encoding).removeprefix("\ufeff")
    nodes = [root, *root.itersiblings()]
    text = "\n".join(etree.tostring(node, encoding="unicode", with_tail=False) for node in nodes)
    if before := PROLOGUE.match(original):
        text = before[0].replace("\r\n", "\n") + text
    if original.endswith("\n"):
        text += "\n"
    if original.count("\r\n") == original.count("\n") > 0:
        text = text.replace("\n", "\r\n")
    if encoding.upper() == "UTF-16":
        encoding = "UTF-16BE" if data[:2] == b"\xfe\xff" else "UTF-16LE"
    if data.startswith(sum(BYTE_ORDER_MARKS.values(), ())):
        text = f"\ufeff{text}"
    return text.encode(encoding, "xmlcharrefreplace")


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace; empty for a comment and the like."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def child(element: Element, name: str) -> Element:
    """Return the first child with this local name, or None; None for None as the element."""
    if element is None:
        return None
    return next((node for node in element if local_name(node) == name), None)


def inherited_attribute(element: Element, name: str) -> str | None:
    """Return the attribute `name` of an element or its nearest ancestor that has it, else None."""
    values = (node.get(name) for node in (element, *element.iterancestors()))
    return next((value for value in values if value is not None), None)


def unwrap_lines(text: str) -> str:
    """Join wrapped lines: each line end that is followed by an indentation becomes a space."""
    return WRAPPED.sub(" ", text) if "\n" in text else text  # the test saves time


def as_tag(element: Element, key: str = "", opens: bool = False) -> Tag:
    """Return the Tag that stands for a whole element, such as a <bpt>; namespaces are left out.

    key: a text that pairs the element with another one, such as <ept>, which has the same key;
    empty for one that stands alone. opens: whether the element is the opening one of its pair.
    """
    attributes = "".join(
        f' {name.rpartition("}")[2]}="{value}"' for name, value in element.attrib.items()
    )
    name = local_name(element)
    markup = f"<{name}{attributes}>"
    text = "".join(element.itertext())
    return Tag(f"{markup}{text}</{name}>" if text else markup, key, opens)


def append_text(element: Element, text: str) -> None:
    """Append a text to the content of an element; what XML forbids becomes U+FFFD."""
    text = FORBIDDEN.sub("\ufffd", text)
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text


def set_content(element: Element, content: Element) -> None:
    """Move the text and children of `content` into an element, in place of its own."""
    element.text = content.text
    element[:] = list(content)


class InlineContent:
    """XML content as strings and inline codes (`source`); `build` makes XML of its translation.

    text, nodes: the text before the first node, and the nodes, each with the text behind it (tail).
    as_code: returns a Tag for an element that becomes one code together with its content. For any
        other it returns None: the start and end tag become a pair of codes, an empty element one.
    normalise: applied to each text, such as to join wrapped lines.
    """

    def __init__(
        self,
        text: str | None,
        nodes: Iterable[Element],
        as_code: Callable[[Element], Tag | None],
        normalise: Callable[[str], str] = str,
    ) -> None:
        self._as_code = as_code
        self._normalise = normalise
        items = list(self._items(text, nodes))
        codes = pair_codes(tag for tag, _, _ in items)
        self.source = merge_strings(codes)
        # The elements of each code, and whether it stands for the start or the end of one alone.
        self._elements = dict[Code, list[tuple[Element, bool]]]()
        for code, (_, element, is_around) in zip(codes, items, strict=True):
            if isinstance(code, Code) and element is not None:
                self._elements.setdefault(code, []).append((element, is_around))

    def _items(
        self, text: str | None, nodes: Iterable[Element]
    ) -> Iterator[tuple[str | Tag, Element | None, bool]]:
        yield self._normalise(text or ""), None, False
        for node in nodes:
            if not isinstance(node.tag, str):  # a comment, a processing instruction, an entity
                yield Tag(etree.tostring(node, encoding="unicode", with_tail=False)), node, False
            elif (tag := self._as_code(node)) is not None or not (len(node) or node.text):
                yield tag or as_tag(node), node, False
            else:
                key = f"\0{id(node)}"
                name = local_name(node)
                yield Tag(f"<{name}>", key, True), node, True
                yield from self._items(node.text, node)
                yield Tag(f"</{name}>", key, False), node, True
            yield self._normalise(node.tail or ""), None, False

    def build(self, parts: CodedText) -> Element:
        """Return a new element <content> that holds a translation.

        parts: the translation: strings, and each code of `source` once, with pairs properly nested.
        A code becomes a copy of the element that it stands for.
        """
        content = etree.Element("content")
        top = content
        following = {code: iter(elements) for code, elements in self._elements.items()}
        for part in parts:
            if isinstance(part, str) or part not in following:
                append_text(top, part if isinstance(part, str) else part.text)
                continue
            element, is_around = next(following[part])
            if is_around and not part.opens:
                top = top.getparent()
                continue
            top.append(deepcopy(element))
            top[-1].tail = None
            if is_around:
                top = top[-1]
                top.text = None
                top[:] = []
        return content
