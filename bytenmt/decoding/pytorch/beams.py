"""Sentences side by side, what the search knows of each, as tensors. Its twin: decoding/cpu/search/slots.py.

Knows no models and no rule by which a byte is chosen; beam_search.py does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bytenmt.decoding.interface import Options
from bytenmt.decoding.pytorch.constraints import Owing
from bytenmt.decoding.pytorch.ngram_blocking import Guard


class Finished(NamedTuple):
    """Hypotheses that have ended, each (n, b): score float64 that ranks them, log_probability float64, step
    and beam int64 at which EOS was chosen. Where there is none both scores are -inf and the step is -1.

    In a beam search they stand best first, otherwise each in the column of its row.
    """

    score: Tensor
    log_probability: Tensor
    step: Tensor
    beam: Tensor

    @staticmethod
    def ended(total: Tensor, step: Tensor, beam: Tensor, options: Options) -> Finished:
        """Hypotheses that end at this step: total, beam (n, b), step (n,)."""
        score = total / ((step + 1).double() ** options.length_penalty)[:, None]
        return Finished(score, total, step[:, None].expand_as(beam), beam)


class History(NamedTuple):
    """What was chosen, written in place: byte (n, T, b) uint8, parent (n, T, b) int32, the beam of the
    step before that it went on from, and score (n, T, b) float64 with it. T: one more than the highest limit;
    of the score 0 where bytes' own scores are not asked for."""

    byte: Tensor
    parent: Tensor
    score: Tensor

    def put(self, at: Tensor, byte: Tensor, parent: Tensor | None, score: Tensor) -> None:
        """Write columns `at` (n, k, b) of a byte, its parent, where there are beams to go on from, and the
        score, all (n, k, b)."""
        self.byte.scatter_(1, at, byte.to(torch.uint8))
        if parent is not None:
            self.parent.scatter_(1, at, parent.to(torch.int32))
        if self.score.shape[1]:
            self.score.scatter_(1, at, score)


class Beams(NamedTuple):
    """n sentences, each with b beams (in sampling: b texts).

    step, limit (n,) int64: bytes chosen, and at most; done (n,) bool.
    forced (n, T) int16: one more than the byte that must come at each step, 0 where any may.
    key (n, b) int64: of each text's draws.
    last (n, b) uint8: the byte chosen last, BOS first; parent (n, b) int64: the beam that it went on from.
    automaton (n, b) int64: see utf8; score (n, b) float64: log-probability so far.
    guard: T is 0 where repetition is not guarded against. passes (n,) int64: that have read drafted bytes.
    owing: nothing where no constraints are asked for.
    """

    step: Tensor
    limit: Tensor
    done: Tensor
    forced: Tensor
    key: Tensor
    last: Tensor
    parent: Tensor
    automaton: Tensor
    score: Tensor
    finished: Finished
    history: History
    guard: Guard
    passes: Tensor
    owing: Owing | tuple[()] = ()


class Chosen(NamedTuple):
    """A step's outcome: byte, parent (n, b) int64, score (n, b) float64, finished, done (n,) bool."""

    byte: Tensor
    parent: Tensor
    score: Tensor
    finished: Finished
    done: Tensor
