"""Real documents read, written back and filled, of every format that is found below a folder.

    python tools/verify/documents.py FOLDER... [--format NAME] [--show N]

Of each file: every unit written back as it was read must give the same bytes. Every unit written anew,
whatever stood there, must be read again as the same text, with all else as it was. And every unit translated,
by a stand-in that loses no code, must give a file with as many units of those texts. Prints a line a format,
and the files that fail; files that are not in their format, of which test suites have many, count as
malformed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, before what is installed

from bytenmt.documents.document import TEXT, Document, Edit, Part, Parts, flat
from bytenmt.documents.formats import FORMATS, Wanted, read
from bytenmt.errors import DataError

BY_NAME = "csv", "tsv", "json", "text"  # a folder holds many that are no documents: these by --format alone
PAIRS = [("en", "fr"), ("en-us", "de"), ("en", "ko")]


def wanted(name: str, data: bytes) -> Wanted:
    if name == "tmx":
        return Wanted(pair=next((p for p in PAIRS if f'"{p[1]}'.encode() in data.lower()), ("en", "fr")))
    if name == "xliff":
        return Wanted(pair=("en", "fr"))
    return Wanted(column="1") if name in ("csv", "tsv") else Wanted()


def translated(parts: Parts) -> Parts:
    """Another text with the same codes."""
    return tuple(Part(part.text.swapcase() + "q") if part.kind == TEXT else part for part in parts)


def rewritten(document: Document, values: list[Parts | None]) -> bytes:
    """Every unit that has a value written, also where it says what stands there."""
    edits = [
        Edit(unit.start, unit.end, unit.write(value, False))
        for unit, value in zip(document.units, values, strict=True)
        if value is not None
    ]
    return document.replaced(edits)


def words(values: Sequence[Parts | None]) -> list[str]:
    """Of plain text, whose lines say what a unit is: a paragraph wrapped anew may be read as lines."""
    return " ".join(flat(value or ()) for value in values).split()


def outside(document: Document) -> list[str]:
    """What stands between the units."""
    ends = [0, *(unit.end for unit in document.units)]
    starts = [*(unit.start for unit in document.units), len(document.text)]
    return [document.text[end:start] for end, start in zip(ends, starts, strict=True)]


def faults(data: bytes, name: str, path: Path, more: Wanted) -> tuple[int, list[str]]:
    """The number of units of a file, and what is wrong with it. Raises DataError."""
    document = read(data, name, path, more)
    same = document.with_units([None if u.target is None else (u.target, False) for u in document.units])
    ordered = sorted(document.units, key=lambda unit: unit.start)
    if any(one.end > other.start for one, other in zip(ordered, ordered[1:], strict=False)):
        return len(ordered), ["units overlap"]
    found = [] if same == data else ["not the same bytes"]
    try:
        found += [*_anew(document, name, path, more), *_filled(document, name, path, more)]
    except DataError as error:
        found.append(f"what was written is malformed: {error}")
    return len(document.units), found


def _anew(document: Document, name: str, path: Path, more: Wanted) -> Iterator[str]:
    """What is wrong where every unit is written, whatever stood there."""
    there = [unit.target for unit in document.units]
    again = read(rewritten(document, there), name, path, more)
    if name == "text":
        if words(there) != words([unit.target for unit in again.units]):
            yield "written anew, it has other words"
        return
    if len(again.units) != len(there):
        yield f"written anew, it has {len(again.units)} units, not {len(there)}"
    for before, unit in zip(there, again.units, strict=False):
        if before != unit.target:
            yield f"written anew, {before!r} is read as {unit.target!r}"
            return
    if outside(document) != outside(again):
        yield "written anew, something else differs"


def _filled(document: Document, name: str, path: Path, more: Wanted) -> Iterator[str]:
    """What is wrong where every unit is translated."""
    values = [(translated(unit.source), number % 2 > 0) for number, unit in enumerate(document.units)]
    filled = read(document.with_units(values), name, path, more)
    if name == "text":
        if words([value for value, _ in values]) != words([unit.target for unit in filled.units]):
            yield "translated, it has other words"
        return
    if len(filled.units) != len(values):
        yield f"translated, it has {len(filled.units)} units, not {len(values)}"
    for unit, (value, _) in zip(filled.units, values, strict=False):
        if flat(unit.target or ()).split() != flat(value).split():
            yield f"translated, {value!r} is read as {unit.target!r}"
            return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--format", action="append", choices=FORMATS, help="these alone, also data")
    parser.add_argument("--show", type=int, default=20, help="files that fail, at most")
    options = parser.parse_args()
    files, units, bad, malformed, shown = Counter[str](), Counter[str](), Counter[str](), Counter[str](), 0
    formats = options.format or [name for name in FORMATS if name not in BY_NAME]
    suffixes = {suffix: name for name in formats for suffix in FORMATS[name].suffixes}
    for path in sorted(path for folder in options.folders for path in folder.rglob("*")):
        name = suffixes.get(path.suffix.lower())
        if name is None or not path.is_file():
            continue
        try:
            data = path.read_bytes()
            n_units, wrong = faults(data, name, path, wanted(name, data))
        except DataError as error:
            malformed[name] += 1
            shown += 1
            if shown <= options.show:
                print(f"  {name}: {error}")
            continue
        files[name] += 1
        units[name] += n_units
        if wrong:
            bad[name] += 1
            shown += 1
            if shown <= options.show:
                print(f"  {name}: {path}: {wrong[0][:300]}")
    for name in formats:
        print(
            f"{name:10} {files[name]:6} files {units[name]:8} units {bad[name]:4} wrong,"
            f" {malformed[name]} malformed"
        )
    return 1 if any(bad.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
