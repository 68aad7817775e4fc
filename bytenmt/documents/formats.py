"""The formats of documents by name and by suffix, and a file read as one."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bytenmt.documents import android, docx, html, markdown, markup, plain, po, strings, subtitles, tmx, xliff
from bytenmt.documents.document import (
    Content,
    Document,
    MalformedError,
    Parts,
    decode,
    joined_text,
    lookup_encoding,
    marked,
    wide_encoding,
)
from bytenmt.documents.segments import utf8
from bytenmt.errors import BytenmtError, DataError


class ReadOptions(NamedTuple):
    """Options for reading a file.

    pair: source and target language; the file declares the target language afterwards. column: of a table,
    the name or number of the column to translate. into: the column for the translations, the same one if
    None. encoding: of the file, None for the one that it declares. strict: whether bytes that are not UTF-8
    are an error. cure: what its message advises.
    """

    pair: tuple[str, str] | None = None
    column: str | None = None
    into: str | None = None
    encoding: str | None = None
    strict: bool = False
    cure: str = "give the file's encoding, such as --encoding cp1252, or use --errors replace"


class UnitPair(NamedTuple):
    """A unit that is translated. name, has_context: see Unit."""

    source: Parts
    target: Parts
    name: str = ""
    has_context: bool = False


class DocumentFormat(NamedTuple):
    """A format of documents.

    suffixes: of its files. read: returns the units of a text. encoding: returns the encoding that the bytes
    of a file declare, or None. charref: whether any character can be written as a reference in ASCII.
    options: the fields of ReadOptions that this format uses. unpack: reads the bytes of a file that is an
    archive of texts; instead of read and encoding.
    """

    suffixes: tuple[str, ...]
    read: Callable[[str, ReadOptions], Content]
    encoding: Callable[[bytes], str | None] = lambda _: None
    charref: bool = False
    options: tuple[str, ...] = ()
    unpack: Callable[[bytes], Document] | None = None


def _declared(data: bytes) -> str | None:
    """Return the encoding in the declaration of an XML file."""
    declared = markup.DECLARED.match(data)
    return None if declared is None else html.ascii_based(declared[1].decode())


_TABLE = ("column", "into")


def _table(text: str, options: ReadOptions, tabs: bool) -> Content:
    return Content(plain.read_table(text, options.column, options.into, tabs))


_XLIFF = (".xlf", ".xliff", ".xlif", ".mxliff", ".sdlxliff")
_PAIR = ("pair",)
FORMATS: dict[str, DocumentFormat] = {
    "tmx": DocumentFormat((".tmx",), lambda text, w: Content(tmx.read(text, w.pair)), _declared, True, _PAIR),
    "xliff": DocumentFormat(_XLIFF, lambda text, w: xliff.read(text, w.pair), _declared, True, _PAIR),
    "po": DocumentFormat(
        (".po", ".pot"), lambda text, w: po.read(text, w.pair, w.encoding), po.charset, options=_PAIR
    ),
    "srt": DocumentFormat((".srt",), lambda text, _: Content(subtitles.read_srt(text))),
    "vtt": DocumentFormat((".vtt",), lambda text, _: Content(subtitles.read_vtt(text))),
    "html": DocumentFormat(
        (".html", ".htm", ".xhtml"), lambda text, w: html.read(text, w.pair), html.charset, True, _PAIR
    ),
    "markdown": DocumentFormat(
        (".md", ".markdown", ".mdown", ".mdx"), lambda text, _: Content(markdown.read(text))
    ),
    "json": DocumentFormat((".json",), lambda text, _: Content(strings.read_json(text))),
    "arb": DocumentFormat((".arb",), lambda text, w: strings.read_arb(text, w.pair), options=_PAIR),
    "properties": DocumentFormat(
        (".properties",), lambda text, _: Content(strings.read_properties(text)), strings.properties_encoding
    ),
    "strings": DocumentFormat((".strings",), lambda text, _: Content(strings.read_apple(text))),
    "android": DocumentFormat((".xml",), lambda text, _: Content(android.read(text)), _declared, True),
    "docx": DocumentFormat((".docx", ".docm"), lambda *_: Content([]), charref=True, unpack=docx.read),
    "csv": DocumentFormat((".csv",), lambda text, w: _table(text, w, tabs=False), options=_TABLE),
    "tsv": DocumentFormat((".tsv", ".tab"), lambda text, w: _table(text, w, tabs=True), options=_TABLE),
    "text": DocumentFormat((".txt", ".text"), lambda text, _: Content(plain.read_text(text))),
}
OPTIONS = {"pair": "--pair", "column": "--column", "into": "--to-column"}


def format_of(path: Path) -> str:
    """Return the name of the format of a file, by its suffix. Raises BytenmtError."""
    name = format_of_suffix(path)
    if name is not None:
        return name
    if path.is_dir():
        raise BytenmtError(f"{path} is a directory: give the name of a file in it")
    raise BytenmtError(
        f"{path}: no format has the suffix {path.suffix!r}: give --format, one of {', '.join(FORMATS)}"
    )


def format_of_suffix(path: Path) -> str | None:
    """Return the name of the format that has the suffix of a path, or None."""
    return next((name for name, one in FORMATS.items() if path.suffix.lower() in one.suffixes), None)


def check_options(name: str, options: ReadOptions) -> None:
    """Raise BytenmtError for options that a format would ignore, and for one that is missing."""
    for option, written in OPTIONS.items():
        if getattr(options, option) is not None and option not in FORMATS[name].options:
            raise BytenmtError(f"{written} would be ignored with --format {name}: drop it")
    if options.into is not None and options.column is None:
        raise BytenmtError("--to-column without --column: name the column to translate by --column")


def read(data: bytes, name: str, path: Path, options: ReadOptions | None = None) -> Document:
    """Parse the bytes of a file. path: for messages. Raises DataError with the place of a mistake."""
    options = options or ReadOptions()
    one = FORMATS[name]
    if one.unpack is not None:
        try:
            return one.unpack(data)
        except MalformedError as error:
            raise DataError(f"{path}: {error.message}") from None
    try:
        text, lead, encoding = decode(data, options.encoding or one.encoding(data))
    except BytenmtError as error:
        raise DataError(f"{path}: {error}") from None
    document = Document(text, lead, encoding, (), one.charref, is_xml=one.encoding is _declared, path=path)
    lost = re.search("[\udc80-\udcff]", text) if options.strict else None
    if lost is not None:
        raise DataError(
            f"{path}, {document.place(lost.start())}: 0x{ord(lost[0]) - 0xDC00:02X} is not valid UTF-8 there:"
            f" {options.cure}"
        )
    try:
        content = one.read(text, options)
    except MalformedError as error:
        raise DataError(f"{path}, {document.place(error.at)}: {error.message}") from None
    return replace(
        document,
        units=tuple(content.units),
        languages=content.languages,
        language_edits=tuple(content.language_edits),
        warnings=tuple(content.warnings),
        other_languages=tuple(content.other_languages),
    )


def pairs(
    pieces: Iterable[bytes], name: str, path: Path, pair: tuple[str, str] | None, strict: bool
) -> Iterator[tuple[str, str]]:
    """Yield source and target, each as one line, of the units that are translated and not doubted.

    The arguments are those of unit_pairs. Raises DataError.
    """
    for unit in unit_pairs(pieces, name, path, pair, strict):
        source, target = (" ".join(utf8(joined_text(one)).decode().split()) for one in unit[:2])
        if source and target:
            yield source, target


def unit_pairs(
    pieces: Iterable[bytes], name: str, path: Path, pair: tuple[str, str] | None, strict: bool
) -> Iterator[UnitPair]:
    """Yield the units that are translated and not doubted.

    pieces: the bytes of the file; a TMX may be larger than the memory. Of a table the first two columns are
    read. path: for messages. strict: see ReadOptions. Raises DataError.
    """
    if name == "tmx" and pair is not None:
        yield from (UnitPair(*one) for one in tmx.pairs(_decoded(pieces, path), pair, path))
        return
    options = ReadOptions(pair, strict=strict, cure="convert the file to UTF-8")
    if "column" in FORMATS[name].options:
        options = options._replace(pair=None, column="1", into="2")
    for unit in read(b"".join(pieces), name, path, options).units:
        if unit.done and unit.target and not unit.doubted:
            yield UnitPair(unit.source, unit.target, unit.name, unit.has_context)


def _decoded(pieces: Iterable[bytes], path: Path) -> Iterator[str]:
    """Yield the text of an XML file, decoded as its byte order mark or its declaration says."""
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
                raise DataError(f"{path}: unknown encoding {encoding:.60}: convert it to UTF-8") from None
            piece = piece[len(lead) :]
        try:
            yield decoder.decode(piece)
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not {error.encoding} ({error.reason}): convert it to UTF-8") from None
