"""The lines that a unit is translated in, and the unit again from their translations.

A unit is cut at its line ends and, where a line is longer than the models know, at ends of sentences, never
in a code. Blanks, and codes about a line, stay outside. A code that a search cannot keep as it is, as the two
halves of [a link](of Markdown) or the times inside a cue, is shown to the translator as a tag: <g1>a
link</g1>. Knows strings; knows no translator.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from bytenmt.decoding.names import KEPT, KEPT_OF_DOCUMENTS
from bytenmt.documents.codes import partners
from bytenmt.documents.document import ALONE, CLOSE, OPEN, TEXT, Part, Parts, flat

LINE_END = re.compile(r"(\r\n|\n|\r)")
SENTENCE_END = re.compile(
    r"[.!?\u2026]+[\"'\u2019\u201d\u00bb)\]]*\s+|[\u3002\uff01\uff1f]+[\u300d\u300f\u201d]*\s*"
)
BLANKS = re.compile(r"\s+")


class Segment(NamedTuple):
    """text: a line of UTF-8 for a translator. keep: the codes in it, in their order, as often as they come;
    a translator that can should have them in its output so often, and pairs in each other. instead: tags in
    it, and the codes that they stand for."""

    text: bytes
    keep: tuple[bytes, ...] = ()
    instead: tuple[tuple[str, str], ...] = ()

    def restored(self, translation: str) -> str:
        """A translation with the codes themselves; with a blank where what touches one that stands alone
        would be no span to keep any more, as the number in _3 behind the code _."""
        if not self.instead:
            return translation
        codes = dict(self.instead)
        tags = re.split(f"({'|'.join(map(re.escape, codes))})", translation)
        pieces = [codes.get(one, one) for one in tags]
        for index in range(1, len(tags)):
            before, behind = pieces[index - 1], pieces[index]
            alone = any(one in codes and one.endswith("/>") for one in tags[index - 1 : index + 1])
            if alone and _spans(before + behind) != _spans(before) + _spans(behind):
                pieces[index] = " " + behind
        return "".join(pieces)


def _spans(text: str) -> list[bytes]:
    """Of every class, in their order."""
    from bytenmt.spans.extractor import span_extractor  # it imports NumPy

    return span_extractor(KEPT).texts(utf8(text))


def utf8(text: str) -> bytes:
    """With U+FFFD for bytes of the file that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()


def segments(source: Parts, limit: int) -> list[str | Segment]:
    """A unit as what is translated and what stands between. limit: bytes of a segment."""
    made: list[str | Segment] = []
    for line in _lines(source):
        before, core, behind = _core(line)
        if not any(letter.isalpha() for part in core if part.kind == TEXT for letter in part.text):
            made.append(flat(line))
            continue
        made.append(before)
        for piece in _cut(core, limit):
            instead = _tags(piece)
            shown = [Part(instead.get(index, part.text), part.kind) for index, part in enumerate(piece)]
            text = flat(shown)
            bare = text.strip()
            at = text.index(bare)
            keep = tuple(utf8(part.text) for part in shown if part.kind != TEXT)
            codes = tuple((tag, piece[index].text) for index, tag in instead.items())
            made += [text[:at], Segment(utf8(bare), keep, codes) if bare else "", text[at + len(bare) :]]
        made.append(behind)
    return [one for one in made if one]


def _tags(piece: Sequence[Part]) -> dict[int, str]:
    """Tags for a translator, by the places of the codes that a search cannot keep as they are."""
    from bytenmt.spans.extractor import span_extractor  # it imports NumPy

    extractor = span_extractor(KEPT_OF_DOCUMENTS)
    partner, text = partners(piece), flat(piece)
    ends: dict[int, str] = {}
    number = 0
    for index, part in enumerate(piece):
        if part.kind == TEXT or index in ends:
            continue
        pair = [index, *([partner[index]] if index in partner else [])]
        codes = [utf8(piece[at].text) for at in pair]
        if all([span[:2] for span in extractor.spans(code)] == [(0, len(code))] for code in codes):
            continue
        number += 1
        while f"<g{number}" in text or f"<x{number}" in text:
            number += 1
        if len(pair) == 1:
            ends[index] = f"<x{number}/>"
        else:
            ends[index], ends[pair[1]] = f"<g{number}>", f"</g{number}>"
    return ends


def _lines(source: Parts) -> list[list[Part]]:
    """Lines, and the line ends between them as lines."""
    lines: list[list[Part]] = [[]]
    for part in source:
        pieces = LINE_END.split(part.text) if part.kind == TEXT else [part.text]
        for number, piece in enumerate(pieces):
            if number % 2:
                lines += [[Part(piece)], []]
            elif piece:
                lines[-1].append(Part(piece, part.kind))
    return lines


def _core(line: Sequence[Part]) -> tuple[str, list[Part], str]:
    """A line without the blanks, the codes that stand alone and the pairs about it."""
    partner = partners(line)
    low, high = 0, len(line)

    def blank(part: Part) -> bool:
        return part.kind == ALONE or (part.kind == TEXT and not part.text.strip())

    while low < high:
        if blank(line[low]) or (line[low].kind in (OPEN, CLOSE) and low not in partner):
            low += 1
        elif blank(line[high - 1]) or (line[high - 1].kind in (OPEN, CLOSE) and high - 1 not in partner):
            high -= 1
        elif partner.get(low) == high - 1:
            low, high = low + 1, high - 1
        else:
            break
    return flat(line[:low]), list(line[low:high]), flat(line[high:])


def _cut(core: Sequence[Part], limit: int) -> list[list[Part]]:
    """Pieces of at most `limit` bytes: cut behind a sentence where one ends early enough, else at a blank,
    else between characters; a code that is longer is a piece of its own."""
    text = flat(core)
    sizes = [0, *accumulate(len(utf8(letter)) for letter in text)]
    if sizes[-1] <= limit:
        return [list(core)]
    inside: set[int] = set()
    begin = 0
    for part in core:
        if part.kind != TEXT:
            inside.update(range(begin + 1, begin + len(part.text)))
        begin += len(part.text)
    sentences = [at for match in SENTENCE_END.finditer(text) if (at := match.end()) not in inside]
    blanks = [at for match in BLANKS.finditer(text) if (at := match.end()) not in inside]
    free = [at for at in range(1, len(text) + 1) if at not in inside]
    places, start = list[int](), 0
    while sizes[-1] - sizes[start] > limit:
        most = bisect_right(sizes, sizes[start] + limit) - 1
        reached = (_last(ends, start, most) for ends in (sentences, blanks, free))
        start = next(filter(None, reached), free[bisect_right(free, start)])
        places.append(start)
    return _at_places(core, places)


def _last(ends: Sequence[int], start: int, most: int) -> int | None:
    """The last of these places behind `start`, and `most` at most."""
    index = bisect_right(ends, most) - 1
    return ends[index] if index >= 0 and ends[index] > start else None


def _at_places(core: Sequence[Part], places: Sequence[int]) -> list[list[Part]]:
    """Parts cut at these characters of their text."""
    pieces: list[list[Part]] = [[]]
    begin, left = 0, list(places)
    for part in core:
        rest = part.text
        while left and left[0] < begin + len(rest):
            at = left.pop(0) - begin
            if at:
                pieces[-1].append(Part(rest[:at], part.kind))
            pieces.append([])
            rest, begin = rest[at:], begin + at
        pieces[-1].append(Part(rest, part.kind))
        begin += len(rest)
    return [piece for piece in pieces if piece]
