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
from tools.extras import tool_parser  # noqa: E402
from tools.verify import made_up_translations as made_up  # noqa: E402

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
        made_up.tree_of(name, translation)
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
        if made_up.tree_of(name, data) != made_up.tree_of(name, once):
            yield "a round trip changes its tree"
    twice = formats.read(once, options).dump()
    if twice != formats.read(twice, options).dump():
        yield "a second round trip changes it"
    for how in (made_up.capitals, made_up.moved):
        document = formats.read(data, options)
        sources = [unit.parts for unit in by_name(document)]
        lines = lines_to_translate(document, overwrite=True)
        translate(document, {line: LineTranslation(how(line)) for line in lines}, overwrite=True)
        made = document.dump()
        if how is made_up.capitals or name != "po":  # signs are not format strings
            yield from read_problems(data, made, name)
        units = by_name(formats.read(made, options))
        for source, unit in zip(sources, units, strict=True) if name in made_up.WITH_CODES else ():
            target = unit.parts if unit.target is None else unit.target
            is_kept = made_up.codes_of(source) <= made_up.codes_of(target)
            if not (is_kept or is_icu_message(source)):
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
    program = [sys.executable, "-m", "bytenmt", "translate-file", "--pair", "en-de", "-v"]
    command = [*program, *column, str(model), str(path), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (folder / f"{path.name}.notes").write_text(done.stderr)
    if done.returncode:
        return Counter(), [f"not translated: {done.stderr[-200:]}"]
    counts = Counter({name: int(n) for n, name in COUNT.findall(done.stderr)})
    return counts, list(read_problems(path.read_bytes(), out.read_bytes(), options.format))


def main() -> int:
    """Check the files; print a line for each format and each problem."""
    parser = tool_parser(__doc__)
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
    for path in sorted(path for folder in given.folders for path in folder.rglob("*")):
        name = suffixes.get(path.suffix.lower())
        if name is None or not path.is_file():
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
