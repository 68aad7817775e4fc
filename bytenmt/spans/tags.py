"""Tags: their kinds and names, and which of them belong together."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bytenmt.spans.grammar import TAG

OPEN, CLOSE, ALONE = "open", "close", "alone"
_TAG = re.compile(TAG)
_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)?")
# Of HTML: elements without an end tag.
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link"]
    + ["meta", "param", "source", "track", "wbr"]
)


def parse_tag(span: str) -> tuple[str, str] | None:
    """Return OPEN or CLOSE and the name of a tag; None for one that stands alone, or for other text."""
    if not _TAG.fullmatch(span) or span.endswith("/>") or span.startswith("<!"):
        # </> is the end tag of <>, the only tags without a name.
        return (CLOSE, "") if span == "</>" else None
    match = _NAME.match(span)
    name = (match[1] if match else "") or ""
    if name.lower() in VOID:
        return None
    return (CLOSE if span.startswith("</") else OPEN), name


def partners(tags: Sequence[tuple[str, str] | None]) -> dict[int, int]:
    """Return the index of the partner of each tag that has one.

    tags: kind and name of each tag, None for what is none. An end tag closes the innermost open element of
    its name; elements inside that are still open then have no partner.
    """
    found: dict[int, int] = {}
    open_tags: list[tuple[int, str]] = []
    n_open: dict[str, int] = {}  # by name: so that an end tag without a partner costs no search
    for index, tag in enumerate(tags):
        if tag is None or tag[0] == ALONE:
            continue
        kind, name = tag
        if kind == OPEN:
            open_tags.append((index, name))
            n_open[name] = n_open.get(name, 0) + 1
        elif n_open.get(name):
            begin, last = open_tags.pop()
            n_open[last] -= 1
            while last != name:
                begin, last = open_tags.pop()
                n_open[last] -= 1
            found[index], found[begin] = begin, index
    return found
