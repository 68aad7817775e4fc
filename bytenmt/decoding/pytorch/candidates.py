"""The best ways for sentences to go on in a beam search, how its width is shared, and when it is over.

Knows scores and what each way leaves owed; knows neither which bytes are allowed nor why.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bytenmt.decoding.interface import LOOK_AHEAD, Options
from bytenmt.decoding.pytorch.beams import Beams, Chosen, Finished
from bytenmt.utf8 import EOS, N_IDS


def beam_search(log_p: Tensor, beams: Beams, options: Options) -> Chosen:
    """The b best of all continuations go on; those among the b best that end are finished."""
    b = options.beam
    # As many non-EOS candidates as beams are among the best 2 b: each beam has one EOS.
    total = (beams.score[:, :, None] + log_p).flatten(1)
    best, index = (part[:, : 2 * b] for part in total.sort(dim=1, descending=True, stable=True))
    return _chosen(best, best, index, beams, options)[0]


def sharing(
    log_p: Tensor, ranked: Tensor, left: Tensor, beams: Beams, options: Options
) -> tuple[Chosen, Tensor]:
    """The same of a width that is shared, see shared_order. ranked (n, b, 256) float64: by what, in place of
    the log-probability; left (n, b, 256) int64: what each byte leaves owed. Returns by how much the beams
    that go on are ranked better, too: (n, b) float64."""
    total = (beams.score[:, :, None] + log_p).flatten(1)
    index = shared_order(ranked.flatten(1), left.flatten(1), 2 * options.beam)
    return _chosen(ranked.flatten(1).gather(1, index), total.gather(1, index), index, beams, options)


def _chosen(
    best: Tensor, total: Tensor, index: Tensor, beams: Beams, options: Options
) -> tuple[Chosen, Tensor]:
    """Of the first 2 b candidates, each (n, 2 b), b go on; those among the first b that end are finished.
    best: by what they are ranked; total: log-probability."""
    b = options.beam
    parent, byte = index // N_IDS, index % N_IDS

    ends = byte == EOS
    over = ~ends[:, :b] | beams.done[:, None]
    ended = Finished.ended(best[:, :b].masked_fill(over, -torch.inf), beams.step, parent[:, :b], options)
    if total is not best:
        ended = ended._replace(log_probability=total[:, :b].masked_fill(over, -torch.inf))
        ends_or_over = ends | ((~ends).cumsum(dim=1) > b)  # the first b that go on need not be the best
    else:
        ends_or_over = ends
    both = [torch.cat(pair, dim=1) for pair in zip(beams.finished, ended, strict=True)]
    pick = both[0].sort(dim=1, descending=True, stable=True).indices[:, :b]
    finished = Finished(*(part.gather(1, pick) for part in both))

    ranked, pick = best.masked_fill(ends_or_over, -torch.inf).sort(dim=1, descending=True, stable=True)
    ranked, pick = ranked[:, :b], pick[:, :b]
    score = ranked
    if total is not best:
        score = total.gather(1, pick).masked_fill(ranked == -torch.inf, -torch.inf)
    done = search_is_over(ranked[:, 0], finished, beams.step + 1, beams.limit, options)
    chosen = Chosen(byte.gather(1, pick), parent.gather(1, pick), score, finished, done)
    return chosen, ranked if total is best else (ranked - score).masked_fill(score == -torch.inf, 0.0)


def search_is_over(
    best: Tensor, finished: Finished, n_bytes: Tensor, limit: Tensor, options: Options
) -> Tensor:
    """Whether no text that goes on is expected among the wanted hypotheses: (n,) bool.

    best (n,): the highest score of those that go on, after n_bytes (n,) of at most limit (n,). That as many
    have ended as there are beams is not enough: a confident model lets an early EOS of little probability
    among the best at nearly every step, and all of these are worse than the text that goes on. So the search
    ends where they outrank what that could become with no further loss, in as many bytes again; or, however
    few have ended, at its limit.
    """

    def ranked(length: Tensor) -> Tensor:
        return best / (length + 1).double() ** options.length_penalty

    worst_wanted = finished.score[:, options.n_best - 1]
    all_ended = finished.score[:, -1] > -torch.inf
    soon = torch.minimum(LOOK_AHEAD * n_bytes, limit)
    return (ranked(limit) <= worst_wanted) | (all_ended & (ranked(soon) <= worst_wanted))


def shared_order(total: Tensor, left: Tensor, n: int) -> Tensor:
    """Dynamic beam allocation (Post and Vilar 2018): the width is shared among the numbers of constraints
    that are met. total (n, c): of the candidates, -inf where there is none; left (n, c) int64: what each
    still owes. The indices of the n first ones: the best of each number, better ones first, then the second
    best of each, and so on."""
    best, order = total.sort(dim=1, descending=True, stable=True)
    bank = left.gather(1, order)
    sorted_bank, by_bank = bank.sort(dim=1, stable=True)
    first = torch.searchsorted(sorted_bank, sorted_bank)
    rank = torch.arange(total.shape[1], device=total.device) - first
    rank = torch.empty_like(rank).scatter(1, by_bank, rank)
    rank = rank.masked_fill(best == -torch.inf, total.shape[1])
    return order.gather(1, rank.sort(dim=1, stable=True).indices[:, :n])
