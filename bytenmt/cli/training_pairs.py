"""Convert documents to tables of training pairs in the run folder.

The run is trained on the table; its digest shows on --resume whether the text is still the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
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


def conversions(
    run: Path,
    tmx: Sequence[Path],
    xliff: Sequence[Path],
    po: Sequence[Path],
    pair: str | None,
) -> list[Conversion]:
    """Return the conversions for these documents, those of --tmx first. Raises BytenmtError."""
    if tmx and pair is None:
        raise BytenmtError("--tmx needs the languages to read: give --pair, such as --pair en-de")
    if pair is not None and not tmx:
        raise BytenmtError("--pair would be ignored without --tmx: drop it")
    languages = None if pair is None else language_pair(pair)
    named = chain(
        (("tmx", path, languages) for path in tmx),
        (("xliff", path, None) for path in xliff),
        (("po", path, None) for path in po),
    )
    return [Conversion(path, name, two, _table(run, path, pair)) for name, path, two in named]


def _table(run: Path, path: Path, pair: str | None) -> Path:
    key = hashlib.sha256(f"{path.resolve()} {pair}".encode(errors="surrogateescape")).hexdigest()[:12]
    return run / CACHE / f"{path.name[:80]}.{key}.tsv"


def convert(documents: Sequence[Conversion]) -> list[str]:
    """Write the table of each document and return a line about each for the user. Raises DataError."""
    return [_convert(one) for one in documents]


def _lines(one: Conversion) -> Iterator[bytes]:
    """Yield the lines of the table of a document."""
    from bytenmt.documents.formats import unit_pairs
    from bytenmt.documents.unit import joined

    for parts in unit_pairs(one.path, one.format, one.pair):
        source, target = (" ".join(joined(some).split()) for some in parts[:2])
        if source and target:
            yield f"{source}\t{target}\n".encode()


def _convert(one: Conversion) -> str:
    found = _lines(one)
    first = next(found, None)  # before anything is written: raises if the file cannot be read
    if first is None:
        languages = "" if one.pair is None else f" {one.pair[0]} and {one.pair[1]}"
        raise DataError(f"{one.path} has no translated pair of texts{languages}")
    n_pairs = 0
    try:
        one.table.parent.mkdir(parents=True, exist_ok=True)
        with replacing(one.table) as file:
            for line in chain([first], found):
                file.write(line)
                n_pairs += 1
    except OSError as error:
        raise DataError(
            f"{one.table} cannot be written ({error.strerror}): free space or change its permissions"
        ) from None
    return f"{one.path}: {n_pairs:,} pairs"
