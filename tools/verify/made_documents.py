"""Write the lines of a text as documents of every format, for tools/verify/documents.py --lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

EACH = 50  # lines of a document


def write_documents(lines: Sequence[str], folder: Path) -> None:
    """Write the lines as documents of every format below the folder, EACH lines to a file."""
    for suffix, write in WRITERS.items():
        for first in range(0, len(lines), EACH):
            path = folder / f"{first:05}.{suffix}"
            path.write_text(write(lines[first : first + EACH]), encoding="utf-8", newline="")


def _each(template: str, lines: Sequence[str], quoted: Callable[[str], str] = escape) -> str:
    """Fill a template for every line: # with its number and @ with its text. quoted: escapes the text."""
    return "".join(template.replace("#", str(n)).replace("@", quoted(line)) for n, line in enumerate(lines))


def _tmx(lines: Sequence[str]) -> str:
    program = 'creationtool="x" creationtoolversion="1" o-tmf="x"'
    header = f'<header {program} segtype="block" adminlang="en" srclang="en" datatype="plaintext"/>'
    unit = '<tu tuid="#"><tuv xml:lang="en"><seg>@</seg></tuv></tu>\n'
    return f'<?xml version="1.0"?>\n<tmx version="1.4">{header}<body>\n{_each(unit, lines)}</body></tmx>\n'


def _xliff(lines: Sequence[str]) -> str:
    file = '<file original="x" source-language="en" target-language="fr" datatype="plaintext"><body>'
    namespace = "urn:oasis:names:tc:xliff:document:1.2"
    units = _each('<trans-unit id="#"><source>@</source></trans-unit>\n', lines)
    return f'<xliff version="1.2" xmlns="{namespace}">{file}\n{units}</body></file></xliff>\n'


def _po(lines: Sequence[str]) -> str:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    return head + _each('msgid "@"\nmsgstr ""\n\n', lines, _quoted)


def _quoted(line: str) -> str:
    """Escape backslashes and double quotes."""
    return line.replace("\\", "\\\\").replace('"', '\\"')


def _resources(lines: Sequence[str]) -> str:
    strings = _each('<string name="s#">@</string>\n', lines, lambda s: escape(_quoted(s).replace("'", "\\'")))
    return f"<resources>\n{strings}</resources>\n"


def _csv(lines: Sequence[str]) -> str:
    file = io.StringIO()
    csv.writer(file).writerows([line, "kept"] for line in lines)
    return file.getvalue()


_CUE = "00:00:00{0}000 --> 00:00:05{0}000\n@\n\n"
WRITERS: dict[str, Callable[[Sequence[str]], str]] = {
    "tmx": _tmx,
    "xliff": _xliff,
    "po": _po,
    "srt": lambda lines: _each("#\n" + _CUE.format(","), lines, str),
    "vtt": lambda lines: "WEBVTT\n\n" + _each(_CUE.format("."), lines),
    "html": lambda lines: f"<!doctype html>\n<html><body>\n{_each('<p>@</p>', lines)}</body></html>\n",
    "md": lambda lines: _each("@\n\n", lines, str),
    "json": lambda lines: json.dumps({f"key{n}": line for n, line in enumerate(lines)}, indent=1),
    "properties": lambda lines: _each("key#=@\n", lines, _quoted),
    "strings": lambda lines: _each('"key#" = "@";\n', lines, _quoted),
    "xml": _resources,
    "csv": _csv,
    "tsv": lambda lines: _each("@\tkept\n", lines, str),
    "txt": lambda lines: _each("@\n\n", lines, str),
}
