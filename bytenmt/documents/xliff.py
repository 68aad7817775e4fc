"""XLIFF 1.2 and 2.

A unit is a <segment> of version 2 and a <trans-unit> of version 1.2, or every segment of one whose
<seg-source> is segmented (<mrk mtype="seg">). Its translation fills the target, which is made if
missing. Text that is marked as not to be translated is one code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy

from lxml import etree

from bytenmt.documents import inline_xml
from bytenmt.documents.inline_xml import SPACE, Element, InlineContent, as_tag, child, local_name
from bytenmt.documents.unit import (
    CodedText,
    Document,
    ReadOptions,
    Tag,
    Unit,
    merge_strings,
    to_markup,
)
from bytenmt.errors import DataError

CODES = ("ph", "it", "x", "cp", "ut")  # with their content; ut is TMX's
OPENING, CLOSING = ("bpt", "bx", "sc", "sm"), ("ept", "ex", "ec", "em")
NOT_YET = ("new", "needs-translation", "initial")  # states of a target that is no translation
DOUBTED, TRANSLATED = "needs-review-translation", "translated"
# Version 2 has no state for this, but lets tools name some of their own.
SUB_STATE = "bytenmt:needs-review"
ANGULAR = re.compile(r"(START|CLOSE)_(.*?)(?:_\d+)?")  # the id of an <x/>, such as START_TAG_SPAN_1


def read(data: bytes, options: ReadOptions) -> Document:
    """Read an XLIFF file: a unit for each segment, or trans-unit without them. Raises DataError."""
    tree = inline_xml.parse(data, "xliff")
    root = tree.getroot()
    is_version_2 = root.get("version", "1").startswith("2")
    target = "trgLang" if is_version_2 else "target-language"
    if is_version_2 and target not in root.attrib and options.pair is None:
        raise DataError(
            "trgLang, its target language, is missing: give --pair en-de, or source and target"
        )
    elements = [root] if is_version_2 else list(root.iterchildren("{*}file"))
    declared = [element.get(target, "") for element in elements]
    for element, before in zip(elements, declared, strict=True):
        if language := options.target_to_declare(before):
            element.set(target, language)
    holders = root.iter("{*}segment" if is_version_2 else "{*}trans-unit")
    units = [unit for holder in holders for unit in _units(holder)]
    return Document(units, lambda: inline_xml.dump(tree, data), declared)


def _content(element: Element) -> InlineContent:
    """Return the content of a source, a target or one of their segments."""
    is_preserved = inline_xml.inherited_attribute(element, SPACE) == "preserve"
    return InlineContent(
        element.text, element, as_code, str if is_preserved else inline_xml.unwrap_lines
    )


def as_code(element: Element) -> Tag | None:
    """Return the Tag for an element of XLIFF or TMX that is one code with its content, None for
    others."""
    name, number = local_name(element), element.get("id", "")
    if name in OPENING or name in CLOSING:
        key = element.get("startRef") or element.get("rid") or element.get("i") or number
        return as_tag(element, f"{name[-1]}{key}", name in OPENING)
    angular = ANGULAR.fullmatch(number) if name == "x" else None
    if angular is not None:
        return as_tag(element, angular[2], angular[1] == "START")
    is_kept = element.get("mtype") == "protected" or element.get("translate") == "no"
    return as_tag(element) if name in CODES or (name == "mrk" and is_kept) else None


def _units(holder: Element) -> Iterator[Unit]:
    """Yield the units of a holder: a trans-unit, or a segment of version 2."""
    is_version_2 = local_name(holder) == "segment"
    source, target, segmented = (child(holder, name) for name in ("source", "target", "seg-source"))
    if source is None or inline_xml.inherited_attribute(holder, "translate") == "no":
        return
    # 1) The source is translated, or each of its segments where there is no target without
    # segments.
    segments, target_segments, new_segments = (
        _segments(segmented),
        _segments(target),
        list[Element](),
    )
    has_text = target is not None and bool("".join(target.itertext()).strip())
    is_whole = not segments or (has_text and not target_segments)
    existing_of = (
        {None: target} if is_whole else {segment.get("mid"): segment for segment in target_segments}
    )

    # 2) A translation needs its element in the target, which gets the form of a segmented source
    # once.
    def make(number: int) -> Element:
        whole = _make_target(holder, source if segmented is None else segmented)
        if is_whole:
            return whole
        if not new_segments:
            empty = etree.Element("empty")
            contents = [
                deepcopy(existing_of.get(segment.get("mid"), empty)) for segment in segments
            ]
            inline_xml.set_content(whole, deepcopy(segmented))
            new_segments.extend(_segments(whole))
            for segment, content in zip(new_segments, contents, strict=True):
                inline_xml.set_content(segment, content)
        return new_segments[number]

    # 3) The state is kept at the segment of version 2, else at the target.
    with_state = holder if is_version_2 else target
    state = "" if with_state is None else with_state.get("state", "")
    is_doubted = state.startswith("needs-") or "needs-review" in holder.get("subState", "")
    doubted = dict[int, bool]()  # by the number of a segment
    for number, segment in enumerate([source] if is_whole else segments):
        content, existing, mid = (
            _content(segment),
            existing_of.get(segment.get("mid")),
            segment.get("mid"),
        )
        parts = () if existing is None else merge_strings(_content(existing).source)

        def write(
            translation: CodedText,
            is_doubtful: bool,
            number: int = number,
            content: InlineContent = content,
        ) -> None:
            inline_xml.set_content(make(number), content.build(translation))
            doubted[number] = is_doubtful
            holder.attrib.pop("subState" if is_version_2 else "approved", None)
            if is_version_2:
                holder.set("state", "initial" if is_doubtful else TRANSLATED)
                holder.attrib.update({"subState": SUB_STATE} if is_doubtful else {})
            else:
                child(holder, "target").set(
                    "state", DOUBTED if any(doubted.values()) else TRANSLATED
                )

        doubted[number] = is_doubted and bool(parts)
        # An unapproved copy of the source is no translation.
        is_changed = (
            merge_strings(content.source) != parts or bool(state) or holder.get("approved") == "yes"
        )
        yield Unit(
            content.source,
            write,
            f"line {segment.sourceline}",
            "/".join(filter(None, (holder.get("id") or holder.getparent().get("id"), mid))),
            target=parts,
            is_done=bool(to_markup(parts).strip()) and state not in NOT_YET and is_changed,
            is_doubted=is_doubted,
        )


def _make_target(holder: Element, after: Element) -> Element:
    """Return the target of a holder, which is added behind an element, indented like it, if it is
    missing."""
    target = child(holder, "target")
    if target is None:
        target = etree.Element(after.tag.replace(local_name(after), "target"))
        target.attrib.update({SPACE: "preserve"} if SPACE in after.attrib else {})
        previous = after.getprevious()
        holder.insert(holder.index(after) + 1, target)
        target.tail, after.tail = after.tail, holder.text if previous is None else previous.tail
    return target


def _segments(element: Element | None) -> list[Element]:
    """Return the segments in an element, without those in other segments."""
    marks = [] if element is None else element.iter("{*}mrk")
    segments = [mark for mark in marks if mark.get("mtype") == "seg"]
    return [
        mark
        for mark in segments
        if not any(other in segments for other in mark.iterancestors("{*}mrk"))
    ]
