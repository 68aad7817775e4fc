"""The one state machine of constraints: which bytes may come next, and what a byte leaves to be written.

Plain Python over NumPy arrays. Numba compiles it as part of the search; uncompiled it reads prefixes and
finished texts (text_reader.py). It knows neither probabilities nor models.

Required items are followed softly: a byte that begins an item may also be plain text, until plain text may
not have it. From then on the item is written to its end, as it is where the part that is written would be a
span of its own (the 3 of 3.1). Where room is left for no byte but the required ones, these are written out in
the order of the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bytenmt.decoding.constraints.state import BeamStates, Choices, ConstraintState, SpanTables, beams_of
from bytenmt.jit import allocating
from bytenmt.kernel_constants import ANYWHERE, BLANK, TAB, TAG
from bytenmt.utf8 import ACCEPT, EOS, LONGEST_CHARACTER, N_IDS

if TYPE_CHECKING:
    from bytenmt.decoding.constraints.constraint import ConstraintArrays

# How a search chose a byte: as the likeliest one that is allowed; though another was likelier; or in place of
# the end of the text, whose probability it inherited.
LIKELIEST, LESS_LIKELY, IN_PLACE_OF_END = 0, 1, 2
# And what a beam is committed to after it: nothing; the item that it is writing; or, until the text ends,
# nothing but what is required.
NONE, COMMITTED, FORCED_END = LIKELIEST, LESS_LIKELY, IN_PLACE_OF_END


@allocating
def prepare(
    state: ConstraintState,
    spans: SpanTables,
    utf8_allowed: Any,
    slot: int,
    beam: int,
    utf8: int,
    bytes_left: int,
    carried_bonus: float,
    choices: Choices,
) -> int:
    """Fill `choices` for the next byte of a beam; return the byte that comes in place of an end that may not
    come yet, or -1.

    utf8_allowed (5, N_STATES, 256) bool: see utf8.allowed_bytes; utf8: state of that automaton. bytes_left:
    until the length limit. carried_bonus: what the beam is ranked higher by so far. choices.allowed holds the
    bytes that are allowed otherwise; it stays as it is where the constraint would leave none.
    """
    tables, now = state.tables, beams_of(state, slot)
    n_items = now.pending.shape[1]
    states = now.spans[beam]
    ended = ended_item(tables, slot, now, beam)
    pending = pending_without(tables, slot, now.pending[beam], ended)
    inside = inside_after(tables, slot, now.inside[beam], ended)

    # 1. What the span tracker says of plain text here.
    free_separators = spans.free[states[0]].copy()
    for part in range(1, len(states)):
        free_separators &= spans.free[states[part]]
    separators = common_bits(spans.separators, states)
    is_complete = False
    for part in range(len(states)):
        is_complete = is_complete or spans.complete[states[part]]

    # 2. The items: bytes that continue or begin one, and the room that they need, before and after the item
    # that ends here. first: the item that is written where room gets short; one that may begin here goes
    # before others.
    continues, begins = np.zeros(N_IDS, np.bool_), np.zeros(N_IDS, np.bool_)
    reserved_before, reserved, n_before, n_after = 0, 0, 0, 0
    continued, first, first_begins = -1, -1, False
    binds = now.commitment[beam] > NONE
    for item in range(n_items):
        cost = tables.cost[slot, item]
        if now.pending[beam, item]:
            reserved_before += cost
            n_before += cost > 0
            byte = next_byte(tables, slot, now, beam, item)
            if byte >= 0:
                continues[byte] = True
                continued = continued if continued >= 0 else byte
                binds = binds or tables.binding[slot, item] <= now.n_matched[beam]
        if pending[item]:
            reserved += cost
            n_after += cost > 0
            if may_follow(tables, slot, pending, inside, item):
                here = may_begin(tables, slot, states, item)
                if here:
                    begins[tables.text[slot, tables.first[slot, item]]] = True
                if cost > 0 and (first < 0 or (here and not first_begins)):
                    first, first_begins = item, here
    in_item = continued >= 0 and ended < 0
    is_bound = in_item and (binds or is_complete or separators == 0)
    between = utf8 == ACCEPT and not is_bound  # characters, and free to begin an item
    forced_end = now.commitment[beam] == FORCED_END
    for byte in range(N_IDS):
        begins[byte] = begins[byte] and between
        required = continues[byte] or (begins[byte] and spans.symbol[byte])
        choices.required[byte] = required
        # A bonus is for what is being written, which would fall behind texts that lack it; once that is
        # written the log-probability alone says whether it stands where it belongs. But what comes in place
        # of the end stands at the end in any text.
        choices.bonus[byte] = carried_bonus if continues[byte] or forced_end else 0.0
        if required:
            choices.bonus[byte] += spans.required_bonus
        choices.bank[byte] = n_before - 1 if continues[byte] else n_after - begins[byte]

    # 3. The byte that is written where nothing else fits: of the item that is begun; of the first item; or
    # what keeps the first item apart from the text before it, a blank where there is room for one.
    end_byte = -1
    if in_item:
        end_byte = continued
    elif first >= 0:
        end_byte = int(tables.text[slot, tables.first[slot, first]])
        is_apart = end_byte == TAG or now.previous[beam] == BLANK or now.previous[beam] == TAB
        if not is_apart and between and separators & 1 and bytes_left > reserved:  # bit 0 is the blank
            end_byte = BLANK
        elif not (between and first_begins):
            bits = separators if separators else common_bits(spans.next_separators, states)
            which = 0
            while bits and not bits >> which & 1:
                which += 1
            end_byte = int(spans.separator_bytes[which])

    # 4. The bytes that are allowed: that one alone where there is no more room, or the text has come to its
    # end; else plain text, and all that continues or begins an item.
    may = np.zeros(N_IDS, np.bool_)
    if (bytes_left - reserved < 1 or forced_end) and end_byte >= 0:
        may[end_byte] = True
    else:
        character = utf8_allowed[max(0, min(bytes_left - reserved, LONGEST_CHARACTER)), utf8]
        # A word that goes on leaves its item pending, which then needs room again.
        needs_end_of_word = (
            ended >= 0 and tables.right[slot, ended] and bytes_left - reserved_before < LONGEST_CHARACTER
        )
        may_end = utf8 == ACCEPT and n_after == 0
        for byte in range(N_IDS):
            free = character[byte] and free_separators[byte] != 0
            free = free and not (is_bound or tables.reserved_bytes[slot, byte])
            if byte == EOS:
                free = free and may_end
            elif (forced_end and may_end and not is_bound) or (needs_end_of_word and spans.wordlike[byte]):
                free = False
            may[byte] = free or continues[byte] or begins[byte]

    # 5. Without the bytes that complete a forbidden text, if others are left.
    any_byte, any_not_forbidden = False, False
    ban = tables.ban[slot, now.ban[beam]]
    for byte in range(N_IDS):
        may[byte] = may[byte] and (bytes_left > 0 or byte == EOS)
        any_byte = any_byte or may[byte]
        any_not_forbidden = any_not_forbidden or (may[byte] and ban[byte] >= 0)
    if any_byte:
        for byte in range(N_IDS):
            choices.allowed[byte] = may[byte] and (not any_not_forbidden or ban[byte] >= 0)
    return end_byte if utf8 == ACCEPT or in_item else -1


@allocating
def advance(
    state: ConstraintState,
    spans: SpanTables,
    slot: int,
    before: BeamStates,
    parent: int,
    beam: int,
    utf8: int,
    byte: int,
    in_prefix: bool,
    choice: int,
) -> None:
    """Let a beam continue another one by a byte.

    before: the beams before this step, see `snapshot`; parent: which of them is continued; utf8: its state of
    the UTF-8 automaton. in_prefix: the byte belongs to the forced prefix, which the constraint knows already.
    choice: LIKELIEST, LESS_LIKELY or IN_PLACE_OF_END.
    """
    tables = state.tables
    state.ban[slot, beam] = max(0, tables.ban[slot, before.ban[parent], byte])
    state.pending[slot, beam] = before.pending[parent]
    state.inside[slot, beam], state.spans[slot, beam] = before.inside[parent], before.spans[parent]
    state.matching[slot, beam] = before.matching[parent]
    state.n_matched[slot, beam] = before.n_matched[parent]
    state.commitment[slot, beam], state.previous[slot, beam] = before.commitment[parent], byte
    if in_prefix:
        return
    was_forced_end = before.commitment[parent] == FORCED_END
    state.commitment[slot, beam] = max(choice, FORCED_END if was_forced_end else NONE)
    n_items, states = before.pending.shape[1], before.spans[parent]
    for part in range(len(states)):
        state.spans[slot, beam, part] = spans.follow[states[part], byte]
    # The byte continues an item …
    state.matching[slot, beam] = False
    continues = False
    for item in range(n_items):
        if next_byte(tables, slot, before, parent, item) == byte:
            state.matching[slot, beam, item] = continues = True
    if continues:
        state.n_matched[slot, beam] += 1
        state.commitment[slot, beam] = max(choice, before.commitment[parent])
        return
    # … or it does not: then an item that ended before it is met, and items may begin with it.
    state.n_matched[slot, beam] = 0
    ended = ended_item(tables, slot, before, parent)
    pending = pending_without(tables, slot, before.pending[parent], ended)
    inside = inside_after(tables, slot, before.inside[parent], ended)
    if ended >= 0 and not (tables.right[slot, ended] and spans.wordlike[byte]):
        state.pending[slot, beam] = pending
        state.inside[slot, beam] = inside
    if utf8 != ACCEPT:
        return
    for item in range(n_items):
        if tables.text[slot, tables.first[slot, item]] != byte:
            continue
        if may_follow(tables, slot, pending, inside, item) and may_begin(tables, slot, states, item):
            state.matching[slot, beam, item] = True
            state.n_matched[slot, beam] = 1


@allocating
def may_follow(tables: ConstraintArrays, slot: int, pending: Any, inside: int, item: int) -> bool:
    """Return whether an item may stand next, by the nesting of tags. pending (k,) bool; inside: the element
    that is open."""
    if not pending[item]:
        return False
    within, after = tables.within[slot, item], tables.after[slot, item]
    if within == ANYWHERE:
        return True
    if within != inside or (after >= 0 and pending[after]):
        return False
    if tables.closes[slot, item]:
        for other in range(len(pending)):
            if pending[other] and other != item and tables.within[slot, other] == inside:
                return False
    return True


@allocating
def may_begin(tables: ConstraintArrays, slot: int, states: Any, item: int) -> bool:
    """Return whether an item may begin here: no span that began before could end inside it. states (c,)
    int64: of the span tracker."""
    may = True
    for part in range(len(states)):
        may = may and tables.begins[slot, item, states[part]]
    return may


@allocating
def common_bits(bits: Any, states: Any) -> int:
    """Return the bits that the states of all parts have in common: bits (q,), states (c,) int64."""
    common = bits[states[0]]
    for part in range(1, len(states)):
        common &= bits[states[part]]
    return int(common)


@allocating
def ended_item(tables: ConstraintArrays, slot: int, beams: BeamStates, beam: int) -> int:
    """Return the item that ends with the last byte, or -1."""
    n_matched = beams.n_matched[beam]
    if n_matched > 0:
        for item in range(beams.pending.shape[1]):
            is_whole = beams.matching[beam, item] and tables.length[slot, item] == n_matched
            if is_whole and may_follow(tables, slot, beams.pending[beam], beams.inside[beam], item):
                return item
    return -1


@allocating
def next_byte(tables: ConstraintArrays, slot: int, beams: BeamStates, beam: int, item: int) -> int:
    """Return the byte that continues an item of which the last bytes are the beginning, or -1."""
    n_matched = beams.n_matched[beam]
    if n_matched == 0 or not beams.matching[beam, item] or tables.length[slot, item] <= n_matched:
        return -1
    if not may_follow(tables, slot, beams.pending[beam], beams.inside[beam], item):
        return -1
    return int(tables.text[slot, tables.first[slot, item] + n_matched])


@allocating
def pending_without(tables: ConstraintArrays, slot: int, pending: Any, item: int) -> Any:
    """Return a copy of the pending items without an item and its alternatives; -1: without none."""
    after = pending.copy()
    if item >= 0:
        for other in range(len(pending)):
            if tables.group[slot, other] == tables.group[slot, item]:
                after[other] = False
    return after


@allocating
def inside_after(tables: ConstraintArrays, slot: int, inside: int, item: int) -> int:
    """Return the element that is open after an item; -1: the same as before."""
    if item >= 0 and tables.leads[slot, item] != ANYWHERE:
        return int(tables.leads[slot, item])
    return inside
