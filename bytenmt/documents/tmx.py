"""TMX: translation units with a variant (tuv) for each language; a missing one is added."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from bytenmt.documents import markup
from bytenmt.documents.document import MalformedError, Parts, Unit, joined_text
from bytenmt.documents.markup import Element
from bytenmt.errors import DataError

KEPT = ("tmx", "header", "body", "tu", "tuv", "seg")
OPAQUE = frozenset(("bpt", "ept", "ph", "it", "ut"))
INDENT = 200  # characters before a variant in which its indentation is looked for
REVIEW = '<prop type="x-state">needs-review-translation</prop>'


def read(text: str, pair: tuple[str, str] | None) -> list[Unit]:
    """Return the units of a TMX file in a pair of languages. Raises MalformedError, also without a pair."""
    root = markup.root_of(text, KEPT)
    if root is None or root.local != "tmx":
        raise MalformedError("no <tmx> element", 0)
    if pair is None:
        raise MalformedError(
            "a translation memory may contain several languages: give --pair, such as --pair en-de",
            root.start,
        )
    body = root.child("body")
    units = [] if body is None else body.children
    return [unit for one in units if (unit := _unit(text, one, pair)) is not None]


def variant(unit: Element, language: str) -> Element | None:
    """Return the variant of a unit in a language: this one, or else one of its regions (de-AT)."""
    wanted, near = _folded(language), None
    for tuv in unit.children:
        given = _folded(tuv.attributes.get("xml:lang", tuv.attributes.get("lang", "")))
        if given == wanted:
            return tuv
        if near is None and given.split("-")[0] == wanted:
            near = tuv
    return near


def parts_of(raw: str, preserve: bool = False) -> Parts:
    """Return the content of a segment as text, tags and placeholders."""
    return markup.with_placeholders(raw, lambda tag: markup.local_name(tag) in OPAQUE, preserve)


def _folded(language: str) -> str:
    return language.lower().replace("_", "-")


def _unit(text: str, one: Element, pair: tuple[str, str]) -> Unit | None:
    tuv, other = variant(one, pair[0]), variant(one, pair[1])
    seg = tuv and tuv.child("seg")
    if tuv is None or seg is None or tuv is other:
        return None
    source = parts_of(text[seg.inside : seg.outside], markup.preserved(seg))
    name = one.attributes.get("tuid", "")
    target = other and other.child("seg")
    if other is not None and target is not None:
        tag = re.sub(r"\s*/>$", ">", text[target.start : target.inside])
        begun = parts_of(text[target.inside : target.outside], markup.preserved(target))

        def fill(translation: Parts, review: bool) -> str:
            note = REVIEW if review and REVIEW not in text[other.start : other.end] else ""
            return f"{note}{tag}{markup.escaped(translation)}</{target.name}>"

        done = bool(joined_text(begun).strip())
        return Unit(seg.inside, name, source, target.start, target.end, begun, fill, done)
    lead = re.search(r"\s*$", text[max(0, tuv.start - INDENT) : tuv.start])
    lang = "lang" if "lang" in tuv.attributes else "xml:lang"

    def make(translation: Parts, review: bool) -> str:
        note = REVIEW if review else ""
        filled = f"<{seg.name}>{markup.escaped(translation)}</{seg.name}>"
        opening = markup.attribute(f"<{tuv.name}>", lang, pair[1])
        return f"{lead[0] if lead else ''}{opening}{note}{filled}</{tuv.name}>"

    return Unit(seg.inside, name, source, tuv.end, tuv.end, None, make)


def pairs(pieces: Iterable[str], pair: tuple[str, str], path: Path) -> Iterator[tuple[Parts, Parts]]:
    """Yield source and target of each unit that has both.

    pieces: the text of the file; it is never held as a whole. path: for messages. Raises DataError with the
    place of a mistake.
    """
    found: list[tuple[Parts, Parts]] = []

    def ended(one: Element) -> bool:
        if one.local != "tu":
            return False
        segs = [tuv and tuv.child("seg") for tuv in (variant(one, pair[0]), variant(one, pair[1]))]
        source, target = (seg and parts_of(scanner.slice(seg.inside, seg.outside)) for seg in segs)
        if source and target and segs[0] is not segs[1]:
            found.append((source, target))
        return True

    scanner = markup.MarkupScanner(("tu", "tuv", "seg"), ended)
    try:
        for piece in pieces:
            scanner.feed(piece, last=False)
            yield from found
            found.clear()
        scanner.feed("")
    except MalformedError as error:
        raise DataError(f"{path}, {scanner.place(error.at)}: {error.message}") from None
    yield from found
