"""XLIFF 1.2 and 2, also as SDL Trados (.sdlxliff) and Phrase (.mxliff) write them.

A unit is a <segment> of version 2 and a <trans-unit> of version 1.2, or every segment of one whose
<seg-source> is segmented (<mrk mtype="seg">). Its translation fills the target, which is made if missing.
Trados keeps the state of a segment in <sdl:seg conf="…">, Phrase in the trans-unit's m:confirmed.
Annotations of text that is not translated, <mrk mtype="protected"> of version 1.2 and translate="no" of
version 2, are one code with their content, also with a translate="yes" in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from bytenmt.documents import markup
from bytenmt.documents.document import (
    ALONE,
    CLOSE,
    OPEN,
    TEXT,
    Content,
    DeclaredLanguages,
    Edit,
    MalformedError,
    Parts,
    Unit,
    UnitPart,
    Value,
    is_language_or_region,
)
from bytenmt.documents.inline_tags import paired
from bytenmt.documents.markup import Element
from bytenmt.errors import BytenmtError

KEPT = (
    *("xliff", "file", "body", "group", "unit", "trans-unit", "segment", "ignorable", "bin-unit"),
    *("source", "seg-source", "target", "mrk", "alt-trans", "matches", "seg-defs", "seg"),
)
OPAQUE = frozenset(("bpt", "ept", "ph", "it"))
NOT_YET = ("new", "needs-translation", "initial")  # states of a target that is no translation
DOUBTED = "needs-review-translation"
# Version 2 has no states for these, but lets tools name some of their own.
SUB_STATE, FROM_MEMORY = "bytenmt:needs-review", "bytenmt:translation-memory"
LEVERAGED = "leveraged-tm"  # state-qualifier of version 1.2 for a translation from a memory
PHRASE_NAMESPACE = "memsource.com"  # stands in it
PHRASE_TAG = re.compile(
    r"(\{[^{}<>&\s]+(?:>|&gt;)|&lt;[^{}<>&\s]+\}|\{[^{}<>&\s]+\})"
)  # {1&gt;bold&lt;1} {2}
CONFIRMED = ("Translated", "ApprovedTranslation", "ApprovedSignOff")  # states of a segment in Trados
OF_A_MATCH = ("percent", "text-match", "struct-match", "origin-system")  # attributes of what was there before


class _File(NamedTuple):
    """Properties of a whole file.

    is_version_2: of XLIFF. phrase: the prefix of Phrase's attributes, empty in files of other programs.
    target_language: of the root of version 2, which needs one as soon as there is a target.
    """

    text: str
    is_version_2: bool
    phrase: str
    target_language: str | None


def read(text: str, pair: tuple[str, str] | None = None) -> Content:
    """Return the units. Raises MalformedError.

    pair: source and target language, which the file declares afterwards.
    """
    root = markup.root_of(text, KEPT)
    if root is None or root.local != "xliff":
        raise MalformedError("no <xliff> element", 0)
    is_version_2 = root.attributes.get("version", "1").startswith("2")
    if is_version_2:
        declaring, source, target, holder = [root], "srcLang", "trgLang", "segment"
    else:
        declaring = [one for one in root.children if one.local == "file"]
        source, target, holder = "source-language", "target-language", "trans-unit"
    file = _File(
        text, is_version_2, _phrase_prefix(root), pair[1] if pair else root.attributes.get("trgLang")
    )
    units = [unit for one in _to_translate(file, root, holder) for unit in _units(file, one)]
    languages = DeclaredLanguages(_first_declared(declaring, source), _first_declared(declaring, target))
    of_files = [
        DeclaredLanguages(one.attributes.get(source), one.attributes.get(target)) for one in declaring
    ]
    edits = _language_edits(text, declaring, target, pair)
    return Content(units, languages, edits, other_languages=of_files[1:])


def _phrase_prefix(root: Element) -> str:
    named = ((name, value) for name, value in root.attributes.items() if PHRASE_NAMESPACE in value)
    return next((name.removeprefix("xmlns:") for name, _ in named if name.startswith("xmlns:")), "")


def _first_declared(elements: Sequence[Element], name: str) -> str | None:
    return next((value for one in elements if (value := one.attributes.get(name))), None)


def _language_edits(
    text: str, declared: Sequence[Element], name: str, pair: tuple[str, str] | None
) -> list[Edit]:
    """Return the edits that declare the target language, as an attribute of this name."""
    return [
        Edit(one.start, one.inside, markup.attribute(text[one.start : one.inside], name, pair[1]))
        for one in declared
        if pair is not None and not is_language_or_region(one.attributes.get(name), pair[1])
    ]


def _to_translate(file: _File, root: Element, name: str) -> Iterator[Element]:
    """Yield all elements of a name that are to be translated, in document order."""
    within = ("xliff", "file", "body", "group", "unit")
    stack = [root]
    while stack:
        element = stack.pop()
        if element.local == name:
            is_locked = file.phrase and element.attributes.get(f"{file.phrase}:locked") == "true"
            if element.inherited.get("translate") != "no" and not is_locked:
                yield element
        elif element.local in within:
            stack += reversed(element.children)


def _parts(file: _File, element: Element) -> Parts:
    """Return the content of a source, a target or one of their segments as text, tags and placeholders."""
    raw, preserve = file.text[element.inside : element.outside], markup.preserved(element)
    if not file.phrase or "<" in raw:
        return _joined_annotations(markup.with_placeholders(raw, _is_opaque, preserve))
    parts: list[UnitPart] = []
    for number, piece in enumerate(PHRASE_TAG.split(raw)):
        if number % 2 == 0:
            parts += markup.with_placeholders(piece, _is_opaque, preserve)
        else:
            kind = CLOSE if piece.startswith("&lt;") else ALONE if piece.endswith("}") else OPEN
            parts.append(UnitPart(piece, kind))
    return paired(parts)


def _is_opaque(tag: str) -> bool:
    """Return whether the element of a start tag is one code with its content."""
    name = markup.local_name(tag)
    return name in OPAQUE or (name == "mrk" and _is_annotated(tag))


def _is_annotated(tag: str) -> bool:
    """Return whether an annotation says that its text is not translated."""
    mtype, translate = (markup.attribute_value(tag, name) for name in ("mtype", "translate"))
    return mtype == "protected" or translate == "no"


def _joined_annotations(parts: Parts) -> Parts:
    """Return parts with each text between <sm translate="no"/> and its <em/>, of version 2, as one code.

    Without an <em/> it lasts until the end of the segment.
    """
    joined, held = list[UnitPart](), list[UnitPart]()  # held: the parts of the annotation that is open
    number: str | None = None  # its id
    for index, part in enumerate(parts):
        name = "" if part.kind == TEXT else markup.local_name(part.text)
        if not held and name == "sm" and _is_annotated(part.text):
            number = markup.attribute_value(part.text, "id")
        elif not held:
            joined.append(part)
            continue
        held.append(part)
        is_end = name == "em" and markup.attribute_value(part.text, "startRef") == number
        if is_end or index == len(parts) - 1:
            joined.append(UnitPart(markup.escaped(held), ALONE))
            held = []
    return paired(joined)


def _has_content(parts: Parts) -> bool:
    """Return whether there is anything besides white space and the tags of segments."""
    return any(part.text.strip() and markup.local_name(part.text) != "mrk" for part in parts)


def _units(file: _File, holder: Element) -> Iterator[Unit]:
    """Yield the units of a holder: a trans-unit, or a segment of version 2."""
    source, target, segmented = (holder.child(name) for name in ("source", "target", "seg-source"))
    if source is None:
        return
    if segmented is not None and (segments := _segments(segmented)):
        in_target = {} if target is None else {_mid(one): one for one in _segments(target)}
        if in_target or target is None or not _has_content(_parts(file, target)):
            yield from _SegmentedUnit(file, holder, segmented, target, in_target, segments).units()
            return
    if source.end > source.inside:
        yield _whole_unit(file, holder, source, target, after=segmented or source)


def _segments(element: Element) -> list[Element]:
    """Return the segments (<mrk mtype="seg">) in an element, without those in other segments."""
    segments, stack = list[Element](), list(reversed(element.children))
    while stack:
        one = stack.pop()
        if one.local == "mrk" and one.attributes.get("mtype") == "seg":
            segments.append(one)
        else:
            stack += reversed(one.children)
    return segments


def _mid(segment: Element) -> str | None:
    return segment.attributes.get("mid")


def _name(holder: Element) -> str:
    """Return the id of a trans-unit or segment, or of the unit that it stands in."""
    around = holder.parent.attributes.get("id") if holder.parent else None
    return holder.attributes.get("id") or around or ""


def _is_done(file: _File, holder: Element, source: Parts, target: Parts, state: str) -> bool:
    """Return whether a target is a translation; an unapproved copy of the source is not.

    state: what the file says of the target, or empty.
    """
    if not _has_content(target) or state in NOT_YET:
        return False
    return source != target or bool(state) or _is_confirmed(file, holder)


def _is_confirmed(file: _File, holder: Element) -> bool:
    """Return whether a person has approved the translation of a trans-unit."""
    in_phrase = file.phrase and holder.attributes.get(f"{file.phrase}:confirmed") == "1"
    return bool(in_phrase) or holder.attributes.get("approved") == "yes"


def _whole_unit(
    file: _File, holder: Element, source: Element, target: Element | None, after: Element
) -> Unit:
    """Return the unit of a trans-unit or segment that is translated as a whole.

    after: the element after which a missing target is added.
    """
    parts = _parts(file, source)
    begun = None if target is None else _parts(file, target)
    state = (holder if file.is_version_2 else target or holder).attributes.get("state", "")
    done = begun is not None and _is_done(file, holder, parts, begun, state)
    doubted = state.startswith("needs-") or "needs-review" in holder.attributes.get("subState", "")
    doubted = doubted or bool(file.phrase and not _is_confirmed(file, holder))
    opening = _target_tag(file, source, target)
    lead = "" if target is not None else _indentation(file.text, holder, source)
    start, end = (after.end, after.end) if target is None else (target.start, target.end)

    def write(translation: Parts, review: bool, from_memory: bool = False) -> str:
        return lead + _target(file, opening, markup.escaped(translation), review, from_memory)

    def as_match() -> Unit:
        return replace(unit, write=partial(write, from_memory=True), mark=mark_of(file, holder, True))

    mark_of = _mark_segment if file.is_version_2 else _mark_phrase
    mark = mark_of(file, holder)
    unit = Unit(source.inside, _name(holder), parts, start, end, begun, write, done, doubted, mark)
    return replace(unit, as_match=as_match)


def _target_tag(file: _File, source: Element, target: Element | None) -> str:
    """Return the start tag of a target as it is, or of one that is made for a source."""
    if target is not None:
        return markup.opened(file.text[target.start : target.inside])
    tag = f"<{source.name[: len(source.name) - len(source.local)]}target>"
    preserve = source.attributes.get("xml:space") == "preserve"
    return markup.attribute(tag, "xml:space", "preserve") if preserve else tag


def _target(file: _File, opening: str, content: str, review: bool, from_memory: bool = False) -> str:
    """Return a target as XML. opening: its start tag, in which version 1.2 keeps the state."""
    name = markup.TAG_NAME.match(opening)
    assert name is not None
    if not file.is_version_2 and not file.phrase:
        opening = markup.attribute(opening, "state", DOUBTED if review else "translated")
        if from_memory:
            opening = markup.attribute(opening, "state-qualifier", LEVERAGED)
    return f"{opening}{content}</{name[1]}>"


def _indentation(text: str, holder: Element, source: Element) -> str:
    """Return the blanks before a source."""
    before = text[holder.inside : source.start]
    return before[len(before.rstrip()) :]


def _mark_segment(
    file: _File, segment: Element, from_memory: bool = False
) -> Callable[[bool], Sequence[Edit]]:
    """Return what sets the state of a segment of version 2: translated, or initial with a sub-state."""

    def mark(review: bool) -> Sequence[Edit]:
        if file.target_language is None:
            raise BytenmtError(
                "the file does not declare its target language (trgLang): give --pair, such as --pair en-de"
            )
        tag = file.text[segment.start : segment.inside]
        marked = markup.attribute(tag, "state", "initial" if review else "translated")
        if review or from_memory or "subState" in segment.attributes:
            sub_state = SUB_STATE if review else FROM_MEMORY if from_memory else "bytenmt:translated"
            marked = markup.attribute(marked, "subState", sub_state)
        return [Edit(segment.start, segment.inside, marked)]

    return mark


def _mark_phrase(
    file: _File, holder: Element, from_memory: bool = False
) -> Callable[[bool], Sequence[Edit]] | None:
    """Return what marks a translation in Phrase as not confirmed, and as made by a machine or a memory."""
    if not file.phrase:
        return None

    def mark(_: bool) -> Sequence[Edit]:
        tag = file.text[holder.start : holder.inside]
        for name, value in (("confirmed", "0"), ("trans-origin", "tm" if from_memory else "mt")):
            if f"{file.phrase}:{name}" in holder.attributes:
                tag = markup.attribute(tag, f"{file.phrase}:{name}", value)
        return [Edit(holder.start, holder.inside, tag)]

    return mark


class _SegmentedUnit:
    """A trans-unit of version 1.2 whose source is segmented: every segment is a unit.

    segmented: its seg-source, and segments: those in it. in_target: the segments of its target, by their mid.
    """

    def __init__(
        self,
        file: _File,
        holder: Element,
        segmented: Element,
        target: Element | None,
        in_target: Mapping[str | None, Element],
        segments: Sequence[Element],
    ) -> None:
        self._file, self._holder, self._segmented, self._target = file, holder, segmented, target
        self._in_target, self._segments = dict(in_target), segments
        definitions = holder.child("seg-defs")  # of Trados, with the state of each segment
        self._states = {
            one.attributes.get("id"): one for one in (definitions.children if definitions else ())
        }
        self._marks = {mid: self._mark_of(state) for mid, state in self._states.items()}
        self._missing: list[tuple[Element, int]] = []  # segments that the target lacks, and their places

    def units(self) -> Iterator[Unit]:
        """Yield the unit of every segment that is not locked."""
        whole = not self._in_target  # the target is missing or empty, and made as a whole
        place = self._segmented.end if self._target is None else self._target.inside
        for segment in self._segments:
            there = self._in_target.pop(_mid(segment), None)
            place = there.end if there is not None else place
            state = self._states.get(_mid(segment))
            if state is not None and state.attributes.get("locked") == "true":
                continue
            unit = Unit(
                at=segment.inside,
                name="/".join(filter(None, (_name(self._holder), _mid(segment)))),
                source=_parts(self._file, segment),
                start=place,
                end=place,
                target=None,
                write=partial(self._with_content, there or segment),
                mark=self._marks.get(_mid(segment), None if whole else self._mark_target),
            )
            if there is None:
                self._missing.append((segment, place))
                yield replace(unit, insert=self._insert_target if whole else self._insert_segments)
            else:
                yield self._with_target(unit, there, state)

    def _with_target(self, unit: Unit, there: Element, state: Element | None) -> Unit:
        """Return the unit of a segment that the target has. state: its element in Trados' definitions."""
        if state is None:
            declared = (self._target or self._holder).attributes.get("state", "")
            doubted = declared.startswith("needs-")
        else:
            declared = state.attributes.get("conf", "")
            doubted = declared not in CONFIRMED
        begun = _parts(self._file, there)
        done = _is_done(self._file, self._holder, unit.source, begun, declared)
        unit = replace(unit, start=there.start, end=there.end, target=begun, done=done, doubted=doubted)
        if state is None:
            return unit
        return replace(unit, as_match=lambda: replace(unit, mark=self._mark_of(state, from_memory=True)))

    def _with_content(self, segment: Element, translation: Parts, _: bool = False) -> str:
        """Return a segment with another content."""
        tag = markup.opened(self._file.text[segment.start : segment.inside])
        return f"{tag}{markup.escaped(translation)}</{segment.name}>"

    def _insert_target(self, values: Sequence[Value | None]) -> Sequence[Edit]:
        """Return the edit that adds the target: the seg-source with translations in its segments."""
        text, target = self._file.text, self._target
        translations = {id(segment): value for (segment, _), value in zip(self._missing, values, strict=True)}
        pieces, last = list[str](), self._segmented.inside
        for segment in self._segments:
            value = translations.get(id(segment))
            pieces += [text[last : segment.start], self._with_content(segment, value[0] if value else ())]
            last = segment.end
        content = "".join([*pieces, text[last : self._segmented.outside]])
        review = any(value is not None and value[1] for value in values)
        filled = _target(self._file, _target_tag(self._file, self._segmented, target), content, review)
        if target is not None:
            return [Edit(target.start, target.end, filled)]
        at = self._segmented.end
        return [Edit(at, at, _indentation(text, self._holder, self._segmented) + filled)]

    def _insert_segments(self, values: Sequence[Value | None]) -> Sequence[Edit]:
        """Return the edits that add segments to a target that has others, each after its predecessor."""
        pieces: dict[int, list[str]] = {}
        for (segment, place), value in zip(self._missing, values, strict=True):
            if value is not None:
                pieces.setdefault(place, []).append(self._with_content(segment, value[0]))
        return [Edit(place, place, "".join(filled)) for place, filled in pieces.items()]

    def _mark_target(self, review: bool) -> Sequence[Edit]:
        """Return the edit that sets the state of an existing target."""
        assert self._target is not None
        tag = self._file.text[self._target.start : self._target.inside]
        marked = markup.attribute(tag, "state", DOUBTED if review else "translated")
        return [Edit(self._target.start, self._target.inside, marked)]

    def _mark_of(self, state: Element, from_memory: bool = False) -> Callable[[bool], Sequence[Edit]]:
        """Return what sets the state of a segment in Trados: origin `mt`, or a full match of a memory."""

        def mark(review: bool) -> Sequence[Edit]:
            tag = self._file.text[state.start : state.inside]
            for name in OF_A_MATCH:
                tag = markup.without_attribute(tag, name)
            tag = markup.attribute(tag, "conf", "Draft" if review else "Translated")
            tag = markup.attribute(tag, "origin", "tm" if from_memory else "mt")
            tag = markup.attribute(tag, "percent", "100") if from_memory else tag
            return [Edit(state.start, state.inside, tag)]

        return mark
