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
from bytenmt.documents.unit import CodedText, Document, ReadOptions, Tag, Unit, to_markup
from bytenmt.errors import DataError

CODES = ("ph", "it", "x", "cp", "ut")  # with their content; ut is TMX's
OPENING = ("bpt", "bx", "sc", "sm")
CLOSING = ("ept", "ex", "ec", "em")
NOT_YET = ("new", "needs-translation", "initial")  # states of a target that is not a translation
DOUBTED = "needs-review-translation"
TRANSLATED = "translated"
SUB_STATE = "bytenmt:needs-review"  # version 2 lets tools name states of their own
ANGULAR = re.compile(r"(START|CLOSE)_(.*?)(?:_\d+)?")  # the id of an <x/>, such as START_TAG_SPAN_1


def read(data: bytes, options: ReadOptions) -> Document:
    """Read XLIFF: a unit for each segment, or unsegmented <trans-unit>.

    Raises SyntaxError for malformed XML. Raises DataError for another kind of file, or if neither
    options.pair nor a file of version 2 tells the target language.
    """
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
    holders = [_Holder(element) for element in root.iter("{*}trans-unit")]
    if is_version_2:
        holders = [_Version2Holder(element) for element in root.iter("{*}segment")]
    units = [unit for holder in holders for unit in holder.units()]
    return Document(units, lambda: inline_xml.dump(tree, data), declared)


def _content(element: Element) -> InlineContent:
    """Return the content of a source, a target or one of their segments."""
    is_preserved = inline_xml.inherited_attribute(element, SPACE) == "preserve"
    normalise = str if is_preserved else inline_xml.unwrap_lines
    return InlineContent(element.text, element, as_code, normalise)


def as_code(element: Element) -> Tag | None:
    """Return the Tag for an XLIFF or TMX element that is an inline code together with its content.

    None for any other element, whose content is text to translate.
    """
    name = local_name(element)
    number = element.get("id", "")
    if name in OPENING or name in CLOSING:
        key = element.get("startRef") or element.get("rid") or element.get("i") or number
        return as_tag(element, f"{name[-1]}{key}", name in OPENING)
    if name == "x" and (angular := ANGULAR.fullmatch(number)):
        return as_tag(element, angular[2], angular[1] == "START")
    is_kept = element.get("mtype") == "protected" or element.get("translate") == "no"
    return as_tag(element) if name in CODES or (name == "mrk" and is_kept) else None


class _Holder:
    """A <trans-unit> of version 1.2, whose source and target may be segmented."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self._source = child(element, "source")
        self._segmented = child(element, "seg-source")
        self._target = child(element, "target")
        self._segments = _segments(self._segmented)
        # The source is translated as a whole where a target without segments has a text.
        target_segments = _segments(self._target)
        has_text = self._target is not None and "".join(self._target.itertext()).strip() != ""
        self._is_whole = not self._segments or (has_text and not target_segments)
        # What the target has for each segment, by its mid; for the whole, by None.
        self._existing: dict[str | None, Element] = {None: self._target}
        if not self._is_whole:
            self._existing = {segment.get("mid"): segment for segment in target_segments}
        self._new_segments = list[Element]()  # the segments of a target that has been made anew
        self._is_doubted = dict[int, bool]()  # by the number of a segment

    def units(self) -> Iterator[Unit]:
        """Yield the units to translate: the source, or each of its segments."""
        is_translated = inline_xml.inherited_attribute(self.element, "translate") != "no"
        if self._source is not None and is_translated:
            for number, segment in enumerate([self._source] if self._is_whole else self._segments):
                yield self._unit(number, segment)

    def _unit(self, number: int, segment: Element) -> Unit:
        content = _content(segment)
        existing = self._existing.get(segment.get("mid"))
        parts = () if existing is None else _content(existing).source
        state = self._state()
        sub_state = self.element.get("subState", "")
        is_doubted = state.startswith("needs-") or "needs-review" in sub_state
        self._is_doubted[number] = is_doubted and bool(parts)
        # An unapproved copy of the source is not a translation.
        is_confirmed = bool(state) or self.element.get("approved") == "yes"
        is_changed = content.source != parts or is_confirmed
        number_in_file = self.element.get("id") or self.element.getparent().get("id")

        def write(translation: CodedText, is_doubtful: bool) -> None:
            inline_xml.set_content(self._make_target(number), content.build(translation))
            self._is_doubted[number] = is_doubtful
            self._set_state(is_doubtful)

        return Unit(
            content.source,
            write,
            f"line {segment.sourceline}",
            "/".join(filter(None, (number_in_file, segment.get("mid")))),
            target=parts,
            is_done=bool(to_markup(parts).strip()) and state not in NOT_YET and is_changed,
            is_doubted=is_doubted,
        )

    def _state(self) -> str:
        return "" if self._target is None else str(self._target.get("state", ""))

    def _set_state(self, _: bool) -> None:
        """Tell whether the target, with all its segments, must be reviewed."""
        self.element.attrib.pop("approved", None)
        state = DOUBTED if any(self._is_doubted.values()) else TRANSLATED
        child(self.element, "target").set("state", state)

    def _make_target(self, number: int) -> Element:
        """Return the element for the translation of a segment, or of the whole source."""
        after = self._source if self._segmented is None else self._segmented
        whole = _make_target(self.element, after)
        if self._is_whole:
            return whole
        if not self._new_segments:
            inline_xml.set_content(whole, deepcopy(self._segmented))
            self._new_segments = _segments(whole)
            for segment in self._new_segments:
                content = self._existing.get(segment.get("mid"), etree.Element("empty"))
                inline_xml.set_content(segment, deepcopy(content))
        return self._new_segments[number]


class _Version2Holder(_Holder):
    """A <segment> of version 2, which has the state itself."""

    def _state(self) -> str:
        return str(self.element.get("state", ""))

    def _set_state(self, is_doubtful: bool) -> None:
        self.element.attrib.pop("subState", None)
        self.element.set("state", "initial" if is_doubtful else TRANSLATED)
        if is_doubtful:
            self.element.set("subState", SUB_STATE)


def _make_target(holder: Element, after: Element) -> Element:
    """Return the target of a holder; a missing one is added behind an element, indented like it."""
    target = child(holder, "target")
    if target is not None:
        return target
    target = etree.Element(after.tag.replace(local_name(after), "target"))
    if SPACE in after.attrib:
        target.set(SPACE, "preserve")
    previous = after.getprevious()
    indentation = holder.text if previous is None else previous.tail
    holder.insert(holder.index(after) + 1, target)
    target.tail = after.tail
    after.tail = indentation
    return target


def _segments(element: Element | None) -> list[Element]:
    """Return the segments in an element, without those in other segments."""
    segments = list[Element]()
    for mark in () if element is None else element.iter("{*}mrk"):
        is_outermost = not any(other in segments for other in mark.iterancestors("{*}mrk"))
        if mark.get("mtype") == "seg" and is_outermost:
            segments.append(mark)
    return segments
