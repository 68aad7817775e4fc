"""XLIFF 1.2 and 2, also as SDL Trados (.sdlxliff) and Phrase (.mxliff) write them.

A unit is a <segment> of version 2 and a <trans-unit> of version 1.2, or every segment of one whose
<seg-source> is segmented (<mrk mtype="seg">). Its translation fills the target, which is made if missing.
Trados keeps the state of a segment in <sdl:seg conf="…">, Phrase in the trans-unit's m:confirmed.
Text that is marked as not to be translated is one code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from functools import partial
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
OF_A_MATCH = ("percent", "text-match", "struct-match", "origin-system")  # attributes of what was there before


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
    source, target = ("srcLang", "trgLang") if is_version_2 else ("source-language", "target-language")
    declaring = [root] if is_version_2 else [one for one in root if local_name(one) == "file"]
    languages = [(one.get(source), one.get(target)) for one in declaring]
    for one in declaring:
        if language := options.target_to_declare(one.get(target)):
            one.set(target, language)
    holders = root.iter("{*}segment" if is_version_2 else "{*}trans-unit")
    units = [unit for holder in holders for unit in _units(file, holder)]
    return Document(units, lambda: inline_xml.dump(tree, data), languages)


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
    segments = [] if segmented is None else _segments(segmented)
    if segments and (target is None or _segments(target) or not "".join(target.itertext()).strip()):
        yield from _segment_units(file, holder, segmented, segments)
        return
    state = (holder if file.is_version_2 or target is None else target).get("state", "")

    def make() -> Element:
        return _make_target(file, holder, source if segmented is None else segmented)

    def set_state(is_doubtful: bool) -> None:
        if file.is_version_2:
            holder.attrib.pop("subState", None)
            holder.set("state", "initial" if is_doubtful else TRANSLATED)
            holder.attrib.update({"subState": SUB_STATE} if is_doubtful else {})
        elif file.phrase:
            holder.attrib.update({f"{file.phrase}confirmed": "0", f"{file.phrase}trans-origin": "mt"})
        else:
            make().set("state", DOUBTED if is_doubtful else TRANSLATED)

    name = holder.get("id") or holder.getparent().get("id", "")
    unit = _unit(file, holder, source, target, state, make, set_state, name)
    is_unconfirmed = bool(file.phrase) and not _is_confirmed(file, holder)
    unit.is_doubted |= is_unconfirmed or "needs-review" in holder.get("subState", "")
    yield unit


def _unit(
    file: _File,
    holder: Element,
    source: Element,
    target: Element | None,
    state: str,
    make: Callable[[], Element],
    set_state: Callable[[bool], None],
    name: str,
) -> Unit:
    """Return the unit of a source or a segment of one.

    target, state: what stands there, and what the file says of it. make: returns the element for a
    translation. A target counts as a translation unless it is an unapproved copy of the source.
    """
    content = _content(file, source)
    begun = () if target is None else merged(_content(file, target).source)
    is_changed = merged(content.source) != begun or bool(state) or _is_confirmed(file, holder)
    is_done = bool(joined(begun).strip()) and state not in NOT_YET and is_changed

    def write(translation: Parts, is_doubtful: bool) -> None:
        inline_xml.set_content(make(), content.build(translation))
        set_state(is_doubtful)

    place, is_doubted = f"line {source.sourceline}", state.startswith("needs-")
    return Unit(content.source, write, place, name, target=begun, is_done=is_done, is_doubted=is_doubted)


def _is_confirmed(file: _File, holder: Element) -> bool:
    """Return whether a person has approved the translation of a trans-unit."""
    in_phrase = bool(file.phrase) and holder.get(f"{file.phrase}confirmed") == "1"
    return bool(in_phrase or holder.get("approved") == "yes")


def _make_target(file: _File, holder: Element, after: Element) -> Element:
    """Return the target of a holder, which is added behind an element, indented like it, if it is missing."""
    if file.is_version_2 and file.root.get("trgLang") is None:
        raise BytenmtError("the file does not declare its target language (trgLang): give --pair en-de")
    target = child(holder, "target")
    if target is None:
        target = etree.Element(etree.QName(after).text.replace(local_name(after), "target"))
        target.attrib.update({SPACE: "preserve"} if SPACE in after.attrib else {})
        before = after.getprevious()
        holder.insert(holder.index(after) + 1, target)
        target.tail, after.tail = after.tail, holder.text if before is None else before.tail
    return target


def _segments(element: Element) -> list[Element]:
    """Return the segments in an element, without those in other segments."""
    found = (one for one in element.iter("{*}mrk") if one.get("mtype") == "seg")
    return [one for one in found if not any(a.get("mtype") == "seg" for a in one.iterancestors("{*}mrk"))]


def _segment_units(
    file: _File, holder: Element, segmented: Element, segments: list[Element]
) -> Iterator[Unit]:
    """Yield the unit of every segment of a trans-unit of version 1.2 that is not locked."""
    target, made = child(holder, "target"), list[Element]()
    there = {one.get("mid"): one for one in ([] if target is None else _segments(target))}
    definitions = child(holder, "seg-defs")  # of Trados, with the state of each segment
    states = {one.get("id"): one for one in ([] if definitions is None else definitions)}

    def make(number: int) -> Element:
        """Return a segment of the target, which gets the form of the segmented source once."""
        if not made:
            whole = _make_target(file, holder, segmented)
            contents = [deepcopy(there.get(one.get("mid"), etree.Element("empty"))) for one in segments]
            inline_xml.set_content(whole, deepcopy(segmented))
            made.extend(_segments(whole))
            for one, content in zip(made, contents, strict=True):
                inline_xml.set_content(one, content)
        return made[number]

    def set_state(of_trados: Element | None, is_doubtful: bool) -> None:
        whole = child(holder, "target")
        if of_trados is not None:
            for name in OF_A_MATCH:
                of_trados.attrib.pop(name, None)
            of_trados.attrib.update({"conf": "Draft" if is_doubtful else "Translated", "origin": "mt"})
        elif is_doubtful or whole.get("state") != DOUBTED:
            whole.set("state", DOUBTED if is_doubtful else TRANSLATED)

    for number, segment in enumerate(segments):
        mid = segment.get("mid", "")
        of_trados = states.get(mid)
        holder_of_state = target if of_trados is None else of_trados
        state = (
            "" if holder_of_state is None else holder_of_state.get("state", holder_of_state.get("conf", ""))
        )
        if of_trados is None or of_trados.get("locked") != "true":
            name = "/".join(filter(None, (holder.get("id"), mid)))
            set_own = partial(set_state, of_trados)
            unit = _unit(file, holder, segment, there.get(mid), state, partial(make, number), set_own, name)
            unit.is_doubted |= of_trados is not None and state not in CONFIRMED
            yield unit
