"""Units inside the inline codes of another unit, such as the alternative text of an image in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from bytenmt.documents.document import TEXT, Edit, Unit, UnitPart, Value


class InnerUnit(NamedTuple):
    """A unit, and begin and end of the inline code that it is a part of."""

    start: int
    end: int
    unit: Unit


def nested(text: str, units: Iterable[Unit], inside: Sequence[InnerUnit]) -> Iterator[Unit]:
    """Yield units, and those inside their codes; what overlaps is written together.

    text: of the document. units: with places that do not overlap. inside: units whose codes lie within one of
    these places, or outside of all. Both in the order of the document.
    """
    at = 0
    for unit in units:
        while at < len(inside) and inside[at].start < unit.start:
            yield inside[at].unit
            at += 1
        first = at
        while at < len(inside) and inside[at].end <= unit.end:
            at += 1
        yield from _together(text, unit, inside[first:at]) if at > first else (unit,)
    yield from (one.unit for one in inside[at:])


def _together(text: str, outer: Unit, inner: Sequence[InnerUnit]) -> list[Unit]:
    """Return a unit and those inside its codes, with a function that inserts all of their translations."""

    def insert(values: Sequence[Value | None]) -> list[Edit]:
        edits: dict[tuple[int, int], list[Edit]] = {}  # by the code that they change
        for (start, end, unit), value in zip(inner, values[1:], strict=True):
            if value is not None and value[0] != unit.target:
                edits.setdefault((start, end), []).append(Edit(unit.start, unit.end, unit.write(*value)))
        whole = values[0]
        if whole is None or whole[0] == outer.target:
            return [edit for some in edits.values() for edit in some]
        codes = {text[start:end]: _edited(text, start, end, some) for (start, end), some in edits.items()}
        parts = (
            one if one.kind == TEXT else UnitPart(codes.get(one.text, one.text), one.kind) for one in whole[0]
        )
        return [Edit(outer.start, outer.end, outer.write(tuple(parts), whole[1]))]

    return [replace(one, insert=insert) for one in (outer, *(one.unit for one in inner))]


def _edited(text: str, start: int, end: int, edits: Sequence[Edit]) -> str:
    pieces = []
    for edit in sorted(edits):
        pieces += [text[start : edit.start], edit.text]
        start = edit.end
    return "".join([*pieces, text[start:end]])
