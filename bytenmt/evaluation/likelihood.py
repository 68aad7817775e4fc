"""Compute natural log-probabilities and bits per byte of given targets.

Bits per byte is the sum of -log2 p over the target, EOS included, divided by the target's bytes
without EOS.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bytenmt.data.corpus import ParallelCorpus
from bytenmt.decoding.scorer import Scorer
from bytenmt.utf8 import EOS

if TYPE_CHECKING:  # it imports PyTorch
    from bytenmt.distributed import Group

LINES_AT_ONCE = 100  # lines that a process scores together


def log_probabilities(
    scorer: Scorer, corpus: ParallelCorpus, group: Group | None = None
) -> npt.NDArray[np.float64]:
    """Return the natural log-probability of each target of a corpus given its source: (m,).

    EOS is included. scorer: of the model. group: processes that share the work, None for one. All
    of them call this, with the same model and corpus, and each gets all m values.
    """
    log_p = np.zeros(len(corpus))
    order = np.argsort(corpus.target_lengths, kind="stable").tolist()
    parts = [order[k : k + LINES_AT_ONCE] for k in range(0, len(order), LINES_AT_ONCE)]
    if group is not None:
        parts = parts[group.rank :: group.size]
    for indices in parts:
        sources = [corpus.source(k) for k in indices] if corpus.has_source else None
        targets = [corpus.target(k) + bytes([EOS]) for k in indices]
        all_scores = scorer.score_texts(sources, targets)
        log_p[indices] = [scores.log_p.sum() for scores in all_scores]
    if group is not None and group.size > 1:
        import torch

        # In place: a pair is zero in all processes but one.
        group.all_reduce(torch.from_numpy(log_p))
    return log_p


def bits_per_byte(log_p: npt.NDArray[np.float64], target_lengths: npt.NDArray[np.int32]) -> float:
    """Return the bits per byte of m targets together, from their log-probabilities and lengths.

    log_p (m,): natural, EOS included; target_lengths (m,): bytes without EOS.
    """
    return -float(log_p.sum()) / math.log(2) / max(1, int(target_lengths.sum(dtype=np.int64)))
