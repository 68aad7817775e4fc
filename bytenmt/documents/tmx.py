"""TMX: translation units with a variant (tuv) for each language; a missing one is added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from lxml import etree

from bytenmt.documents import inline_xml
from bytenmt.documents.inline_xml import LANG, SAFE, Element, InlineContent, child, local_name
from bytenmt.documents.unit import CodedText, Document, ReadOptions, Unit, merge_strings, to_markup
from bytenmt.documents.xliff import as_code
from bytenmt.errors import DataError

REVIEW = "needs-review-translation"


def read(data: bytes, options: ReadOptions) -> Document:
    """Read a TMX file: a unit for each <tu> with text in options.pair[0]. Raises DataError without
    pair."""
    tree = inline_xml.parse(data, "tmx")
    if options.pair is None:
        raise DataError(
            "a memory may have several languages: name two, --pair en-de, or source and target"
        )
    units = [
        unit for element in tree.iter("{*}tu") if (unit := _unit(element, options.pair)) is not None
    ]
    return Document(units, lambda: inline_xml.dump(tree, data))


def pairs(file: BinaryIO, pair: tuple[str, str]) -> Iterator[tuple[CodedText, CodedText, str]]:
    """Yield source, translation and tuid of each <tu> in both languages; the file is read as a
    stream."""
    for _, element in etree.iterparse(file, tag="{*}tu", **SAFE):
        unit = _unit(element, pair)
        if unit is not None and unit.is_done and not unit.is_doubted:
            yield unit.parts, unit.target or (), unit.name
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]


def _content(segment: Element) -> InlineContent:
    return InlineContent(segment.text, segment, as_code, inline_xml.unwrap_lines)


def _variant(unit: Element, language: str) -> Element:
    """Return the variant of a unit in a language: this one, or else one of its regions (de-AT)."""
    variants = {
        (variant.get(LANG) or variant.get("lang") or "").lower().replace("_", "-"): variant
        for variant in reversed([variant for variant in unit if local_name(variant) == "tuv"])
    }
    wanted = language.lower().replace("_", "-")
    near = (variant for code, variant in variants.items() if code.split("-")[0] == wanted)
    return variants.get(wanted, next(near, None))


def _unit(element: Element, pair: tuple[str, str]) -> Unit | None:
    """Return the unit of an element <tu>, None where it has no text in the source language."""
    source, target_variant = _variant(element, pair[0]), _variant(element, pair[1])
    segment, target = child(source, "seg"), child(target_variant, "seg")
    if source is None or segment is None or source is target_variant:
        return None
    content = _content(segment)
    existing = () if target is None else merge_strings(_content(target).source)
    properties = () if target_variant is None else target_variant.iterchildren("{*}prop")
    notes = [note for note in properties if note.text == REVIEW]

    def write(translation: CodedText, is_doubtful: bool) -> None:
        variant = _variant(element, pair[1])
        if variant is None:
            variant = etree.SubElement(
                element, source.tag, {LANG if LANG in source.attrib else "lang": pair[1]}
            )
            variant.tail, source.tail = source.tail, element.text
        target_segment = child(variant, "seg")
        target_segment = (
            etree.SubElement(variant, segment.tag) if target_segment is None else target_segment
        )
        inline_xml.set_content(target_segment, content.build(translation))
        for note in notes:
            variant.remove(note)
        if is_doubtful:
            note = etree.Element(segment.tag[: -len("seg")] + "prop", type="x-state")
            note.text = REVIEW
            variant.insert(0, note)

    place, name = f"line {segment.sourceline}", element.get("tuid", "")
    return Unit(
        content.source, write, place, name, existing, bool(to_markup(existing).strip()), bool(notes)
    )
