"""Read, rewrite and translate all documents of every format below a folder, and check the results.

    python tools/verify/documents.py FOLDER... [--format NAME] [--show N]
    python tools/verify/documents.py FOLDER... --model RUN [--beam N] [--engine NAME] [--units 100]
    python tools/verify/documents.py --lines TEXT --model RUN …

Three properties of each file are checked. A document written back unchanged must have the same bytes. With
every unit written anew with its own text, all units must be read again as the same text, and everything
between them must be unchanged. With every unit pseudo-translated, with all inline tags kept, the file must
have as many units, with those texts. Prints a line for each format, and the files that fail. Files that are
not valid in their format, of which test suites have many, count as malformed.

With --model the files are translated by the model instead, and of each format about --units units that
contain a placeholder, tag, URL or address are checked: their translations must contain exactly these spans,
and balanced tags must stay balanced. With --lines the first --units lines of a text that have such spans are
written as documents of every format and checked in the same way.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, before what is installed

from bytenmt.decoding.setting_table import KEPT
from bytenmt.decoding.translator import Translator
from bytenmt.documents.document import TEXT, Document, Edit, Parts, Unit, UnitPart, joined_text
from bytenmt.documents.formats import FORMATS, ReadOptions, read
from bytenmt.documents.translation import segment_translator, translate
from bytenmt.errors import DataError
from tools.verify.keep import count_spans, is_balanced
from tools.verify.made_documents import write_documents

BY_NAME = "csv", "tsv", "json", "text"  # only checked with --format: many such files are not documents
CUES = "srt", "vtt"
MARKED_UP = "html", "markdown"  # tags at the end of a unit are not part of it when it is read again
PAIRS = [("en", "fr"), ("en-us", "de"), ("en", "ko")]


def read_options(name: str, data: bytes) -> ReadOptions:
    """Return options that make a file of a format translatable."""
    if name == "tmx":
        return ReadOptions(
            pair=next((p for p in PAIRS if f'lang="{p[1]}'.encode() in data.lower()), ("en", "fr"))
        )
    if name == "xliff":
        return ReadOptions(pair=("en", "fr"))
    return ReadOptions(column="1") if name in ("csv", "tsv") else ReadOptions()


def pseudo_translate(parts: Parts) -> Parts:
    """Return other text with the same inline tags, beside which it is unchanged."""
    return tuple(
        UnitPart(re.sub(r"[^\W\d_]\b", r"\g<0>q\g<0>", part.text.swapcase())) if part.kind == TEXT else part
        for part in parts
    )


def outermost(document: Document) -> list[Unit]:
    """Return the units that are not inside others, unlike an alternative text in a paragraph."""
    found, end = list[Unit](), -1
    for unit in document.units:
        if unit.insert is None or unit.target is None or unit.start >= end:
            found.append(unit)
            end = max(end, unit.end)
    return found


def rewrite_units(document: Document) -> bytes:
    """Return the document with the target of every unit written anew."""
    units = [(unit, unit.target) for unit in outermost(document)]
    return document.replaced(
        Edit(unit.start, unit.end, unit.write(target, False)) for unit, target in units if target is not None
    )


def words(values: Sequence[Parts | None]) -> list[str]:
    """Return the words of plain text.

    Only words are compared in plain text, because a rewrapped paragraph may be read as several lines.
    """
    return " ".join(joined_text(value or ()) for value in values).split()


def text_between_units(document: Document) -> list[str]:
    """Return the text between the units."""
    ends = [0, *(unit.end for unit in outermost(document))]
    starts = [*(unit.start for unit in outermost(document)), len(document.text)]
    return [document.text[end:start] for end, start in zip(ends, starts, strict=True)]


def find_faults(data: bytes, name: str, path: Path, more: ReadOptions) -> tuple[int, list[str]]:
    """Return the number of units of a file, and descriptions of its faults. Raises DataError."""
    document = read(data, name, path, more)
    same = document.with_units([None if u.target is None else (u.target, False) for u in document.units])
    ordered = sorted(outermost(document), key=lambda unit: unit.start)
    if any(one.end > other.start for one, other in zip(ordered, ordered[1:], strict=False)):
        return len(ordered), ["units overlap"]
    found = [] if same == data else ["not the same bytes"]
    try:
        found += [
            *_rewriting_faults(document, name, path, more),
            *_translation_faults(document, name, path, more),
        ]
    except DataError as error:
        found.append(f"what was written is malformed: {error}")
    return len(document.units), found


def _rewriting_faults(document: Document, name: str, path: Path, more: ReadOptions) -> Iterator[str]:
    """Yield the faults of a file after every unit was written anew."""
    there = [unit.target for unit in document.units]
    again = read(rewrite_units(document), name, path, more)
    if name == "docx":
        texts = [[_words_of(unit, unit.source, True) for unit in one.units] for one in (document, again)]
        if texts[0] != texts[1]:
            yield "written anew, it has other words"
        return
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
    if text_between_units(document) != text_between_units(again):
        yield "written anew, the text between units differs"


def _translation_faults(document: Document, name: str, path: Path, more: ReadOptions) -> Iterator[str]:
    """Yield the faults of a file after every unit was pseudo-translated."""
    values = [(pseudo_translate(unit.source), number % 2 > 0) for number, unit in enumerate(document.units)]
    filled = read(document.with_units(values), name, path, more)
    if name == "text":
        if words([value for value, _ in values]) != words([unit.target for unit in filled.units]):
            yield "translated, it has other words"
        return
    if len(filled.units) != len(values):
        yield f"translated, it has {len(filled.units)} units, not {len(values)}"
    for unit, (value, _) in zip(filled.units, values, strict=False):
        if _words_of(unit, unit.target or (), name == "docx") != _words_of(unit, value, name == "docx"):
            yield f"translated, {value!r} is read as {unit.target!r}"
            return


def _words_of(unit: Unit, parts: Parts, is_word: bool) -> list[str]:
    """Return the words of a unit, without its inline tags where rewriting may change them.

    That is where units are inside other units, and in Word, where the most frequent format of a paragraph has
    no tag.
    """
    own = parts if unit.insert is None and not is_word else [part for part in parts if part.kind == TEXT]
    return joined_text(tuple(own)).split()


class SpanCounts(NamedTuple):
    """Units with spans, and descriptions of units with other spans and of units with mangled tags."""

    n_units: int
    other: list[str]
    mangled: list[str]


def count_kept_spans(
    data: bytes, name: str, path: Path, more: ReadOptions, translator: Translator
) -> SpanCounts:
    """Check the spans in a model's translation of a file: by unit, by cue, or in all. Raises DataError."""
    document = read(data, name, path, more)
    n_units = sum(bool(count_spans(joined_text(unit.source))) for unit in document.units)
    if not n_units:
        return SpanCounts(0, [], [])
    limit = translator.max_source_bytes
    written, _ = translate(document, segment_translator(translator), limit=limit, overwrite=True)
    again = read(written, name, path, more)
    if name in CUES:
        cues = [unescape(one.text).replace("\r\n", "\n").split("\n\n") for one in (document, again)]
        texts = list(zip(*cues, strict=True))
    elif name in MARKED_UP:
        texts = [(unescape(document.text), unescape(again.text))]
    elif len(again.units) != len(document.units):
        return SpanCounts(n_units, [f"{path}: {len(document.units)} units, then {len(again.units)}"], [])
    else:
        units = zip(document.units, again.units, strict=True)
        texts = [
            (joined_text(before.source), joined_text(after.target)) for before, after in units if after.target
        ]
    other = [
        f"{path}: {describe_difference(one, two)}"
        for one, two in texts
        if count_spans(one) != count_spans(two)
    ]
    mangled = [f"{one!r} became {two!r}" for one, two in texts if is_balanced(one) and not is_balanced(two)]
    return SpanCounts(n_units, other, mangled)


def describe_difference(one: str, other: str) -> str:
    """Describe the spans that only one of two texts has."""
    before, after = count_spans(one), count_spans(other)
    return f"without {dict(before - after)}, with {dict(after - before)}"


def report_kept_spans(
    paths: Sequence[tuple[str, Path]], translator: Translator, enough: int, show: int
) -> int:
    """Print for each format how many spans are kept; return the exit code. enough: units of a format."""
    found: dict[str, SpanCounts] = {}
    for name, path in paths:
        so_far = found.setdefault(name, SpanCounts(0, [], []))
        if so_far.n_units < enough:
            data = path.read_bytes()
            try:
                more = count_kept_spans(data, name, path, read_options(name, data), translator)
            except DataError as error:
                print(f"  {name}: {error}")
                continue
            n_units, other, mangled = so_far
            found[name] = SpanCounts(n_units + more.n_units, other + more.other, mangled + more.mangled)
    for name, (n_units, other, mangled) in found.items():
        print(
            f"{name:10} {n_units:6} units with spans {len(other):4} have others {len(mangled):4} are mangled"
        )
        for line in [*other, *mangled][:show]:
            print(f"  {line}")
    return 1 if any(one.other or one.mangled for one in found.values()) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--format", action="append", choices=FORMATS, help="only these formats")
    parser.add_argument("--show", type=int, default=20, help="maximum number of failures to print")
    parser.add_argument("--model", type=Path, help="translate the files with this run")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--engine", default="auto")
    parser.add_argument(
        "--lines", type=Path, help="text whose lines are written as documents of every format"
    )
    parser.add_argument(
        "--units",
        type=int,
        default=100,
        help="approximate number of units with spans to check for each format",
    )
    options = parser.parse_args()
    if options.lines:
        with tempfile.TemporaryDirectory() as folder:
            lines = options.lines.read_text(encoding="utf-8").split("\n")
            write_documents([line for line in lines if count_spans(line)][: options.units], Path(folder))
            options.folders, options.format = [Path(folder)], options.format or list(FORMATS)
            return check_folders(options)
    return check_folders(options)


def check_folders(options: argparse.Namespace) -> int:
    """Check the files below the folders and print the results; return the exit code."""
    files, units, bad, malformed, shown = Counter[str](), Counter[str](), Counter[str](), Counter[str](), 0
    formats = options.format or [name for name in FORMATS if name not in BY_NAME]
    suffixes = {suffix: name for name in formats for suffix in FORMATS[name].suffixes}
    every = sorted(path for folder in options.folders for path in folder.rglob("*") if path.is_file())
    paths = [(suffixes[path.suffix.lower()], path) for path in every if path.suffix.lower() in suffixes]
    if options.model:
        translator = Translator.load(
            options.model, threads=1, engine=options.engine, beam=options.beam, keep=list(KEPT)
        )
        return report_kept_spans(paths, translator, options.units, options.show)
    for name, path in paths:
        try:
            data = path.read_bytes()
            n_units, wrong = find_faults(data, name, path, read_options(name, data))
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
