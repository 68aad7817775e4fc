"""Warn about probable mistakes in the choice of texts that training would not notice.

Looks at samples, so that a large corpus takes no more than a moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.line_scan import Bytes

PAIRS, CANDIDATES = 50, 1000  # validation pairs that are looked for; pairs of their lengths that are compared
SHARE = 0.1  # of those pairs: from it on they are told of
PIECES, PIECE = 5, 64  # of a validation text that are looked for, and their bytes
LOOKED_AT = 1 << 26  # bytes of a text in which they are
COUNTED = 1 << 20  # bytes of a side that are counted
APART = 0.3  # the least distance, 0 to 2, of two sides' distributions of bytes that can tell them apart

Shares = npt.NDArray[np.float64]


def of_pairs(corpus: ParallelCorpus, valid: ParallelCorpus) -> list[str]:
    """Return warnings about training and validation pairs."""
    return [*_same_sides(corpus), *_same_sides(valid), *_swapped(corpus, valid), *_seen_pairs(corpus, valid)]


def of_texts(texts: Sequence[tuple[Path, Bytes]], path: Path, valid: Bytes) -> list[str]:
    """Return warnings about texts without a source.

    path, valid: of the validation text, which is not empty.
    """
    length = min(PIECE, len(valid))
    begins = np.linspace(0, len(valid) - length, PIECES).astype(int)
    pieces = {valid[begin : begin + length].tobytes() for begin in begins.tolist()}
    found = []
    for name, data in texts:
        seen = sum(re.search(re.escape(piece), data[:LOOKED_AT].data) is not None for piece in pieces)
        if 2 * seen > len(pieces):
            found.append(
                f"the validation text {path} stands in the training text {name}: its bits per byte will"
                " tell what is remembered, not what is learnt"
            )
    return found


def _same_sides(corpus: ParallelCorpus) -> Iterator[str]:
    for part in corpus.parts:
        if part.src is None or len(part.files) < 2 or part.src.digest != part.tgt.digest:
            continue
        if np.array_equal(part.src.data, part.tgt.data):
            yield f"source and target are the same text ({part.name}): the model will learn to copy"


def _swapped(corpus: ParallelCorpus, valid: ParallelCorpus) -> Iterator[str]:
    """Yield a warning if source and target seem to be swapped, judged by the frequencies of bytes."""
    if not corpus.has_source or not valid.has_source:
        return
    source, target = _bytes_of(corpus, True), _bytes_of(corpus, False)
    valid_source, valid_target = _bytes_of(valid, True), _bytes_of(valid, False)
    straight = _distance(valid_source, source) + _distance(valid_target, target)
    crossed = _distance(valid_source, target) + _distance(valid_target, source)
    if _distance(source, target) > APART and 2 * crossed < straight:
        yield (
            f"the validation sides look swapped ({valid.parts[0].name}): the bytes of its source are those of"
            " the training target, and the other way round"
        )


def _bytes_of(corpus: ParallelCorpus, source: bool) -> Shares:
    """Return the frequency of each byte in the first lines of a side, (256,), sum 1."""
    side, n_bytes = [], 0
    for k in range(len(corpus)):
        line = corpus.source(k) if source else corpus.target(k)
        side.append(line)
        n_bytes += len(line)
        if n_bytes >= COUNTED:
            break
    counts = np.bincount(np.frombuffer(b"".join(side), np.uint8), minlength=256)
    shares: Shares = counts / max(1, int(counts.sum()))
    return shares


def _distance(one: Shares, other: Shares) -> float:
    return float(np.abs(one - other).sum())


def _seen_pairs(corpus: ParallelCorpus, valid: ParallelCorpus) -> Iterator[str]:
    """Yield a warning if validation pairs, sampled evenly, are training pairs too."""
    chosen = range(0, len(valid), -(-len(valid) // PAIRS))
    n_seen = sum(_is_in(corpus, valid, k) for k in chosen)
    if n_seen and n_seen >= SHARE * len(chosen):
        yield (
            f"{n_seen} of {len(chosen)} validation pairs that were looked for ({valid.parts[0].name}) are"
            " among the training pairs: validation will tell what is remembered, not what is learnt"
        )


def _is_in(corpus: ParallelCorpus, valid: ParallelCorpus, k: int) -> bool:
    """Return whether the k-th validation pair is one of the first training pairs of its lengths."""
    alike = corpus.target_lengths == valid.target_lengths[k]
    if corpus.has_source:
        alike &= corpus.source_lengths == valid.source_lengths[k]
    target = valid.target(k)
    return any(
        corpus.target(i) == target and (not corpus.has_source or corpus.source(i) == valid.source(k))
        for i in np.flatnonzero(alike)[:CANDIDATES].tolist()
    )
