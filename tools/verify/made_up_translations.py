"""Stand-ins for a translator of lines: what documents are tested with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bytenmt.documents import formats
from bytenmt.documents.translation import LineTranslation, TranslationReport, lines_to_translate, translate
from bytenmt.documents.unit import Document, Parts, ReadOptions
from bytenmt.sentinels import Code, find_spans

SAMPLES = Path(__file__).parents[2] / "tests/documents/samples"


PAIR = ("en", "de")


def document(path: Path | str, data: bytes | str, pair: tuple[str, str] | None = PAIR) -> Document:
    """Return a file of the format of its suffix, to be translated from English to German."""
    content = data.encode() if isinstance(data, str) else data
    options = ReadOptions(formats.format_of(Path(path)), pair, "text", "translation")
    return formats.read(content, options, path)


def upper(text: str) -> str:
    """Return a text in capitals but for its kept spans."""
    pieces, last = list[str](), 0
    for begin, end in find_spans(text):
        pieces += [text[last:begin].upper(), text[begin:end]]
        last = end
    return "".join([*pieces, text[last:].upper()])


def capitals(line: Parts) -> Parts:
    """Translate a line to capitals."""
    return tuple(upper(part) if isinstance(part, str) else part for part in line)


def moved(line: Parts) -> Parts:
    """Translate a line to signs of many formats, with all codes in another order: every other pair first."""
    pairs = {
        part.pair: [one for one in line if isinstance(one, Code) and one.pair == part.pair]
        for part in line
        if isinstance(part, Code)
    }
    words = ["B", "<b>", "&", '"q"', "\\", "|", "--", ">", "#", "{x}", "%s", "'s", "]]>", "*_`"]
    made: list[str | Code] = []
    for codes in reversed(pairs.values()):
        for code in codes:
            made += [words[len(made) % len(words)] + " ", code]
    return (*made, " ".join(words))


def translated(
    path: Path | str,
    data: bytes | str,
    how: Callable[[Parts], Parts] = capitals,
    flags: tuple[str, ...] = (),
    overwrite: bool = False,
) -> tuple[bytes, TranslationReport]:
    """Return a file with all its lines translated in this way, and a report."""
    made = document(path, data)
    lines = lines_to_translate(made, overwrite)
    report = translate(made, {line: LineTranslation(how(line), flags) for line in lines}, overwrite)
    return made.dump(), report


def codes_of(parts: Parts) -> Counter[str]:
    """Return the codes of parts without the values of attributes, which may be translated."""
    return Counter(re.sub('".*"', "", one.text) for one in parts if isinstance(one, Code))
