"""Stand-ins for a translator of lines: what documents are tested with."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import html5lib
import openstep_plist
import polib
import srt
import webvtt
from iniparse import INIConfig
from lxml import etree
from moz.l10n.formats import Format
from moz.l10n.resource import parse_resource
from ruamel.yaml import YAML

from bytenmt.documents import formats
from bytenmt.documents.translation import (
    LineTranslation,
    TranslationReport,
    lines_to_translate,
    translate,
)
from bytenmt.documents.unit import CodedText, Document, EditedText, ReadOptions
from bytenmt.sentinels import Code, find_spans

SAMPLES = Path(__file__).parents[2] / "tests/documents/samples"


PAIR = ("en", "de")
# Formats whose codes are found again in any translation: they are elements, not marks in a text.
WITH_CODES = ("xliff", "tmx", "html", "android", "fluent", "docx")


def document(path: Path | str, data: bytes | str, pair: tuple[str, str] | None = PAIR) -> Document:
    """Return a file of the format of its suffix, to be translated from English to German."""
    content = data.encode() if isinstance(data, str) else data
    options = ReadOptions(formats.format_of(Path(path)).name, pair, "text", "translation")
    return formats.read(content, options, path)


def upper(text: str) -> str:
    """Return a text in capitals but for its kept spans."""
    pieces = list[str]()
    last = 0
    for begin, end in find_spans(text):
        pieces += [text[last:begin].upper(), text[begin:end]]
        last = end
    return "".join([*pieces, text[last:].upper()])


def capitals(line: CodedText) -> CodedText:
    """Translate a line to capitals."""
    return tuple(upper(part) if isinstance(part, str) else part for part in line)


def moved(line: CodedText) -> CodedText:
    """Translate a line to signs of many formats, its codes in another order: every other first."""
    pairs: dict[int, list[Code]] = {}
    for part in line:
        if isinstance(part, Code):
            pairs.setdefault(part.pair, []).append(part)
    words = ["B", "<b>", "&", '"q"', "\\", "|", "--", ">", "#", "{x}", "%s", "'s", "]]>", "*_`"]
    made: list[str | Code] = []
    for codes in reversed(pairs.values()):
        for code in codes:
            made += [words[len(made) % len(words)] + " ", code]
    return (*made, " ".join(words))


def translated(
    path: Path | str,
    data: bytes | str,
    how: Callable[[CodedText], CodedText] = capitals,
    flags: tuple[str, ...] = (),
    overwrite: bool = False,
) -> tuple[bytes, TranslationReport]:
    """Return a file with all its lines translated in this way, and a report."""
    made = document(path, data)
    lines = lines_to_translate(made, overwrite)
    report = translate(made, {line: LineTranslation(how(line), flags) for line in lines}, overwrite)
    return made.dump(), report


def codes_of(parts: CodedText) -> Counter[str]:
    """Return the codes of parts without the values of attributes, which may be translated."""
    return Counter(re.sub('".*"', "", one.text) for one in parts if isinstance(one, Code))


FORMATS_WITHOUT_LIBRARY = ("markdown", "tsv", "text")


def tree_of(form: str, content: bytes) -> Any:
    """Return what a format's own library reads in a file, as values that can be compared.

    For those of FORMATS_WITHOUT_LIBRARY, whose files may not change at all, the text.
    """
    if form == "docx":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        return {
            name: etree.canonicalize(data.decode()) if name.endswith(".xml") else data
            for name, data in members.items()
        }
    file = EditedText(content)
    text = file.text
    if form in ("xliff", "tmx"):
        tree = etree.fromstring(content, etree.XMLParser(resolve_entities=False))
        return etree.tostring(tree, encoding="unicode")
    if form in ("fluent", "dtd", "properties", "android"):
        pairs = re.compile(r"\\u[dD][89abAB]..\\u[dD]...")  # two escapes that are one character
        text = pairs.sub(lambda pair: json.loads(f'"{pair[0]}"'), text)
        resource = parse_resource(Format[form], text)
        return [(one.id, list(one.entries)) for one in resource.sections]
    readers: dict[str, Callable[[], Any]] = {
        "html": lambda: etree.tostring(html5lib.parse(text, treebuilder="lxml")).split(),
        "po": lambda: sorted(map(str, polib.pofile(text + "\n"))),
        "srt": lambda: list(srt.parse(text)),
        "vtt": lambda: [
            (c.start, c.end, c.text, c.identifier) for c in webvtt.from_string(text).captions
        ],
        "yaml": lambda: list(YAML(typ="safe").load_all(text)),
        "ini": lambda: str(INIConfig(io.StringIO(text))),
        "csv": lambda: list(csv.reader(io.StringIO(text, newline=""))),
        "strings": lambda: openstep_plist.loads(f"{{{text}}}"),
        "json": lambda: json.loads(text),
        "arb": lambda: json.loads(text),
    } | dict.fromkeys(FORMATS_WITHOUT_LIBRARY, lambda: text)
    return readers[form]()
