"""One step of the search for a batch of sentences: greedy search, beam search or sampling, under constraints.

An engine writes the log-probabilities of the next byte to SearchState.log_p, calls `choose_bytes`, and reads
from the state which byte each beam took and which beam it continues. Everything is valid UTF-8 by
construction: a byte is allowed if the character that it begins or continues can still be finished under the
length limit, and EOS only between characters. Scores remain the models' own log-probabilities, whatever is
allowed; the bonus by which constrained beams are ranked is kept separately.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.constraints.state import Choices, empty_choices, snapshot
from bytenmt.decoding.constraints.state_machine import (
    IN_PLACE_OF_END,
    LESS_LIKELY,
    LIKELIEST,
    advance,
    prepare,
)
from bytenmt.decoding.search.candidates import NO_SCORE, consider, consider_all, copy_values, share_width
from bytenmt.decoding.search.ngram_blocking import block_ngrams
from bytenmt.decoding.search.sampling import draw_byte, uniform
from bytenmt.decoding.search.state import DONE, SearchParams, SearchState
from bytenmt.jit import allocating, compiled, inlined, inlined_allocating
from bytenmt.kernel_constants import ATTENDED_COST, BLANK, CLOSING_COST, LOOK_AHEAD
from bytenmt.utf8 import BOS, EOS, LONGEST_CHARACTER, N_IDS


class Workspace(NamedTuple):
    """Temporary arrays of one call of `choose_bytes`.

    choices: of the current beam. text (t,) uint8: its bytes.
    values (256,), of log_p's type: what its next bytes are ranked by.
    ranking (2 * beam,) float64: by which the candidates of a sentence are sorted; number int64: beam * 256 +
        byte; total float64: log-probability; choice int64: how the byte was chosen, see state_machine.
    If the width is shared among banks, see candidates.share_width: bank_ranking, bank_number (banks,
        2 * beam), n_in_bank (banks,); highest (beam,): the highest log-probability of an allowed byte of each
        beam; end_byte (beam,) int64: see state_machine.prepare.
    """

    choices: Choices
    text: npt.NDArray[np.uint8]
    values: npt.NDArray[Any]
    ranking: npt.NDArray[np.float64]
    number: npt.NDArray[np.int64]
    total: npt.NDArray[np.float64]
    choice: npt.NDArray[np.int64]
    bank_ranking: npt.NDArray[np.float64]
    bank_number: npt.NDArray[np.int64]
    n_in_bank: npt.NDArray[np.int64]
    highest: npt.NDArray[Any]
    end_byte: npt.NDArray[np.int64]


@allocating
def workspace(search: SearchState, params: SearchParams) -> Workspace:
    """Return the arrays for one call of `choose_bytes`."""
    n_candidates = 2 * params.beam  # at least `beam` of these do not end: each beam has one EOS
    shares_width = params.spans.is_used and params.beam > 1
    n_banks = search.constraints.beams.pending.shape[2] + 1 if shares_width else 0
    return Workspace(
        empty_choices(),
        np.empty(search.history_byte.shape[1], np.uint8),
        np.empty(N_IDS, search.log_p.dtype),
        np.empty(n_candidates),
        np.empty(n_candidates, np.int64),
        np.empty(n_candidates),
        np.zeros(n_candidates, np.int64),
        np.empty((n_banks, n_candidates)),
        np.empty((n_banks, n_candidates), np.int64),
        np.zeros(n_banks, np.int64),
        np.empty(params.beam, search.log_p.dtype),
        np.empty(params.beam, np.int64),
    )


@allocating
def choose_bytes(search: SearchState, params: SearchParams) -> None:
    """Choose the next byte of every running sentence. search.log_p: log-probabilities of the pass's rows."""
    work = workspace(search, params)
    for row in range(0, search.n_rows[0], params.beam):
        slot = search.row_slot[row]
        if params.sample:
            for beam in range(params.beam):
                if search.score[slot, beam] > NO_SCORE:  # else this text has ended
                    sample_byte(search, params, work, slot, beam, row + beam)
        else:
            n_found = find_candidates(search, params, work, slot, row)
            continue_beams(search, params, work, slot, row, n_found)
        search.step[slot] += 1


@inlined
def fill_allowed(
    search: SearchState, params: SearchParams, work: Workspace, slot: int, beam: int, row: int
) -> int:
    """Fill work.choices for the next byte of a beam; return the byte that takes the place of EOS, or -1.

    row: of the beam. Within the prefix one byte is allowed. After it, UTF-8 and the length limit, the
    constraint, and n-gram blocking restrict the bytes.
    """
    choices, step = work.choices, search.step[slot]
    bytes_left, utf8 = search.limit[slot] - step, search.utf8[slot, beam]
    if step < search.n_prefix[slot]:
        choices.allowed[:] = False
        choices.allowed[search.prefix[slot, step]] = True
        choices.required[:] = False
        choices.bonus[:] = 0.0
        choices.bank[:] = 0
        return -1
    copy_values(choices.allowed, params.utf8_allowed[min(bytes_left, LONGEST_CHARACTER), utf8])
    end_byte = -1
    if params.spans.is_used:
        end_byte = prepare(
            search.constraints, params.spans, params.utf8_allowed, slot, beam, utf8, bytes_left,
            search.bonus[slot, beam], search.attention[row], choices,
        )  # fmt: skip
    if params.ngram > 0:
        at = beam
        for back in range(step - 1, -1, -1):
            work.text[back] = search.history_byte[slot, back, at]
            at = search.history_parent[slot, back, at]
        block_ngrams(work.text[:step], params, utf8, choices.allowed, choices.required)
    return end_byte


@inlined_allocating
def find_candidates(search: SearchState, params: SearchParams, work: Workspace, slot: int, row: int) -> int:
    """Write the best continuations of a sentence's beams to `work`, best first; return their number.

    row: the row of the first beam.
    """
    n_found, n_banks = 0, len(work.n_in_bank)
    for bank in range(n_banks):
        work.n_in_bank[bank] = 0
    for beam in range(params.beam):
        score, log_p = search.score[slot, beam], search.log_p[row + beam]
        end_byte = fill_allowed(search, params, work, slot, beam, row + beam)
        if n_banks > 0:
            rank_with_bonus(search, work, slot, beam, score, log_p, end_byte)
            continue
        if params.spans.is_used:
            work.choice[0] = choose_greedily(log_p, work.choices, work.values, end_byte)
        number = beam * N_IDS
        n_found = consider_all(work.ranking, work.number, n_found, score, log_p, work.choices.allowed, number)
    if n_banks == 0:
        return n_found
    n_found = share_width(
        work.bank_ranking, work.bank_number, work.n_in_bank, work.ranking, work.number, params.beam
    )
    for at in range(n_found):
        beam, byte = work.number[at] // N_IDS, work.number[at] % N_IDS
        log_p = search.log_p[row + beam]
        work.total[at] = search.score[slot, beam] + np.float64(log_p[byte])
        work.choice[at] = classify_choice(log_p, work.highest[beam], byte, work.end_byte[beam], CLOSING_COST)
    return n_found


@allocating
def rank_with_bonus(
    search: SearchState, work: Workspace, slot: int, beam: int, score: float, log_p: Any, end_byte: int
) -> None:
    """Put the continuations of a beam into banks by the number of items that they leave to be written.

    The ranking makes hypotheses comparable that have different numbers of required bytes: while items are
    pending, a byte that is the only one allowed costs nothing. The byte in place of EOS costs what EOS would
    plus CLOSING_COST, if that is less than its own cost; a blank, which may follow any sentence, costs what
    EOS would, if EOS is likelier. A byte that begins an item that the attention lies on costs at most
    ATTENDED_COST more than the likeliest one.
    """
    choices, values = work.choices, work.values
    n_allowed, only, highest = 0, -1, log_p[0]
    for byte in range(N_IDS):
        values[byte] = log_p[byte]
        if choices.allowed[byte] and log_p[byte] > NO_SCORE:
            if n_allowed == 0 or log_p[byte] > highest:
                highest = log_p[byte]
            n_allowed, only = n_allowed + 1, byte
    work.highest[beam], work.end_byte[beam] = highest, end_byte
    if n_allowed == 1 and search.constraints.beams.pending[slot, beam].any():
        values[only] = 0.0
    if end_byte >= 0 and choices.allowed[end_byte] and values[end_byte] > NO_SCORE and log_p[EOS] > NO_SCORE:
        own, end = values[end_byte], log_p[EOS]
        values[end_byte] = end - CLOSING_COST
        if not (values[end_byte] > own or (end_byte == BLANK and end > own)):
            values[end_byte] = own
    for byte in range(N_IDS):
        if choices.attended[byte] and choices.allowed[byte]:
            values[byte] = max(values[byte], highest - ATTENDED_COST)
        if choices.allowed[byte]:
            ranking, bank = score + np.float64(values[byte]) + choices.bonus[byte], choices.bank[byte]
            work.n_in_bank[bank] = consider(
                work.bank_ranking[bank], work.bank_number[bank], work.n_in_bank[bank], ranking,
                beam * N_IDS + byte,
            )  # fmt: skip


@allocating
def choose_greedily(log_p: Any, choices: Choices, values: Any, end_byte: int) -> int:
    """Allow only the byte that greedy search takes under a constraint; return how it was chosen.

    It is the likeliest byte, its bonus added; the byte in place of EOS may inherit the probability of EOS.
    """
    best, highest = -1, log_p[0]
    for byte in range(N_IDS):
        if choices.allowed[byte] and log_p[byte] > NO_SCORE:
            values[byte] = log_p[byte]
            if best < 0 or log_p[byte] > highest:
                highest = log_p[byte]
            if byte == end_byte and log_p[EOS] > values[byte]:
                values[byte] = log_p[EOS]
            if choices.bonus[byte] > 0.0:
                values[byte] += choices.bonus[byte]
            if best < 0 or values[byte] > values[best]:
                best = byte
        choices.allowed[byte] = False
    if best < 0:
        return LIKELIEST
    choices.allowed[best] = True
    return classify_choice(log_p, highest, best, end_byte, 0.0)


@allocating
def classify_choice(log_p: Any, highest: float, byte: int, end_byte: int, cost: float) -> int:
    """Return how a byte was chosen, see state_machine.

    highest: log-probability of the likeliest byte that was allowed. cost: added to that of EOS for a byte in
    its place, unless that is a blank.
    """
    if byte == end_byte and np.float64(log_p[EOS]) - (0.0 if byte == BLANK else cost) > log_p[byte]:
        return IN_PLACE_OF_END
    return LESS_LIKELY if log_p[byte] < highest else LIKELIEST


@inlined_allocating
def continue_beams(
    search: SearchState, params: SearchParams, work: Workspace, slot: int, row: int, n_found: int
) -> None:
    """Finish or continue the best candidates of a sentence. row: the row of its first beam.

    Candidates among the first `beam` that end with EOS are finished; the first `beam` others continue.
    """
    step, n_beams = search.step[slot], params.beam
    is_constrained = params.spans.is_used
    has_bonus = len(work.n_in_bank) > 0
    utf8, bonus = search.utf8[slot].copy(), search.bonus[slot].copy()
    past_end = search.past_end[slot].copy()
    n_going, in_prefix, highest = 0, step < search.n_prefix[slot], NO_SCORE
    for at in range(n_found):
        beam, byte = work.number[at] // N_IDS, work.number[at] % N_IDS
        ranking = work.ranking[at]
        total = work.total[at] if has_bonus else ranking
        if byte == EOS:
            if at < n_beams:
                finish_hypothesis(search, params, slot, ranking, total, beam)
        elif n_going < n_beams:
            if n_going == 0:
                highest = ranking
            search.last[slot, n_going], search.parent[slot, n_going] = byte, beam
            search.score[slot, n_going] = total
            if has_bonus:
                search.bonus[slot, n_going] = ranking - total
            work.choice[n_going] = work.choice[at]
            search.utf8[slot, n_going] = params.utf8_next[utf8[beam], byte]
            if is_constrained and not in_prefix:
                log_p = search.log_p[row + beam]
                search.past_end[slot, n_going] = past_end[beam] or log_p[EOS] > log_p[byte]
            n_going += 1
    if is_constrained:
        before = snapshot(search.constraints, slot)
        for beam in range(n_going):
            parent = search.parent[slot, beam]
            advance(
                search.constraints, params.spans, slot, before, parent, beam, utf8[parent],
                search.last[slot, beam], in_prefix, work.choice[beam], bonus[parent],
                search.attention[row + parent],
            )  # fmt: skip
    for beam in range(n_going, n_beams):  # no candidates are left for these
        search.last[slot, beam], search.parent[slot, beam] = BOS, beam
        search.score[slot, beam], search.bonus[slot, beam] = NO_SCORE, 0.0
    for beam in range(n_beams):
        search.history_byte[slot, step, beam] = search.last[slot, beam]
        search.history_parent[slot, step, beam] = search.parent[slot, beam]
        if search.history_score.shape[1] > 0:
            search.history_score[slot, step, beam] = search.score[slot, beam]
    if is_search_over(search, params, slot, highest):
        search.state[slot] = DONE


@inlined
def is_search_over(search: SearchState, params: SearchParams, slot: int, best: float) -> bool:
    """Return whether no hypothesis that continues is expected among the n_best.

    best: the highest ranking of those that continue, -inf if there are none. It is not enough that as many
    have finished as there are beams: a confident model has an early EOS of small probability among the best
    candidates at nearly every step, all of them worse than the hypothesis that continues. So the search ends
    when the n_best finished hypotheses outrank the score that `best` would have after LOOK_AHEAD times its
    bytes without further loss, or, if fewer than `beam` have finished, at the length limit.
    """
    if params.beam == 1 and search.n_finished[slot] > 0:
        return True  # greedy search has no other hypothesis
    worst_wanted, limit = search.finished_score[slot, params.n_best - 1], search.limit[slot]
    if not best / float(limit + 1) ** params.length_penalty > worst_wanted:
        return True
    if search.n_finished[slot] < params.beam:
        return False
    soon = min(LOOK_AHEAD * (search.step[slot] + 1), limit)
    return not best / float(soon + 1) ** params.length_penalty > worst_wanted


@compiled
def finish_hypothesis(
    search: SearchState, params: SearchParams, slot: int, ranking: float, total: float, beam: int
) -> None:
    """Keep a finished hypothesis if it is among the best.

    total: its log-probability; ranking: the same with its bonus.
    """
    score = ranking / float(search.step[slot] + 1) ** params.length_penalty
    n = search.n_finished[slot]
    if n == params.beam and not score > search.finished_score[slot, n - 1]:
        return
    at = min(n, params.beam - 1)
    search.n_finished[slot] = at + 1
    while at > 0 and score > search.finished_score[slot, at - 1]:
        search.finished_score[slot, at] = search.finished_score[slot, at - 1]
        search.finished_log_p[slot, at] = search.finished_log_p[slot, at - 1]
        search.finished_step[slot, at] = search.finished_step[slot, at - 1]
        search.finished_beam[slot, at] = search.finished_beam[slot, at - 1]
        search.finished_past_end[slot, at] = search.finished_past_end[slot, at - 1]
        at -= 1
    search.finished_score[slot, at], search.finished_log_p[slot, at] = score, total
    search.finished_step[slot, at], search.finished_beam[slot, at] = search.step[slot], beam
    search.finished_past_end[slot, at] = search.past_end[slot, beam]


@allocating
def sample_byte(
    search: SearchState, params: SearchParams, work: Workspace, slot: int, beam: int, row: int
) -> None:
    """Draw the next byte of one sample.

    The byte in place of EOS has the probability of EOS added to its own.
    """
    step, log_p, values = search.step[slot], search.log_p[row], work.values
    end_byte = fill_allowed(search, params, work, slot, beam, row)
    if np.isnan(log_p[0]):  # then all are
        search.state[slot] = DONE
        return
    copy_values(values, log_p)
    choice = LIKELIEST
    if end_byte >= 0 and work.choices.allowed[end_byte]:
        own, end = log_p[end_byte], log_p[EOS]
        if min(own, end) > NO_SCORE:
            high, low = max(own, end), min(own, end)
            values[end_byte] = high + math.log1p(math.exp(low - high))
            if end > own:
                choice = IN_PLACE_OF_END
    byte = draw_byte(values, work.choices.allowed, params, uniform(search.draw_keys[slot, beam], step))
    score = search.score[slot, beam] + np.float64(log_p[byte])
    search.history_byte[slot, step, beam], search.history_parent[slot, step, beam] = byte, beam
    search.last[slot, beam], search.parent[slot, beam] = byte, beam
    search.score[slot, beam] = score
    if search.history_score.shape[1] > 0:
        search.history_score[slot, step, beam] = score
    if byte == EOS:
        finish_hypothesis(search, params, slot, score, score, beam)
        search.score[slot, beam] = NO_SCORE
        if search.n_finished[slot] == params.beam:
            search.state[slot] = DONE
        return
    utf8 = search.utf8[slot, beam]
    if params.spans.is_used:
        before, in_prefix = snapshot(search.constraints, slot), step < search.n_prefix[slot]
        choice = choice if byte == end_byte else LIKELIEST
        search.past_end[slot, beam] = search.past_end[slot, beam] or choice == IN_PLACE_OF_END
        advance(
            search.constraints, params.spans, slot, before, beam, beam, utf8, byte, in_prefix, choice, 0.0,
            search.attention[row],
        )  # fmt: skip
    search.utf8[slot, beam] = params.utf8_next[utf8, byte]
