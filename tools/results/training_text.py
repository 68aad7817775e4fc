"""Scores of a model seen from its training text: what it has read, and what it has not.

Two tables: bits per byte of pairs that the model was trained on beside pairs held out of the same
corpus; and chrF of test lines by the rarest word of their sources in the training text.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.loading import Runtime
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.evaluation.scores import text_scores

N_PAIRS = 300  # pairs of each text whose bits are measured
SEED = 1
MIN_LINES = 10  # fewer lines give no chrF worth printing
HELD_OUT = ("dev", "test")  # stems of the files that no training reads
# Lines by how often the rarest word of their source occurs in the training text: name, at most.
RARITIES: dict[str, int | None] = {"not once": 0, "1 to 5": 5, "6 to 50": 50, "51 to 1,000": 1000}
RARITIES["more often"] = None

_WORD = re.compile(r"[^\W\d_]+")

Pairs = list[tuple[bytes, bytes]]


def training_bits(
    runtime: Runtime, training: Sequence[tuple[Path, Path]]
) -> dict[str, dict[str, float]]:
    """Return bits per byte of pairs of each training text, and of pairs held out of its corpus.

    training: source and target file of each text. The keys are the texts' names (`CORPUS/STEM`)
    and, for held-out text, `CORPUS`.
    """
    found: dict[str, dict[str, float]] = {}
    for source, target in training:
        corpus = source.parent
        found[f"{corpus.name}/{source.stem}"] = {"trained on": _bits(runtime, source, target)}
        for stem in HELD_OUT:
            sides = (corpus / f"{stem}{source.suffix}", corpus / f"{stem}{target.suffix}")
            if corpus.name not in found and all(side.is_file() for side in sides):
                found[corpus.name] = {"held out": _bits(runtime, *sides)}
    return found


def _bits(runtime: Runtime, source: Path, target: Path) -> float:
    """Return the bits per byte of some pairs of two parallel files, drawn by SEED."""
    texts = [TextFile.open(side) for side in (source, target)]
    n_lines = len(texts[0])
    chosen = sorted(random.Random(SEED).sample(range(n_lines), min(N_PAIRS, n_lines)))
    lines = [b"".join(text.line(k) + b"\n" for k in chosen) for text in texts]
    own, other = map(TextFile.from_bytes, lines, (source, target))
    pairs = ParallelCorpus.from_texts(own, other)
    log_p = log_probabilities(runtime.make_scorer(), pairs)
    return bits_per_byte(log_p, np.asarray(pairs.target_lengths))


def count_words(files: Iterable[Path]) -> Counter[str]:
    """Count the words of training sources, case folded."""
    counts: Counter[str] = Counter()
    for file in files:
        counts.update(_WORD.findall(file.read_text("utf-8").casefold()))
    return counts


def rarest_count(line: str, counts: Counter[str]) -> int | None:
    """Return how often the rarest word of a line occurs in the training text, if it has a word."""
    return min((counts[word] for word in _WORD.findall(line.casefold())), default=None)


def chrf_by_rarity(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    counts: Counter[str],
) -> dict[str, dict[str, float]]:
    """Return the number of lines and their chrF by the rarest word of the source."""
    groups: dict[str, list[int]] = {name: [] for name in RARITIES}
    for row, source in enumerate(sources):
        rarest = rarest_count(source, counts)
        if rarest is not None:
            fitting = (name for name, most in RARITIES.items() if most is None or rarest <= most)
            groups[next(fitting)].append(row)
    found = {}
    for name, rows in groups.items():
        if len(rows) >= MIN_LINES:
            own, other = ([side[row] for row in rows] for side in (hypotheses, references))
            found[name] = {"lines": len(rows), "chrf": text_scores(own, other).chrf}
    return found
