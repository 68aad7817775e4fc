"""Measure `bytenmt adapt` on gettext catalogs of programs.

    python tools/verify/adaptation.py -m data/models/en-de --catalog a/de.mo --catalog b/de.mo \
        --training-text corpora/uistrings-eng-deu/train.en --old-src test.en --old-ref test.de -o results

Of each catalog (.mo or .po) 50 random units are the corrections, once for each seed; the model is adapted to
them and translates the others. Units whose source is in the training text are left out. Time is CPU time of
the command and its children. Catalogs are no part of this repository; Debian has them in its packages, as
/usr/share/locale/de/LC_MESSAGES/*.mo.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import polib

from bytenmt.evaluation.scores import text_scores

Pair = tuple[str, str]
WORD = re.compile(r"[^\W\d_]{2}")


def read_catalog(path: Path, known: set[str]) -> list[Pair]:
    """Return the singular one-line units with words whose sources are not known."""
    catalog = polib.mofile(str(path)) if path.suffix == ".mo" else polib.pofile(str(path))
    units = {one.msgid: one.msgstr for one in catalog.translated_entries() if not one.msgid_plural}
    return [
        (source, target)
        for source, target in units.items()
        if WORD.search(source) and "\n" not in source + target and source.strip() not in known
    ]


def write_catalog(path: Path, pairs: Sequence[Pair]) -> None:
    """Write units as a PO file."""
    catalog = polib.POFile()
    catalog.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    catalog.extend(polib.POEntry(msgid=source, msgstr=target) for source, target in pairs)
    catalog.save(str(path))


def run(*arguments: str | int | Path) -> str:
    """Run a command of bytenmt; return what it prints on stderr."""
    command = [sys.executable, "-m", "bytenmt", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stderr


def translate(model: Path, units: Sequence[Pair], folder: Path, beam: int) -> dict[str, str]:
    """Return the translation of each source, as translate-file writes it into a catalog."""
    write_catalog(folder / "in.po", [(source, "") for source, _ in units])
    run("translate-file", model, folder / "in.po", folder / "out.po", "--threads", 1, "-b", beam)
    return {one.msgid: one.msgstr for one in polib.pofile(str(folder / "out.po"))}


def chrf(translations: dict[str, str], units: Sequence[Pair]) -> float:
    """Return chrF of the translations of these units."""
    texts = [translations[source] for source, _ in units]
    return text_scores(texts, [target for _, target in units]).chrf


def main() -> None:
    """Print a row for each catalog and seed, and the medians; write them as JSON lines too."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-m", "--model", type=Path, required=True)
    parser.add_argument("--catalog", type=Path, action="append", required=True)
    parser.add_argument("--training-text", type=Path, action="append", default=[])
    parser.add_argument("--old-src", type=Path, required=True)
    parser.add_argument("--old-ref", type=Path, required=True)
    parser.add_argument("--old-lines", type=int, default=500)
    parser.add_argument("--corrections", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("-b", "--beam", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    known = {
        line for path in arguments.training_text for line in path.read_text(encoding="utf-8").split("\n")
    }
    sides = [
        path.read_text(encoding="utf-8").split("\n")[: arguments.old_lines]
        for path in (arguments.old_src, arguments.old_ref)
    ]
    old_units = list(zip(*sides, strict=True))
    old_before = chrf(translate(arguments.model, old_units, arguments.output, arguments.beam), old_units)
    before: dict[Path, dict[str, str]] = {}
    rows = []
    for seed in range(1, arguments.seeds + 1):
        for path in arguments.catalog:
            units = read_catalog(path, known)
            if path not in before:
                before[path] = translate(arguments.model, units, arguments.output, arguments.beam)
            random.Random(seed).shuffle(units)
            corrections, unseen = units[: arguments.corrections], units[arguments.corrections :]
            new = arguments.output / f"{path.stem}.{seed}"
            write_catalog(arguments.output / "corrections.po", corrections)
            started = resource.getrusage(resource.RUSAGE_CHILDREN)
            said = run(
                *("adapt", arguments.model, arguments.output / "corrections.po", "-o", new),
                *("--seed", seed),
            )
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = ended.ru_utime + ended.ru_stime - started.ru_utime - started.ru_stime
            row = {
                "catalog": path.stem,
                "seed": seed,
                "unseen": len(unseen),
                "before": chrf(before[path], unseen),
                "after": chrf(translate(new, unseen, arguments.output, arguments.beam), unseen),
                "old_before": old_before,
                "old_after": chrf(translate(new, old_units, arguments.output, arguments.beam), old_units),
                "cpu_seconds": seconds,
                "said": said,
            }
            rows.append(row)
            with open(arguments.output / "rows.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(
                f"| {path.stem} | {seed} | {len(unseen)} | {row['before']:.1f} | {row['after']:.1f}"
                f" | {row['after'] - row['before']:+.1f} | {row['old_after'] - old_before:+.2f}"
                f" | {seconds:.0f} |",
                flush=True,
            )
    print("median gain", round(statistics.median(row["after"] - row["before"] for row in rows), 2))
    print("old text", round(old_before, 2), "worst", round(min(r["old_after"] for r in rows) - old_before, 2))


if __name__ == "__main__":
    main()
