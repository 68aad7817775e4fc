"""The formats of documents by name and by suffix, and a file read as one."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bytenmt.documents import html, markdown, markup, plain, po, strings, subtitles, tmx, xliff
from bytenmt.documents.document import (
    Content,
    Document,
    Malformed,
    Parts,
    decode,
    flat,
    lookup_encoding,
    marked,
    wide_encoding,
)
from bytenmt.documents.segments import utf8
from bytenmt.errors import BytenmtError, DataError


class Wanted(NamedTuple):
    """What the caller knows of a file. pair: source and target language, the latter of which the file then
    declares; column, into: of a table, those of the source and of the translations. encoding: of the file.
    strict: whether bytes that are not UTF-8 are an error."""

    pair: tuple[str, str] | None = None
    column: str | None = None
    into: str | None = None
    encoding: str | None = None
    strict: bool = False


class Format(NamedTuple):
    """suffixes: of files. read: what is in a text. encoding: what the bytes say of theirs. charref: whether
    any character can be written in ASCII. options: of Wanted, those that mean something here."""

    suffixes: tuple[str, ...]
    read: Callable[[str, Wanted], Content]
    encoding: Callable[[bytes], str | None] = lambda _: None
    charref: bool = False
    options: tuple[str, ...] = ()


def _declared(data: bytes) -> str | None:
    """The encoding in the declaration of an XML file."""
    declared = markup.DECLARED.match(data)
    return None if declared is None else html.ascii_based(declared[1].decode())


_TABLE = ("column", "into")


def _table(text: str, wanted: Wanted, tabs: bool) -> Content:
    return Content(plain.read_table(text, wanted.column, wanted.into, tabs))


_XLIFF = (".xlf", ".xliff", ".xlif", ".mxliff", ".sdlxliff")
_PAIR = ("pair",)
FORMATS: dict[str, Format] = {
    "tmx": Format((".tmx",), lambda text, w: Content(tmx.read(text, w.pair)), _declared, True, _PAIR),
    "xliff": Format(_XLIFF, lambda text, w: xliff.read(text, w.pair), _declared, True, _PAIR),
    "po": Format((".po", ".pot"), lambda text, w: po.read(text, w.pair), po.charset, options=_PAIR),
    "srt": Format((".srt",), lambda text, _: Content(subtitles.read_srt(text))),
    "vtt": Format((".vtt",), lambda text, _: Content(subtitles.read_vtt(text))),
    "html": Format(
        (".html", ".htm", ".xhtml"), lambda text, w: html.read(text, w.pair), html.charset, True, _PAIR
    ),
    "markdown": Format((".md", ".markdown", ".mdown"), lambda text, _: Content(markdown.read(text))),
    "json": Format((".json", ".arb"), lambda text, _: Content(strings.read_json(text))),
    "properties": Format(
        (".properties",), lambda text, _: Content(strings.read_properties(text)), strings.properties_encoding
    ),
    "csv": Format((".csv",), lambda text, w: _table(text, w, tabs=False), options=_TABLE),
    "tsv": Format((".tsv", ".tab"), lambda text, w: _table(text, w, tabs=True), options=_TABLE),
    "text": Format((".txt", ".text"), lambda text, _: Content(plain.read_text(text))),
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
        content = one.read(text, wanted)
    except Malformed as error:
        raise DataError(f"{path}, {document.place(error.at)}: {error.message}") from None
    return replace(
        document,
        units=tuple(content.units),
        languages=content.languages,
        language_edits=tuple(content.language_edits),
    )


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
    """The text of an XML file in pieces, in the encoding that its byte order mark or its first line names."""
    decoder: codecs.IncrementalDecoder | None = None
    for piece in pieces:
        if decoder is None:
            lead, encoding = marked(piece)
            encoding = encoding or _declared(piece) or wide_encoding(piece) or "utf-8"
            try:
                encoding = lookup_encoding(encoding)
                decoder = codecs.getincrementaldecoder(encoding)(
                    "surrogateescape" if encoding == "utf-8" else "strict"
                )
            except (BytenmtError, LookupError):
                raise DataError(f"{path}: unknown encoding {encoding}: convert it to UTF-8") from None
            piece = piece[len(lead) :]
        try:
            yield decoder.decode(piece)
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not {error.encoding} ({error.reason}): convert it to UTF-8") from None
