"""Constraints in compiled code: what each beam owes, and which bytes go on; see decoding/constraints.

Compiled without a cache of its own, as part of interpreter.py. What holds is told by its twin,
decoding/pytorch/constraints.py. Knows neither probabilities nor models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bytenmt.decoding.cpu.kernels.simd import allocating
from bytenmt.decoding.cpu.search.owing import Owing, SpanTables, Standing, standing
from bytenmt.kernel_constants import ANYWHERE, BLANK, CLOSING_COST, OPEN_WITHIN, TAB, TAG
from bytenmt.utf8 import ACCEPT, EOS, LONGEST_CHARACTER, N_IDS

if TYPE_CHECKING:
    from bytenmt.decoding.constraints.constraint import Numbers

SOFT, FIRM, CLOSING = 0, 1, 2  # of a track, see the twin


@allocating
def may_stand(tables: Numbers, place: int, owed: Any, inside: int, item: int) -> bool:
    """Whether an item may stand next. owed (k,) bool."""
    if not owed[item]:
        return False
    within, after = tables.within[place, item], tables.after[place, item]
    if within == ANYWHERE:
        return True
    if within != inside or (after >= 0 and owed[after]):
        return False
    if tables.closes[place, item]:
        for other in range(len(owed)):
            if owed[other] and other != item and tables.within[place, other] == inside:
                return False
    return True


@allocating
def may_begin(tables: Numbers, place: int, spans: Any, item: int) -> bool:
    """Whether no span that has begun could end inside an item that begins here. spans (c,) int64."""
    may = True
    for part in range(len(spans)):
        may = may and tables.begins[place, item, spans[part]]
    return may


@allocating
def in_common(bits: Any, spans: Any) -> int:
    """The bits that the states of all parts have in common: bits (q,), spans (c,) int64."""
    found = bits[spans[0]]
    for part in range(1, len(spans)):
        found &= bits[spans[part]]
    return int(found)


@allocating
def complete(tables: Numbers, place: int, now: Standing, beam: int) -> int:
    """The item that ends with the last byte, or -1."""
    offset = now.offset[beam]
    if offset > 0:
        for item in range(now.owed.shape[1]):
            whole = now.track[beam, item] and tables.length[place, item] == offset
            if whole and may_stand(tables, place, now.owed[beam], now.inside[beam], item):
                return item
    return -1


@allocating
def onward(tables: Numbers, place: int, now: Standing, beam: int, item: int) -> int:
    """The byte with which an item goes on that the last bytes are the beginning of, or -1."""
    offset = now.offset[beam]
    if offset == 0 or not now.track[beam, item] or tables.length[place, item] <= offset:
        return -1
    if not may_stand(tables, place, now.owed[beam], now.inside[beam], item):
        return -1
    return int(tables.text[place, tables.first[place, item] + offset])


@allocating
def without(tables: Numbers, place: int, owed: Any, item: int) -> Any:
    """What is owed once an item is met, -1: the same."""
    after = owed.copy()
    if item >= 0:
        for other in range(len(owed)):
            if tables.group[place, other] == tables.group[place, item]:
                after[other] = False
    return after


@allocating
def inside_after(tables: Numbers, place: int, inside: int, item: int) -> int:
    """The element that is open once an item is met, -1: the same."""
    if item >= 0 and tables.leads[place, item] != ANYWHERE:
        return int(tables.leads[place, item])
    return inside


@allocating
def constrain(
    owing: Owing,
    rules: SpanTables,
    may: Any,
    place: int,
    beam: int,
    automaton: int,
    room: int,
    allowed: Any,
    favoured: Any,
    left: Any,
    goes_on: Any,
) -> int:
    """Which bytes may come, in place of those that are allowed otherwise, unless there are none.

    may (5, N_STATES, 256): see utf8.allowed_bytes; room: bytes that are left; favoured (256,) bool: of items
    that are owed; left (256,) int64: groups that each byte leaves owed; goes_on (256,) bool: whether it
    writes on what is being written. Returns the byte that comes in place of an end that may not come yet, or
    -1.
    """
    tables, now = owing.tables, standing(owing, place)
    k = now.owed.shape[1]
    ended = complete(tables, place, now, beam)
    owed = without(tables, place, now.owed[beam], ended)
    inside = inside_after(tables, place, now.inside[beam], ended)
    spans = now.spans[beam]
    free_separators = rules.free[spans[0]].copy()
    for part in range(1, len(spans)):
        free_separators &= rules.free[spans[part]]
    separators = in_common(rules.separators, spans)
    is_complete = False
    for part in range(len(spans)):
        is_complete = is_complete or rules.complete[spans[part]]
    reserved, reserved_before, n_left, n_before = 0, 0, 0, 0
    goes_on[:], begins = False, np.zeros(N_IDS, np.bool_)
    # Of items: the byte with which one goes on, the first that may stand next, and whether it may begin
    # here; one that may comes before those that may not.
    going, first, can_begin, binds = -1, -1, False, now.firm[beam] > SOFT
    for item in range(k):
        cost = tables.cost[place, item]
        if now.owed[beam, item]:
            reserved_before += cost
            n_before += cost > 0
            byte = onward(tables, place, now, beam, item)
            if byte >= 0:
                goes_on[byte] = True
                going = going if going >= 0 else byte
                binds = binds or tables.binding[place, item] <= now.offset[beam]
        if owed[item]:
            reserved += cost
            n_left += cost > 0
            if may_stand(tables, place, owed, inside, item):
                here = may_begin(tables, place, spans, item)
                if here:
                    begins[tables.text[place, tables.first[place, item]]] = True
                if cost > 0 and (first < 0 or (here and not can_begin)):
                    first, can_begin = item, here
    bound = going >= 0 and ended < 0 and (binds or is_complete or separators == 0)
    fresh = automaton == ACCEPT and not bound
    for byte in range(N_IDS):
        begins[byte] = begins[byte] and fresh
        favoured[byte] = goes_on[byte] or (begins[byte] and rules.symbol[byte])
        left[byte] = n_before - 1 if goes_on[byte] else n_left - begins[byte]

    # Where nothing else fits: the first item that may come, or what must stand before it; a blank does, but
    # before tags, and where there is no room.
    instead = -1
    if going >= 0 and ended < 0:
        instead = going
    elif first >= 0:
        instead = int(tables.text[place, tables.first[place, first]])
        apart = instead == TAG or now.before[beam] == BLANK or now.before[beam] == TAB
        if not apart and fresh and separators & 1 and room > reserved:  # a blank is the first separator
            instead = BLANK
        elif not (fresh and can_begin):
            bits = separators if separators else in_common(rules.next_separators, spans)
            which = 0
            while bits and not bits >> which & 1:
                which += 1
            instead = int(rules.separator_bytes[which])
    chosen = np.zeros(N_IDS, np.bool_)
    closing = now.firm[beam] == CLOSING
    if (room - reserved < 1 or closing) and instead >= 0:
        chosen[instead] = True
    else:
        character = may[max(0, min(room - reserved, LONGEST_CHARACTER)), automaton]
        # A word that goes on leaves its item owed, which then needs room again.
        whole = ended >= 0 and tables.right[place, ended] and room - reserved_before < LONGEST_CHARACTER
        last = automaton == ACCEPT and n_left == 0
        for byte in range(N_IDS):
            free = character[byte] and free_separators[byte] != 0
            free = free and not (bound or tables.shut[place, byte])
            if byte == EOS:
                free = free and last
            elif (closing and last and not bound) or (whole and rules.wordlike[byte]):
                free = False
            chosen[byte] = free or goes_on[byte] or begins[byte]
    any_chosen, any_strict = False, False
    ban = tables.ban[place, now.banned[beam]]
    for byte in range(N_IDS):
        chosen[byte] = chosen[byte] and (room > 0 or byte == EOS)
        any_chosen = any_chosen or chosen[byte]
        any_strict = any_strict or (chosen[byte] and ban[byte] >= 0)
    if any_chosen:
        for byte in range(N_IDS):
            allowed[byte] = chosen[byte] and (not any_strict or ban[byte] >= 0)
    return instead if automaton == ACCEPT or (going >= 0 and ended < 0) else -1


@allocating
def favour(merged: Any, allowed: Any, favoured: Any, instead: int) -> int:
    """Of a greedy search: only one byte stays allowed, see chances in the twin. instead: see constrain.
    Returns how a track goes on with it."""
    best, value_of_best, highest = -1, np.float32(-np.inf), np.float32(-np.inf)
    for byte in range(N_IDS):
        if allowed[byte]:
            value = merged[byte]
            highest = max(highest, value)
            if byte == instead:
                value = max(value, merged[EOS])
            if favoured[byte]:
                value = np.float32(value + np.float32(OPEN_WITHIN))
            if value > value_of_best:
                best, value_of_best = byte, value
            allowed[byte] = False
    if best < 0:
        return SOFT
    allowed[best] = True
    return firmness(merged, float(highest), best, instead, 0.0)


@allocating
def firmness(merged: Any, highest: float, byte: int, instead: int, cost: float) -> int:
    """How a track goes on with a byte, see firm in the twin. highest: of the bytes that are allowed."""
    if byte == instead and np.float32(merged[EOS] - (0.0 if byte == BLANK else cost)) > merged[byte]:
        return CLOSING
    return FIRM if merged[byte] < highest else SOFT


@allocating
def rank_bytes(merged: Any, allowed: Any, owed: Any, instead: int, values: Any) -> float:
    """By what a beam search ranks the bytes, see ranks in the twin: values (256,) float32. owed (k,) bool.
    Returns the highest of merged among those that are allowed."""
    n, highest = 0, np.float32(-np.inf)
    for byte in range(N_IDS):
        values[byte] = merged[byte]
        if allowed[byte] and merged[byte] > -np.inf:
            n += 1
            highest = max(highest, merged[byte])
    for byte in range(N_IDS):
        if n == 1 and owed.any() and allowed[byte] and merged[byte] > -np.inf:
            values[byte] = 0.0
    if instead >= 0 and allowed[instead] and values[instead] > -np.inf and merged[EOS] > -np.inf:
        closing = np.float32(merged[EOS] - CLOSING_COST)
        if closing > values[instead] or (instead == BLANK and merged[EOS] > values[instead]):
            values[instead] = closing
    return float(highest)


@allocating
def take(
    owing: Owing,
    rules: SpanTables,
    place: int,
    was: Standing,
    parent: int,
    automaton: int,
    beam: int,
    byte: int,
    held: bool,
    firm: int,
) -> None:
    """A beam goes on from a parent, as they stood, by a byte. automaton: of the parent; held: the byte is of
    the prefix, which owing knows already; firm: SOFT, FIRM or CLOSING."""
    tables = owing.tables
    ban = tables.ban[place, was.banned[parent], byte]
    owing.banned[place, beam] = max(0, ban)
    owing.owed[place, beam] = was.owed[parent]
    owing.inside[place, beam], owing.spans[place, beam] = was.inside[parent], was.spans[parent]
    owing.track[place, beam], owing.offset[place, beam] = was.track[parent], was.offset[parent]
    owing.firm[place, beam], owing.before[place, beam] = was.firm[parent], byte
    if held:
        return
    owing.firm[place, beam] = max(firm, CLOSING if was.firm[parent] == CLOSING else SOFT)
    k, spans = was.owed.shape[1], was.spans[parent]
    for part in range(len(spans)):
        owing.spans[place, beam, part] = rules.follow[spans[part], byte]
    owing.track[place, beam] = False
    found = False
    for item in range(k):
        if onward(tables, place, was, parent, item) == byte:
            owing.track[place, beam, item] = found = True
    if found:
        owing.offset[place, beam] += 1
        owing.firm[place, beam] = max(firm, was.firm[parent])
        return
    owing.offset[place, beam] = 0
    ended = complete(tables, place, was, parent)
    owed = without(tables, place, was.owed[parent], ended)
    inside = inside_after(tables, place, was.inside[parent], ended)
    if ended >= 0 and not (tables.right[place, ended] and rules.wordlike[byte]):
        owing.owed[place, beam] = owed
        owing.inside[place, beam] = inside
    if automaton != ACCEPT:
        return
    for item in range(k):
        begun = tables.text[place, tables.first[place, item]] == byte
        if begun and may_stand(tables, place, owed, inside, item) and may_begin(tables, place, spans, item):
            owing.track[place, beam, item] = True
            owing.offset[place, beam] = 1


@allocating
def take_all(
    owing: Owing,
    rules: SpanTables,
    place: int,
    parent: Any,
    automaton: Any,
    byte: Any,
    n: int,
    held: bool,
    firm: Any,
) -> None:
    """The first n beams go on from their parents by their bytes: parent, byte, automaton, firm (b,)."""
    was = standing(owing, place)
    for beam in range(n):
        of = parent[beam]
        take(owing, rules, place, was, of, automaton[of], beam, byte[beam], held, firm[beam])
