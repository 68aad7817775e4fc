"""Makes a table of results again: trains, decodes and scores each of its rows.

    python tools/get_data.py multi30k -o corpora
    python tools/reproduce.py multi30k-en-de --corpora corpora -o results [--row bahdanau] [--minutes 120]

A row may have a budget in minutes, which becomes one in updates once its training was timed alone on a quiet
machine, and may then be trained beside other work:

    python tools/reproduce.py tatoeba-equal-minutes --corpora corpora -o results --time 5

A table is a file of tools/recipes: the corpus, what is scored, and for each row the options of its
training, whose limits and schedule are in updates or CPU minutes, so that it may be stopped at any moment:
by Ctrl-C, or after --minutes, which ends what is running as Ctrl-C does; the same command goes on. Rows
that are done are not done again; rows that another one needs (members of an ensemble, teachers, the run
that it begins with) are done before it. In -o, below the table's name: a folder of each row with its run,
its translations and row.json (scores with signatures, parameters, updates, CPU seconds, bytes seen,
hardware, commit); table.md, with the command of each row that was not run; curves.png, and where rows are
measured speed.png and noise.png.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

from bytenmt.errors import BytenmtError
from tools.results.recipe import FOLDER, RIVAL, Recipe
from tools.results.scoring import PROGRAM, scored
from tools.results.tables import draw, table

TOOLS = Path(__file__).resolve().parent
PATIENCE = 120  # seconds that a training may take to save after it was told to stop


class Stopped(Exception):
    """The time that was given is used; what was running goes on by the same command."""


def train(recipe: Recipe, row: str, corpora: Path, folder: Path, until: float) -> None:
    """Begin a row's training or go on with it, to its end. until: of time.monotonic(). Raises Stopped, and
    RuntimeError where training fails."""
    one, run = recipe.rows[row], folder / row / "run"
    if one.minutes and recipe.timing(row, folder) is None:
        raise BytenmtError(f"row {row} has a budget of {one.minutes:g} minutes: time it first, by --time 5")
    if one.distil:
        _teach(recipe, row, corpora, folder, until)
    begun = any((run / name).is_file() for name in ("checkpoints.json", "checkpoint.pt"))
    more = ["--resume"] if begun else []
    words = [*_program(one.program), *recipe.training(row, corpora, folder), *more]
    _wait(words, f"the training of {row}", until)


def _teach(recipe: Recipe, row: str, corpora: Path, folder: Path, until: float) -> None:
    """Have a row's teachers translate its source texts, where that is not done. Raises as train does."""
    for source, pairs in zip(recipe.sources(row), recipe.distilled(row, folder), strict=True):
        if not pairs.is_file():
            teachers = map(str, recipe.teachers(row, folder))
            beam = str(max(2, recipe.beam))
            words = [*teachers, "--src", str(corpora / source), "-o", str(pairs), "-b", beam]
            words += ["--", "--threads", "1", "--precision", "int8"]
            _wait([sys.executable, str(TOOLS / "distil.py"), *words], f"the translations for {row}", until)


def time_row(recipe: Recipe, row: str, corpora: Path, folder: Path, minutes: float) -> float:
    """Train a row for so many CPU minutes and write down how many updates it makes in one.

    Reading text, compiling and validation are not counted. The machine should do nothing else meanwhile.
    Raises as train does, and BytenmtError where the minutes are too few for two records of metrics.
    """
    run = recipe.timing_run(row, folder)
    words = [*_program(recipe.rows[row].program), *recipe.timed_training(row, corpora, folder, minutes)]
    shutil.rmtree(run, ignore_errors=True)
    run.parent.mkdir(parents=True, exist_ok=True)
    _wait(words, f"the timing of {row}", math.inf)
    rate = updates_per_minute(_log(run))
    told = {"updates_per_minute": rate, "minutes": minutes, "hardware": _processor(), "commit": _commit()}
    run.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    shutil.rmtree(run)
    return rate


def updates_per_minute(records: Sequence[dict[str, Any]]) -> float:
    """Return the updates of a CPU minute between records of training that follow one another.

    Raises BytenmtError where there are none. A record of a validation ends what was timed before it.
    """
    updates, seconds = 0, 0.0
    for one, other in zip(records, records[1:], strict=False):
        if "train_bits_per_byte" in one and "train_bits_per_byte" in other:
            updates += other["update"] - one["update"]
            seconds += other["cpu_seconds"] - one["cpu_seconds"]
    if not updates:
        raise BytenmtError("no updates were timed: give --time more minutes")
    return 60 * updates / seconds


def _program(name: str) -> list[str]:
    """The command that trains with a program of a row."""
    return [sys.executable, str(TOOLS / "rival/train.py")] if name == RIVAL else [*PROGRAM, "train"]


def _wait(words: Sequence[str], what: str, until: float) -> None:
    """Run a program, which is told to stop when the time is used. Raises as train does."""
    child = subprocess.Popen(words)
    try:
        child.wait(None if math.isinf(until) else max(0.0, until - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.send_signal(signal.SIGINT)
        child.wait(PATIENCE)
        raise Stopped from None
    if child.returncode:
        raise RuntimeError(f"{what} ended with {child.returncode}")


def record(recipe: Recipe, row: str, corpora: Path, folder: Path) -> dict[str, Any]:
    """All that is told of a row that is trained."""
    one = recipe.rows[row]
    logs = [_log(run) for run in recipe.runs(row, folder)]
    curve = [(at["cpu_seconds"], at["valid_bits_per_byte"]) for at in logs[0] if "valid_bits_per_byte" in at]
    return {
        "table": recipe.name,
        "row": row,
        "options": [*recipe.options, *one.options],
        "minutes": one.minutes,
        "updates_per_minute": recipe.timing(row, folder),
        "decode": ["-b", str(recipe.beam), *recipe.decode],
        **scored(recipe, row, corpora, folder),
        "valid_bits_per_byte": None if one.ensemble else min(bits for _, bits in curve),
        "updates": sum(log[-1]["update"] for log in logs),
        "seconds": sum(log[-1]["seconds"] for log in logs),
        "cpu_seconds": sum(log[-1]["cpu_seconds"] for log in logs),
        "bytes_seen": sum(map(_bytes_seen, logs)),
        "parameters": f"{sum(_parameters(one.program, run) for run in recipe.runs(row, folder)):,}",
        "curve": [] if one.ensemble else curve,
        "hardware": _processor(),
        "commit": _commit(),
    }


def _log(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def _bytes_seen(log: Sequence[dict[str, Any]]) -> float:
    """Return the source and target bytes of a training that logs its rate; 0 if it does not."""
    trained = [one for one in log if "bytes_per_second" in one]
    before = [0.0, *(one["seconds"] for one in trained)]
    rates = zip(trained, before, strict=False)
    return math.fsum(one["bytes_per_second"] * max(0.0, one["seconds"] - begun) for one, begun in rates)


def _parameters(program: str, run: Path) -> int:
    if program == RIVAL:
        return int(json.loads((run / "config.json").read_text(encoding="utf-8"))["parameters"])
    words = [*PROGRAM, "info", str(run)]
    told = subprocess.run(words, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    return int(told.split("parameters:")[1].split()[0].replace(",", ""))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )


def _commit() -> str:
    words = ["git", "-C", str(TOOLS), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8")
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=sorted(path.stem for path in FOLDER.glob("*.toml")))
    parser.add_argument("--corpora", type=Path, required=True, help="what tools/get_data.py has fetched")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument(
        "--row",
        action="append",
        default=[],
        help="only this row, with all its seeds; may be given several times",
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="of wall clock, then stop")
    parser.add_argument(
        "--time",
        type=float,
        metavar="MINUTES",
        help="only time the rows whose budget is in minutes, each alone for so many CPU minutes",
    )
    args = parser.parse_args()
    try:
        if args.time:
            return time_rows(Recipe.read(FOLDER / f"{args.table}.toml"), args)
        stopped = make(Recipe.read(FOLDER / f"{args.table}.toml"), args)
    except (BytenmtError, RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f"Error: {error}")
    if stopped:
        sys.exit("stopped in a training: the same command goes on")


def time_rows(recipe: Recipe, args: argparse.Namespace) -> None:
    """Time the rows that have a budget in minutes, one for all seeds, and print what that is in updates."""
    folder = args.output / recipe.name
    timed = {}
    for row in recipe.selected(args.row):
        base, minutes = row.partition("@")[0], recipe.rows[row].minutes
        if minutes and base not in timed:
            _check_texts(recipe, row, args.corpora)
            timed[base] = time_row(recipe, row, args.corpora, folder, args.time)
            updates = round(minutes * timed[base])
            print(f"{base}: {timed[base]:.1f} updates a minute, {updates:,} in {minutes:g} minutes")


def _check_texts(recipe: Recipe, row: str, corpora: Path) -> None:
    """Raise BytenmtError where a text that a row learns or is tested on is missing."""
    named = [*(recipe.texts | recipe.rows[row].texts).values(), *recipe.test.values()]
    for name in (name for names in named for name in ([names] if isinstance(names, str) else names)):
        if not (corpora / name).is_file():
            data_set = Path(name).parts[0]
            cure = f": fetch it by tools/get_data.py {data_set} -o {corpora}" if "/" in name else ""
            raise BytenmtError(f"{corpora / name} does not exist{cure}")


def make(recipe: Recipe, args: argparse.Namespace) -> bool:
    """Rows, their files and the table. Returns whether the time was used before the end."""
    folder = args.output / recipe.name
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * args.minutes
    stopped = False
    for row in recipe.needed(recipe.selected(args.row)):
        done = folder / row / "row.json"
        if done.is_file():
            continue
        _check_texts(recipe, row, args.corpora)
        try:
            if not recipe.rows[row].ensemble:
                train(recipe, row, args.corpora, folder, until)
        except Stopped:
            stopped = True
            break
        done.parent.mkdir(exist_ok=True)
        done.write_text(json.dumps(record(recipe, row, args.corpora, folder), indent=1) + "\n", "utf-8")
    files = {row: folder / row / "row.json" for row in recipe.rows}
    found = {row: json.loads(file.read_text("utf-8")) for row, file in files.items() if file.is_file()}
    (folder / "table.md").write_text(table(recipe, found, folder), encoding="utf-8")
    if found:
        draw(folder, recipe, found)
    print((folder / "table.md").read_text(encoding="utf-8"))
    return stopped


if __name__ == "__main__":
    main()
