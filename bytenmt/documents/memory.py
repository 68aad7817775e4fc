"""Translation memories: sources with their translations.

Sources that differ only in inline codes, placeholders, tags or addresses count as the same: the translation
gets those of the text that is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from bytenmt.decoding.confidence import NO_TEXT
from bytenmt.documents import formats
from bytenmt.documents.formats import UnitPair
from bytenmt.documents.lines import ENDS, is_icu_message
from bytenmt.documents.unit import CodedText, Context, merge_strings, to_markup
from bytenmt.errors import DataError
from bytenmt.sentinels import Code, find_spans

FINAL = re.compile(rf"\s*(?:{'|'.join(re.escape(sign) for signs in ENDS for sign in signs)})$")
IN_TEXT = -2  # pair of a code that stands for a span of a text, inside this module only


class TranslationMemory:
    """Stored translations of units, found by the source text and used in place of a model.

    It is made of triples: source and translation, each a tuple of strings and codes, and the unit's name.

    >>> memory = TranslationMemory([(("Open %s",), ("%s öffnen",), "")])
    >>> memory.match((" Open {name}",))
    (' {name} öffnen',)
    """

    def __init__(self, pairs: Iterable[UnitPair]) -> None:
        """pairs: source, translation and name of each entry; of equal source and name, the last counts."""
        # By the source with a zero byte for each code, and by the name: the codes, and the translation.
        self._entries = dict[str, dict[str, tuple[list[Code], list[str | Code]]]]()
        for source, target, name in pairs:
            key, codes = _template(_split(source))
            same = self._entries.setdefault(key, {})
            same.pop(name, None)
            same[name] = codes, _split(target)

    @classmethod
    def from_file(cls, path: Path, pair: tuple[str, str] | None = None) -> TranslationMemory:
        """Read the translated units of a TMX, XLIFF or PO file, or the first two columns of a CSV or TSV.

        pair: source and target language, which a TMX needs. Raises DataError, also if there are none.
        """
        memory = cls(formats.unit_pairs(path, formats.format_of(path), pair))
        if not memory._entries:
            languages = "" if pair is None else f" {pair[0]} and {pair[1]}"
            raise DataError(f"{path} has no pair of texts{languages} that are translated")
        return memory

    def match(self, source: CodedText, name: str = "") -> CodedText | None:
        """Return the stored translation with the codes, placeholders and outer white space of `source`.

        None if there is none, or if it is unclear which code belongs where. Of several translations that of
        the unit with the same name is used, else the one stored last whose name is no Context.
        """
        key, codes = _template(_split(source))
        entries = self._entries.get(key, {})
        others = [entry for other, entry in entries.items() if not isinstance(other, Context)]
        if name not in entries and not others:
            return None
        before, target = entries.get(name) or others[-1]
        waiting = dict[str, list[Code]]()
        for stored_code, code in zip(before, codes, strict=True):
            waiting.setdefault(stored_code.text, []).append(code)
        # Which of several that were alike is which in the translation is not known.
        if any(len({code.text for code in same}) > 1 for same in waiting.values()):
            return None
        parts = list[str | Code]()
        for part in target:
            same = waiting.get(part.text, []) if isinstance(part, Code) else []
            slot = same.pop(0) if same else part
            parts.append(slot.text if isinstance(slot, Code) and slot.pair == IN_TEXT else slot)
        text = to_markup(source)
        return merge_strings([text[: len(text) - len(text.lstrip())], *parts, text[len(text.rstrip()) :]])

    def match_line(self, line: CodedText, name: str) -> CodedText | None:
        """Return the stored translation of a line, UnitLine.parts, of the unit with this name.

        A final sign (lines.ENDS) may be missing in the memory: UnitLine.restore adds it.
        """
        *before, last = line
        bare = merge_strings([*before, FINAL.sub("", last) if isinstance(last, str) else last])
        return self.match(line, name) or self.match(bare, name)


def _split(parts: CodedText) -> list[str | Code]:
    """Return parts with the kept spans of their texts as codes, without white space at the ends."""
    parts_and_spans, is_whole = list[str | Code](), is_icu_message(parts)
    for part in parts:
        if isinstance(part, Code) or is_whole:
            parts_and_spans.append(part)
            continue
        last = 0
        for begin, end in find_spans(part, NO_TEXT):
            parts_and_spans += [part[last:begin], Code(part[begin:end], IN_TEXT)]
            last = end
        parts_and_spans.append(part[last:])
    parts_and_spans[:1] = [part.lstrip() if isinstance(part, str) else part for part in parts_and_spans[:1]]
    parts_and_spans[-1:] = [part.rstrip() if isinstance(part, str) else part for part in parts_and_spans[-1:]]
    return parts_and_spans


def _template(parts: list[str | Code]) -> tuple[str, list[Code]]:
    """Return a text with a zero byte in place of each code, and the codes."""
    key = "".join(part if isinstance(part, str) else "\0" for part in parts)
    return key, [part for part in parts if isinstance(part, Code)]
