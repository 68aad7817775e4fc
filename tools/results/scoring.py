"""Score a trained row on the test text, disturbed too; measure its speed and size."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.translation.settings import Settings
from tools.results.recipe import RIVAL, Recipe

PROGRAM = [sys.executable, "-m", "bytenmt"]
PRECISION = "int8"  # of the shipped models; speed, size and noise are measured in it
WINDOW_BYTES = 256  # of the text of language models
N_PARALLEL_WINDOWS = 64
SPEEDS = "text_bytes_per_second_by_batch"


def score_row(recipe: Recipe, row: str, corpora: Path, folder: Path) -> dict[str, Any]:
    """Return all figures of a row that need its test text.

    Raises CalledProcessError, BytenmtError.
    """
    runs = recipe.runs(row, folder)
    if recipe.is_language_model:
        text = str(corpora / recipe.test["text"])
        models = [word for run in runs for word in ("-m", str(run))]  # an ensemble
        told = _output("predict", *models, "--no-reference", text).splitlines()
        told.append(f"bits per byte, in windows: {window_bits(runs, text):.4f}")
        return {"scores": {"predict": told}}
    source, reference = (corpora / recipe.test[side] for side in ("src", "ref"))
    hypotheses = folder / row / "test.hyp"
    started = time.monotonic()
    if recipe.rows[row].program == RIVAL:
        for precision in ("fp32", PRECISION):
            _rival("export.py", str(runs[0]), "--precision", precision)
        texts = ("--src", str(source), "-o", str(hypotheses))
        _rival("score.py", str(runs[0]), "--precision", "fp32", "--beam", str(recipe.beam), *texts)
    else:
        hypotheses.unlink(missing_ok=True)
        words = ("-i", str(source), "-o", str(hypotheses), "--threads", "1", "-b", str(recipe.beam))
        _output("translate", *map(str, runs), *words, *recipe.decode)
    seconds = time.monotonic() - started
    found: dict[str, Any] = {
        "scores": text_scores(hypotheses, reference, recipe.tokenize),
        "decode_seconds": seconds,
        "decode_bytes": hypotheses.stat().st_size,
    }
    if recipe.noise:
        measure = _measure_rival if recipe.rows[row].program == RIVAL else _measure_bytenmt
        found["measured"] = measure(recipe, runs, source, reference, folder / row)
    return found


def window_bits(runs: Sequence[Path], file: str) -> float:
    """Return the bits per byte of a text in windows of WINDOW_BYTES, each read alone.

    A byte is predicted from the bytes before it in its window and the one byte before that, as in
    nanoGPT's estimate of its loss, which draws such windows at random.
    """
    scorer = load_runs(runs, EngineSpec(AUTO, "cpu", "fp32")).make_scorer()
    data = Path(file).read_bytes()
    log_p = 0.0
    every = range(0, len(data), WINDOW_BYTES)
    for first in range(0, len(every), N_PARALLEL_WINDOWS):
        starts = every[first : first + N_PARALLEL_WINDOWS]
        windows = [data[max(0, start - 1) : start + WINDOW_BYTES] for start in starts]
        for start, one in zip(starts, scorer.score_texts(None, windows), strict=True):
            log_p += float(one.log_p[int(start > 0) :].sum())
    return -log_p / math.log(2) / max(1, len(data))


def text_scores(hypotheses: Path, reference: Path, tokenize: str) -> dict[str, dict[str, Any]]:
    """Return chrF, BLEU, lower-cased BLEU and exact matches, with sacreBLEU's signatures."""
    texts, references = (
        path.read_text(encoding="utf-8").split("\n")[:-1] for path in (hypotheses, reference)
    )
    n_equal = sum(text == reference for text, reference in zip(texts, references, strict=True))
    exact = {"score": 100 * n_equal / max(1, len(references)), "signature": "%"}
    found: dict[str, dict[str, Any]] = {}
    lowercased = BLEU(lowercase=True, tokenize=tokenize)
    metrics = {"chrf": CHRF(), "bleu": BLEU(tokenize=tokenize), "bleu_lowercased": lowercased}
    for name, metric in metrics.items():
        score = metric.corpus_score(texts, [references]).score  # before its signature is known
        found[name] = {"score": score, "signature": str(metric.get_signature())}
    return found | {"exact_match": exact}


def _measure_bytenmt(
    recipe: Recipe, runs: list[Path], source: Path, reference: Path, folder: Path
) -> Any:
    """Measure runs of bytenmt on its CPU engine."""
    from bytenmt.data.text_file import TextFile
    from tools.measurements import measure

    files = [folder / f"{run.parent.name}.{PRECISION}.safetensors" for run in runs]
    for run, file in zip(runs, files, strict=True):
        _output("convert", str(run), "--precision", PRECISION, "-o", str(file))
    sources = list(TextFile.open(source))
    references = [line.decode() for line in TextFile.open(reference)]
    settings = Settings.from_dict({"beam": recipe.beam})
    runtime = load_runs(files, EngineSpec(AUTO, AUTO, AUTO, 1))
    found = measure(runtime, sources, references, settings, recipe.tokenize)
    return {
        "chrf_by_noise": {f"{share:g}": chrf for share, chrf in found.noise},
        SPEEDS: {str(speed.batch): speed.bytes_per_second for speed in found.speeds},
        "megabytes": sum(file.stat().st_size for file in files) / 1e6,
    }


def _measure_rival(
    recipe: Recipe, runs: list[Path], source: Path, reference: Path, folder: Path, *options: str
) -> Any:
    """Measure a run of the rival in CTranslate2."""
    written = folder / "rival.json"
    words = ["--precision", PRECISION, "--beam", str(recipe.beam), "--json", str(written)]
    words += ["--src", str(source), "--ref", str(reference), *options]
    _rival("score.py", str(runs[0]), *words)
    found = json.loads(written.read_text(encoding="utf-8"))
    return {key: found[key] for key in ("chrf_by_noise", SPEEDS, "megabytes")}


def _rival(tool: str, *words: str) -> None:
    path = Path(__file__).resolve().parents[1] / "rival" / tool
    subprocess.run([sys.executable, str(path), *words], check=True, stdout=subprocess.DEVNULL)


def _output(*words: str) -> str:
    """Run a bytenmt command and return its output. Raises CalledProcessError."""
    command = [*PROGRAM, *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
