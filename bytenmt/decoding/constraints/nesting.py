"""In which order tags may come: the elements of a translation lie in each other as those of its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bytenmt.kernel_constants import ANYWHERE as ANYWHERE
from bytenmt.kernel_constants import ROOT as ROOT
from bytenmt.spans.tags import parse_tag, partners


class Place(NamedTuple):
    """Where one span may stand, by the indices of other spans.

    within: the begin tag of the element that it stands in, ROOT, or ANYWHERE. leads: what `within` is for the
    spans after it, ANYWHERE: the same as before it. after: the span that must stand before it, or -1. closes:
    it ends its element, and comes last in it.
    """

    within: int = ANYWHERE
    leads: int = ANYWHERE
    after: int = -1
    closes: bool = False


def places(spans: Sequence[bytes]) -> list[Place]:
    """Return where each span of a source may stand in a translation.

    A tag whose partner is missing stands in the element in which it stood, after the other such tags there;
    void elements, and what is no tag, stand anywhere.
    """
    tags = [parse_tag(span.decode()) for span in spans]
    partner = partners(tags)
    found, within = [Place() for _ in spans], ROOT
    alone: dict[int, int] = {}  # of each element: the last tag in it without a partner
    outer: dict[int, int] = {}  # of each begin tag: the element around it
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
