"""TMX: translation units with a variant (tuv) for each language; a missing one is added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from lxml import etree

from bytenmt.documents import inline_xml
from bytenmt.documents.inline_xml import LANG, SAFE, Element, InlineContent, as_tag, child, local_name
from bytenmt.documents.unit import CodedText, Document, ReadOptions, Tag, Unit, merge_strings, to_markup
from bytenmt.errors import DataError

REVIEW = "needs-review-translation"


def read(data: bytes, options: ReadOptions) -> Document:
    """Read a TMX file: a unit for each <tu> with text in options.pair[0]. Raises DataError without pair."""
    tree = inline_xml.parse(data, "tmx")
    if options.pair is None:
        raise DataError("a translation memory may have several languages: give --pair, such as --pair en-de")
    units = [unit for one in tree.iter("{*}tu") if (unit := _unit(one, options.pair)) is not None]
    return Document(units, lambda: inline_xml.dump(tree, data))


def pairs(file: BinaryIO, pair: tuple[str, str]) -> Iterator[tuple[CodedText, CodedText, str]]:
    """Yield source, translation and tuid of each <tu> in both languages; the file is read as a stream."""
    for _, one in etree.iterparse(file, tag="{*}tu", **SAFE):
        unit = _unit(one, pair)
        if unit is not None and unit.is_done:
            yield unit.parts, unit.target or (), unit.name
        one.clear()
        while one.getprevious() is not None:
            del one.getparent()[0]


def _content(segment: Element) -> InlineContent:
    return InlineContent(segment.text, segment, _as_code, inline_xml.unwrap_lines)


def _as_code(element: Element) -> Tag | None:
    name = local_name(element)
    if name in ("bpt", "ept"):
        return as_tag(element, element.get("i", ""), name == "bpt")
    return as_tag(element) if name in ("ph", "it", "ut") else None


def _variant(unit: Element, language: str) -> Element:
    """Return the variant of a unit in a language: this one, or else one of its regions (de-AT)."""
    variants = {
        (one.get(LANG) or one.get("lang") or "").lower().replace("_", "-"): one
        for one in reversed([one for one in unit if local_name(one) == "tuv"])
    }
    wanted = language.lower().replace("_", "-")
    near = (one for code, one in variants.items() if code.split("-")[0] == wanted)
    return variants.get(wanted, next(near, None))


def _unit(one: Element, pair: tuple[str, str]) -> Unit | None:
    """Return the unit of an element <tu>, None where it has no text in the source language."""
    source, other = _variant(one, pair[0]), _variant(one, pair[1])
    segment, target = child(source, "seg"), child(other, "seg")
    if source is None or segment is None or source is other:
        return None
    content = _content(segment)
    begun = () if target is None else merge_strings(_content(target).source)

    def write(translation: CodedText, is_doubtful: bool) -> None:
        variant = _variant(one, pair[1])
        if variant is None:
            variant = etree.SubElement(one, source.tag, {LANG if LANG in source.attrib else "lang": pair[1]})
            variant.tail, source.tail = source.tail, one.text
        made = child(variant, "seg")
        made = etree.SubElement(variant, segment.tag) if made is None else made
        inline_xml.set_content(made, content.build(translation))
        if is_doubtful and not any(note.text == REVIEW for note in variant):
            note = etree.Element(segment.tag[: -len("seg")] + "prop", type="x-state")
            note.text = REVIEW
            variant.insert(0, note)

    place, name = f"line {segment.sourceline}", one.get("tuid", "")
    return Unit(content.source, write, place, name, begun, bool(to_markup(begun).strip()))
