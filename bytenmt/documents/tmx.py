"""TMX: translation units with a variant (tuv) for each language; a missing one is added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from lxml import etree

from bytenmt.documents import inline_xml
from bytenmt.documents.inline_xml import LANG, SAFE, Element, InlineContent, child, local_name
from bytenmt.documents.unit import CodedText, Document, ReadOptions, Unit, to_markup
from bytenmt.documents.xliff import as_code
from bytenmt.errors import DataError

REVIEW = "needs-review-translation"


def read(data: bytes, options: ReadOptions) -> Document:
    """Read a TMX file: a unit for each <tu> with text in the source language, options.pair[0].

    Raises DataError if options.pair is None or the file is no TMX, SyntaxError for malformed XML.
    """
    tree = inline_xml.parse(data, "tmx")
    if options.pair is None:
        cure = "name two, --pair en-de, or source and target"
        raise DataError(f"a memory may have several languages: {cure}")
    units = [unit for element in tree.iter("{*}tu") if (unit := _unit(element, options.pair))]
    return Document(units, lambda: inline_xml.dump(tree, data))


def pairs(file: BinaryIO, pair: tuple[str, str]) -> Iterator[tuple[CodedText, CodedText, str]]:
    """Yield (source, translation, id) of each <tu> that has both languages from a stream of TMX.

    pair: codes of source and target language. Translations marked for review are left out.
    """
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
    variants = dict[str, Element]()
    for variant in unit:
        if local_name(variant) == "tuv":
            code = variant.get(LANG) or variant.get("lang") or ""
            variants.setdefault(code.lower().replace("_", "-"), variant)
    wanted = language.lower().replace("_", "-")
    near = [variant for code, variant in variants.items() if code.split("-")[0] == wanted]
    return variants.get(wanted, near[-1] if near else None)


def _unit(element: Element, pair: tuple[str, str]) -> Unit | None:
    """Return the unit of an element <tu>, None where it has no text in the source language."""
    source = _variant(element, pair[0])
    segment = child(source, "seg")
    target_variant = _variant(element, pair[1])
    if source is None or segment is None or source is target_variant:
        return None
    content = _content(segment)
    existing: CodedText = ()
    notes = list[Element]()
    if target_variant is not None:
        notes = [note for note in target_variant.iterchildren("{*}prop") if note.text == REVIEW]
        target = child(target_variant, "seg")
        existing = () if target is None else _content(target).source

    def write(translation: CodedText, is_doubtful: bool) -> None:
        variant = _variant(element, pair[1])
        if variant is None:
            attribute = LANG if LANG in source.attrib else "lang"
            variant = etree.SubElement(element, source.tag, {attribute: pair[1]})
            variant.tail = source.tail
            source.tail = element.text
        target_segment = child(variant, "seg")
        if target_segment is None:
            target_segment = etree.SubElement(variant, segment.tag)
        inline_xml.set_content(target_segment, content.build(translation))
        for note in notes:
            variant.remove(note)
        if is_doubtful:
            note = etree.Element(segment.tag[: -len("seg")] + "prop", type="x-state")
            note.text = REVIEW
            variant.insert(0, note)

    return Unit(
        content.source,
        write,
        f"line {segment.sourceline}",
        name=element.get("tuid", ""),
        target=existing,
        is_done=bool(to_markup(existing).strip()),
        is_doubted=bool(notes),
    )
