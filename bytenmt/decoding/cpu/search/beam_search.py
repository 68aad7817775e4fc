"""One step of the search for sentences that stand at places; its twin is decoding/pytorch/beam_search.py.

Compiled without a cache of its own, as part of interpreter.py. Knows log-probabilities, UTF-8, lengths and
when a sentence is done; knows no models.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.simd import allocating, compiled, inlined, inlined_allocating
from bytenmt.decoding.cpu.search.candidates import (
    NOTHING,
    consider,
    consider_all,
    likeliest,
    log_softmax,
    share_width,
)
from bytenmt.decoding.cpu.search.constraints import (
    CLOSING,
    SOFT,
    constrain,
    favour,
    firmness,
    rank_bytes,
    take,
    take_all,
)
from bytenmt.decoding.cpu.search.drafter import Drafter, learn
from bytenmt.decoding.cpu.search.ngram_blocking import forbid_repeats
from bytenmt.decoding.cpu.search.owing import standing
from bytenmt.decoding.cpu.search.sampling import uniform
from bytenmt.decoding.cpu.search.slots import DONE, RUNNING, Rules, SearchState
from bytenmt.kernel_constants import CLOSING_COST, LOOK_AHEAD
from bytenmt.utf8 import BOS, EOS, LONGEST_CHARACTER, N_IDS


@allocating
def choose_bytes(search: SearchState, rules: Rules, drafter: Drafter) -> None:
    """What every running sentence takes, from the logits of its rows: a step, and one more for every drafted
    byte that is accepted, because it is what has been chosen."""
    merged = np.empty(N_IDS, np.float32)
    allowed, favoured = np.empty(N_IDS, np.bool_), np.zeros(N_IDS, np.bool_)
    left, goes_on = np.zeros(N_IDS, np.int64), np.zeros(N_IDS, np.bool_)
    text = np.empty(search.chosen.shape[1], np.uint8)
    n_best = 2 * rules.beam
    best = np.empty(n_best, np.float64)
    index = np.empty(n_best, np.int64)
    n_banks = search.owing.owed.shape[2] + 1 if rules.spans.there and rules.beam > 1 else 0
    banks, bank_index = np.empty((n_banks, n_best), np.float64), np.empty((n_banks, n_best), np.int64)
    n_of = np.zeros(n_banks, np.int64)
    values, merged_of = np.empty(N_IDS, np.float32), np.empty((rules.beam, N_IDS), np.float32)
    highest, instead_of = np.empty(rules.beam, np.float32), np.empty(rules.beam, np.int64)
    credit, firm = np.zeros(n_best, np.float64), np.zeros(n_best, np.int64)
    first = 0
    while first < search.n_rows[0]:
        place = search.rows[first, 0]
        began, n_columns = search.step[place], 1 + search.n_drafted[place]
        for column in range(n_columns):
            n_found = 0
            for bank in range(n_banks):
                n_of[bank] = 0
            for beam in range(rules.beam):
                before = search.score[place, beam]
                if rules.sample and before == NOTHING:
                    continue  # this text has ended
                log_softmax(search.logits, first + column + beam, merged)
                instead = allow(search, rules, place, beam, allowed, text, favoured, left, goes_on)
                if rules.sample:
                    draw(search, rules, place, beam, merged, allowed, instead)
                    continue
                if rules.spans.there and rules.beam == 1:
                    firm[0] = favour(merged, allowed, favoured, instead)
                if n_banks > 0:
                    owed = search.owing.owed[place, beam]
                    highest[beam] = rank_bytes(merged, allowed, owed, instead, values)
                    instead_of[beam] = instead
                    for byte in range(N_IDS):
                        merged_of[beam, byte] = merged[byte]
                    closing = search.owing.firm[place, beam] == CLOSING
                for byte in range(N_IDS if n_banks > 0 else 0):
                    if allowed[byte]:
                        total, bank = before + np.float64(values[byte]), left[byte]
                        if goes_on[byte] or closing:  # see kept in the twin
                            total += search.owing.credit[place, beam]
                        n_of[bank] = consider(
                            banks[bank], bank_index[bank], n_of[bank], total, beam * N_IDS + byte
                        )
                if n_banks == 0:
                    candidate = beam * N_IDS
                    n_found = consider_all(best, index, n_found, before, merged, allowed, candidate)
            if n_banks > 0:
                n_found = share_width(banks, bank_index, n_of, best, index, rules.beam)
                for at in range(n_found):
                    beam, byte = index[at] // N_IDS, index[at] % N_IDS
                    firm[at] = firmness(merged_of[beam], highest[beam], byte, instead_of[beam], CLOSING_COST)
                    credit[at] = best[at] - (search.score[place, beam] + np.float64(merged_of[beam, byte]))
            if not rules.sample:
                beam_search(search, rules, place, best, index, n_found, credit, firm)
            search.step[place] += 1
            if search.state[place] != RUNNING or column == n_columns - 1:
                break
            if search.drafted[place, column] != search.last[place, 0]:
                break  # what was read after it was not this text
        search.passes[place] += 1
        learn(search, drafter, place, began)
        first += rules.beam + n_columns - 1


@inlined
def allow(
    search: SearchState,
    rules: Rules,
    place: int,
    beam: int,
    allowed: Any,
    text: Any,
    favoured: Any,
    left: Any,
    goes_on: Any,
) -> int:
    """Which bytes may follow: what the prefix forces, else the automaton under the length limit, what is
    owed, and the repetition guard. favoured, left, goes_on, and what is returned: see constrain."""
    step = search.step[place]
    room = min(search.limit[place] - step, LONGEST_CHARACTER)
    may = rules.allowed[room, search.automaton[place, beam]]
    for byte in range(N_IDS):
        allowed[byte] = may[byte]
    if step < search.n_prefix[place]:
        forced = search.prefix[place, step]
        for byte in range(N_IDS):
            allowed[byte], favoured[byte], left[byte], goes_on[byte] = byte == forced, False, 0, False
        return -1
    instead = -1
    if rules.spans.there:
        state, room = search.automaton[place, beam], search.limit[place] - step
        instead = constrain(
            search.owing, rules.spans, rules.allowed, place, beam, state, room, allowed, favoured, left,
            goes_on,
        )  # fmt: skip
    if rules.ngram > 0:
        at = beam
        for back in range(step - 1, -1, -1):
            text[back] = search.chosen[place, back, at]
            at = search.parents[place, back, at]
        forbid_repeats(text[:step], rules, search.automaton[place, beam], allowed, favoured)
    return instead


@inlined_allocating
def beam_search(
    search: SearchState,
    rules: Rules,
    place: int,
    best: Any,
    index: Any,
    n_found: int,
    credit: Any,
    firm: Any,
) -> None:
    """Beam search: end and go on with the best candidates. credit, firm: of each, see owing."""
    step, beams = search.step[place], rules.beam
    automaton = search.automaton[place].copy()
    going, held = 0, step < search.n_prefix[place]
    for at in range(n_found):
        beam, byte = index[at] // N_IDS, index[at] % N_IDS
        if byte == EOS:
            if at < beams:
                search.owing.ending[place] = credit[at]
                finish(search, rules, place, best[at], beam)
        elif going < beams:
            search.last[place, going], search.parent[place, going] = byte, beam
            search.score[place, going] = best[at] - credit[at]
            search.owing.credit[place, going], firm[going] = credit[at], firm[at]
            search.automaton[place, going] = rules.follow[automaton[beam], byte]
            going += 1
    if rules.spans.there:
        parent, last = search.parent[place], search.last[place]
        take_all(search.owing, rules.spans, place, parent, automaton, last, going, held, firm)
    for beam in range(going, beams):  # nothing is left for these
        search.last[place, beam], search.parent[place, beam] = BOS, beam
        search.score[place, beam], search.owing.credit[place, beam] = NOTHING, 0.0
    for beam in range(beams):
        search.chosen[place, step, beam] = search.last[place, beam]
        search.parents[place, step, beam] = search.parent[place, beam]
        if search.totals.shape[1] > 0:
            search.totals[place, step, beam] = search.score[place, beam]
    highest = search.score[place, 0] + search.owing.credit[place, 0]
    if search_is_over(search, rules, place, highest if going > 0 else NOTHING):
        search.state[place] = DONE


@inlined
def search_is_over(search: SearchState, rules: Rules, place: int, best: float) -> bool:
    """Whether no text that goes on is expected among the wanted hypotheses; see search_is_over in
    decoding/pytorch/beam_search.py. best: the highest score of those that go on."""
    if rules.beam == 1 and search.n_finished[place] > 0:
        return True  # greedy search looks back at nothing
    worst_wanted, limit = search.ranked[place, rules.n_best - 1], search.limit[place]
    if not best / float(limit + 1) ** rules.length_penalty > worst_wanted:
        return True
    if search.n_finished[place] < rules.beam:
        return False
    soon = min(LOOK_AHEAD * (search.step[place] + 1), limit)
    return not best / float(soon + 1) ** rules.length_penalty > worst_wanted


@compiled
def finish(search: SearchState, rules: Rules, place: int, total: float, beam: int) -> None:
    """A hypothesis has ended: keep it if it is among the best."""
    ranked = total / float(search.step[place] + 1) ** rules.length_penalty
    n = search.n_finished[place]
    if n == rules.beam and not ranked > search.ranked[place, n - 1]:
        return
    at = min(n, rules.beam - 1)
    search.n_finished[place] = at + 1
    while at > 0 and ranked > search.ranked[place, at - 1]:
        search.ranked[place, at] = search.ranked[place, at - 1]
        search.log_p[place, at] = search.log_p[place, at - 1]
        search.at[place, at] = search.at[place, at - 1]
        search.who[place, at] = search.who[place, at - 1]
        at -= 1
    search.ranked[place, at], search.log_p[place, at] = ranked, total - search.owing.ending[place]
    search.at[place, at], search.who[place, at] = search.step[place], beam


@allocating
def draw(
    search: SearchState, rules: Rules, place: int, beam: int, merged: Any, allowed: Any, instead: int
) -> None:
    """Sampling: one text's next byte. instead: see constrain; it has the end's probability too."""
    step = search.step[place]
    if np.isnan(merged[0]):  # then all are
        search.state[place] = DONE
        return
    own, firm = merged[instead], SOFT
    if instead >= 0 and allowed[instead] and min(own, merged[EOS]) > NOTHING:
        high, low = max(own, merged[EOS]), min(own, merged[EOS])
        firm = CLOSING if merged[EOS] > own else SOFT
        merged[instead] = np.float32(high + np.float32(math.log1p(math.exp(low - high))))
    order = np.empty(N_IDS, np.int64)
    n = likeliest(merged, allowed, order)
    if rules.top_k > 0:
        n = min(n, rules.top_k)
    weights = np.zeros(N_IDS)
    total = 0.0
    for rank in range(n):
        tempered = (np.float64(merged[order[rank]]) - np.float64(merged[order[0]])) / rules.temperature
        weights[order[rank]] = math.exp(tempered)
        total += weights[order[rank]]
    if rules.top_p < 1.0:
        kept = 0.0
        for rank in range(n):
            if kept >= rules.top_p * total:
                weights[order[rank]] = 0.0
            kept += weights[order[rank]]
        total = 0.0
        for candidate in range(N_IDS):
            total += weights[candidate]
    target = uniform(search.keys[place, beam], step) * total
    running, byte = 0.0, order[0]
    for candidate in range(N_IDS):
        if weights[candidate] > 0.0:
            running += weights[candidate]
            byte = candidate
            if running > target:
                break
    if instead >= 0:
        merged[instead] = own
    score = search.score[place, beam] + np.float64(merged[byte])
    search.chosen[place, step, beam], search.parents[place, step, beam] = byte, beam
    search.last[place, beam], search.parent[place, beam] = byte, beam
    search.score[place, beam] = score
    if search.totals.shape[1] > 0:
        search.totals[place, step, beam] = score
    if byte == EOS:
        finish(search, rules, place, score, beam)
        search.score[place, beam] = NOTHING
        if search.n_finished[place] == rules.beam:
            search.state[place] = DONE
    else:
        if rules.spans.there:
            was, automaton = standing(search.owing, place), search.automaton[place, beam]
            held = step < search.n_prefix[place]
            firm = firm if byte == instead else SOFT
            take(search.owing, rules.spans, place, was, beam, automaton, beam, byte, held, firm)
        search.automaton[place, beam] = rules.follow[search.automaton[place, beam], byte]
