"""The one decode loop: greedy and beam search over a stepper, with the UTF-8 automaton inside.

Knows rows, scores, the automaton, the length rule and when to stop; does not know models. What comes out
is valid UTF-8 by construction: at every step a byte is allowed if the character that it begins or goes on
with can still be finished under the length limit, and EOS only between characters. The mask comes after
the log-softmax, so that a hypothesis' score stays the model's own log-probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bytenmt.alphabet import (
    ACCEPT,
    BOS,
    EOS,
    LONGEST_CHARACTER,
    N_IDS,
    UTF8_NEXT,
    translation_cost,
)
from bytenmt.decoding import Engine, Request
from bytenmt.decoding import Hypothesis as Hypothesis
from bytenmt.errors import BytenmtError

STOP_TEST_EVERY = 8  # steps between looks at the device


def decode(engine: Engine, requests: Sequence[Request]) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Each request's index and hypotheses, best first, as they are done.

    The first waiting ones are admitted as soon as a quarter of the places is free: encoding them costs a
    call, which is better shared.
    """
    index_of: dict[int, int] = {}  # by the engine's handle
    n_admitted = 0
    while n_admitted < len(requests) or index_of:
        room = engine.room()
        if n_admitted < len(requests) and (not index_of or 4 * room >= engine.capacity):
            batch = list(requests[n_admitted : n_admitted + room])
            index_of.update(zip(engine.admit(batch), range(n_admitted, len(requests)), strict=False))
            n_admitted += len(batch)
        engine.advance(STOP_TEST_EVERY)
        for handle, hypotheses in engine.finished():
            if handle in index_of:  # not one that an abandoned loop has left
                yield index_of.pop(handle), hypotheses


class Stepper(Protocol):
    """What the loop drives; see engines."""

    n: int
    beam: int
    device: torch.device

    def step(self, last: Tensor, parents: Tensor | None) -> Tensor:
        """last (n, beam) uint8, parents (n, beam) int64 or None -> log-probabilities (n, beam, 256)."""
        ...


class _Finished(NamedTuple):
    """The best finished hypotheses, each (n, beam): score (-inf where there is none yet), log-probability,
    and the step and beam at which EOS was chosen."""

    score: Tensor
    log_probability: Tensor
    step: Tensor
    beam: Tensor

    def merge(self, other: _Finished) -> _Finished:
        """The best of both, best first."""
        both = [torch.cat(pair, dim=1) for pair in zip(self, other, strict=True)]
        score, pick = both[0].topk(self.score.shape[1], dim=1)
        return _Finished(score, *(part.gather(1, pick) for part in both[1:]))


def search(stepper: Stepper, limits: Tensor, length_penalty: float = 1.0) -> list[list[Hypothesis]]:
    """Decode n sentences; greedy where the stepper's beam is 1.

    limits (n,) int64: bytes of output at most, EOS not counted. A sentence is done when `beam` hypotheses
    have ended, or when no open one can still beat the best ended one. What a sentence yields does not
    depend on its batch mates. Returns for each sentence up to `beam` hypotheses, best first.
    """
    n, beam, device = stepper.n, stepper.beam, stepper.device
    limits = limits.to(device)
    cost = torch.from_numpy(translation_cost()).to(device).long()
    follow = torch.from_numpy(UTF8_NEXT).to(device).long()

    last = torch.full((n, beam), BOS, dtype=torch.uint8, device=device)
    parents: Tensor | None = None
    automaton = torch.full((n, beam), ACCEPT, dtype=torch.int64, device=device)
    done = torch.zeros(n, dtype=torch.bool, device=device)
    scores = finished = None
    history: list[tuple[Tensor, Tensor]] = []  # (bytes, parents) of every step, each (n, beam)

    for step in range(int(limits.max()) + 1):
        log_p = stepper.step(last, parents)
        if scores is None or finished is None:
            scores = log_p.new_full((n, beam), -torch.inf)
            finished = _Finished(scores, scores, torch.zeros_like(automaton), torch.zeros_like(automaton))
            scores = scores.index_fill(1, torch.zeros(1, dtype=torch.int64, device=device), 0.0)
        room = (limits - step).clamp(max=LONGEST_CHARACTER)  # never as much as FORBIDDEN costs
        allowed = cost[automaton] <= room[:, None, None]
        total = (scores[:, :, None] + log_p).masked_fill(~allowed, -torch.inf)
        # As many non-EOS candidates as beams are among the best 2 * beam: each beam has one EOS.
        best, index = total.flatten(1).topk(2 * beam, dim=1)
        origin, byte = index // N_IDS, index % N_IDS

        ends = byte == EOS
        ended = best[:, :beam].masked_fill(~ends[:, :beam] | done[:, None], -torch.inf)
        at_step = torch.full_like(origin[:, :beam], step)
        score = ended / (step + 1) ** length_penalty
        finished = finished.merge(_Finished(score, ended, at_step, origin[:, :beam]))

        scores, pick = best.masked_fill(ends, -torch.inf).topk(beam, dim=1)
        chosen, source = byte.gather(1, pick), origin.gather(1, pick)
        automaton = follow[automaton.gather(1, source), chosen]
        last, parents = chosen.to(torch.uint8), source if beam > 1 else None
        history.append((last, source))

        reachable = scores[:, 0] / (limits + 1).to(scores.dtype) ** length_penalty
        done = done | finished.score[:, -1].isfinite() | (reachable <= finished.score[:, 0])
        if step % STOP_TEST_EVERY == STOP_TEST_EVERY - 1 and bool(done.all()):
            break

    assert finished is not None
    return _read_back(finished, history)


def _read_back(finished: _Finished, history: list[tuple[Tensor, Tensor]]) -> list[list[Hypothesis]]:
    """Follow the parents from each EOS back to the start."""
    chosen = torch.stack([step[0] for step in history]).cpu().numpy()
    parents = torch.stack([step[1] for step in history]).cpu().numpy()
    scores, log_probabilities, steps, beams = (part.cpu().numpy() for part in finished)
    results = []
    for i in range(len(scores)):
        hypotheses = []
        for score, log_p, step, beam in zip(scores[i], log_probabilities[i], steps[i], beams[i], strict=True):
            if not score > -float("inf"):
                continue
            text = bytearray(int(step))
            for at in range(int(step) - 1, -1, -1):
                text[at] = chosen[at, i, beam]
                beam = parents[at, i, beam]
            hypotheses.append(Hypothesis(bytes(text), float(log_p), float(score)))
        if not hypotheses:
            raise BytenmtError("the model's probabilities are not numbers: its training has diverged")
        results.append(hypotheses)
    return results
