"""XLIFF 1.2 and 2: units are trans-units, in 2 segments; a target is filled or made behind its source.

Knows these formats; knows no translator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from bytenmt.documents import markup
from bytenmt.documents.document import Edit, Malformed, Parts, Unit, flat
from bytenmt.documents.markup import Element
from bytenmt.errors import BytenmtError

KEPT = (
    *("xliff", "file", "body", "group", "unit", "trans-unit", "segment", "ignorable", "bin-unit"),
    *("source", "seg-source", "target", "alt-trans", "matches"),
)
OPAQUE = frozenset(("bpt", "ept", "ph", "it"))
NOT_YET = ("new", "needs-translation", "initial")  # states of a target that is none
DOUBTED = "needs-review-translation"
SUB_STATE = "bytenmt:needs-review"  # version 2 has no state for it, but lets tools name one of their own


def read(text: str, pair: tuple[str, str] | None = None) -> list[Unit]:
    """The units. pair: source and target language, where the file tells none. Raises Malformed."""
    root = markup.root_of(text, KEPT)
    if root is None or root.local != "xliff":
        raise Malformed("no <xliff> element", 0)
    second = root.attributes.get("version", "1").startswith("2")
    extra = _target_language(root, text, pair)
    name = "segment" if second else "trans-unit"
    above = ("file", "group", "unit") if second else ("file", "body", "group")
    return [
        _unit(text, holder, source, second, extra)
        for holder in _wanted(root, name, above)
        if (source := holder.child("source")) is not None and source.end > source.inside
    ]


def _wanted(element: Element, name: str, above: Sequence[str]) -> Iterator[Element]:
    """The elements of a name that are to be translated; above: the names of those that they may stand in."""
    for child in element.children:
        if child.local == name:
            if child.inherited("translate", "yes") != "no":
                yield child
        elif child.local in above:
            yield from _wanted(child, name, above)


def _target_language(root: Element, text: str, pair: tuple[str, str] | None) -> Callable[[], list[Edit]]:
    """What version 2 wants as soon as there is a target: trgLang. Raises BytenmtError where none is told."""

    def edits() -> list[Edit]:
        if "trgLang" in root.attributes:
            return []
        if pair is None:
            raise BytenmtError("the file does not tell its target language (trgLang): give --pair, as en-de")
        tag = text[root.start : root.inside]
        return [Edit(root.start, root.inside, markup.attribute(tag, "trgLang", pair[1]))]

    return edits


def _parts(text: str, element: Element) -> Parts:
    """The content of a source or a target: tags and placeholders are codes."""
    return markup.with_placeholders(text[element.inside : element.outside], OPAQUE, markup.preserved(element))


def _unit(text: str, holder: Element, source: Element, second: bool, extra: Callable[[], list[Edit]]) -> Unit:
    """holder: the trans-unit or segment."""
    target = holder.child("target")
    parts = _parts(text, source)
    begun = None if target is None else _parts(text, target)
    state = (holder if second else target or holder).attributes.get("state", "")
    done = begun is not None and bool(flat(begun).strip()) and state not in NOT_YET
    if done and begun == parts and not state:
        done = holder.attributes.get("approved") == "yes"  # a copy of the source is what tools begin with
    prefix = source.name[: -len("source")]
    name = holder.attributes.get("id") or (holder.parent.attributes.get("id") if holder.parent else None)
    if target is not None:
        start, end, tag, lead = target.start, target.end, text[target.start : target.inside], ""
    else:
        behind = holder.child("seg-source") or source
        start = end = behind.end
        before = re.search(r"\s*$", text[holder.inside : source.start])
        tag, lead = f"<{prefix}target>", before[0] if before else ""
        if source.attributes.get("xml:space") == "preserve":
            tag = markup.attribute(tag, "xml:space", "preserve")

    def write(translation: Parts, review: bool) -> str:
        opened = re.sub(r"\s*/>$", ">", tag)
        if not second:
            opened = markup.attribute(opened, "state", DOUBTED if review else "translated")
        return f"{lead}{opened}{markup.escaped(translation)}</{prefix}target>"

    mark = _mark(text, holder, extra) if second else None
    doubted = state.startswith("needs-") or "needs-review" in holder.attributes.get("subState", "")
    return Unit(source.inside, name or "", parts, start, end, begun, write, done, doubted, mark)


def _mark(text: str, segment: Element, extra: Callable[[], list[Edit]]) -> Callable[[bool], Sequence[Edit]]:
    """The state of a segment of version 2: translated, or initial with a sub-state of its own."""

    def mark(review: bool) -> Sequence[Edit]:
        tag = text[segment.start : segment.inside]
        marked = markup.attribute(tag, "state", "initial" if review else "translated")
        if review or "subState" in segment.attributes:
            marked = markup.attribute(marked, "subState", SUB_STATE if review else "bytenmt:translated")
        return [Edit(segment.start, segment.inside, marked), *extra()]

    return mark
