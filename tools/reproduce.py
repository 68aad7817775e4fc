"""Makes a table of results again: trains, decodes and scores each of its rows.

    python tools/get_data.py multi30k -o corpora
    python tools/reproduce.py multi30k-en-de --corpora corpora -o results [--row bahdanau] [--minutes 120]

A table is a file of tools/recipes: the corpus, what is scored, and for each row the options of its training,
whose limits and schedule are in updates or CPU minutes, so that it may be stopped at any moment: by Ctrl-C,
or after --minutes, which ends what is running as Ctrl-C does; the same command goes on. Rows that are done
are not done again. In -o, below the table's name: a folder of each row with its run, its translations and
row.json (scores with signatures, parameters, updates, CPU seconds, bytes seen, hardware, commit); table.md,
with the command of each row that was not run; curves.png.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

RECIPES = Path(__file__).with_name("recipes")
PROGRAM = [sys.executable, "-m", "bytenmt"]
PATIENCE = 120  # seconds that a training may take to save after it was told to stop


class Recipe(NamedTuple):
    """A table. texts: files of the corpora by the options of train that take them; test: "src" and "ref", or
    "text" for byte language models; options: of all trainings; decode: of translate."""

    name: str
    title: str
    texts: Mapping[str, str]
    test: Mapping[str, str]
    options: Sequence[str]
    decode: Sequence[str]
    rows: Mapping[str, Mapping[str, Any]]

    @staticmethod
    def read(path: Path) -> Recipe:
        """The recipe of a table from its file."""
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = {row["name"]: row for row in tree["row"]}
        rest = tree.get("options", []), tree.get("decode", [])
        return Recipe(path.stem, tree["title"], tree["texts"], tree["test"], *rest, rows)

    def training(self, row: str, corpora: Path, run: Path) -> list[str]:
        """The options with which a row is trained."""
        texts = [part for key, file in self.texts.items() for part in (f"--{key}", str(corpora / file))]
        return ["-o", str(run), *texts, *self.options, *self.rows[row]["options"]]


class Stopped(Exception):
    """The time that was given is used; what was running goes on by the same command."""


def train(recipe: Recipe, row: str, corpora: Path, run: Path, until: float) -> None:
    """Begin a row's training or go on with it, to its end. until: of time.monotonic(). Raises Stopped, and
    RuntimeError where training fails."""
    begun = (run / "checkpoints.json").is_file()
    words = [*PROGRAM, "train", *recipe.training(row, corpora, run), *(["--resume"] if begun else [])]
    child = subprocess.Popen(words)
    try:
        child.wait(None if math.isinf(until) else max(0.0, until - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.send_signal(signal.SIGINT)
        child.wait(PATIENCE)
        raise Stopped from None
    if child.returncode:
        raise RuntimeError(f"the training of {row} ended with {child.returncode}")


def scores(recipe: Recipe, corpora: Path, run: Path, folder: Path) -> dict[str, Any]:
    """What a run reaches on the test text. Raises CalledProcessError."""
    if "text" in recipe.test:
        text = str(corpora / recipe.test["text"])
        told = _output("predict", "-m", str(run), "--window", "256", "--no-reference", text)
        return {"predict": told.splitlines()}
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    source, hypotheses = corpora / recipe.test["src"], folder / "test.hyp"
    words = ["translate", "-m", str(run), "-i", str(source), "-o", str(hypotheses), "--threads", "1"]
    started = time.monotonic()
    hypotheses.unlink(missing_ok=True)
    _output(*words, *recipe.decode)
    seconds = time.monotonic() - started
    texts = hypotheses.read_text(encoding="utf-8").split("\n")[:-1]
    references = (corpora / recipe.test["ref"]).read_text(encoding="utf-8").split("\n")[:-1]
    metrics = {"chrf": CHRF(), "bleu": BLEU(), "bleu_lowercased": BLEU(lowercase=True)}
    found: dict[str, Any] = {
        name: {
            "score": metric.corpus_score(texts, [references]).score,
            "signature": str(metric.get_signature()),
        }
        for name, metric in metrics.items()
    }
    return found | {"decode_seconds": seconds, "decode_bytes": hypotheses.stat().st_size}


def record(recipe: Recipe, row: str, corpora: Path, folder: Path) -> dict[str, Any]:
    """All that is told of a row that has been trained."""
    run = folder / "run"
    log = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    curve = [(one["cpu_seconds"], one["valid_bits_per_byte"]) for one in log if "valid_bits_per_byte" in one]
    trained = [one for one in log if "bytes_per_second" in one]
    before = [0.0, *(one["seconds"] for one in trained)]
    return {
        "table": recipe.name,
        "row": row,
        "options": [*recipe.options, *recipe.rows[row]["options"]],
        "decode": list(recipe.decode),
        "scores": scores(recipe, corpora, run, folder),
        "valid_bits_per_byte": min(bits for _, bits in curve),
        "updates": log[-1]["update"],
        "seconds": log[-1]["seconds"],
        "cpu_seconds": log[-1]["cpu_seconds"],
        "bytes_seen": sum(
            one["bytes_per_second"] * max(0.0, one["seconds"] - begun)
            for one, begun in zip(trained, before, strict=False)
        ),
        "parameters": _output("info", str(run)).split("parameters:")[1].split()[0],
        "curve": curve,
        "hardware": _processor(),
        "commit": _commit(),
    }


def table(recipe: Recipe, found: Mapping[str, Mapping[str, Any]], output: Path) -> str:
    """The rows in Markdown, those that were not run with their command."""
    language = "text" in recipe.test
    heads = ["predict"] if language else ["BLEU", "BLEU, lower-cased", "chrF"]
    columns = ["", *heads, "valid bits/byte", "parameters", "updates", "CPU minutes"]
    lines = [
        f"# {recipe.title}",
        "",
        "| " + " | ".join(columns) + " |",
        "|---" + "|---:" * (len(columns) - 1) + "|",
    ]
    for row, about in recipe.rows.items():
        name = about.get("title", row)
        if row not in found:
            lines.append(f"| {name} | not run" + " |" * (len(columns) - 1))
            continue
        one = found[row]
        if language:
            shown = ["; ".join(one["scores"]["predict"])]
        else:
            shown = [f"{one['scores'][key]['score']:.2f}" for key in ("bleu", "bleu_lowercased", "chrf")]
        shown += [f"{one['valid_bits_per_byte']:.4f}", one["parameters"], f"{one['updates']:,}"]
        lines.append(f"| {name} | " + " | ".join([*shown, f"{one['cpu_seconds'] / 60:.0f}"]) + " |")
    for row in recipe.rows:
        if row not in found:
            words = recipe.training(row, Path("corpora"), output / recipe.name / row / "run")
            lines += ["", f"{row}, not run:", "", "    bytenmt train " + " ".join(words)]
    return "\n".join(lines) + "\n"


def draw(path: Path, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Validation bits per byte over CPU minutes, a line each row."""
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(7, 4.5))).add_subplot()
    for row, one in found.items():
        seconds, bits = zip(*one["curve"], strict=True)
        axes.plot([second / 60 for second in seconds], bits, label=row)
    axes.set(xlabel="CPU minutes", ylabel="validation bits per byte", yscale="log")
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")


def _output(*words: str) -> str:
    """What a command of the program prints. Raises CalledProcessError."""
    return subprocess.run([*PROGRAM, *words], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )


def _commit() -> str:
    words = ["git", "-C", str(RECIPES), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8")
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=sorted(path.stem for path in RECIPES.glob("*.toml")))
    parser.add_argument("--corpora", type=Path, required=True, help="what tools/get_data.py has fetched")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument(
        "--row", action="append", default=[], help="only this one; may be given several times"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="of wall clock, then stop")
    args = parser.parse_args()
    recipe = Recipe.read(RECIPES / f"{args.table}.toml")
    folder = args.output / recipe.name
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * args.minutes
    stopped = False
    for row in args.row or recipe.rows:
        done = folder / row / "row.json"
        if done.is_file():
            continue
        try:
            train(recipe, row, args.corpora, folder / row / "run", until)
        except Stopped:
            stopped = True
            break
        done.write_text(json.dumps(record(recipe, row, args.corpora, folder / row), indent=1) + "\n", "utf-8")
    files = {row: folder / row / "row.json" for row in recipe.rows}
    found = {row: json.loads(file.read_text("utf-8")) for row, file in files.items() if file.is_file()}
    (folder / "table.md").write_text(table(recipe, found, args.output), encoding="utf-8")
    if found:
        draw(folder / "curves.png", found)
    print((folder / "table.md").read_text(encoding="utf-8"))
    if stopped:
        sys.exit("stopped in a training: the same command goes on")


if __name__ == "__main__":
    main()
