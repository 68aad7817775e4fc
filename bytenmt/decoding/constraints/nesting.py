"""In which order tags may come: elements of a source lie in each other as they did, wherever they stand.

Knows spans; does not know why they are kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

ROOT, ANYWHERE = -1, -2
TAG = re.compile(rb"<(/?)([A-Za-z][A-Za-z0-9:._-]*)?(?:\s[^>]*?)?(/?)>", re.DOTALL)
# Of HTML: elements without an end tag.
VOID = frozenset(b"area base br col embed hr img input link meta param source track wbr".split())


class Place(NamedTuple):
    """Where one span may stand. within: the begin tag of the element that it stands in, ROOT, or ANYWHERE;
    leads: what stands around that which follows it, as `within`, ANYWHERE: as before it; after: the span that
    must stand before it, or -1; closes: it ends its element, and comes last in it. All as indices."""

    within: int = ANYWHERE
    leads: int = ANYWHERE
    after: int = -1
    closes: bool = False


def places(spans: Sequence[bytes]) -> list[Place]:
    """Where each span may stand. A tag whose partner is missing stands in the element in which it stood, and
    behind those of its kind there; void elements, and what is no tag, anywhere."""
    tags = [_tag(span) for span in spans]
    partner = _partners(tags)
    found, within = [Place() for _ in spans], ROOT
    alone: dict[int, int] = {}  # the last tag without a partner in each element
    outer: dict[int, int] = {}  # of begin tags
    for at, tag in enumerate(tags):
        if tag is None:
            continue
        if at not in partner:
            found[at] = Place(within, ANYWHERE, alone.get(within, -1))
            alone[within] = at
        elif partner[at] > at:
            outer[at] = within
            found[at] = Place(within, at)
            within = at
        else:
            within = outer[partner[at]]
            found[at] = Place(partner[at], within, -1, True)
    return found


def _tag(span: bytes) -> tuple[bool, bytes] | None:
    """Whether it is an end tag, and its name; None of what stands for itself."""
    match = TAG.fullmatch(span)
    if match is None or match[3] or (match[2] or b"").lower() in VOID:
        return None
    return bool(match[1]), match[2] or b""


def _partners(tags: Sequence[tuple[bool, bytes] | None]) -> dict[int, int]:
    """Begin and end tags that belong together, by their indices, both ways."""
    open_: list[int] = []
    partner: dict[int, int] = {}
    for at, tag in enumerate(tags):
        if tag is None:
            continue
        ends, name = tag
        if not ends:
            open_.append(at)
            continue
        for depth in range(len(open_) - 1, -1, -1):
            begun = tags[open_[depth]]
            if begun is not None and begun[1] == name:
                partner[at], partner[open_[depth]] = open_[depth], at
                del open_[depth:]
                break
    return partner
