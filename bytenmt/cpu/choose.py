"""One step of the search for sentences that stand at places, as engines/choice.py does it in PyTorch.

Compiled without a cache of its own, as part of machine.py. Knows log-probabilities, the automaton, the
length rule and when a sentence is done; knows no models.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bytenmt.alphabet import ACCEPT, BOS, EOS, LONGEST_CHARACTER, N_IDS
from bytenmt.cpu import places as numbers
from bytenmt.cpu.guesses import Guesser, learn
from bytenmt.cpu.places import DONE, RUNNING, Places, Rules
from bytenmt.cpu.spans import exp_sum, largest
from bytenmt.cpu.vectors import compiled
from bytenmt.decoding import LOOK_AHEAD

NOTHING = -np.inf
GOLDEN, FIRST, SECOND = np.uint64(numbers.GOLDEN), np.uint64(numbers.FIRST), np.uint64(numbers.SECOND)
S27, S30, S31, S40 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(40)


@compiled
def uniform(key: np.uint64, step: int) -> float:
    """The draw of a text's byte, from 0 to under 1."""
    x = key + np.uint64(step) + GOLDEN
    x = (x ^ (x >> S30)) * FIRST
    x = (x ^ (x >> S27)) * SECOND
    return float((x ^ (x >> S31)) >> S40) / float(1 << 24)


@compiled
def gather_rows(places: Places) -> None:
    """List the rows of the running places."""
    n = 0
    for place in range(len(places.state)):
        if places.state[place] == RUNNING:
            for beam in range(places.last.shape[1]):
                places.rows[n, 0] = place
                places.rows[n, 1] = beam
                places.rows[n, 2] = 0
                n += 1
            for column in range(1, places.n_drafted[place] + 1):
                places.rows[n, 0] = place
                places.rows[n, 1] = 0
                places.rows[n, 2] = column
                n += 1
    places.n_rows[0] = n


@compiled
def choose(places: Places, rules: Rules, guesser: Guesser) -> None:
    """What every running sentence takes, from the logits of its rows: a step, and one more for every drafted
    byte that is what has been chosen."""
    merged = np.empty(N_IDS, np.float32)
    allowed = np.empty(N_IDS, np.bool_)
    text = np.empty(places.chosen.shape[1], np.uint8)
    n_best = 2 * rules.beam
    best = np.empty(n_best, np.float64)
    index = np.empty(n_best, np.int64)
    first = 0
    while first < places.n_rows[0]:
        place = places.rows[first, 0]
        began, n_columns = places.step[place], 1 + places.n_drafted[place]
        for column in range(n_columns):
            n_found = 0
            for beam in range(rules.beam):
                before = places.score[place, beam]
                if rules.sample and before == NOTHING:
                    continue  # this text has ended
                log_softmax(places.logits, first + column + beam, merged)
                allow(places, rules, place, beam, allowed, text)
                if rules.sample:
                    draw(places, rules, place, beam, merged, allowed)
                    continue
                for byte in range(N_IDS):
                    if allowed[byte]:
                        total = before + np.float64(merged[byte])
                        if total > (best[n_found - 1] if n_found == n_best else NOTHING):
                            n_found = insert(best, index, n_found, total, beam * N_IDS + byte)
            if not rules.sample:
                go_on(places, rules, place, best, index, n_found)
            places.step[place] += 1
            if places.state[place] != RUNNING or column == n_columns - 1:
                break
            if places.drafted[place, column] != places.last[place, 0]:
                break  # what was read after it was not this text
        places.passes[place] += 1
        learn(places, guesser, place, began)
        first += rules.beam + n_columns - 1


@compiled
def log_softmax(logits: Any, row: int, merged: Any) -> None:
    """The mean of the models' probabilities, as a logarithm. NaN wherever a model's logits hold one."""
    n_models = logits.shape[0]
    exponentials = np.empty(N_IDS, np.float32)
    for model in range(n_models):
        values = logits[model, row]
        highest = largest(values.ctypes.data, N_IDS)
        total = exp_sum(exponentials.ctypes.data, values.ctypes.data, N_IDS, highest)
        away = np.float32(highest + np.float32(math.log(total)))
        for byte in range(N_IDS):
            value = np.float32(values[byte] - away)
            if model == 0:
                merged[byte] = value
            else:
                higher, lower = max(merged[byte], value), min(merged[byte], value)
                merged[byte] = higher + np.float32(math.log1p(math.exp(lower - higher)))
    if n_models > 1:
        for byte in range(N_IDS):
            merged[byte] -= np.float32(math.log(n_models))


@compiled
def allow(places: Places, rules: Rules, place: int, beam: int, allowed: Any, text: Any) -> None:
    """Which bytes may follow: what the prefix forces, else the automaton under the length limit and the
    repetition guard."""
    step = places.step[place]
    room = min(places.limit[place] - step, LONGEST_CHARACTER)
    may = rules.allowed[room, places.automaton[place, beam]]
    for byte in range(N_IDS):
        allowed[byte] = may[byte]
    if step < places.n_prefix[place]:
        forced = places.prefix[place, step]
        for byte in range(N_IDS):
            allowed[byte] = byte == forced
    elif rules.ngram > 0:
        at = beam
        for back in range(step - 1, -1, -1):
            text[back] = places.chosen[place, back, at]
            at = places.parents[place, back, at]
        forbid_repeats(text[:step], rules, places.automaton[place, beam], allowed)


@compiled
def forbid_repeats(text: Any, rules: Rules, state: int, allowed: Any) -> None:
    """Take away the bytes that would end a repeated n-gram of characters, if others are left."""
    begun = len(text)  # where the unfinished character begins
    while state != ACCEPT and begun > 0:
        begun -= 1
        if text[begun] & 0xC0 != 0x80:
            break
    start = begun  # of the last n - 1 characters
    for _ in range(rules.ngram - 1):
        if start == 0:
            return
        start -= 1
        while text[start] & 0xC0 == 0x80:
            start -= 1
    width = len(text) - start
    banned = np.zeros(N_IDS, np.bool_)
    for earlier in range(len(text) - width):
        if text[earlier] & 0xC0 == 0x80:
            continue
        same = True
        for i in range(width):
            if text[earlier + i] != text[start + i]:
                same = False
                break
        byte = text[earlier + width]
        # The same bytes end at the same place in a character; does this byte finish it, within the text?
        if same and rules.follow[state, byte] == ACCEPT:
            banned[byte] = True
    left = False
    for byte in range(N_IDS):
        left = left or (allowed[byte] and not banned[byte])
    if left:
        for byte in range(N_IDS):
            allowed[byte] = allowed[byte] and not banned[byte]


@compiled
def insert(best: Any, index: Any, n: int, total: float, candidate: int) -> int:
    """Put a candidate among the best ones, best first, an earlier one before its equals; returns how many."""
    at = n if n < len(best) else n - 1
    n = at + 1
    while at > 0 and total > best[at - 1]:
        best[at], index[at] = best[at - 1], index[at - 1]
        at -= 1
    best[at], index[at] = total, candidate
    return n


@compiled
def go_on(places: Places, rules: Rules, place: int, best: Any, index: Any, n_found: int) -> None:
    """Beam search: end and go on with the best candidates."""
    step, beams = places.step[place], rules.beam
    automaton = places.automaton[place].copy()
    going = 0
    for rank in range(n_found):
        beam, byte = index[rank] // N_IDS, index[rank] % N_IDS
        if byte == EOS:
            if rank < beams:
                finish(places, rules, place, best[rank], beam)
        elif going < beams:
            places.last[place, going], places.parent[place, going] = byte, beam
            places.score[place, going] = best[rank]
            places.automaton[place, going] = rules.follow[automaton[beam], byte]
            going += 1
    for beam in range(going, beams):  # nothing is left for these
        places.last[place, beam], places.parent[place, beam] = BOS, beam
        places.score[place, beam] = NOTHING
    for beam in range(beams):
        places.chosen[place, step, beam] = places.last[place, beam]
        places.parents[place, step, beam] = places.parent[place, beam]
    if is_over(places, rules, place, places.score[place, 0] if going > 0 else NOTHING):
        places.state[place] = DONE


@compiled
def is_over(places: Places, rules: Rules, place: int, best: float) -> bool:
    """Whether no text that goes on is expected among the wanted hypotheses; see search_is_over in
    engines/choice.py. best: the highest score of those that go on."""
    if rules.beam == 1 and places.n_finished[place] > 0:
        return True  # greedy search looks back at nothing
    worst_wanted, limit = places.ranked[place, rules.n_best - 1], places.limit[place]
    if not best / float(limit + 1) ** rules.length_penalty > worst_wanted:
        return True
    if places.n_finished[place] < rules.beam:
        return False
    soon = min(LOOK_AHEAD * (places.step[place] + 1), limit)
    return not best / float(soon + 1) ** rules.length_penalty > worst_wanted


@compiled
def finish(places: Places, rules: Rules, place: int, total: float, beam: int) -> None:
    """A hypothesis has ended: keep it if it is among the best."""
    ranked = total / float(places.step[place] + 1) ** rules.length_penalty
    n = places.n_finished[place]
    if n == rules.beam and not ranked > places.ranked[place, n - 1]:
        return
    at = min(n, rules.beam - 1)
    places.n_finished[place] = at + 1
    while at > 0 and ranked > places.ranked[place, at - 1]:
        places.ranked[place, at] = places.ranked[place, at - 1]
        places.log_p[place, at] = places.log_p[place, at - 1]
        places.at[place, at] = places.at[place, at - 1]
        places.who[place, at] = places.who[place, at - 1]
        at -= 1
    places.ranked[place, at], places.log_p[place, at] = ranked, total
    places.at[place, at], places.who[place, at] = places.step[place], beam


@compiled
def draw(places: Places, rules: Rules, place: int, beam: int, merged: Any, allowed: Any) -> None:
    """Sampling: one text's next byte."""
    step = places.step[place]
    if np.isnan(merged[0]):  # then all are
        places.state[place] = DONE
        return
    order = np.argsort(-np.where(allowed, merged, np.float32(NOTHING)), kind="mergesort")
    n = 0
    for byte in range(N_IDS):
        n += allowed[byte]
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
        total = weights.sum()
    target = uniform(places.keys[place, beam], step) * total
    running, byte = 0.0, order[0]
    for candidate in range(N_IDS):
        if weights[candidate] > 0.0:
            running += weights[candidate]
            byte = candidate
            if running > target:
                break
    score = places.score[place, beam] + np.float64(merged[byte])
    places.chosen[place, step, beam], places.parents[place, step, beam] = byte, beam
    places.last[place, beam], places.parent[place, beam] = byte, beam
    places.score[place, beam] = score
    if byte == EOS:
        finish(places, rules, place, score, beam)
        places.score[place, beam] = NOTHING
        if places.n_finished[place] == rules.beam:
            places.state[place] = DONE
    else:
        places.automaton[place, beam] = rules.follow[places.automaton[place, beam], byte]
