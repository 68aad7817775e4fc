"""The formats of documents by name and by suffix, and a file read as one."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from bytenmt.documents.unit import CodedText, Document, ReadOptions, primary, to_markup
from bytenmt.errors import BytenmtError, DataError, missing_package

UnitPair = tuple[CodedText, CodedText, str]  # source and translation of a unit, and its name

# The reader, "module.function" of bytenmt.documents, and the suffixes of each format; see
# docs/documents.md.
FORMATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tmx": ("tmx.read", (".tmx",)),
    "xliff": ("xliff.read", (".xlf", ".xliff", ".xlif")),
    "po": ("po.read", (".po", ".pot")),
    "srt": ("subtitles.read_srt", (".srt",)),
    "vtt": ("subtitles.read_vtt", (".vtt",)),
    "html": ("html.read", (".html", ".htm", ".xhtml")),
    "markdown": ("markdown.read", (".md", ".markdown", ".mdown")),
    "json": ("json_strings.read", (".json",)),
    "arb": ("json_strings.read", (".arb",)),
    "yaml": ("yaml.read", (".yaml", ".yml")),
    "properties": ("strings.read_mozilla", (".properties",)),
    "fluent": ("strings.read_mozilla", (".ftl",)),
    "dtd": ("strings.read_mozilla", (".dtd",)),
    "ini": ("strings.read_ini", (".ini",)),
    "strings": ("strings.read_apple", (".strings",)),
    "android": ("strings.read_mozilla", (".xml",)),
    "docx": ("docx.read", (".docx", ".docm")),
    "csv": ("plain.read_table", (".csv",)),
    "tsv": ("plain.read_table", (".tsv", ".tab")),
    "text": ("plain.read_text", (".txt", ".text")),
}


def format_of(path: Path, advice: str = "give --format, one of") -> str:
    """Return the format of a file (a key of FORMATS) by its suffix. Raises BytenmtError for unknown
    ones."""
    for name, (_, suffixes) in FORMATS.items():
        if path.suffix.lower() in suffixes:
            return name
    raise BytenmtError(
        f"{path}: no format has the suffix {path.suffix!r}: {advice} {', '.join(FORMATS)}"
    )


def read(data: bytes, options: ReadOptions, path: Path | str = "the document") -> Document:
    """Parse the bytes of a file with the reader of options.format; units of white space alone are
    left out.

    path: named in messages only. Raises DataError, as `dump` of the document does, and BytenmtError
    if the library for the format is not installed.
    """
    module, _, function = FORMATS[options.format][0].partition(".")
    try:
        reader = getattr(import_module(f"bytenmt.documents.{module}"), function)
    except ModuleNotFoundError as error:
        raise BytenmtError(missing_package(error)) from None
    with _as_data_error(path, options.format):
        document: Document = reader(data, options)
        document.units = [unit for unit in document.units if to_markup(unit.parts).strip()]
    document.dump = _as_data_error(path, options.format)(document.dump)
    return document


@contextmanager
def _as_data_error(path: Path | str, name: str) -> Iterator[None]:
    """Turn what the libraries raise into a DataError of one line; RecursionError comes of deep
    nesting."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except (ValueError, SyntaxError, OSError, RecursionError, zlib.error) as error:
        message = " ".join(str(error).split())
        raise DataError(f"{path}: not {name}: {message:.150}") from error


def unit_pairs(path: Path, name: str, pair: tuple[str, str] | None) -> Iterator[UnitPair]:
    """Yield source, translation and name of the units that are translated and not marked for
    review.

    name: the format. pair: source and target language, which a TMX needs. Of a table the first two
    columns are read; a TMX may be larger than the memory. Raises DataError.
    """
    if name == "tmx" and pair is not None:
        from bytenmt.documents import tmx

        with path.open("rb") as file, _as_data_error(path, name):
            yield from tmx.pairs(file, pair)
        return
    document = read(path.read_bytes(), ReadOptions(name, pair, "1", "2"), path)
    for code in document.targets:
        if len(primary(code)) in (2, 3) and pair is not None and primary(code) != primary(pair[1]):
            raise DataError(f"{path} declares the target language {code}, not {pair[1]}")
    for unit in document.units:
        if unit.is_done and unit.target and not unit.is_doubted:
            yield unit.parts, unit.target, unit.name
