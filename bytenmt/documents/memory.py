"""Translation memories: sources with their translations, looked up exactly or by similarity.

Sources that differ only in placeholders, tags, addresses or numbers count as the same: the translation gets
those of the text that is looked up. Of two translations of one source the one with the same context or key is
used, else the later one in the file, since programs append what was corrected last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bytenmt.decoding.setting_table import KEPT
from bytenmt.documents import formats
from bytenmt.documents.document import ALONE, CLOSE, OPEN, TEXT, Parts, UnitPart, joined_text
from bytenmt.documents.formats import UnitPair
from bytenmt.documents.html import unescape_text
from bytenmt.documents.inline_tags import kind_of_tag, paired
from bytenmt.documents.markup import TAG
from bytenmt.errors import DataError
from bytenmt.spans.extractor import span_extractor

NUMBER, ADDRESS = "number", "address"  # kinds of parts beside those of document.py, inside this module only
KIND_OF_SPAN = {"numbers": NUMBER, "urls": ADDRESS, "emails": ADDRESS, "placeholders": ALONE}
SLOTS = {NUMBER: "\0n", ADDRESS: "\0a", ALONE: "\0p", OPEN: "\0o", CLOSE: "\0c"}
MAY_HAVE_SPANS = re.compile(r"[0-9<{%$\[@]|://|www\.")
# A code of TMX or XLIFF 1.2 with the program's own code inside, and a tag of XLIFF that stands for one.
NATIVE = re.compile(r"<(?:bpt|ept|it|ph|ut)\b[^<>]*>(.*)</\w+\s*>", re.DOTALL)
OF_XLIFF = re.compile(r"</?(?:g|x|bx|ex|mrk|pc|sc|ec|ph)\b")
MOST_TRIED = 20  # entries that differ in their spans alone, of which the last ones are tried
LEAST_SCORE = 70.0  # of a fuzzy match


_Name = tuple[str, bool]  # name and has_context of a unit
_Translations = dict[_Name, Parts]  # the latest one last


class FuzzyMatch(NamedTuple):
    """An entry whose source resembles a text. score: 100 for the same text, as rapidfuzz.fuzz.ratio."""

    score: float
    source: str
    target: str


class MemoryMatch(NamedTuple):
    """A translation from a memory.

    is_exact: whether the source is the same, its placeholders too. is_other_context: whether the entry has
    another context, or another key while the memory translates the source in several ways.
    """

    target: Parts
    is_exact: bool
    is_other_context: bool = False


class TranslationMemory:
    """Texts with their translations, looked up exactly (`match`) or by similarity.

    >>> memory = TranslationMemory.from_texts([("Delete 3 files", "3 Dateien löschen")])
    >>> memory.translation("Delete 5 files")
    '5 Dateien löschen'
    >>> memory.fuzzy("Delete files")
    [FuzzyMatch(score=92.3..., source='Delete 3 files', target='3 Dateien löschen')]
    """

    def __init__(self, pairs: Iterable[UnitPair]) -> None:
        """pairs: source and translation of each entry, the later ones win."""
        # By the source with a slot for each span, and then by the texts of the spans.
        self._entries: dict[str, dict[tuple[str, ...], _Translations]] = {}
        self._texts: dict[str, str] = {}
        for source, target, name, has_context in pairs:
            key, spans = _template(_split(source))
            same = self._entries.setdefault(key, {})
            named = same[spans] = same.pop(spans, {})  # so that the new one is the last
            named.pop((name, has_context), None)
            named[name, has_context] = _split(target)
            self._texts[joined_text(source).strip()] = joined_text(target).strip()

    def __len__(self) -> int:
        return len(self._texts)

    @classmethod
    def from_texts(cls, pairs: Iterable[tuple[str, str]]) -> TranslationMemory:
        """Return a memory of plain texts."""
        return cls(UnitPair((UnitPart(source),), (UnitPart(target),)) for source, target in pairs)

    @classmethod
    def from_file(cls, path: Path, pair: tuple[str, str] | None = None) -> TranslationMemory:
        """Read the translated units of a TMX, XLIFF or PO file, or a table source TAB translation.

        pair: source and target language, which a TMX needs. Raises DataError; also where there is nothing.
        """
        from bytenmt.data.text_file import pieces_of  # imports Numba, which a server's child does without

        return cls.from_pieces(pieces_of(path), formats.format_of(path), path, pair)

    @classmethod
    def from_pieces(
        cls, pieces: Iterable[bytes], name: str, path: Path, pair: tuple[str, str] | None
    ) -> TranslationMemory:
        """Read a memory from the bytes of a file. name: of its format; path: for messages; see from_file."""
        memory = cls(formats.unit_pairs(pieces, name, path, pair, strict=True))
        if not memory:
            languages = "" if pair is None else f" {pair[0]} and {pair[1]}"
            raise DataError(f"{path} has no pair of texts{languages} that are translated")
        return memory

    def match(
        self, source: Parts, is_xml: bool = False, name: str = "", has_context: bool = False
    ) -> MemoryMatch | None:
        """Return the stored translation of a source, or None if the memory has none.

        Sources match that are equal, or equal but for placeholders, tags and numbers; those of the given
        source then replace the stored ones in the translation.

        A span is exchanged only where source and translation of the entry have the same ones, and a number
        not where one of the two is 1, which other words may go with, or where only one has separators.

        is_xml: whether the document of the source is XML, where a tag that only the translation has is text.
        name, has_context: see Unit.
        """
        key, spans = _template(_split(source))
        same = self._entries.get(key, {})
        is_exact = spans in same
        tried = [(spans, same[spans])] if is_exact else list(islice(reversed(same.items()), MOST_TRIED))
        found = [
            (named, other)
            for old, translations in tried
            for named, target in _latest(translations, (name, has_context))
            if (other := target if is_exact else _with_spans(old, target, spans)) is not None
        ]
        if not found:
            return None
        chosen, target = next((one for one in found if one[0] == (name, has_context)), found[0])
        is_other = chosen != (name, has_context) and (
            (chosen[1] and has_context) or any(one != target for named, one in found if named != chosen)
        )
        parts = _with_blanks(source, _in_document(target, source, spans, is_xml))
        return MemoryMatch(parts, is_exact, is_other)

    def translation(self, source: str) -> str | None:
        """Return the translation of a plain text, None if it is not in the memory; see match."""
        match = self.match((UnitPart(source),))
        return None if match is None else joined_text(match.target)

    def fuzzy(self, source: str, limit: int = 3, least: float = LEAST_SCORE) -> list[FuzzyMatch]:
        """Return the entries whose sources resemble a text most, the best first.

        least: the lowest score. Comparing with 100,000 entries takes some hundredths of a second.
        """
        from rapidfuzz import fuzz, process

        found = process.extract(
            source.strip(), self._texts.keys(), scorer=fuzz.ratio, limit=limit, score_cutoff=least
        )
        return [FuzzyMatch(score, text, self._texts[text]) for text, score, _ in found]


def _latest(translations: _Translations, name: _Name) -> Iterable[tuple[_Name, Parts]]:
    """Return the translation of a name, if there is one, and the latest ones of other names."""
    own = {name: translations[name]} if name in translations else {}
    return (own | dict(islice(reversed(translations.items()), MOST_TRIED))).items()


def _split(parts: Parts) -> Parts:
    """Return parts with the spans of their texts as own parts, and with codes as programs write them.

    So the parts of files of several formats are the same. Blanks at the ends are dropped.
    """
    split: list[UnitPart] = []
    for part in parts:
        last = 0
        if part.kind == TEXT and MAY_HAVE_SPANS.search(part.text):
            for begin, end, of in span_extractor(KEPT).spans_of_text(part.text):
                text = part.text[begin:end]
                kind = KIND_OF_SPAN[of] if of in KIND_OF_SPAN else kind_of_tag(text)
                split += [UnitPart(part.text[last:begin]), UnitPart(text, kind)]
                last = end
        split.append(UnitPart(part.text[last:]) if part.kind == TEXT else _as_in_programs(part))
    for at, strip in ((0, str.lstrip), (-1, str.rstrip)):
        if split and split[at].kind == TEXT:
            split[at] = UnitPart(strip(split[at].text))
    return paired(split)


def _as_in_programs(code: UnitPart) -> UnitPart:
    """Return a code without the escapes and the element that its file puts around it: <b> of &lt;b&gt;."""
    inside = NATIVE.fullmatch(code.text)
    text = unescape_text(inside[1] if inside else code.text) or code.text
    is_tag = text != code.text and text.startswith("<")
    return UnitPart(text, kind_of_tag(text) if is_tag else code.kind)


def _template(split: Parts) -> tuple[str, tuple[str, ...]]:
    """Return a text with a slot in place of each code, span and number, and what stands in the slots."""
    key = "".join(part.text if part.kind == TEXT else SLOTS[part.kind] for part in split)
    return key, tuple(part.text for part in split if part.kind != TEXT)


def _with_spans(old: tuple[str, ...], target: Parts, new: tuple[str, ...]) -> Parts | None:
    """Return a translation with other spans than its source has, or None where that is not safe.

    old, new: the spans of the entry's source and of the text that is looked up, slot by slot.
    """
    if Counter(part.text for part in target if part.kind != TEXT) != Counter(old):
        return None
    exchanged: dict[str, str] = {}
    for before, after in zip(old, new, strict=True):
        if exchanged.setdefault(before, after) != after or (before == "1") != (after == "1"):
            return None
    if any(
        _separators(part.text) != _separators(exchanged[part.text]) for part in target if part.kind == NUMBER
    ):
        return None
    return tuple(part if part.kind == TEXT else UnitPart(exchanged[part.text], part.kind) for part in target)


def _separators(number: str) -> str:
    """Return the signs of a number that languages write in different ways: of 1,000.5 the comma and dot."""
    return "".join(sign for sign in number if not sign.isdecimal())


def _in_document(target: Parts, source: Parts, spans: Collection[str], is_xml: bool) -> Parts:
    """Return a translation with its codes as they are written in the document of a source.

    spans: those of the source. A code that the source lacks is a tag of the document, or text where it is
    XML; of what stands for a tag in XLIFF alone, such as <g id="1">, only the text in it is kept.
    """
    codes = {_as_in_programs(part).text: part for part in source if part.kind != TEXT}
    parts = list[UnitPart]()
    for part in target:
        if part.kind in (TEXT, NUMBER, ADDRESS):
            parts.append(UnitPart(part.text))
        elif part.text in codes:
            parts.append(codes[part.text])
        elif part.text in spans or not OF_XLIFF.match(part.text):
            parts.append(UnitPart(part.text, TEXT if is_xml or part.text in spans else part.kind))
        else:
            parts.append(UnitPart(TAG.sub("", part.text)))
    return tuple(parts)


def _with_blanks(source: Parts, target: Parts) -> Parts:
    """Return a translation with the white space around its source."""
    text = joined_text(source)
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return paired([UnitPart(before), *target, UnitPart(after)])
