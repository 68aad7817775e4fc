"""Translations of a document for people to review, and the file with what they made of them.

A unit is shown as one text. Its inline codes stand in it as in the file, or as numbered tags where that would
be hard to read: <g1>…</g1> instead of the XML of a run of a Word document.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from bytenmt.decoding.setting_table import KEPT_OF_DOCUMENTS
from bytenmt.documents.document import TEXT, Document, Parts, UnitPart, Value, joined_text
from bytenmt.documents.inline_tags import TAGS, find_tags, paired, restore_tags
from bytenmt.documents.memory import FuzzyMatch, TranslationMemory
from bytenmt.documents.segments import is_icu_message, numbered_tags, utf8
from bytenmt.documents.translation import TranslateSegments, is_copied, translate_units
from bytenmt.spans.extractor import span_extractor

MAX_CODE = 40  # characters of a code that is shown as it is
MOST_COMPARED = 20_000_000  # sources of a memory, for fuzzy matches of a document: about seven seconds
LINE_END = re.compile(r"\r\n|\r|\n")


class ReviewUnit(NamedTuple):
    """A unit as people see it.

    number: of the unit in the document. source, target: texts; target is empty where there is none. origin:
    of the target, see translation.UnitTranslation. verdict, reasons: of the model's translation, in words.
    is_exact: whether a memory has the same source, its placeholders and numbers too. keep: the codes and
    spans of the source, which the translation should have. alternatives: other translations of the model.
    fuzzy: entries of a memory whose sources resemble this one.
    """

    number: int
    source: str
    target: str
    origin: str
    verdict: str
    reasons: tuple[str, ...]
    is_exact: bool
    keep: tuple[str, ...]
    alternatives: tuple[str, ...]
    fuzzy: tuple[FuzzyMatch, ...]


class UnitEdit(NamedTuple):
    """The translation that a person leaves a unit with.

    number: of the unit. text: as shown. needs_review: whether the file says so. is_match: whether it comes
    unchanged from a translation memory. has_tags: whether a tag that the source lacks is a tag of the file,
    as persons and memories mean it, and not text.
    """

    number: int
    text: str
    needs_review: bool = False
    is_match: bool = False
    has_tags: bool = False


def review_units(
    document: Document,
    alternatives: Sequence[TranslateSegments],
    limit: int,
    memory: TranslationMemory | None = None,
) -> list[ReviewUnit]:
    """Return the units of a document that have words, with their translations.

    alternatives: functions that translate segments; the first one gives the best translations. limit: bytes
    of a segment.
    """
    variants = [translate_units(document, one, limit=limit, memory=memory) for one in alternatives]
    n_fuzzy = MOST_COMPARED // len(memory) if memory else 0  # units that may be looked up
    units = []
    for number, unit in enumerate(document.units):
        if is_copied(unit, limit):
            continue
        translations = [variant[number] for variant in variants]
        best, display = translations[0], _Display(unit.source)
        target = best.parts if best.parts is not None else unit.target
        texts = [display.text_of(one.parts) for one in translations if one.parts is not None]
        fuzzy: Sequence[FuzzyMatch] = ()
        if memory and not unit.done and not best.is_exact and n_fuzzy:
            n_fuzzy -= 1
            fuzzy = memory.fuzzy(joined_text(unit.source))
        shown = ReviewUnit(
            number,
            display.source,
            display.text_of(target or ()),
            best.origin,
            best.verdict.level,
            best.verdict.reasons,
            best.is_exact,
            display.keep(),
            tuple(list(dict.fromkeys(texts))[1:]),
            tuple(FuzzyMatch(one.score, _valid(one.source), _valid(one.target)) for one in fuzzy),
        )
        units.append(shown)
    return units


def write_reviewed(document: Document, edits: Sequence[UnitEdit], limit: int) -> tuple[bytes, list[int]]:
    """Return the bytes of a document with the translations of people, and the units with restored codes.

    limit: bytes of a segment, as for review_units.

    Units without an edit, and those whose text is blank, are left as they are; those without words are
    copied as `translate` does. A code that a text lacks is put back, and one too many removed; such a unit
    needs a review, and so does one that a program could not use. Numbers that are no unit's are ignored.
    """
    by_number = {edit.number: edit for edit in edits if edit.text.strip()}
    values: list[Value | None] = []
    matches, restored = set[int](), list[int]()
    for number, unit in enumerate(document.units):
        edit = by_number.get(number)
        if edit is None:
            has_copy = joined_text(unit.source).strip() and not is_icu_message(unit.source)
            copied = not unit.done and has_copy and is_copied(unit, limit)
            values.append((unit.source, False) if copied else None)
            continue
        end = LINE_END.search(joined_text(unit.source))
        text = _Display(unit.source).file_text(edit.text)
        if end is not None and end[0] != "\n" and "\r" not in text:  # a field of a page has only \n
            text = text.replace("\n", end[0])
        parts, is_whole = restore_tags(unit.source, text)
        if edit.has_tags and not document.is_xml:
            parts = _with_new_tags(parts, unit.source)
        if edit.is_match and is_whole:
            matches.add(number)
        if not is_whole:
            restored.append(number)
        values.append((parts, edit.needs_review or not is_whole or not unit.is_valid(parts)))
    return document.with_units(values, matches), restored


def _with_new_tags(parts: Parts, source: Parts) -> Parts:
    """Return a translation with the tags in its texts as codes, but for those that are text in the source."""
    texts = {tag.text for part in source if part.kind == TEXT for tag in find_tags(part.text, TAGS)}
    return paired(
        UnitPart(one.text, TEXT if one.text in texts else one.kind)
        for part in parts
        for one in (find_tags(part.text, TAGS) if part.kind == TEXT else [part])
    )


class _Display:
    """The codes of a unit as people see them."""

    def __init__(self, source: Parts) -> None:
        self._parts = source
        self._tags = numbered_tags(source, _is_hard_to_read)
        shown = (self._tags.get(index, part.text) for index, part in enumerate(source))
        self.source = _valid("".join(shown))

    def keep(self) -> tuple[str, ...]:
        """Return the codes and spans that a translation should have, as they are shown, in their order."""
        found = list[str]()
        for index, part in enumerate(self._parts):
            if part.kind == TEXT:
                spans = span_extractor(KEPT_OF_DOCUMENTS).spans_of_text(part.text)
                found += [part.text[begin:end] for begin, end, _ in spans]
            else:
                found.append(self._tags.get(index, part.text))
        return tuple(map(_valid, found))

    def text_of(self, parts: Parts) -> str:
        """Return a translation as it is shown."""
        waiting: dict[str, deque[str]] = {}  # by code: the tags in its place
        for index, tag in self._tags.items():
            waiting.setdefault(self._parts[index].text, deque()).append(tag)
        shown = []
        for part in parts:
            tags = waiting.get(part.text) if part.kind != TEXT else None
            shown.append(tags.popleft() if tags else part.text)
        return _valid("".join(shown))

    def file_text(self, text: str) -> str:
        """Return a shown text with the codes of the file; the inverse of text_of."""
        if not self._tags:
            return text
        codes = {tag: self._parts[index].text for index, tag in self._tags.items()}
        return re.sub("|".join(map(re.escape, codes)), lambda match: codes[match[0]], text)


def _is_hard_to_read(code: str) -> bool:
    """Return whether a code is long, several tags, or no UTF-8."""
    return len(code) > MAX_CODE or "><" in code or _valid(code) != code


def _valid(text: str) -> str:
    """Return a text with U+FFFD in place of bytes that are not UTF-8."""
    return utf8(text).decode()
