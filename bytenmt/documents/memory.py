"""Translation memories: sources with their translations.

Sources that differ only in placeholders, tags, addresses or numbers count as the same: the translation gets
those of the text that is looked up. Of two translations of one source the one with the same context or key is
used, else the later one in the file, since programs append what was corrected last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bytenmt.documents import formats
from bytenmt.documents.formats import UnitPair
from bytenmt.documents.lines import is_icu_message
from bytenmt.documents.unit import Parts, joined, merged
from bytenmt.errors import DataError
from bytenmt.sentinels import Code, compile_patterns, find_spans

NUMBER = re.compile(r"\d+(?:[.,'\u00a0\u202f]\d+)*")
PATTERNS = compile_patterns(own=(NUMBER.pattern,))
IN_TEXT = -2  # pair of a code that stands for a span of a text, inside this module only


class _Entry(NamedTuple):
    """The texts of the codes, spans and numbers of a source, its translation, and the name of its unit."""

    slots: tuple[str, ...]
    target: Parts
    name: str


class TranslationMemory:
    """Texts with their translations.

    >>> memory = TranslationMemory.from_texts([("Delete 3 files", "3 Dateien löschen")])
    >>> memory.translation("Delete 5 files")
    '5 Dateien löschen'
    """

    def __init__(self, pairs: Iterable[UnitPair]) -> None:
        """pairs: source and translation of each entry, the later ones win."""
        # By the source without its slots, and then by these and the name, the latest one last.
        self._entries = dict[str, dict[object, _Entry]]()
        for source, target, name in pairs:
            key, codes = _template(source)
            entry = _Entry(tuple(code.text for code in codes), target, name)
            same = self._entries.setdefault(key, {})
            same.pop((entry.slots, name), None)
            same[entry.slots, name] = entry

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    @classmethod
    def from_texts(cls, pairs: Iterable[tuple[str, str]]) -> TranslationMemory:
        """Return a memory of plain texts."""
        return cls(((source,), (target,), "") for source, target in pairs)

    @classmethod
    def from_file(cls, path: Path, pair: tuple[str, str] | None = None) -> TranslationMemory:
        """Read the translated units of a TMX, XLIFF or PO file, or a table source TAB translation.

        pair: source and target language, which a TMX needs. Raises DataError; also where there is nothing.
        """
        memory = cls(formats.unit_pairs(path, formats.format_of(path), pair))
        if not memory:
            languages = "" if pair is None else f" {pair[0]} and {pair[1]}"
            raise DataError(f"{path} has no pair of texts{languages} that are translated")
        return memory

    def match(self, source: Parts, name: str = "") -> tuple[Parts, bool] | None:
        """Return the stored translation of a source, None if the memory has none.

        Beside it, whether it is of another name while the memory translates the source in several ways.
        A span is exchanged only where source and translation of the entry have the same ones, and a number
        not where one of the two is 1, which other words may go with, or where only one has separators.
        """
        key, codes = _template(source)
        slots = tuple(code.text for code in codes)
        entries = list(reversed(self._entries.get(key, {}).values()))
        exact = [one for one in entries if one.slots == slots]
        found = {
            one.name: made
            for one in reversed(exact or ([] if is_icu_message(source) else entries))
            if (made := _with_codes(one, codes, bool(exact))) is not None
        }
        if not found:
            return None
        target = found.get(name, list(found.values())[-1])
        text = joined(source)
        before, behind = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        is_of_other = name not in found and any(one != target for one in found.values())
        return merged([before, *target, behind]), is_of_other

    def translation(self, source: str) -> str | None:
        """Return the translation of a plain text, None if it is not in the memory; see match."""
        match = self.match((source,))
        return None if match is None else joined(match[0])


def _split(parts: Parts) -> list[str | Code]:
    """Return parts with the spans and numbers of their texts as codes, without white space at the ends."""
    made = list[str | Code]()
    for part in parts:
        last = 0
        for begin, end in find_spans(part, PATTERNS) if isinstance(part, str) else ():
            made += [str(part)[last:begin], Code(str(part)[begin:end], IN_TEXT)]
            last = end
        made.append(part[last:] if isinstance(part, str) else part)
    made[:1] = [one.lstrip() if isinstance(one, str) else one for one in made[:1]]
    made[-1:] = [one.rstrip() if isinstance(one, str) else one for one in made[-1:]]
    return made


def _template(source: Parts) -> tuple[str, list[Code]]:
    """Return a text with a zero byte in place of each code, span and number, and these."""
    split = _split(source)
    key = "".join(part if isinstance(part, str) else "\0" for part in split)
    return key, [part for part in split if isinstance(part, Code)]


def _with_codes(entry: _Entry, codes: Sequence[Code], is_exact: bool) -> Parts | None:
    """Return the translation of an entry with other codes in its slots, or None where that is not safe."""
    waiting, made = dict[str, list[Code]](), list[str | Code]()
    for before, code in zip(entry.slots, codes, strict=True):
        same = waiting.setdefault(before, [])
        same.append(code)
        is_number = NUMBER.fullmatch(before) or NUMBER.fullmatch(code.text)
        signs = [re.sub(r"\d+", "", one) for one in (before, code.text)]
        has_other_form = is_number and ("1" in (before, code.text) or signs[0] != signs[1])
        if same[0].text != code.text or (has_other_form and before != code.text):
            return None
    for part in _split(entry.target):
        same = waiting.get(part.text, []) if isinstance(part, Code) else []
        if isinstance(part, Code) and not (same or is_exact):
            return None
        one = same.pop(0) if same else part
        made.append(one.text if isinstance(one, Code) and one.pair == IN_TEXT else one)
    return merged(made) if is_exact or not any(waiting.values()) else None
