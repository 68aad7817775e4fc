"""XLIFF 1.2 and 2, also as SDL Trados (.sdlxliff) and Phrase (.mxliff) write them.

A unit is a <segment> of version 2 and a <trans-unit> of version 1.2, or every segment of one whose
<seg-source> is segmented (<mrk mtype="seg">). Its translation fills the target, which is made if missing.
Trados keeps the state of a segment in <sdl:seg conf="…">, Phrase in the trans-unit's m:confirmed.
Text that is marked as not to be translated is one code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import NamedTuple

from lxml import etree

from bytenmt.documents import inline_xml
from bytenmt.documents.inline_xml import SPACE, Element, InlineContent, as_tag, child, local_name
from bytenmt.documents.unit import Document, Parts, ReadOptions, Tag, Unit, joined, merged
from bytenmt.errors import BytenmtError

CODES = ("ph", "it", "x", "cp")  # with their content
OPENING, CLOSING = ("bpt", "bx", "sc", "sm"), ("ept", "ex", "ec", "em")
NOT_YET = ("new", "needs-translation", "initial")  # states of a target that is no translation
DOUBTED, TRANSLATED = "needs-review-translation", "translated"
# Version 2 has no state for this, but lets tools name some of their own.
SUB_STATE = "bytenmt:needs-review"
ANGULAR = re.compile(r"(START|CLOSE)_(.*?)(?:_\d+)?")  # the id of an <x/>, such as START_TAG_SPAN_1
PHRASE_TAG = re.compile(r"\{([^{}<>\s]+)>|<([^{}<>\s]+)\}|\{[^{}<>\s]+\}")  # {1>bold<1} {2}
CONFIRMED = ("Translated", "ApprovedTranslation", "ApprovedSignOff")  # states of a segment in Trados


class _File(NamedTuple):
    """Properties of a whole file."""

    root: Element
    is_version_2: bool
    # The namespace of Phrase's attributes in braces, empty in files of other programs.
    phrase: str


def read(data: bytes, options: ReadOptions) -> Document:
    """Return the units of a file. Raises DataError."""
    tree = inline_xml.parse(data, "xliff")
    root = tree.getroot()
    is_version_2 = root.get("version", "1").startswith("2")
    phrase = next((f"{{{uri}}}" for uri in root.nsmap.values() if "memsource.com" in uri), "")
    file = _File(root, is_version_2, phrase)
    target = "trgLang" if is_version_2 else "target-language"
    for one in [root] if is_version_2 else root.iterchildren("{*}file"):
        if language := options.target_to_declare(one.get(target)):
            one.set(target, language)
    holders = root.iter("{*}segment" if is_version_2 else "{*}trans-unit")
    units = [unit for holder in holders for unit in _units(file, holder)]
    return Document(units, lambda: inline_xml.dump(tree, data))


def _content(file: _File, element: Element) -> InlineContent:
    """Return the content of a source, a target or one of their segments."""
    is_preserved = inline_xml.inherited(element, SPACE) == "preserve"

    def split(text: str) -> Iterable[str | Tag]:
        text = text if is_preserved else inline_xml.unwrapped(text)
        last = 0
        for match in PHRASE_TAG.finditer(text) if file.phrase else ():
            yield text[last : match.start()]
            yield Tag(match[0], match[1] or match[2] or "", match[1] is not None)
            last = match.end()
        yield text[last:]

    return InlineContent(element.text, element, _as_code, split)


def _as_code(element: Element) -> Tag | None:
    """Return the tag of an element that is one code with its content."""
    name, number = local_name(element), element.get("id", "")
    if name in OPENING or name in CLOSING:
        key = element.get("startRef") or element.get("rid") or number
        return as_tag(element, f"{name[-1]}{key}", name in OPENING)
    angular = ANGULAR.fullmatch(number) if name == "x" else None
    if angular is not None:
        return as_tag(element, angular[2], angular[1] == "START")
    is_kept = element.get("mtype") == "protected" or element.get("translate") == "no"
    return as_tag(element) if name in CODES or (name == "mrk" and is_kept) else None


def _units(file: _File, holder: Element) -> Iterator[Unit]:
    """Yield the units of a holder: a trans-unit, or a segment of version 2."""
    source, target, segmented = (child(holder, name) for name in ("source", "target", "seg-source"))
    is_locked = file.phrase and holder.get(f"{file.phrase}locked") == "true"
    if source is None or is_locked or inline_xml.inherited(holder, "translate") == "no":
        return
    # 1) The source is translated, or each of its segments where there is no target without segments.
    segments, begun, made = _segments(segmented), _segments(target), list[Element]()
    is_whole = not segments or (target is not None and "".join(target.itertext()).strip() and not begun)
    there = {None: target} if is_whole else {one.get("mid"): one for one in begun}
    definitions = child(holder, "seg-defs")  # of Trados, with the state of each segment
    of_trados = {one.get("id"): one for one in ([] if definitions is None else definitions)}

    # 2) A translation needs its element in the target, which gets the form of a segmented source once.
    def make(number: int) -> Element:
        whole = _make_target(file, holder, source if segmented is None else segmented)
        if is_whole:
            return whole
        if not made:
            contents = [deepcopy(there.get(one.get("mid"), etree.Element("empty"))) for one in segments]
            inline_xml.set_content(whole, deepcopy(segmented))
            made.extend(_segments(whole))
            for one, content in zip(made, contents, strict=True):
                inline_xml.set_content(one, content)
        return made[number]

    # 3) The state is kept at the segment, in Phrase at the trans-unit, else at the target.
    def set_state(trados: Element | None, is_doubtful: bool) -> None:
        whole = child(holder, "target")
        if trados is not None:
            trados.attrib.pop("percent", None)  # of a match that was there before
            trados.attrib.update({"conf": "Draft" if is_doubtful else "Translated", "origin": "mt"})
        elif file.is_version_2:
            holder.attrib.pop("subState", None)
            holder.set("state", "initial" if is_doubtful else TRANSLATED)
            holder.attrib.update({"subState": SUB_STATE} if is_doubtful else {})
        elif file.phrase:
            holder.attrib.update({f"{file.phrase}confirmed": "0", f"{file.phrase}trans-origin": "mt"})
        elif is_doubtful or is_whole or whole.get("state") != DOUBTED:
            whole.set("state", DOUBTED if is_doubtful else TRANSLATED)

    is_confirmed = holder.get("approved") == "yes" or holder.get(f"{file.phrase}confirmed") == "1"
    for number, one in enumerate([source] if is_whole else segments):
        content, before, mid = _content(file, one), there.get(one.get("mid")), one.get("mid")
        parts = () if before is None else merged(_content(file, before).source)
        trados = None if is_whole else of_trados.get(mid)
        if trados is not None and trados.get("locked") == "true":
            continue
        states = (child(holder, "target"), holder)[file.is_version_2], trados
        state = (
            next((one.get("conf") or one.get("state") for one in states[::-1] if one is not None), None) or ""
        )

        def write(
            translation: Parts,
            is_doubtful: bool,
            number: int = number,
            content: InlineContent = content,
            trados: Element | None = trados,
        ) -> None:
            inline_xml.set_content(make(number), content.build(translation))
            set_state(trados, is_doubtful)

        # An unapproved copy of the source is no translation.
        is_changed = merged(content.source) != parts or bool(state) or is_confirmed
        yield Unit(
            content.source,
            write,
            f"line {one.sourceline}",
            "/".join(filter(None, (holder.get("id") or holder.getparent().get("id"), mid))),
            target=parts,
            is_done=bool(joined(parts).strip()) and state not in NOT_YET and is_changed,
            is_doubted=state.startswith("needs-")
            or (trados is not None and state not in CONFIRMED)
            or "needs-review" in holder.get("subState", "")
            or (bool(file.phrase) and not is_confirmed),
        )


def _make_target(file: _File, holder: Element, after: Element) -> Element:
    """Return the target of a holder, which is added behind an element, indented like it, if it is missing."""
    if file.is_version_2 and file.root.get("trgLang") is None:
        raise BytenmtError("the file does not declare its target language (trgLang): give --pair en-de")
    target = child(holder, "target")
    if target is None:
        target = etree.Element(after.tag.replace(local_name(after), "target"))
        target.attrib.update({SPACE: "preserve"} if SPACE in after.attrib else {})
        before = after.getprevious()
        holder.insert(holder.index(after) + 1, target)
        target.tail, after.tail = after.tail, holder.text if before is None else before.tail
    return target


def _segments(element: Element | None) -> list[Element]:
    """Return the segments in an element, without those in other segments."""
    found = [one for one in ([] if element is None else element.iter("{*}mrk")) if one.get("mtype") == "seg"]
    return [one for one in found if not any(around in found for around in one.iterancestors("{*}mrk"))]
