"""From the search's tensors back to bytes: hypotheses of sentences that are done, and what is sure of others.

Waits for the device. Knows no models.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bytenmt.decoding.interface import Hypothesis, shared_beginning
from bytenmt.decoding.pytorch.beams import Beams
from bytenmt.errors import BytenmtError

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def harvest(beams: Beams, handles: list[int | None], n_best: int) -> list[tuple[int, list[Hypothesis]]]:
    """Handles and hypotheses of the sentences that are done. handles: of each sentence, None where there is
    none or it has been harvested before; these become None too."""
    done = beams.done.tolist()
    found = [(row, handle) for row, handle in enumerate(handles) if handle is not None and done[row]]
    results = read_back(beams, [row for row, _ in found], n_best)
    for row, _ in found:
        handles[row] = None
    return [(handle, result) for (_, handle), result in zip(found, results, strict=True)]


def read_back(beams: Beams, rows: Sequence[int], n_best: int) -> list[list[Hypothesis]]:
    """Up to n_best hypotheses of each of these sentences, best first. BytenmtError: a sentence has none that
    is a number."""
    if not rows:
        return []
    index = torch.tensor(rows, device=beams.done.device)
    score, log_p, step, beam = (part[index].cpu().numpy() for part in beams.finished)
    passes = beams.passes[index].tolist()
    best = np.argsort(-score, axis=1, kind="stable")[:, :n_best]
    score, log_p, step, beam = (np.take_along_axis(x, best, 1) for x in (score, log_p, step, beam))
    if not (score[:, 0] > -np.inf).all():
        raise BytenmtError("the model's probabilities are not numbers: its training has diverged")
    texts = _texts(beams, index, step, beam)
    return [
        [
            Hypothesis(text, float(log_p[i, j]), float(score[i, j]), passes[i])
            for j, text in enumerate(texts[i])
            if score[i, j] > -np.inf
        ]
        for i in range(len(rows))
    ]


def sure(beams: Beams, row: int) -> bytes:
    """What all texts of a sentence that can still win begin with; of a sentence that is done, its best."""
    if bool(beams.done[row]):
        return read_back(beams, [row], 1)[0][0].text
    index = torch.tensor([row], device=beams.done.device)
    score, _, ended_step, ended_beam = (part[row].cpu().numpy() for part in beams.finished)
    (open_,) = (beams.score[row].cpu().numpy() > -np.inf).nonzero()
    (ended,) = (score > -np.inf).nonzero()
    step = np.concatenate([np.full(len(open_), int(beams.step[row])), ended_step[ended]])
    beam = np.concatenate([open_, ended_beam[ended]])
    texts = _texts(beams, index, step[None], beam[None])[0]
    return shared_beginning(texts or [b""])


def _texts(beams: Beams, rows: Tensor, step: Ints, beam: Ints) -> list[list[bytes]]:
    """The bytes before each step (m, k) on the way to that beam (m, k), of sentences rows (m,) int64."""
    length = int(step.max(initial=0))
    byte, parent = (part[:, :length][rows].cpu().numpy() for part in beams.history)
    if byte.shape[2] == 1 and step.shape[1]:
        return [[parts[: ends[0], 0].tobytes()] for parts, ends in zip(byte, step, strict=True)]
    text: Bytes = np.zeros((*step.shape, length), np.uint8)
    for at in range(length - 1, -1, -1):
        text[:, :, at] = np.take_along_axis(byte[:, at], beam, 1)
        before = np.take_along_axis(parent[:, at], beam, 1)
        beam = np.where(at < step, before, beam)
    return [
        [part[: max(end, 0)].tobytes() for part, end in zip(parts, ends, strict=True)]
        for parts, ends in zip(text, step, strict=True)
    ]
