"""Read, translate and check real documents of every format.

    python tools/verify/documents.py FOLDER... [--model data/models/en-de --out OUT] [--format NAME]

Each file of a known format is written back as it was read: its format's own library has to read the
same tree as before, and a second round trip has to give the same bytes. It is translated by two
stand-ins, into capitals, and into signs of all formats with its codes in another order, and with
--model by `bytenmt translate-file`, which writes into --out: the library has to read the result,
msgfmt --check has to accept it if it accepted the catalogue before, and no code may be lost. Prints
a line for each format and each problem; the exit code is 1 if there is a problem.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

from bytenmt.documents import formats  # noqa: E402
from bytenmt.documents.translation import LineTranslation, lines_to_translate, translate  # noqa: E402
from bytenmt.documents.unit import Document, ReadOptions, Unit  # noqa: E402
from bytenmt.documents.words import is_icu_message  # noqa: E402
from bytenmt.errors import DataError  # noqa: E402
from tools.verify.made_up_translations import (  # noqa: E402
    WITH_CODES,
    capitals,
    codes_of,
    moved,
    tree_of,
)

COUNT = re.compile(r"(\d+) (units|translated|to review)\b")


def by_name(document: Document) -> list[Unit]:
    """Return the units by their names; moz.l10n orders the attributes of a message."""
    return sorted(document.units, key=lambda unit: unit.name)


def is_catalogue(data: bytes) -> bool:
    """Return whether msgfmt accepts a catalogue."""
    command = ["msgfmt", "--check", "-o", "/dev/null", "-"]
    return subprocess.run(command, input=data, capture_output=True, check=False).returncode == 0


def read_problems(data: bytes, translation: bytes, name: str) -> Iterator[str]:
    """Yield why the translation of a document is not accepted."""
    try:
        tree_of(name, translation)
    except Exception as error:
        yield f"its library does not read it: {error!r:.200}"
    if name == "po" and is_catalogue(data) and not is_catalogue(translation):
        yield "msgfmt refuses it"


def problems(data: bytes, options: ReadOptions) -> Iterator[str]:
    """Yield what is wrong with a file. Raises DataError if it is refused."""
    name = options.format
    # Without a pair of languages no declaration of one changes.
    unpaired = options if formats.FORMATS[name].pair_reader else options._replace(pair=None)
    try:
        once = formats.read(data, unpaired).dump()
    except DataError as error:
        if "--pair" not in str(error):
            raise
        once = formats.read(data, options).dump()
    else:
        if tree_of(name, data) != tree_of(name, once):
            yield "a round trip changes its tree"
    if (
        formats.read(once, options).dump()
        != formats.read(formats.read(once, options).dump(), options).dump()
    ):
        yield "a second round trip changes it"
    for how in (capitals, moved):
        document = formats.read(data, options)
        sources = [unit.parts for unit in by_name(document)]
        lines = lines_to_translate(document, overwrite=True)
        translate(document, {line: LineTranslation(how(line)) for line in lines}, overwrite=True)
        made = document.dump()
        if how is capitals or name != "po":  # signs are not format strings
            yield from read_problems(data, made, name)
        units = by_name(formats.read(made, options))
        for source, unit in zip(sources, units, strict=True) if name in WITH_CODES else ():
            target = unit.parts if unit.target is None else unit.target
            if not (codes_of(source) <= codes_of(target) or is_icu_message(source)):
                yield f"{unit.place}: {source} became {target}"


def translated(
    path: Path, options: ReadOptions, model: Path, folder: Path
) -> tuple[Counter[str], list[str]]:
    """Translate a file with the command; return its counts and its faults.

    The notes go beside it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / path.name
    has_column = formats.FORMATS[options.format].needs_column
    column = ["--column", options.column or "1"] if has_column else []
    command = [
        sys.executable,
        "-m",
        "bytenmt",
        "translate-file",
        model,
        path,
        out,
        "--pair",
        "en-de",
        "-v",
    ]
    done = subprocess.run(
        [*map(str, command), *column], capture_output=True, text=True, check=False
    )
    (folder / f"{path.name}.notes").write_text(done.stderr)
    if done.returncode:
        return Counter(), [f"not translated: {done.stderr[-200:]}"]
    counts = Counter({name: int(n) for n, name in COUNT.findall(done.stderr)})
    return counts, list(read_problems(path.read_bytes(), out.read_bytes(), options.format))


def main() -> int:
    """Check the files; print a line for each format and each problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", metavar="FOLDER", type=Path, nargs="+")
    parser.add_argument(
        "--format", action="append", choices=formats.FORMATS, help="check only these formats"
    )
    parser.add_argument("--model", type=Path)
    parser.add_argument("--out", type=Path, default=Path("translated"))
    parser.add_argument("--column", default="source", help="of tables")
    given = parser.parse_args()
    names = given.format or formats.FORMATS
    suffixes = {suffix: name for name in names for suffix in formats.FORMATS[name].suffixes}
    totals: dict[str, Counter[str]] = {}
    for path in sorted(
        path for folder in given.folders for path in folder.rglob("*") if path.is_file()
    ):
        name = suffixes.get(path.suffix.lower())
        if name is None:
            continue
        counts = totals.setdefault(name, Counter())
        counts["files"] += 1
        options = ReadOptions(name, ("en", "de"), given.column)
        try:
            found = list(problems(path.read_bytes(), options))
        except DataError as error:
            counts["refused"] += 1
            print(f"{path}: refused: {error}")
            continue
        except Exception:
            found = [traceback.format_exc().strip().replace("\n", " | ")]
        if given.model is not None:
            of_file, more = translated(path, options, given.model, given.out / name)
            found += more
            counts.update(of_file)
            print(f"{path}: {dict(of_file)}")
        counts["wrong"] += bool(found)
        for one in found[:3]:
            print(f"WRONG {path}: {one}")
    columns = ("files", "refused", "units", "translated", "to review", "wrong")
    print("| format |", " | ".join(columns), "|")
    for name, counts in totals.items():
        print(f"| {name} |", " | ".join(f"{counts[column]:,}" for column in columns), "|")
    return 1 if sum(counts["wrong"] for counts in totals.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
