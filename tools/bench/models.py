"""Train all five architectures on the sample data with the same time budget; print a table of scores.

    python tools/bench/models.py --minutes 5

Each architecture is also trained as a control that cannot see its source: every source line is a single dash.
Every run is `bytenmt train` in a process of its own. Finished runs in --out are reused; the figures are
measured again.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import torch

from bytenmt.architectures.parameters import n_parameters
from bytenmt.architectures.presets import PRESETS
from bytenmt.checkpoints.weights import METRICS
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.decoding.translator import Translator
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.evaluation.scores import text_scores

DATA = Path(__file__).parents[2] / "data"
COLUMNS = (
    ("exact_match", "exact match %", "{:.1f}"),
    ("chrf", "chrF", "{:.1f}"),
    ("bits_per_byte", "bits/byte", "{:.3f}"),
    ("parameters", "parameters", "{:,}"),
    ("train_bytes_per_second", "training B/s", "{:,.0f}"),
    ("decode_bytes_per_second", "decoding B/s", "{:,.0f}"),
    ("blind_exact_match", "exact match % blind", "{:.1f}"),
    ("blind_chrf", "chrF blind", "{:.1f}"),
    ("blind_bits_per_byte", "bits/byte blind", "{:.3f}"),
)


def source_text(options: argparse.Namespace, part: str, source: bool) -> Path:
    """Return the source file of "train", "valid" or "test"; with source=False a file of dashes."""
    path = DATA / f"{part}.{options.direction.split('-')[0]}"
    if source:
        return path
    dashes: Path = options.out / f"{part}.dashes"
    dashes.parent.mkdir(parents=True, exist_ok=True)
    dashes.write_bytes(b"-\n" * path.read_bytes().count(b"\n"))
    return dashes


def train(run: Path, arch: str, options: argparse.Namespace, source: bool) -> None:
    """Train a run in its own process; a finished run is left as it is."""
    tgt = options.direction.split("-")[1]
    command = [sys.executable, "-m", "bytenmt", "train", "-o", str(run), "--arch", arch, "--resume"]
    command += ["--preset", options.preset, "--max-minutes", str(options.minutes)]
    command += ["--threads", str(options.threads), "--tgt", str(DATA / f"train.{tgt}")]
    command += ["--valid-tgt", str(DATA / f"valid.{tgt}")]
    for option, part in (("--src", "train"), ("--valid-src", "valid")):
        command += [option, str(source_text(options, part, source))]
    subprocess.run(command, check=True)


def measure(run: Path, options: argparse.Namespace, source: bool) -> dict[str, float]:
    """Return a run's test scores, number of parameters and speeds.

    Training speed is the median over the log of source plus target bytes per second. Decoding speed is output
    bytes per second, greedy, for the whole test set in batches, without loading.
    """
    tgt = options.direction.split("-")[1]
    runtime = load_runs([run], EngineSpec(device="cpu", precision="fp32", threads=options.threads))
    corpus = ParallelCorpus.open(source_text(options, "test", source), DATA / f"test.{tgt}")
    lines = [corpus.src.line(i) if corpus.src else b"" for i in range(len(corpus))]
    translator = Translator.from_runtime(runtime)
    translator.translate(lines[:8])
    started = time.perf_counter()
    hypotheses = translator.translate(lines)
    seconds = time.perf_counter() - started
    texts = [text.decode() for text in hypotheses]
    scores = text_scores(texts, [corpus.tgt.line(i).decode() for i in range(len(corpus))])
    log = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    speeds = [record["bytes_per_second"] for record in log if "bytes_per_second" in record]
    return {
        "exact_match": scores.exact_match,
        "chrf": scores.chrf,
        "bits_per_byte": bits_per_byte(log_probabilities(runtime.reader(), corpus), corpus.target_lengths),
        "parameters": n_parameters(runtime.runs[0].config.model),
        "train_bytes_per_second": statistics.median(speeds),
        "decode_bytes_per_second": sum(map(len, hypotheses)) / seconds,
    }


def table(rows: dict[str, dict[str, float]]) -> str:
    """Return the figures as a Markdown table, one row per architecture."""
    lines = ["| " + " | ".join(["", *(title for _, title, _ in COLUMNS)]) + " |"]
    lines.append("|---" + "|---:" * len(COLUMNS) + "|")
    for arch, row in rows.items():
        cells = [form.format(row[key]) for key, _, form in COLUMNS]
        lines.append("| " + " | ".join([arch, *cells]) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Train and compare the five architectures on the sample.")
    parser.add_argument("--minutes", type=float, default=5.0, help="training time of each run")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="tiny")
    parser.add_argument("--arch", nargs="+", default=list(PRESETS["tiny"]))
    parser.add_argument("--direction", choices=("ko-en", "en-ko"), default="ko-en")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("runs/models"))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    rows = {}
    for arch in options.arch:
        runs = {source: options.out / (arch if source else f"{arch}-blind") for source in (True, False)}
        for source, run in runs.items():
            train(run, arch, options, source)
        seen, blind = (measure(run, options, source) for source, run in runs.items())
        rows[arch] = seen | {f"blind_{key}": value for key, value in blind.items()}
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
