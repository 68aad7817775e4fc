"""Split a unit into segments: the lines that are translated.

A unit is split at line ends and tabs and, where a line is longer than models accept, at ends of sentences,
never inside a tag or a span. What has no translatable text is copied: white space, symbols such as a note,
tags around a line, and lines of addresses, numbers and placeholders alone. ICU messages with several forms
are not translated. A code that a search cannot keep as it is, such as the two halves of [a link](of Markdown)
or the times inside a cue, is replaced by a tag for the translator: <g1>a link</g1>. The mark of a keyboard
shortcut, as in &File, is removed and set again.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from bytenmt.decoding.setting_table import KEPT, KEPT_OF_DOCUMENTS
from bytenmt.documents.document import ALONE, CLOSE, OPEN, TEXT, Parts, UnitPart, joined_text
from bytenmt.documents.inline_tags import partners
from bytenmt.spans.extractor import span_extractor

LINE_END = re.compile(r"(\r\n|[\n\r\t])")
# The look-behind keeps a long run of full stops from being read again from each of them.
SENTENCE_END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u2019\u201d\u00bb)\]]*+\s++|[\u3002\uff01\uff1f]+[\u300d\u300f\u201d]*\s*"
)
BLANKS = re.compile(r"\s+")
NUMBERED_TAG = re.compile(r"<[gx](\d{1,9})")
# Ends that a translation must have if its source has them; the two forms of a line are equivalent.
ENDS = ((":", "\uff1a"), ("\u2026", "..."))
# The mark before the letter of a keyboard shortcut: &File, _Open, and inside a word as in E&xit.
SHORTCUT = re.compile(r"(?<![\w&])[&_](?=[^\W\d_])|(?<=[A-Za-z])&(?=[a-z])")
ENTITY = re.compile(r"&\w+;")
# {n, plural, one {…} other {…}}, in the syntax of ICU's and Java's MessageFormat: a program, not a text.
ICU_FORMS = re.compile(r"\{\s*+[\w.-]++\s*+,\s*+(?:plural|select|selectordinal|choice)\s*,")
NAME = re.compile(r"\b[A-Z]++[a-z]*+[0-9][A-Za-z0-9]*+\b", re.ASCII)  # of a key, a format or the like
# Values of programs: a colour, a key such as menu.file.open (not e.g or p.m), a word of JSON.
VALUE = re.compile(
    r"#(?:[0-9A-Fa-f]{3,4}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})|[a-z][\w-]+(?:\.[a-z0-9_][\w-]*)+|true|false|null",
    re.ASCII,
)
MAX_SHORTCUT = 80  # characters of a text that may have a shortcut


class Segment(NamedTuple):
    """A line of UTF-8 for a translator.

    keep: the codes in it, in order, with repetitions; a translation should have the same ones, properly
    nested. replaced: the tags that stand for other codes, each with its code. shortcut: the mark of a
    keyboard shortcut and its letter, which were removed from the text, or empty.
    """

    text: bytes
    keep: tuple[bytes, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    shortcut: str = ""

    def restore(self, translation: str) -> str:
        """Return a translation with the original codes, the shortcut, and the end of the source.

        A space is added where text that touches a code would change a span, as in _3 after the code _.
        """
        translation = _with_end(self.text.decode(), translation)
        if self.shortcut:
            translation = _with_shortcut(translation, self.shortcut)
        if not self.replaced:
            return translation
        codes = dict(self.replaced)
        tags = re.split(f"({'|'.join(map(re.escape, codes))})", translation)
        pieces = [codes.get(one, one) for one in tags]
        for index in range(1, len(tags)):
            before, behind = pieces[index - 1], pieces[index]
            alone = any(one in codes and one.endswith("/>") for one in tags[index - 1 : index + 1])
            if alone and _spans(before + behind) != _spans(before) + _spans(behind):
                pieces[index] = " " + behind
        return "".join(pieces)


def _with_end(source: str, translation: str) -> str:
    """Return a translation that ends with the colon or the dots of its source."""
    for signs in ENDS:
        end = next((sign for sign in signs if source.endswith(sign)), "")
        if end and translation.strip() and not translation.endswith(signs):
            return translation.rstrip(" .,;:!\u3002") + end
    return translation


def _without_shortcut(text: str) -> tuple[str, str]:
    """Return a text without the mark of a shortcut, and the mark with its letter; empty where it has none."""
    marks = list(SHORTCUT.finditer(text)) if len(text) <= MAX_SHORTCUT else []
    if len(marks) != 1 or text.count(marks[0][0]) != 1:
        return text, ""
    at = marks[0].start()
    inside = any(begin <= at < end for begin, end, _ in span_extractor(KEPT).spans_of_text(text))
    if inside or ENTITY.match(text, at) or (text[at] == "_" and "_" in text[at + 1 :]):
        return text, ""
    return text[:at] + text[at + 1 :], text[at : at + 2]


def _with_shortcut(translation: str, shortcut: str) -> str:
    """Return a translation with the mark of a shortcut before its letter or another one.

    It stands before the letter at the beginning of a word, else elsewhere, else before any word, else, in a
    script without capitals, behind the text with the letter: (&F).
    """
    mark, letter = shortcut[0], shortcut[1]
    spans = span_extractor(KEPT).spans_of_text(translation)
    kept = {at for begin, end, _ in spans for at in range(begin, end)}
    free = [at for at, one in enumerate(translation) if at not in kept and one.lower() != one.upper()]
    first = [at for at in free if at == 0 or not translation[at - 1].isalnum()]
    same = [at for at in (*first, *free) if translation[at].lower() == letter.lower()]
    at = next(iter(same + first), None)
    if mark in translation:
        return translation
    if at is None:
        return f"{translation}({mark}{letter.upper()})"
    return translation[:at] + mark + translation[at:]


def _spans(text: str) -> list[bytes]:
    """Return the spans of every class, in their order."""
    return span_extractor(KEPT).texts(utf8(text))


def has_words(parts: Sequence[UnitPart]) -> bool:
    """Return whether there is a word outside of spans (addresses, placeholders, tags), unlike F1 and MP3.

    A colour, a dotted key, and true, false or null alone are no words.
    """
    if len(parts) == 1 and VALUE.fullmatch(parts[0].text):
        return False
    for part in parts:
        if part.kind == TEXT and any(map(str.isalpha, part.text)):
            last = 0
            spans = span_extractor(KEPT_OF_DOCUMENTS).spans_of_text(part.text)
            for begin, end, _ in (*spans, (len(part.text), 0, "")):
                if any(map(str.isalpha, NAME.sub("", part.text[last:begin]))):
                    return True
                last = end
    return False


def is_icu_message(source: Iterable[UnitPart]) -> bool:
    """Return whether a unit has forms to choose from, as {n, plural, one {# file} other {# files}}.

    The forms may contain inline codes, as in XLIFF of Angular; a code may not contain the forms.
    """
    return any(part.kind == TEXT and ICU_FORMS.search(part.text) for part in source)


def utf8(text: str) -> bytes:
    """Encode a text; bytes of the file that are not UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()


def split_unit(source: Parts, limit: int) -> list[str | Segment]:
    """Return the segments of a unit, and as str the texts between them, which are copied.

    limit: bytes of a segment. Empty for an ICU message, which is left as it is.
    """
    made: list[str | Segment] = []
    if is_icu_message(source):
        return made
    for line in _lines(source):
        before, core, after = _core(line)
        if not has_words(core):
            made.append(joined_text(line))
            continue
        made.append(before)
        for piece in _cut(core, limit):
            if not has_words(piece):
                made.append(joined_text(piece))
                continue
            tags = numbered_tags(piece, lambda code: not _is_span(code))
            shown = [UnitPart(tags.get(index, part.text), part.kind) for index, part in enumerate(piece)]
            text = joined_text(shown)
            bare = text.strip()
            at = text.index(bare)
            keep = tuple(utf8(part.text) for part in shown if part.kind != TEXT)
            codes = tuple((tag, piece[index].text) for index, tag in tags.items())
            plain, shortcut = _without_shortcut(bare)
            made += [text[:at], Segment(utf8(plain), keep, codes, shortcut), text[at + len(bare) :]]
        made.append(after)
    return [one for one in made if one]


def aligned_lines(source: Parts, target: Parts, limit: int) -> list[tuple[str, str]]:
    """Return the lines of a unit and of its translation as a translator sees them, for training.

    limit: bytes of a line. Empty where the two have not the same number of lines, or where other codes stand
    behind the tags of their lines.
    """
    sides = [
        [one for one in split_unit(parts, limit) if isinstance(one, Segment)] for parts in (source, target)
    ]
    if len(sides[0]) != len(sides[1]) or any(a.replaced != b.replaced for a, b in zip(*sides, strict=True)):
        return []
    return [(a.text.decode(), b.text.decode()) for a, b in zip(*sides, strict=True)]


def _is_span(code: str) -> bool:
    """Return whether a search that keeps the spans of documents keeps a code as it is."""
    text = utf8(code)
    return [span[:2] for span in span_extractor(KEPT_OF_DOCUMENTS).spans(text)] == [(0, len(text))]


def numbered_tags(parts: Sequence[UnitPart], needs_tag: Callable[[str], bool]) -> dict[int, str]:
    """Map the index of every code that needs a tag in its place to that tag: <g1>, </g1> or <x2/>.

    Both codes of a pair get a tag if one of them needs it. The numbers are none that the text has in such
    tags.
    """
    partner = partners(parts)
    used = {int(number) for number in NUMBERED_TAG.findall(joined_text(parts))}
    ends: dict[int, str] = {}
    number = 0
    for index, part in enumerate(parts):
        if part.kind == TEXT or index in ends:
            continue
        pair = [index, *([partner[index]] if index in partner else [])]
        if not any(needs_tag(parts[at].text) for at in pair):
            continue
        number += 1
        while number in used:
            number += 1
        if len(pair) == 1:
            ends[index] = f"<x{number}/>"
        else:
            ends[index], ends[pair[1]] = f"<g{number}>", f"</g{number}>"
    return ends


def _lines(source: Parts) -> list[list[UnitPart]]:
    """Split at line ends and tabs; every separator is a line of its own."""
    lines: list[list[UnitPart]] = [[]]
    for part in source:
        pieces = LINE_END.split(part.text) if part.kind == TEXT else [part.text]
        for number, piece in enumerate(pieces):
            if number % 2:
                lines += [[UnitPart(piece)], []]
            elif piece:
                lines[-1].append(UnitPart(piece, part.kind))
    return lines


def _core(line: Sequence[UnitPart]) -> tuple[str, list[UnitPart], str]:
    """Split off the white space, symbols, single codes and pairs around a line.

    Returns the text before the rest of the line, the rest, and the text after it.
    """
    partner = partners(line)
    low, high = 0, len(line)

    def blank(part: UnitPart) -> bool:
        return part.kind == ALONE or (part.kind == TEXT and not any(map(_is_text, part.text)))

    while low < high:
        if blank(line[low]) or (line[low].kind in (OPEN, CLOSE) and low not in partner):
            low += 1
        elif blank(line[high - 1]) or (line[high - 1].kind in (OPEN, CLOSE) and high - 1 not in partner):
            high -= 1
        elif partner.get(low) == high - 1:
            low, high = low + 1, high - 1
        else:
            break
    core, before, behind = list(line[low:high]), "", ""
    if core and core[0].kind == TEXT:
        text = core[0].text
        begin = next(at for at, sign in enumerate(text) if _is_text(sign))
        core[0], before = UnitPart(text[begin:]), text[:begin]
    if core and core[-1].kind == TEXT:
        text = core[-1].text
        end = next(at for at in range(len(text), 0, -1) if _is_text(text[at - 1]))
        core[-1], behind = UnitPart(text[:end]), text[end:]
    return joined_text(line[:low]) + before, core, behind + joined_text(line[high:])


def _is_text(sign: str) -> bool:
    """Return whether a character is neither a blank nor a symbol such as a note, an arrow or a pictogram."""
    return not sign.isspace() and unicodedata.category(sign) != "So"


def _cut(core: Sequence[UnitPart], limit: int) -> list[list[UnitPart]]:
    """Split a line into pieces of at most `limit` bytes.

    A piece ends after a sentence if one ends within the limit, else after white space, else between two
    characters; a code or span that is longer is a piece of its own. Positions are kept in arrays: as lists of
    Python integers they would take a hundred bytes a character.
    """
    text = joined_text(core)
    sizes: Sequence[int] = range(len(text) + 1)  # bytes of the first characters
    if not text.isascii():
        sizes = array("L", accumulate(map(_utf8_len, text), initial=0))
    if sizes[-1] <= limit:
        return [list(core)]
    inside = bytearray(len(text) + 1)  # 1 at positions inside a code or a span
    begin = 0
    for part in core:
        spans: Iterable[tuple[int, int]] = [(0, len(part.text))]
        if part.kind == TEXT:
            spans = [span[:2] for span in span_extractor(KEPT).spans_of_text(part.text)]
        for low, high in spans:
            inside[begin + low + 1 : begin + high] = b"\1" * (high - low - 1)
        begin += len(part.text)
    sentences = array("L", (at for match in SENTENCE_END.finditer(text) if not inside[at := match.end()]))
    blanks = array("L", (at for match in BLANKS.finditer(text) if not inside[at := match.end()]))
    places, start = list[int](), 0
    while sizes[-1] - sizes[start] > limit:
        most = bisect_right(sizes, sizes[start] + limit) - 1
        start = (
            _last(sentences, start, most)
            or _last(blanks, start, most)
            or max(0, inside.rfind(0, start + 1, most + 1))
            or inside.find(0, start + 1)
        )
        places.append(start)
    return _at_places(core, places)


def _utf8_len(letter: str) -> int:
    """Number of bytes of a character; U+FFFD stands for a byte that is no UTF-8."""
    code = ord(letter)
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


def _last(ends: Sequence[int], start: int, most: int) -> int | None:
    """Return the last of these positions that is after `start` and not after `most`, or None."""
    index = bisect_right(ends, most) - 1
    return ends[index] if index >= 0 and ends[index] > start else None


def _at_places(core: Sequence[UnitPart], places: Sequence[int]) -> list[list[UnitPart]]:
    """Cut parts at these positions, counted in characters of their joined text."""
    pieces: list[list[UnitPart]] = [[]]
    begin, left = 0, list(reversed(places))
    for part in core:
        last = 0  # characters of the part that are in a piece
        while left and left[-1] < begin + len(part.text):
            at = left.pop() - begin
            if at > last:
                pieces[-1].append(UnitPart(part.text[last:at], part.kind))
            pieces.append([])
            last = at
        pieces[-1].append(UnitPart(part.text[last:], part.kind))
        begin += len(part.text)
    return [piece for piece in pieces if piece]
