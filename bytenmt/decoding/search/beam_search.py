"""Execute a step of the search for a batch of sentences: greedy search, beam search or sampling.

An engine writes the log-probabilities of the next byte to SearchState.log_p, calls `choose_bytes`,
and reads from the state which byte each beam took and which beam it continues.

Everything is valid UTF-8 by construction: a byte is allowed if the character that it begins or
continues can still be finished under the length limit, and EOS only between characters.

The sentinels of a source (sentinels.py) are all written, each once: a pending one is allowed
between characters, the length limit leaves room for all of them, and while one is pending EOS is
not allowed. The likeliest pending one is then ranked by the probability of EOS if that is larger.
Scores remain the models' own log-probabilities; what a ranking adds to them, the bonus, is kept
separately.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.decoding.search.candidates import NO_SCORE, consider_all, copy_values
from bytenmt.decoding.search.ngram_blocking import block_ngrams
from bytenmt.decoding.search.sampling import draw_byte, uniform
from bytenmt.decoding.search.state import DONE, SearchParams, SearchState, Workspace
from bytenmt.jit import compiled, inlined
from bytenmt.kernel_constants import FIRST_SENTINEL, LOOK_AHEAD, N_SENTINELS
from bytenmt.utf8 import ACCEPT, BOS, EOS, LONGEST_CHARACTER, N_IDS


@compiled
def choose_bytes(search: SearchState, params: SearchParams) -> None:
    """Choose the next byte of every beam of the sentences in the batch: one step of the search.

    Reads log_p (log-probabilities of the next bytes), row_slot and n_rows of `search`, which the
    engine has filled, and updates its other arrays in place. Sentences that end get the state DONE.
    """
    work = search.work
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
    search: SearchState, params: SearchParams, work: Workspace, slot: int, beam: int
) -> None:
    """Set work.allowed[byte] for each of the 256 bytes: whether it may be the next one of a beam.

    Within the forced prefix only its next byte is allowed. After it, UTF-8, the length limit,
    n-gram blocking and pending sentinels (bytes 0xF5 to 0xFC that the output must still get)
    restrict the bytes. slot, beam: indices of the sentence and of its beam in `search`.
    """
    allowed = work.allowed
    step = search.step[slot]
    if step < search.n_prefix[slot]:
        allowed[:] = False
        allowed[search.prefix[slot, step]] = True
        return
    utf8 = search.utf8[slot, beam]
    pending = search.pending[slot, beam]
    bytes_left = search.limit[slot] - step
    for number in range(N_SENTINELS):
        bytes_left -= (pending >> number) & 1
    copy_values(allowed, params.utf8_allowed[min(bytes_left, LONGEST_CHARACTER), utf8])
    if params.ngram > 0:
        ancestor = beam
        for back in range(step - 1, -1, -1):
            work.text[back] = search.history_byte[slot, back, ancestor]
            ancestor = search.history_parent[slot, back, ancestor]
        block_ngrams(work.text[:step], params, utf8, allowed, work.blocked)
    if pending != 0:
        allowed[EOS] = False
        if utf8 == ACCEPT:
            for number in range(N_SENTINELS):
                is_open = pending & search.before[slot, number] == 0
                allowed[FIRST_SENTINEL + number] = (pending >> number) & 1 == 1 and is_open


@inlined
def rank_pending(search: SearchState, work: Workspace, slot: int, beam: int, log_p: Any) -> None:
    """Fill work.values, by which the next bytes of a beam with pending sentinels are ranked.

    Pending sentinels are bytes 0xF5 to 0xFC that the output must still get. The values are log_p
    (256,), but the likeliest allowed sentinel gets the log-probability of EOS if that is higher:
    where the model would end, it writes a sentinel.
    """
    copy_values(work.values, log_p)
    best = -1
    for byte in range(FIRST_SENTINEL, FIRST_SENTINEL + N_SENTINELS):
        if work.allowed[byte] and (best < 0 or log_p[byte] > log_p[best]):
            best = byte
    if best >= 0 and log_p[EOS] > log_p[best]:
        work.values[best] = log_p[EOS]


@inlined
def find_candidates(
    search: SearchState, params: SearchParams, work: Workspace, slot: int, row: int
) -> int:
    """Find the best continuations (candidates) of a sentence's beams by one byte.

    Their scores are written to work.ranking, and beam * 256 + byte to work.number, best first.
    Returns how many there are, at most twice the beams. slot: index of the sentence in `search`.
    row: the row of its first beam in search.log_p.
    """
    n_found = 0
    for beam in range(params.beam):
        score = search.score[slot, beam] + search.bonus[slot, beam]
        values = search.log_p[row + beam]
        fill_allowed(search, params, work, slot, beam)
        if search.pending[slot, beam] != 0:
            rank_pending(search, work, slot, beam, values)
            values = work.values
        number = beam * N_IDS
        n_found = consider_all(
            work.ranking, work.number, n_found, score, values, work.allowed, number
        )
    return n_found


@inlined
def continue_beams(
    search: SearchState, params: SearchParams, work: Workspace, slot: int, row: int, n_found: int
) -> None:
    """Make the best candidates of a sentence its finished hypotheses or its beams of the next step.

    Of the first params.beam candidates those with EOS are finished; of the others the first
    params.beam continue. slot: index of the sentence in `search`. row: the row of its first beam in
    search.log_p. n_found: the number of candidates, which find_candidates has written to `work`.
    """
    step = search.step[slot]
    n_beams = params.beam
    # Keep the beams as they were: they are overwritten while others still continue them.
    copy_values(work.utf8, search.utf8[slot])
    copy_values(work.pending, search.pending[slot])
    copy_values(work.past_end, search.past_end[slot])
    copy_values(work.score, search.score[slot])
    copy_values(work.bonus, search.bonus[slot])
    n_going = 0
    highest = NO_SCORE
    in_prefix = step < search.n_prefix[slot]
    for place in range(n_found):
        beam = work.number[place] // N_IDS
        byte = work.number[place] % N_IDS
        total = ranking = work.ranking[place]
        log_p = search.log_p[row + beam]
        if work.pending[beam] != 0 or work.bonus[beam] != 0.0:
            total = work.score[beam] + np.float64(log_p[byte])
        if byte == EOS:
            if place < n_beams:
                finish_hypothesis(search, params, slot, ranking, total, beam, work.past_end[beam])
        elif n_going < n_beams:
            if n_going == 0:
                highest = ranking
            search.last[slot, n_going] = byte
            search.parent[slot, n_going] = beam
            search.score[slot, n_going] = total
            search.bonus[slot, n_going] = ranking - total
            is_past_end = work.pending[beam] != 0 and not in_prefix and log_p[EOS] > log_p[byte]
            search.past_end[slot, n_going] = work.past_end[beam] or is_past_end
            take_byte(search, params, slot, n_going, work.utf8[beam], work.pending[beam], byte)
            n_going += 1
    for beam in range(n_going, n_beams):  # no candidates are left for these
        search.last[slot, beam] = BOS
        search.parent[slot, beam] = beam
        search.score[slot, beam] = NO_SCORE
        search.bonus[slot, beam] = 0.0
    for beam in range(n_beams):
        search.history_byte[slot, step, beam] = search.last[slot, beam]
        search.history_parent[slot, step, beam] = search.parent[slot, beam]
    if is_search_over(search, params, slot, highest):
        search.state[slot] = DONE


@compiled
def take_byte(
    search: SearchState,
    params: SearchParams,
    slot: int,
    beam: int,
    utf8: int,
    pending: int,
    byte: int,
) -> None:
    """Set search.utf8 and search.pending of a beam that takes a byte.

    slot, beam: indices of its sentence and of the beam in `search`. utf8, pending: both values of
    the beam that it continues: the state of the UTF-8 automaton, and a bit for each sentinel (byte
    0xF5 to 0xFC) that the output must still get.
    """
    if FIRST_SENTINEL <= byte < FIRST_SENTINEL + N_SENTINELS:
        search.utf8[slot, beam] = ACCEPT
        search.pending[slot, beam] = pending & (0xFF ^ (1 << (byte - FIRST_SENTINEL)))
    else:
        search.utf8[slot, beam] = params.utf8_next[utf8, byte]
        search.pending[slot, beam] = pending


@inlined
def is_search_over(search: SearchState, params: SearchParams, slot: int, best: float) -> bool:
    """Return whether a sentence's search ends: no open hypothesis is expected among the n_best.

    slot: index of the sentence in `search`. best: the highest log-probability (plus bonus) of an
    open hypothesis, -inf if there is none. The search ends when the n_best finished hypotheses
    outrank the score that `best` would have with LOOK_AHEAD times its bytes, or, while fewer than
    params.beam have finished, with as many as the limit allows, at no further loss. To stop at
    params.beam finished ones would be too early: a confident model has an early EOS of small
    probability among the best candidates at nearly every step.
    """
    if params.beam == 1 and search.n_finished[slot] > 0:
        return True  # greedy search has no other hypothesis
    worst_wanted = search.finished_score[slot, params.n_best - 1]
    limit = search.limit[slot]
    if not best / float(limit + 1) ** params.length_penalty > worst_wanted:
        return True
    if search.n_finished[slot] < params.beam:
        return False
    soon = min(LOOK_AHEAD * (search.step[slot] + 1), limit)
    return not best / float(soon + 1) ** params.length_penalty > worst_wanted


@compiled
def finish_hypothesis(
    search: SearchState,
    params: SearchParams,
    slot: int,
    ranking: float,
    total: float,
    beam: int,
    past_end: bool,
) -> None:
    """Insert a hypothesis that took EOS into the finished ones, if it is among the best.

    The finished ones are sorted, and params.beam are kept. slot, beam: indices of the sentence and
    of the beam that took EOS. total: the log-probability. ranking: total plus a bonus for
    sentinels (bytes 0xF5 to 0xFC) written in place of EOS, by which it is ranked. past_end: whether
    EOS was likelier than a byte that was chosen while a sentinel was missing.
    """
    score = ranking / float(search.step[slot] + 1) ** params.length_penalty
    n = search.n_finished[slot]
    if n == params.beam and not score > search.finished_score[slot, n - 1]:
        return
    place = min(n, params.beam - 1)
    search.n_finished[slot] = place + 1
    while place > 0 and score > search.finished_score[slot, place - 1]:
        search.finished_score[slot, place] = search.finished_score[slot, place - 1]
        search.finished_log_p[slot, place] = search.finished_log_p[slot, place - 1]
        search.finished_step[slot, place] = search.finished_step[slot, place - 1]
        search.finished_beam[slot, place] = search.finished_beam[slot, place - 1]
        search.finished_past_end[slot, place] = search.finished_past_end[slot, place - 1]
        place -= 1
    search.finished_score[slot, place] = score
    search.finished_log_p[slot, place] = total
    search.finished_step[slot, place] = search.step[slot]
    search.finished_beam[slot, place] = beam
    search.finished_past_end[slot, place] = past_end


@compiled
def sample_byte(
    search: SearchState, params: SearchParams, work: Workspace, slot: int, beam: int, row: int
) -> None:
    """Draw the next byte of one sample, beam number `beam` of a sentence, and update its state.

    The likeliest sentinel that the output must still get is drawn with the probability of EOS if
    that is higher. slot: index of the sentence in `search`. row: the sample's row in search.log_p.
    After EOS the sample is a finished hypothesis.
    """
    step = search.step[slot]
    log_p = search.log_p[row]
    fill_allowed(search, params, work, slot, beam)
    if np.isnan(log_p[0]):  # then all are
        search.state[slot] = DONE
        return
    pending = search.pending[slot, beam]
    copy_values(work.values, log_p)
    if pending != 0:
        rank_pending(search, work, slot, beam, log_p)
    share = uniform(search.draw_keys[slot, beam], step)
    byte = draw_byte(work.values, work, params, share)
    score = search.score[slot, beam] + np.float64(log_p[byte])
    search.history_byte[slot, step, beam] = byte
    search.history_parent[slot, step, beam] = beam
    search.last[slot, beam] = byte
    search.parent[slot, beam] = beam
    search.score[slot, beam] = score
    if byte == EOS:
        finish_hypothesis(search, params, slot, score, score, beam, search.past_end[slot, beam])
        search.score[slot, beam] = NO_SCORE
        if search.n_finished[slot] == params.beam:
            search.state[slot] = DONE
        return
    is_past_end = pending != 0 and step >= search.n_prefix[slot] and log_p[EOS] > log_p[byte]
    search.past_end[slot, beam] = search.past_end[slot, beam] or is_past_end
    take_byte(search, params, slot, beam, search.utf8[slot, beam], pending, byte)
