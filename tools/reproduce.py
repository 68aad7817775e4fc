"""Reproduce a table of results: train, decode and score each of its rows.

    python tools/get_data.py multi30k -o corpora
    python tools/reproduce.py multi30k-en-de --corpora corpora -o results --minutes 120

The budget of a row may be given in minutes. It is converted to updates by timing the training once,
alone on an idle machine; after that the training may share the machine with other work:

    python tools/reproduce.py tatoeba-equal-minutes --corpora corpora -o results --time 5

A table is a file of tools/recipes: the corpus, the test text, and the training options of each row.
Limits and schedules are in updates or minutes, so that a training may be interrupted at any moment,
by Ctrl-C or after --minutes, and the same command resumes it. Finished rows are not repeated; rows
that another one depends on (ensemble members, teachers, the run that it is initialised from) are
run before it. The output goes to a folder of -o with the table's name: for each row a folder with
its run, its translations and row.json (scores with signatures, parameters, updates, seconds,
hardware, commit); table.md, with the command of each row that was not run, or not to its end; and
curves.png.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

import msgspec

from bytenmt.errors import BytenmtError
from bytenmt.evaluation.comparison import read_metrics
from tools.extras import tool_parser
from tools.results.recipe import FOLDER, RIVAL, Recipe, each_file
from tools.results.scoring import PROGRAM, score_row
from tools.results.tables import draw, table

TOOLS = Path(__file__).resolve().parent
PATIENCE_SECONDS = 120  # seconds that an interrupted training may take to save its checkpoint


class TrainingStopped(Exception):
    """The time limit was reached or Ctrl-C was pressed; the same command resumes the training."""


def train(recipe: Recipe, row: str, corpora: Path, folder: Path, until: float) -> None:
    """Start or resume a row's training and run it to its end.

    until: deadline on the clock of time.monotonic(). Raises TrainingStopped at the deadline and
    RuntimeError where training fails.
    """
    one = recipe.rows[row]
    run = folder / row / "run"
    if one.minutes and recipe.timed_rate(row, folder) is None:
        raise BytenmtError(
            f"row {row} has a budget of {one.minutes:g} minutes: time it first, by --time 5"
        )
    if one.distil:
        _distil(recipe, row, corpora, folder, until)
    begun = any(run.glob("trainer.*")) or (run / "checkpoint.pt").is_file()
    more = ["--resume"] if begun else []
    words = [*_program(one.program), *recipe.training_arguments(row, corpora, folder), *more]
    _run_program(words, f"the training of {row}", until)


def _distil(recipe: Recipe, row: str, corpora: Path, folder: Path, until: float) -> None:
    """Translate a row's source texts with its teachers, unless that is done. Raises as train does.

    Sequence-level knowledge distillation (Kim and Rush 2016). Pairs with a tab or an empty side are
    left out.
    """
    for source, pairs in zip(recipe.sources(row), recipe.distilled_files(row, folder), strict=True):
        if pairs.is_file():
            continue
        texts = pairs.with_suffix(".hyp")
        own = corpora / source
        if not texts.is_file():
            words = [*PROGRAM, "translate", *map(str, recipe.teachers(row, folder)), "-i", str(own)]
            words += ["-o", str(texts), "-b", str(max(2, recipe.beam)), "--threads", "1"]
            words += ["--resume", "--precision", "int8"]
            _run_program(words, f"the translations for {row}", until)
        contents = (file.read_bytes().decode() for file in (own, texts))
        sides = (content.removesuffix("\n").split("\n") for content in contents)
        both = [
            pair for pair in zip(*sides, strict=True) if all(pair) and "\t" not in "".join(pair)
        ]
        pairs.write_text("".join(f"{line}\t{text}\n" for line, text in both), encoding="utf-8")


def time_row(recipe: Recipe, row: str, corpora: Path, folder: Path, minutes: float) -> float:
    """Train a row for a number of minutes; store and return its updates per minute.

    Reading text, compilation and validation are not counted. The machine should be otherwise idle.
    Raises as train does, and BytenmtError where the minutes are too few for two records of metrics.
    """
    run = recipe.timing_folder(row, folder)
    words = recipe.timing_arguments(row, corpora, folder, minutes)
    shutil.rmtree(run, ignore_errors=True)
    run.parent.mkdir(parents=True, exist_ok=True)
    program = _program(recipe.rows[row].program)
    _run_program([*program, *words], f"the timing of {row}", math.inf)
    rate = updates_per_minute(read_metrics(run))
    timing = {"updates_per_minute": rate, "minutes": minutes, **_circumstances()}
    run.with_suffix(".json").write_text(json.dumps(timing, indent=1) + "\n", "utf-8")
    shutil.rmtree(run)
    return rate


def updates_per_minute(records: Sequence[Mapping[str, Any]]) -> float:
    """Return the updates per minute between consecutive training records.

    A validation record ends the interval before it, so that validation is not timed. Raises
    BytenmtError where no two training records are consecutive.
    """
    updates = 0
    seconds = 0.0
    for one, other in zip(records, records[1:], strict=False):
        if "train_bits_per_byte" in one and "train_bits_per_byte" in other:
            updates += other["update"] - one["update"]
            seconds += other["seconds"] - one["seconds"]
    if not updates:
        raise BytenmtError("no updates were timed: give --time more minutes")
    return 60 * updates / seconds


def _program(name: str) -> list[str]:
    """Return the command that trains a row with this program."""
    return [sys.executable, str(TOOLS / "rival/train.py")] if name == RIVAL else [*PROGRAM, "train"]


def _run_program(words: Sequence[str], what: str, until: float) -> None:
    """Run a program and interrupt it at the deadline.

    Raises as train does. what: name in error messages.
    """
    child = subprocess.Popen(words)
    try:
        child.wait(None if math.isinf(until) else max(0.0, until - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.send_signal(signal.SIGINT)
        child.wait(PATIENCE_SECONDS)
        raise TrainingStopped from None
    if child.returncode:
        raise RuntimeError(f"{what} ended with {child.returncode}")


def record(recipe: Recipe, row: str, corpora: Path, folder: Path) -> dict[str, Any]:
    """Return the contents of row.json for a trained row."""
    one = recipe.rows[row]
    rate = recipe.timed_rate(row, folder)
    logs = [read_metrics(run) for run in recipe.runs(row, folder)]
    curve = learning_curve(logs[0], rate if one.minutes else None)
    return {
        "table": recipe.name,
        "row": row,
        "options": [*recipe.options, *one.options],
        "minutes": one.minutes,
        "updates_per_minute": rate,
        "decode": ["-b", str(recipe.beam), *recipe.decode],
        **score_row(recipe, row, corpora, folder),
        "valid_bits_per_byte": None if one.ensemble else min(bits for _, bits in curve),
        "updates": sum(log[-1]["update"] for log in logs),
        "seconds": sum(log[-1]["seconds"] for log in logs),
        "parameters": f"{sum(_parameters(one.program, run) for run in recipe.runs(row, folder)):,}",
        "curve": [] if one.ensemble else curve,
        **_circumstances(),
    }


def learning_curve(
    records: Sequence[Mapping[str, Any]], rate: float | None
) -> list[tuple[float, float]]:
    """Return the seconds and the validation bits per byte of each validation of a training.

    rate: updates per minute of an idle machine, where they were timed: a training beside other work
    takes longer, and is drawn as if it had run alone.
    """
    scored = [at for at in records if "valid_bits_per_byte" in at]
    seconds = [60 * at["update"] / rate if rate else at["seconds"] for at in scored]
    return [(second, at["valid_bits_per_byte"]) for second, at in zip(seconds, scored, strict=True)]


def _parameters(program: str, run: Path) -> int:
    if program == RIVAL:
        return int(json.loads((run / "config.json").read_text(encoding="utf-8"))["parameters"])
    words = [*PROGRAM, "info", str(run)]
    output = subprocess.run(words, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    return int(output.split("parameters:")[1].split()[0].replace(",", ""))


def _circumstances() -> dict[str, str]:
    """Return the processor and the commit of a measurement."""
    words = ["git", "-C", str(TOOLS), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, capture_output=True, encoding="utf-8").stdout.strip()
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    names = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return {"hardware": next(names, platform.machine()), "commit": commit}


def main() -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    parser.add_argument("table", choices=sorted(path.stem for path in FOLDER.glob("*.toml")))
    parser.add_argument("--corpora", type=Path, required=True, help="folder of tools/get_data.py")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--row", action="append", default=[], help="only this row, all seeds")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many")
    told = "only time the rows whose budget is in minutes, each for so many minutes"
    parser.add_argument("--time", type=float, metavar="MINUTES", help=told)
    args = parser.parse_args()
    try:
        recipe = Recipe.from_file(FOLDER / f"{args.table}.toml")
        if args.time:
            return time_rows(recipe, args)
        stopped = make(recipe, args)
    except (BytenmtError, RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f"Error: {error}")
    if stopped:
        sys.exit("stopped during a training: run the same command again to continue")


def time_rows(recipe: Recipe, args: argparse.Namespace) -> None:
    """Time the rows with a budget in minutes, one seed of each, and print budgets in updates."""
    folder = args.output / recipe.name
    timed = {}
    for row in recipe.select_rows(args.row):
        base = row.partition("@")[0]
        minutes = recipe.rows[row].minutes
        if minutes and base not in timed:
            _check_texts(recipe, row, args.corpora)
            timed[base] = time_row(recipe, row, args.corpora, folder, args.time)
            updates = round(minutes * timed[base])
            print(f"{base}: {timed[base]:.1f} updates a minute, {updates:,} in {minutes:g} minutes")


def _write_table(recipe: Recipe, corpora: Path, folder: Path, rows: Sequence[str]) -> None:
    """Write the table and draw its pictures; print the given rows of it."""
    files = {row: folder / row / "row.json" for row in recipe.rows}
    done = {row: file for row, file in files.items() if file.is_file()}
    found = {row: json.loads(file.read_text("utf-8")) for row, file in done.items()}
    (folder / "table.md").write_text(table(recipe, found, corpora, folder), encoding="utf-8")
    if found:
        draw(folder, recipe, found)
    printed = msgspec.structs.replace(recipe, row=tuple(recipe.rows[row] for row in rows))
    print(table(printed, {row: found[row] for row in rows if row in found}, corpora, folder))


def _check_texts(recipe: Recipe, row: str, corpora: Path) -> None:
    """Raise BytenmtError where a training or test text of a row is missing."""
    named = [*(recipe.texts | recipe.rows[row].texts).values(), *recipe.test.values()]
    for name in chain.from_iterable(map(each_file, named)):
        if not (corpora / name).is_file():
            data_set = Path(name).parts[0]
            cure = f": fetch it by tools/get_data.py {data_set} -o {corpora}" if "/" in name else ""
            raise BytenmtError(f"{corpora / name} does not exist{cure}")


def make(recipe: Recipe, args: argparse.Namespace) -> bool:
    """Run the selected rows and write the table; return whether time ran out before the end."""
    folder = args.output / recipe.name
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * args.minutes
    stopped = False
    for row in recipe.with_dependencies(recipe.select_rows(args.row)):
        done = folder / row / "row.json"
        if done.is_file():
            continue
        _check_texts(recipe, row, args.corpora)
        try:
            if not recipe.rows[row].ensemble:
                train(recipe, row, args.corpora, folder, until)
        except TrainingStopped:
            stopped = True
            break
        done.parent.mkdir(exist_ok=True)
        text = json.dumps(record(recipe, row, args.corpora, folder), indent=1)
        done.write_text(f"{text}\n", "utf-8")
    shown = recipe.select_rows(args.row) if args.row else [*recipe.rows]
    _write_table(recipe, args.corpora, folder, shown)
    return stopped


if __name__ == "__main__":
    main()
