"""Translation memories: sources with their translations.

Sources that differ only in inline codes, placeholders, tags or addresses count as the same: the
translation gets those of the text that is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bytenmt.documents import formats
from bytenmt.documents.codes import codes_of, is_in_text, split_spans
from bytenmt.documents.formats import UnitPair
from bytenmt.documents.unit import CodedText, Context, merge_strings, to_markup
from bytenmt.errors import DataError
from bytenmt.sentinels import Code


class TranslationMemory:
    """Stored translations of units, found by the source text and used in place of a model.

    >>> memory = TranslationMemory([(("Open %s",), ("%s öffnen",), "")])
    >>> memory.match(("Open {name}",))
    ('{name} öffnen',)
    """

    def __init__(self, pairs: Iterable[UnitPair]) -> None:
        """pairs: (source, translation, name) of units; of equal sources and names the last counts.

        A name is an id, key or context, "" for none.
        """
        # By the source with None for each code, and by the name: the codes, and the translation.
        self._entries = dict[tuple[str | None, ...], dict[str, tuple[list[Code], CodedText]]]()
        for source, target, name in pairs:
            key, codes = _template(source)
            same = self._entries.setdefault(key, {})
            same.pop(name, None)
            same[name] = codes, split_spans(target)

    @classmethod
    def from_file(cls, path: Path, pair: tuple[str, str] | None = None) -> TranslationMemory:
        """Read the translated units of a TMX, XLIFF or PO file, or two columns of a table.

        pair: source and target language, which a TMX needs. Raises DataError, also for no units.
        """
        memory = cls(formats.unit_pairs(path, formats.format_of(path), pair))
        if not memory._entries:
            languages = f" {pair[0]} and {pair[1]}" if pair else ""
            raise DataError(f"{path} has no pair of texts{languages} that are translated")
        return memory

    def match(self, source: CodedText, name: str = "") -> CodedText | None:
        """Return the stored translation of a text, with the codes and placeholders of `source`.

        None if there is none, or if it is unclear which code belongs where. source: a unit's text,
        or a line of it. name: id, key or context of the unit. Of several stored units with this
        source the one of the same name counts, else the last one whose name is no Context.
        """
        key, codes = _template(source)
        entries = self._entries.get(key, {})
        others = [entry for other, entry in entries.items() if not isinstance(other, Context)]
        if name not in entries and not others:
            return None
        stored_codes, target = entries.get(name) or others[-1]
        replacements = dict[str, list[Code]]()
        for stored, code in zip(stored_codes, codes, strict=True):
            equal = replacements.setdefault(stored.text, [])
            equal.append(code)
            # It is unknown which of several equal stored codes is which in the translation.
            if code.text != equal[0].text:
                return None
        parts = list[str | Code]()
        for part in target:
            if isinstance(part, Code) and replacements.get(part.text):
                part = replacements[part.text].pop(0)
            parts.append(to_markup([part]) if is_in_text(part) else part)
        return merge_strings(parts)


def _template(parts: CodedText) -> tuple[tuple[str | None, ...], list[Code]]:
    """Return a text with None in place of each code and each kept span, and these as codes."""
    split = split_spans(parts)
    texts = tuple(part if isinstance(part, str) else None for part in split)
    return texts, codes_of(split)
