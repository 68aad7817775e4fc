"""Convert documents to tables of training pairs in the run folder.

The run is trained on the table; its digest shows on --resume whether the text is still the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from bytenmt.atomic_file import replacing
from bytenmt.cli.languages import language_pair
from bytenmt.errors import BytenmtError, DataError

CACHE = "cache"  # in the run folder


class Conversion(NamedTuple):
    """A document to convert. path: of the document; table: the file that its pairs are written to."""

    path: Path
    format: str
    pair: tuple[str, str] | None
    table: Path


def conversions(run: Path, documents: Mapping[str, Sequence[Path]], pair: str | None) -> list[Conversion]:
    """Return the conversions for documents by their formats. Raises BytenmtError."""
    if documents["tmx"] and pair is None:
        raise BytenmtError("--tmx needs the languages to read: give --pair, such as --pair en-de")
    languages, found = language_pair(pair), []
    for name, paths in documents.items():
        for path in paths:
            key = hashlib.sha256(f"{path.resolve()} {pair}".encode(errors="surrogateescape")).hexdigest()[:12]
            table = run / CACHE / f"{path.name[:80]}.{key}.tsv"
            found.append(Conversion(path, name, languages if name == "tmx" else None, table))
    return found


def convert(document: Conversion) -> str:
    """Write the table of a document and return a line about it for the user. Raises DataError."""
    lines = _lines(document)
    first = next(lines, None)  # before anything is written: raises if the file cannot be read
    if first is None:
        languages = "" if document.pair is None else f" {document.pair[0]} and {document.pair[1]}"
        raise DataError(f"{document.path} has no translated pair of texts{languages}")
    document.table.parent.mkdir(parents=True, exist_ok=True)
    n_pairs = 0
    with replacing(document.table) as file:
        for line in chain([first], lines):
            file.write(line)
            n_pairs += 1
    return f"{document.path}: {n_pairs:,} pairs"


def _lines(document: Conversion) -> Iterator[bytes]:
    """Yield the lines of the table of a document."""
    from bytenmt.documents.formats import unit_pairs
    from bytenmt.documents.unit import joined

    for parts in unit_pairs(document.path, document.format, document.pair):
        source, target = (" ".join(joined(some).split()) for some in parts[:2])
        if source and target:
            yield f"{source}\t{target}\n".encode()
