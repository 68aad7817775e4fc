"""Score translations by the length of the source, as plotted by Bahdanau et al. 2015 (figure 2).

bytenmt evaluate MODEL --src test.en --ref test.de --hyp-out test.hyp
python tools/by_length.py test.hyp --src test.en --ref test.de
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from bytenmt.evaluation.scores import TextScores, text_scores

MOST_BUCKETS = 8
FEWEST_LINES = 20  # in a bucket; of fewer a score says little


class Bucket(NamedTuple):
    """Scores of lines whose sources have about the same length, in bytes."""

    shortest: int
    longest: int
    n_lines: int
    scores: TextScores


def by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> list[Bucket]:
    """Score lines in buckets of equal size by the length of their sources, shortest first.

    tokenize: see text_scores.
    """
    lengths = [len(source.encode()) for source in sources]
    n_buckets = min(MOST_BUCKETS, max(1, len(lengths) // FEWEST_LINES))
    buckets = []
    for lines in np.array_split(np.argsort(lengths, kind="stable"), n_buckets):
        some = lines.tolist()
        scores = text_scores([hypotheses[i] for i in some], [references[i] for i in some], tokenize)
        buckets.append(Bucket(lengths[some[0]], lengths[some[-1]], len(some), scores))
    return buckets


def table(buckets: Sequence[Bucket]) -> Iterator[str]:
    """Yield a head and a line for each bucket."""
    yield "source bytes   lines   BLEU   chrF  exact match"
    for shortest, longest, n_lines, scores in buckets:
        span = f"{shortest} to {longest}"
        yield f"{span:>12}  {n_lines:6}  {scores.bleu:5.1f}  {scores.chrf:5.1f}  {scores.exact_match:9.1f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("hyp", type=Path, metavar="TRANSLATION")
    parser.add_argument("--src", type=Path, required=True, help="source, line by line")
    parser.add_argument("--ref", type=Path, required=True, help="reference, line by line")
    parser.add_argument("--tokenize", default="13a", help="of BLEU (%(default)s)")
    args = parser.parse_args(arguments)
    texts = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in (args.src, args.hyp, args.ref)]
    if len({len(text) for text in texts}) > 1:
        print(f"error: the files have {', '.join(str(len(text)) for text in texts)} lines", file=sys.stderr)
        return 1
    print("\n".join(table(by_length(texts[0], texts[1], texts[2], args.tokenize))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
