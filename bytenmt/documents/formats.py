"""The formats of documents by name and by suffix, and a file read as one."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from bytenmt.documents.unit import CodedText, Document, ReadOptions, primary, to_markup
from bytenmt.errors import BytenmtError, DataError, missing_package

UnitPair = tuple[CodedText, CodedText, str]  # source and translation of a unit, and its name


class Format(NamedTuple):
    """A format of documents; a new one needs a reader, its record in FORMATS and a sample.

    Readers are named, not imported: their libraries are optional.
    """

    name: str  # as --format and ReadOptions.format have it
    reader: str  # "module.function" of bytenmt.documents, called with bytes and ReadOptions
    suffixes: tuple[str, ...]  # of its files, in lower case, such as ".html"
    is_bilingual: bool = False  # whether a file holds translations beside their sources
    needs_column: bool = False  # whether it is a table, whose reader needs ReadOptions.column
    # Whether a file without translations may name its source language as the target language.
    may_declare_source: bool = False
    # "module.function" that reads pairs of texts as a stream, of a file larger than the memory. It
    # may have several languages, so that source and target must be given.
    pair_reader: str = ""


_ALL_FORMATS = (
    Format("tmx", "tmx.read", (".tmx",), is_bilingual=True, pair_reader="tmx.pairs"),
    Format("xliff", "xliff.read", (".xlf", ".xliff", ".xlif"), is_bilingual=True),
    Format("po", "po.read", (".po", ".pot"), is_bilingual=True, may_declare_source=True),
    Format("srt", "subtitles.read_srt", (".srt",)),
    Format("vtt", "subtitles.read_vtt", (".vtt",)),
    Format("html", "html.read", (".html", ".htm", ".xhtml")),
    Format("markdown", "markdown.read", (".md", ".markdown", ".mdown")),
    Format("json", "json_strings.read", (".json",)),
    Format("arb", "json_strings.read", (".arb",)),
    Format("yaml", "yaml.read", (".yaml", ".yml")),
    Format("properties", "strings.read_mozilla", (".properties",)),
    Format("fluent", "strings.read_mozilla", (".ftl",)),
    Format("dtd", "strings.read_mozilla", (".dtd",)),
    Format("ini", "strings.read_ini", (".ini",)),
    Format("strings", "strings.read_apple", (".strings",)),
    Format("android", "strings.read_android", (".xml",)),
    Format("docx", "docx.read", (".docx", ".docm")),
    Format("csv", "plain.read_csv", (".csv",), is_bilingual=True, needs_column=True),
    Format("tsv", "plain.read_tsv", (".tsv", ".tab"), is_bilingual=True, needs_column=True),
    Format("text", "plain.read_text", (".txt", ".text")),
)
FORMATS = {record.name: record for record in _ALL_FORMATS}


def format_of(path: Path, advice: str = "give --format, one of") -> Format:
    """Return the format of a file by its suffix. Raises BytenmtError if no format has it.

    advice: end of the error's message, followed by the names of all formats.
    """
    for record in FORMATS.values():
        if path.suffix.lower() in record.suffixes:
            return record
    raise BytenmtError(
        f"{path}: no format has the suffix {path.suffix!r}: {advice} {', '.join(FORMATS)}"
    )


def read(data: bytes, options: ReadOptions, path: Path | str = "the document") -> Document:
    """Parse the bytes of a file in the format options.format; units without text are left out.

    path: the name of the file in messages; it is not opened. Raises DataError if the bytes are not
    in that format, and BytenmtError if its library is not installed. `dump` of the document raises
    DataError for a translation that the file cannot hold.
    """
    reader = _function(FORMATS[options.format].reader)
    with _as_data_error(path, options.format):
        document: Document = reader(data, options)
        document.units = [unit for unit in document.units if to_markup(unit.parts).strip()]
    document.dump = _as_data_error(path, options.format)(document.dump)
    return document


def _function(name: str) -> Any:
    """Return a function of this package by "module.function"."""
    module, _, function = name.partition(".")
    try:
        return getattr(import_module(f"bytenmt.documents.{module}"), function)
    except ModuleNotFoundError as error:
        raise BytenmtError(missing_package(error)) from None


@contextmanager
def _as_data_error(path: Path | str, name: str) -> Iterator[None]:
    """Turn what the libraries raise, such as RecursionError, into a DataError of one line."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except (ValueError, SyntaxError, OSError, RecursionError, zlib.error) as error:
        message = " ".join(str(error).split())
        raise DataError(f"{path}: not {name}: {message:.150}") from error


def unit_pairs(path: Path, record: Format, pair: tuple[str, str] | None) -> Iterator[UnitPair]:
    """Yield source, translation and name of each unit that is translated and not marked for review.

    path, record: the file and its format. pair: codes of the source and target language; only a TMX
    needs them. Of a table the first two columns are read; a TMX may be larger than the memory.
    Raises DataError if the format holds one language only, or the file is malformed.
    """
    if not record.is_bilingual:
        names = ", ".join(other.name for other in FORMATS.values() if other.is_bilingual)
        raise DataError(f"{path}: {record.name} holds one language: translations need {names}")
    if record.pair_reader and pair is not None:
        with path.open("rb") as file, _as_data_error(path, record.name):
            yield from _function(record.pair_reader)(file, pair)
        return
    document = read(path.read_bytes(), ReadOptions(record.name, pair, "1", "2"), path)
    for code in document.targets:
        if len(primary(code)) in (2, 3) and pair is not None and primary(code) != primary(pair[1]):
            raise DataError(f"{path} declares the target language {code}, not {pair[1]}")
    for unit in document.units:
        if unit.is_done and unit.target and not unit.is_doubted:
            yield unit.parts, unit.target, unit.name
