"""JSON and ARB: a unit for each value that is a string; everything else stays as it is.

Of Chrome's messages only `message` is translated, and of ARB no metadata (keys with @).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from json import decoder, scanner
from typing import Any

from bytenmt.documents.unit import Document, EditedText, ReadOptions, Unit, text_writer

CHROME_KEYS = frozenset(("message", "description", "placeholders", "hash"))  # of a message
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which no file can hold


class _String(str):
    """A string with its place in the file, quotes included."""

    start: int
    end: int


class _Decoder(json.JSONDecoder):
    """Python's decoder, whose strings know their places."""

    def __init__(self) -> None:
        # As numbers, integers of more than 4,300 digits are refused.
        super().__init__(parse_int=str)
        self.parse_string = _scan_string
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]


def _scan_string(text: str, begin: int, strict: bool = True) -> tuple[_String, int]:
    value, end = decoder.scanstring(text, begin, strict)  # type: ignore[attr-defined]
    string = _String(value)
    string.start = begin - 1
    string.end = end
    return string, end


def read(data: bytes, options: ReadOptions) -> Document:
    """Read JSON or ARB: a translation unit for each string value.

    The language in ARB's @@locale becomes the target language of options.pair. Raises DataError if
    the bytes are not valid text, ValueError if the text is not JSON.
    """
    file = EditedText(data)
    root = _Decoder().decode(file.text)
    locale = root.get("@@locale") if isinstance(root, dict) else None
    if isinstance(locale, _String) and (target := options.target_to_declare(locale)):
        file.replace(locale.start, locale.end, json.dumps(target.replace("-", "_")))
    has_escapes = file.text.isascii() and "\\u" in file.text
    units = [_unit(file, has_escapes, *entry) for entry in _strings(root, "")]
    return Document(units, file.dump)


def _strings(value: Any, name: str) -> Iterator[tuple[str, _String]]:
    """Yield the strings to translate, with the keys that lead to each."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, list):
        items = enumerate(value)
    elif isinstance(value, dict):
        items = [item for item in value.items() if item[0][:1] != "@"]
        if isinstance(value.get("message"), str) and value.keys() <= CHROME_KEYS:
            items = [("message", value["message"])]
    elif isinstance(value, _String) and not SURROGATE.search(value):
        yield name, value
    for key, item in items:
        yield from _strings(item, f"{name}.{key}".lstrip("."))


def _unit(file: EditedText, has_escapes: bool, name: str, value: _String) -> Unit:
    def put(text: str) -> None:
        file.replace(value.start, value.end, json.dumps(text, ensure_ascii=has_escapes))

    return Unit([str(value)], text_writer(put), file.line(value.start), name)
