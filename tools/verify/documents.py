"""Read, rewrite and translate all documents below a folder, and check the results.

    python tools/verify/documents.py FOLDER... [--format NAME]

Each file of a known format is written back as it was read, twice, and translated by stand-ins: into capitals,
and into signs of all formats with its codes in another order. Reported are files that are refused, that a
second round trip changes, that cannot be read again after a translation, and translations that lose a code.
Catalogues that `msgfmt --check` accepts have to pass it afterwards. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

from bytenmt.documents import formats  # noqa: E402
from bytenmt.documents.lines import is_icu_message  # noqa: E402
from bytenmt.documents.translation import LineTranslation, lines_to_translate, translate  # noqa: E402
from bytenmt.documents.unit import ReadOptions  # noqa: E402
from bytenmt.errors import DataError  # noqa: E402
from tools.verify.made_up_translations import capitals, codes_of, moved  # noqa: E402

BY_NAME = ("csv", "tsv", "json", "text", "android", "yaml", "ini")  # many such files are no documents
WITH_CODES = ("xliff", "tmx", "html", "fluent", "docx")  # whose codes are found again in any translation


def is_catalogue(data: bytes) -> bool:
    """Return whether msgfmt accepts a catalogue."""
    command = ["msgfmt", "--check", "-o", "/dev/null", "-"]
    return subprocess.run(command, input=data, capture_output=True, check=False).returncode == 0


def problems(data: bytes, name: str) -> Iterator[str]:
    """Yield what is wrong with a file. Raises DataError if it is refused."""
    options = ReadOptions(name, ("en", "de"), "1")
    once = formats.read(data, options).dump()
    if formats.read(once, options).dump() != once:
        yield "a second round trip changes it"
    for how in (capitals, moved):
        document = formats.read(data, options)
        sources = [unit.parts for unit in document.units]
        lines = lines_to_translate(document, overwrite=True)
        translate(document, {line: LineTranslation(how(line)) for line in lines}, overwrite=True)
        made = document.dump()
        try:
            units = list(formats.read(made, options).units)
        except DataError as error:
            yield f"cannot be read after a translation: {error}"
            continue
        for source, unit in zip(sources, units, strict=False):
            target = unit.parts if unit.target is None else unit.target
            if name in WITH_CODES and not (codes_of(source) <= codes_of(target) or is_icu_message(source)):
                yield f"{unit.place}: {source} became {target}"
        if name == "po" and how is capitals and is_catalogue(data) and not is_catalogue(made):
            yield "msgfmt refuses it"


def main() -> int:
    """Check the files; print a line for each format and each problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", metavar="FOLDER", type=Path, nargs="+")
    parser.add_argument("--format", action="append", choices=formats.FORMATS, help="check only these formats")
    options = parser.parse_args()
    wanted = options.format or [name for name in formats.FORMATS if name not in BY_NAME]
    suffixes = {suffix: name for name in wanted for suffix in formats.FORMATS[name].suffixes}
    n_files, n_refused, n_wrong = Counter[str](), Counter[str](), Counter[str]()
    for path in sorted(path for folder in options.folders for path in folder.rglob("*") if path.is_file()):
        name = suffixes.get(path.suffix.lower())
        if name is None:
            continue
        n_files[name] += 1
        try:
            found = list(problems(path.read_bytes(), name))
        except DataError as error:
            n_refused[name] += 1
            print(f"{path}: refused: {error}")
            continue
        except Exception:
            found = [traceback.format_exc().strip().replace("\n", " | ")]
        n_wrong[name] += bool(found)
        for one in found[:3]:
            print(f"{path}: {one}")
    for name, n in n_files.items():
        print(f"{name:<12}{n:>6} files, {n_refused[name]} refused, {n_wrong[name]} wrong")
    return 1 if n_wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
