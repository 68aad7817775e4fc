"""Translation memories: sources with their translations.

Sources that differ only in inline codes, placeholders, tags or addresses count as the same: the
translation gets those of the text that is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bytenmt.documents import formats
from bytenmt.documents.formats import UnitPair
from bytenmt.documents.lines import IN_TEXT, split_spans
from bytenmt.documents.unit import CodedText, Context, merge_strings
from bytenmt.errors import DataError
from bytenmt.sentinels import Code


class TranslationMemory:
    """Stored translations of units, found by the source text and used in place of a model.

    It is made of triples: source and translation, each a tuple of strings and codes, and the unit's
    name.

    >>> memory = TranslationMemory([(("Open %s",), ("%s öffnen",), "")])
    >>> memory.match(("Open {name}",))
    ('{name} öffnen',)
    """

    def __init__(self, pairs: Iterable[UnitPair]) -> None:
        """pairs: source, translation and name of each entry; of equal source and name, the last
        counts."""
        # By the source with None for each code, and by the name: the codes, and the translation.
        self._entries = dict[tuple[str | None, ...], dict[str, tuple[list[Code], CodedText]]]()
        for source, target, name in pairs:
            key, codes = _template(source)
            same = self._entries.setdefault(key, {})
            same.pop(name, None)
            same[name] = codes, split_spans(target)

    @classmethod
    def from_file(cls, path: Path, pair: tuple[str, str] | None = None) -> TranslationMemory:
        """Read the translated units of a TMX, XLIFF or PO file, or the first two columns of a CSV
        or TSV.

        pair: source and target language, which a TMX needs. Raises DataError, also if there are
        none.
        """
        memory = cls(formats.unit_pairs(path, formats.format_of(path), pair))
        if not memory._entries:
            languages = "" if pair is None else f" {pair[0]} and {pair[1]}"
            raise DataError(f"{path} has no pair of texts{languages} that are translated")
        return memory

    def match(self, source: CodedText, name: str = "") -> CodedText | None:
        """Return the stored translation of a unit, or of a line of it, with the codes and spans of
        `source`.

        None if there is none, or if it is unclear which code belongs where. Of several translations
        that of the unit with the same name is used, else the one stored last whose name is no
        Context.
        """
        key, codes = _template(source)
        entries = self._entries.get(key, {})
        others = [entry for other, entry in entries.items() if not isinstance(other, Context)]
        if name not in entries and not others:
            return None
        before, target = entries.get(name) or others[-1]
        waiting = dict[str, list[Code]]()
        for stored, code in zip(before, codes, strict=True):
            waiting.setdefault(stored.text, []).append(code)
        # Which of several that were alike is which in the translation is not known.
        if any(len({code.text for code in same}) > 1 for same in waiting.values()):
            return None
        parts = list[str | Code]()
        for part in target:
            same = waiting.get(part.text) if isinstance(part, Code) else None
            new = same.pop(0) if same else part
            parts.append(new.text if isinstance(new, Code) and new.pair == IN_TEXT else new)
        return merge_strings(parts)


def _template(parts: CodedText) -> tuple[tuple[str | None, ...], list[Code]]:
    """Return a text with None in place of each code and each span that is kept, and these as codes."""
    split = split_spans(parts)
    codes = [part for part in split if isinstance(part, Code)]
    return tuple(None if isinstance(part, Code) else part for part in split), codes
