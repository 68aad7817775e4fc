"""Measure a rival: quality, speed, size, and quality with disturbed sources.

    python tools/rival/score.py runs/rival --src test.en --ref test.de --json rival.json

Speed is UTF-8 bytes of output per second of whole sentences, including subword segmentation, best of three:
line by line, and in batches of 32, sorted by length. Noise disturbs a share of the source characters, as
data.noise does, in the same way in every run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

from bytenmt.checkpoints.weights import METRICS
from bytenmt.data.augment.noise import Letters, noisy_lines
from bytenmt.errors import BytenmtError, DataError
from bytenmt.evaluation.scores import text_scores
from tools.measurements import NOISE_SEED
from tools.rival.recipe import RunInfo
from tools.rival.text import read_lines
from tools.rival.translate import Translator, add_options

NOISE = (0.0, 0.05, 0.1, 0.2)
BATCHES = (1, 32)
ROUNDS = 3


def text_bytes_per_second(translator: Translator, lines: Sequence[str], batch: int) -> float:
    """Return the best rate of a few rounds.

    With batch 1 each line is translated alone, otherwise the translator batches all lines.
    """
    parts = [[line] for line in lines] if batch == 1 else [list(lines)]
    best = 0.0
    for _ in range(ROUNDS):
        started = time.perf_counter()
        texts = [text for part in parts for text in translator.translate(part)]
        seconds = time.perf_counter() - started
        best = max(best, sum(len(text.encode()) for text in texts) / seconds)
    return best


def add_noise(lines: Sequence[str], share: float) -> list[str]:
    """Return the lines with noise on this share of their characters."""
    if not share:
        return list(lines)
    letters = Letters.from_texts(lines)
    return [
        line.decode() for line in noisy_lines([line.encode() for line in lines], share, letters, NOISE_SEED)
    ]


def scores(args: argparse.Namespace) -> dict[str, Any]:
    """Return all figures. Raises BytenmtError."""
    sources, references = read_lines(args.src), read_lines(args.ref)
    if len(sources) != len(references):
        raise DataError(f"{len(sources)} source and {len(references)} reference lines: expected as many")

    def translator(batch: int) -> Translator:
        return Translator(args.folder, args.precision, args.beam, batch, args.threads, args.length_penalty)

    stored, whole = RunInfo.load(args.folder), translator(32)
    clean = text_scores(whole.translate(sources), references)
    noise = {
        f"{share:g}": text_scores(whole.translate(add_noise(sources, share)), references).chrf
        for share in args.noise
    }
    some = sources[: args.speed_lines]
    speed = {str(batch): text_bytes_per_second(translator(batch), some, batch) for batch in BATCHES}
    return {
        **_training_summary(args.folder),
        **clean._asdict(),
        "chrf_by_noise": noise,
        "text_bytes_per_second_by_batch": speed,
        "megabytes": whole.bytes / 1e6,
        "parameters": stored.parameters,
        "precision": args.precision,
        "beam": args.beam,
        "threads": args.threads,
    }


def _training_summary(run: Path) -> dict[str, float]:
    """Return CPU minutes, updates and bits per byte of the last validation. Raises DataError."""
    records = [json.loads(line) for line in read_lines(run / METRICS)]
    validated = [record for record in records if "valid_bits_per_byte" in record]
    if not validated:
        raise DataError(f"{run} has not been validated: let its training end")
    last = validated[-1]
    return {
        "cpu_minutes": last["cpu_seconds"] / 60,
        "updates": last["update"],
        "valid_bits_per_byte": last["valid_bits_per_byte"],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--src", type=Path, required=True, metavar="FILE")
    parser.add_argument("--ref", type=Path, required=True, metavar="FILE")
    parser.add_argument("--noise", type=float, nargs="*", default=NOISE, metavar="SHARE")
    parser.add_argument("--speed-lines", type=int, default=200, help="number of lines to time (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    args = parser.parse_args(arguments)
    try:
        text = json.dumps(scores(args), indent=1)
    except BytenmtError as error:
        sys.exit(f"Error: {error}")
    print(text)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
