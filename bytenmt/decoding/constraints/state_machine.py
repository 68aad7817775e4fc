"""The state machine of constraints: which bytes may come next, and what a byte leaves to be written.

Plain Python over NumPy arrays. Numba compiles it as part of the search; as Python it reads prefixes and
finished texts (text_reader.py).

A byte that begins a required item may also be plain text. The item must be completed only once plain text
could not contain it any more, or where the part that is written would be a span of its own (the 3 of 3.1).
Where the length limit leaves room for no byte but the required ones, these are written out in the order of
the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bytenmt.decoding.constraints.state import BeamStates, Choices, ConstraintState, SpanTables, slot_beams
from bytenmt.jit import allocating, inlined_allocating
from bytenmt.kernel_constants import ANYWHERE, ATTENDED_SHARE, BLANK, TAB, TAG
from bytenmt.utf8 import ACCEPT, EOS, LONGEST_CHARACTER, N_IDS

if TYPE_CHECKING:
    from bytenmt.decoding.constraints.constraint import ConstraintArrays

# How a search chose a byte: as the likeliest one that is allowed; though another was likelier; or in place of
# the end of the text, whose probability it inherited.
LIKELIEST, LESS_LIKELY, IN_PLACE_OF_END = 0, 1, 2
# What a beam is committed to after it: nothing; completing the item that it is writing; or writing nothing
# but required items until the text ends.
NONE, COMMITTED, FORCED_END = LIKELIEST, LESS_LIKELY, IN_PLACE_OF_END


class ItemScan(NamedTuple):
    """The required items of one beam before its next byte; see `scan_items`.

    reserved_before, reserved: bytes that the pending items need, before and after the item that ends here
        is met; n_before, n_after: the number of their groups.
    continued: the byte that continues the item that is being written, -1 if there is none.
    is_binding: whether that item must be completed.
    first: the item that is written where room gets short, -1 if there is none; first_begins: whether it may
        begin here.
    """

    reserved_before: int
    reserved: int
    n_before: int
    n_after: int
    continued: int
    is_binding: bool
    first: int
    first_begins: bool


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
    attention: Any,
    choices: Choices,
) -> int:
    """Fill `choices` for the next byte of a beam; return the byte that takes the place of EOS while EOS is
    not allowed yet, or -1.

    utf8_allowed (5, N_STATES, 256) bool: see utf8.allowed_bytes. utf8: state of that automaton.
    bytes_left: until the length limit. carried_bonus: the beam's bonus so far. attention (s,) float32: the
    weights of source bytes in this step; s is 0 where there are none.
    choices.allowed: on entry the bytes that the length limit and UTF-8 allow; it stays as it is if the
    constraint would leave none.
    """
    tables, now = state.tables, slot_beams(state, slot)
    states = now.spans[beam]
    ended = ended_item(tables, slot, now, beam)
    pending = pending_without(tables, slot, now.pending[beam], ended)
    inside = inside_after(tables, slot, now.inside[beam], ended)
    separators = common_bits(spans.separators, states)

    # 1. The items that go on or may begin here, and the room that they need.
    continues, begins = np.zeros(N_IDS, np.bool_), np.zeros(N_IDS, np.bool_)
    items = scan_items(tables, slot, now, beam, pending, inside, continues, begins)
    in_item = items.continued >= 0 and ended < 0
    is_complete = False
    for part in range(len(states)):
        is_complete = is_complete or spans.complete[states[part]]
    is_bound = in_item and (items.is_binding or is_complete or separators == 0)
    between = utf8 == ACCEPT and not is_bound  # between characters, and free to begin an item
    forced_end = now.commitment[beam] == FORCED_END
    n_free = bytes_left - items.reserved  # bytes that nothing is reserved for

    # 2. How bytes are ranked. A bonus is for the item that is being written: its hypothesis would fall behind
    # others that lack the item. Once it is written, the log-probability alone says whether it belongs there.
    # What is written in place of the end stands at the end in any hypothesis, and keeps its bonus; so does an
    # item that began where the attention lay on it.
    kept_bonus = now.kept_bonus[beam]
    if ended >= 0 and now.is_attended[beam]:
        kept_bonus = carried_bonus
    choices.attended[:] = False
    for item in range(len(pending) if between and len(attention) > 0 else 0):
        if pending[item] and is_attended(tables, spans, slot, attention, now.previous[beam], item):
            byte = tables.text[slot, tables.first[slot, item]]
            choices.attended[byte] = (
                choices.attended[byte]
                or may_follow(tables, slot, pending, inside, item)
                and may_begin(tables, slot, states, item)
            )
    for byte in range(N_IDS):
        begins[byte] = begins[byte] and between
        required = continues[byte] or (begins[byte] and spans.symbol[byte])
        choices.required[byte] = required
        choices.bonus[byte] = carried_bonus if continues[byte] or forced_end else kept_bonus
        if required:
            choices.bonus[byte] += spans.required_bonus
        choices.bank[byte] = items.n_before - 1 if continues[byte] else items.n_after - begins[byte]

    # 3. The byte that is written where nothing else fits: of the item that has begun; or of the first item,
    # perhaps after a separator.
    end_byte = -1
    if in_item:
        end_byte = items.continued
    elif items.first >= 0:
        end_byte = int(tables.text[slot, tables.first[slot, items.first]])
        is_apart = end_byte == TAG or now.previous[beam] == BLANK or now.previous[beam] == TAB
        if not is_apart and between and separators & 1 and n_free > 0:  # bit 0 is the blank
            end_byte = BLANK
        elif not (between and items.first_begins):
            end_byte = separator_byte(spans, states, separators)

    # 4. The allowed bytes: that byte alone if there is no more room, or the text has come to its end;
    # otherwise plain text, and all that continues or begins an item.
    may = np.zeros(N_IDS, np.bool_)
    if (n_free < 1 or forced_end) and end_byte >= 0:
        may[end_byte] = True
    else:
        # A word that goes on leaves its item pending, which then needs room again.
        needs_word_end = (
            ended >= 0
            and tables.needs_word_end[slot, ended]
            and bytes_left - items.reserved_before < LONGEST_CHARACTER
        )
        may_end = utf8 == ACCEPT and items.n_after == 0
        character = utf8_allowed[max(0, min(n_free, LONGEST_CHARACTER)), utf8]
        allow_plain_text(tables, spans, slot, states, character, is_bound, may)
        for byte in range(N_IDS):
            if byte == EOS:
                may[byte] = may[byte] and may_end
            elif (forced_end and may_end and not is_bound) or (needs_word_end and spans.wordlike[byte]):
                may[byte] = False
            may[byte] = may[byte] or continues[byte] or begins[byte]

    # 5. Remove bytes that would complete a forbidden text, if others are left.
    allow_unless_banned(may, tables.ban[slot, now.ban[beam]], bytes_left, choices.allowed)
    return end_byte if utf8 == ACCEPT or in_item else -1


@inlined_allocating
def scan_items(
    tables: ConstraintArrays,
    slot: int,
    now: BeamStates,
    beam: int,
    pending: Any,
    inside: int,
    continues: Any,
    begins: Any,
) -> ItemScan:
    """Mark the bytes that continue or begin an item, and add up the room that items need.

    pending (k,) bool, inside: after the item that ends here. continues, begins (256,) bool: written to.
    """
    states = now.spans[beam]
    reserved_before, reserved, n_before, n_after = 0, 0, 0, 0
    continued, first, first_begins = -1, -1, False
    is_binding = now.commitment[beam] > NONE
    for item in range(now.pending.shape[1]):
        cost = tables.cost[slot, item]
        if now.pending[beam, item]:
            reserved_before += cost
            n_before += cost > 0
            byte = next_byte(tables, slot, now, beam, item)
            if byte >= 0:
                continues[byte] = True
                continued = continued if continued >= 0 else byte
                is_binding = is_binding or tables.binding[slot, item] <= now.n_matched[beam]
        if pending[item]:
            reserved += cost
            n_after += cost > 0
            if may_follow(tables, slot, pending, inside, item):
                begins_here = may_begin(tables, slot, states, item)
                if begins_here:
                    begins[tables.text[slot, tables.first[slot, item]]] = True
                # An item that may begin here goes before others.
                if cost > 0 and (first < 0 or (begins_here and not first_begins)):
                    first, first_begins = item, begins_here
    return ItemScan(reserved_before, reserved, n_before, n_after, continued, is_binding, first, first_begins)


@inlined_allocating
def separator_byte(spans: SpanTables, states: Any, separators: int) -> int:
    """Return the best byte after which an item may begin, or after which some separator can follow."""
    bits = separators if separators else common_bits(spans.next_separators, states)
    which = 0
    while bits and not bits >> which & 1:
        which += 1
    return int(spans.separator_bytes[which])


@inlined_allocating
def allow_plain_text(
    tables: ConstraintArrays,
    spans: SpanTables,
    slot: int,
    states: Any,
    character: Any,
    is_bound: bool,
    may: Any,
) -> None:
    """Mark the bytes of plain text that complete no span and leave a way to begin the next item.

    character (256,) bool: bytes of characters that fit. may (256,) bool: written to.
    """
    free_separators = spans.free[states[0]].copy()
    for part in range(1, len(states)):
        free_separators &= spans.free[states[part]]
    for byte in range(N_IDS):
        may[byte] = character[byte] and free_separators[byte] != 0
        may[byte] = may[byte] and not (is_bound or tables.reserved_bytes[slot, byte])


@inlined_allocating
def allow_unless_banned(may: Any, ban: Any, bytes_left: int, allowed: Any) -> None:
    """Write the bytes of `may` that complete no forbidden text to `allowed`; all of `may` if none is left,
    and nothing if `may` is empty.

    may, allowed (256,) bool; ban (256,) int16: the next state of the automaton of forbidden texts, or -1.
    """
    any_byte, any_not_forbidden = False, False
    for byte in range(N_IDS):
        may[byte] = may[byte] and (bytes_left > 0 or byte == EOS)
        any_byte = any_byte or may[byte]
        any_not_forbidden = any_not_forbidden or (may[byte] and ban[byte] >= 0)
    if any_byte:
        for byte in range(N_IDS):
            allowed[byte] = may[byte] and (not any_not_forbidden or ban[byte] >= 0)


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
    carried_bonus: float,
    attention: Any,
) -> None:
    """Set the state of a beam to that of its parent after one more byte.

    before: the slot's beams before this step, see `snapshot`. parent: which of them is continued; utf8: its
    state of the UTF-8 automaton. in_prefix: whether the byte belongs to the forced prefix, which the
    constraint has taken into account already. choice: LIKELIEST, LESS_LIKELY or IN_PLACE_OF_END.
    carried_bonus: of the parent. attention: see `prepare`.
    """
    tables, beams = state.tables, state.beams
    # 1. Copy the parent's state; of a byte of the prefix only forbidden texts depend.
    beams.ban[slot, beam] = max(0, tables.ban[slot, before.ban[parent], byte])
    beams.pending[slot, beam] = before.pending[parent]
    beams.inside[slot, beam], beams.spans[slot, beam] = before.inside[parent], before.spans[parent]
    beams.matching[slot, beam] = before.matching[parent]
    beams.n_matched[slot, beam] = before.n_matched[parent]
    beams.commitment[slot, beam], beams.previous[slot, beam] = before.commitment[parent], byte
    beams.is_attended[slot, beam], beams.kept_bonus[slot, beam] = (
        before.is_attended[parent],
        before.kept_bonus[parent],
    )
    if in_prefix:
        return
    was_forced_end = before.commitment[parent] == FORCED_END
    beams.commitment[slot, beam] = max(choice, FORCED_END if was_forced_end else NONE)
    n_items, states = before.pending.shape[1], before.spans[parent]
    for part in range(len(states)):
        beams.spans[slot, beam, part] = spans.follow[states[part], byte]
    # 2. The byte continues an item …
    beams.matching[slot, beam] = False
    continues = False
    for item in range(n_items):
        if next_byte(tables, slot, before, parent, item) == byte:
            beams.matching[slot, beam, item] = continues = True
    if continues:
        beams.n_matched[slot, beam] += 1
        beams.commitment[slot, beam] = max(choice, before.commitment[parent])
        return
    # 3. … or it does not: then an item that ended before it is met, and items may begin with it.
    beams.n_matched[slot, beam] = 0
    ended = ended_item(tables, slot, before, parent)
    pending = pending_without(tables, slot, before.pending[parent], ended)
    inside = inside_after(tables, slot, before.inside[parent], ended)
    if ended >= 0 and not (tables.needs_word_end[slot, ended] and spans.wordlike[byte]):
        beams.pending[slot, beam] = pending
        beams.inside[slot, beam] = inside
        if before.is_attended[parent]:
            beams.kept_bonus[slot, beam] = carried_bonus
    beams.is_attended[slot, beam] = False
    if utf8 != ACCEPT:
        return
    for item in range(n_items):
        if tables.text[slot, tables.first[slot, item]] != byte:
            continue
        if may_follow(tables, slot, pending, inside, item) and may_begin(tables, slot, states, item):
            beams.matching[slot, beam, item] = True
            beams.n_matched[slot, beam] = 1
            if is_attended(tables, spans, slot, attention, before.previous[parent], item):
                beams.is_attended[slot, beam] = True


@allocating
def may_follow(tables: ConstraintArrays, slot: int, pending: Any, inside: int, item: int) -> bool:
    """Return whether the nesting of tags allows an item to come next.

    pending (k,) bool: items that are still to be written; inside: the element that is open.
    """
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
def is_attended(
    tables: ConstraintArrays, spans: SpanTables, slot: int, attention: Any, previous: int, item: int
) -> bool:
    """Return whether at least ATTENDED_SHARE of the attention lies on an item's bytes in the source.

    After a letter or digit only closing tags count: attention moves on before a word is complete. previous:
    the byte before.
    """
    if spans.wordlike[previous] and not tables.closes[slot, item]:
        return False
    inside, total = 0.0, 0.0
    for column in range(len(attention)):
        weight = attention[column]
        total += weight
        if tables.source_begin[slot, item] <= column < tables.source_end[slot, item]:
            inside += weight
    return inside > 0.0 and inside >= ATTENDED_SHARE * total


@allocating
def may_begin(tables: ConstraintArrays, slot: int, states: Any, item: int) -> bool:
    """Return whether no span that has begun could end inside an item that begins here.

    states (c,) int64: of the span tracker.
    """
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
    """Return the byte that continues an item whose beginning the last bytes are, or -1."""
    n_matched = beams.n_matched[beam]
    if n_matched == 0 or not beams.matching[beam, item] or tables.length[slot, item] <= n_matched:
        return -1
    if not may_follow(tables, slot, beams.pending[beam], beams.inside[beam], item):
        return -1
    return int(tables.text[slot, tables.first[slot, item] + n_matched])


@allocating
def pending_without(tables: ConstraintArrays, slot: int, pending: Any, item: int) -> Any:
    """Return a copy of the pending items without an item and its alternatives. item: -1 to remove none."""
    after = pending.copy()
    if item >= 0:
        for other in range(len(pending)):
            if tables.group[slot, other] == tables.group[slot, item]:
                after[other] = False
    return after


@allocating
def inside_after(tables: ConstraintArrays, slot: int, inside: int, item: int) -> int:
    """Return the element that is open after an item, or `inside` where the item is -1."""
    if item >= 0 and tables.next_within[slot, item] != ANYWHERE:
        return int(tables.next_within[slot, item])
    return inside
