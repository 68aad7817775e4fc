"""Measure how well bits per byte find wrong translations.

    bytenmt translate MODEL -i test.en --format jsonl | python tools/wrong_lines.py --ref test.de

Prints the lines that are not their reference, the area under the ROC curve (the probability that a wrong line
has more bits than a right one), and Spearman's correlation of bits with chrF.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.chrf import CHRF


class Detection(NamedTuple):
    """Measures of how well bits find the lines that differ from their reference."""

    n: int
    n_wrong: int
    area: float | None  # None if all lines are right or all wrong
    correlation: float | None  # None if all values are equal


def detection(bits: Sequence[float], texts: Sequence[str], references: Sequence[str]) -> Detection:
    """Compare the bits per byte of each translation with whether it equals its reference."""
    pairs = list(zip(texts, references, strict=True))
    wrong = np.array([text != reference for text, reference in pairs], bool)
    chrf = [CHRF().sentence_score(text, [reference]).score for text, reference in pairs]
    ranks, of_chrf = _ranks(bits), _ranks(chrf)
    n_wrong, n_right = int(wrong.sum()), int((~wrong).sum())
    area = None
    if n_wrong and n_right:  # Mann and Whitney's statistic
        area = float((ranks[wrong].sum() - n_wrong * (n_wrong + 1) / 2) / (n_wrong * n_right))
    alike = len(bits) < 2 or not ranks.std() or not of_chrf.std()
    correlation = None if alike else float(np.corrcoef(ranks, of_chrf)[0, 1])
    return Detection(len(bits), n_wrong, area, correlation)


def _ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return ranks from 1; equal values share their mean rank."""
    _, index, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[index]


def main(arguments: Sequence[str] | None = None, lines: Iterable[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ref", type=Path, required=True, help="references, line by line")
    args = parser.parse_args(arguments)
    records = [json.loads(line) for line in lines or sys.stdin]
    references = args.ref.read_text(encoding="utf-8").split("\n")[:-1]
    bits = [record["bits_per_byte"] or 0.0 for record in records]
    print(json.dumps(detection(bits, [record["text"] for record in records], references)._asdict()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
