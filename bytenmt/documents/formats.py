"""The formats of documents by name and by suffix, and a file read as one.

Knows files and formats; knows no translator.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bytenmt.documents import html, markdown, markup, plain, po, strings, subtitles, tmx, xliff
from bytenmt.documents.document import Document, Malformed, Parts, Unit, decode, flat, marked
from bytenmt.documents.segments import utf8
from bytenmt.errors import BytenmtError, DataError


class Wanted(NamedTuple):
    """What a file does not tell of itself. pair: source and target language; column, into: of a table.
    encoding: of the file. strict: whether bytes that are not UTF-8 are an error."""

    pair: tuple[str, str] | None = None
    column: str | None = None
    into: str | None = None
    encoding: str | None = None
    strict: bool = False


class Format(NamedTuple):
    """suffixes: of files. read: the units of a text. encoding: what the bytes say of theirs. charref: whether
    any character can be written in ASCII. options: of Wanted, those that mean something here."""

    suffixes: tuple[str, ...]
    read: Callable[[str, Wanted], list[Unit]]
    encoding: Callable[[bytes], str | None] = lambda _: None
    charref: bool = False
    options: tuple[str, ...] = ()


def _declared(data: bytes) -> str | None:
    declared = markup.DECLARED.match(data)
    return None if declared is None else declared[1].decode()


def _json(data: bytes) -> str | None:
    if data[:1] == b"\0" or data[1:2] == b"\0":
        return "utf-16" if data[:4].count(0) == 2 else "utf-32"
    return None


_TABLE = ("column", "into")
FORMATS: dict[str, Format] = {
    "tmx": Format((".tmx",), lambda text, wanted: tmx.read(text, wanted.pair), _declared, True, ("pair",)),
    "xliff": Format(
        (".xlf", ".xliff", ".xlif", ".mxliff", ".sdlxliff"),
        lambda text, wanted: xliff.read(text, wanted.pair),
        _declared,
        True,
        ("pair",),
    ),
    "po": Format((".po", ".pot"), lambda text, _: po.read(text), po.charset),
    "srt": Format((".srt",), lambda text, _: subtitles.read_srt(text)),
    "vtt": Format((".vtt",), lambda text, _: subtitles.read_vtt(text)),
    "html": Format((".html", ".htm", ".xhtml"), lambda text, _: html.read(text), html.charset, True),
    "markdown": Format((".md", ".markdown", ".mdown"), lambda text, _: markdown.read(text)),
    "json": Format((".json", ".arb"), lambda text, _: strings.read_json(text), _json),
    "properties": Format(
        (".properties",), lambda text, _: strings.read_properties(text), strings.is_utf8_properties
    ),
    "csv": Format(
        (".csv",), lambda text, w: plain.read_table(text, w.column, w.into, tabs=False), options=_TABLE
    ),
    "tsv": Format(
        (".tsv", ".tab"), lambda text, w: plain.read_table(text, w.column, w.into, tabs=True), options=_TABLE
    ),
    "text": Format((".txt", ".text"), lambda text, _: plain.read_text(text)),
}
OPTIONS = {"pair": "--pair", "column": "--column", "into": "--to-column"}


def format_of(path: Path) -> str:
    """The format of a file by its suffix. Raises BytenmtError."""
    suffix = path.suffix.lower()
    for name, one in FORMATS.items():
        if suffix in one.suffixes:
            return name
    raise BytenmtError(
        f"{path}: no format has the suffix {suffix!r}: give --format, one of {', '.join(FORMATS)}"
    )


def check(name: str, wanted: Wanted) -> None:
    """Raise BytenmtError for what would be ignored in a format, or is missing."""
    for option, written in OPTIONS.items():
        if getattr(wanted, option) is not None and option not in FORMATS[name].options:
            raise BytenmtError(f"{written} would be ignored: --format {name} has no use for it")
    if wanted.into is not None and wanted.column is None:
        raise BytenmtError("--to-column without --column: say which column is translated")


def read(data: bytes, name: str, path: Path, wanted: Wanted | None = None) -> Document:
    """A file's bytes as a document. path: for messages. Raises DataError with the place of a mistake."""
    wanted = wanted or Wanted()
    one = FORMATS[name]
    try:
        text, lead, encoding = decode(data, wanted.encoding or one.encoding(data))
    except BytenmtError as error:
        raise DataError(f"{path}: {error}") from None
    document = Document(text, lead, encoding, (), one.charref)
    lost = re.search("[\udc80-\udcff]", text) if wanted.strict else None
    if lost is not None:
        raise DataError(
            f"{path}, {document.place(lost.start())}: 0x{ord(lost[0]) - 0xDC00:02X} is not valid UTF-8 there:"
            " give --encoding NAME, or use --errors replace"
        )
    try:
        units = one.read(text, wanted)
    except Malformed as error:
        raise DataError(f"{path}, {document.place(error.at)}: {error.message}") from None
    return Document(text, lead, encoding, tuple(units), one.charref)


def pairs(
    pieces: Iterable[bytes], name: str, path: Path, pair: tuple[str, str] | None, strict: bool
) -> Iterator[tuple[str, str]]:
    """Source and target of the units of a file that are translated and not doubted, each on one line.

    pieces: the bytes of the file; of a TMX they may be more than the memory holds. path: for messages.
    strict: see Wanted. Raises DataError.
    """
    found: Iterable[tuple[Parts, Parts]]
    if name == "tmx" and pair is not None:
        found = tmx.pairs(_decoded(pieces, path), pair)
    else:
        document = read(b"".join(pieces), name, path, Wanted(pair, strict=strict))
        found = (
            (unit.source, unit.target)
            for unit in document.units
            if unit.done and unit.target and not unit.doubted
        )
    try:
        for parts in found:
            source, target = (" ".join(utf8(flat(one)).decode().split()) for one in parts)
            if source and target:
                yield source, target
    except DataError as error:
        raise DataError(f"{path}, {error}") from None


def _decoded(pieces: Iterable[bytes], path: Path) -> Iterator[str]:
    """The text of an XML file, as its mark or its first line has it encoded."""
    decoder: codecs.IncrementalDecoder | None = None
    for piece in pieces:
        if decoder is None:
            lead, encoding = marked(piece)
            encoding = encoding or _declared(piece) or "utf-8"
            try:
                errors = "surrogateescape" if encoding.lower() == "utf-8" else "strict"
                decoder = codecs.getincrementaldecoder(encoding)(errors)
            except LookupError:
                raise DataError(f"{path}: unknown encoding {encoding}: convert it to UTF-8") from None
            piece = piece[len(lead) :]
        try:
            yield decoder.decode(piece)
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not {error.encoding} ({error.reason}): convert it to UTF-8") from None
