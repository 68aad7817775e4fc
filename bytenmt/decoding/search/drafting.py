"""Speculative decoding: draft bytes that a decoder pass reads after the last chosen one, and choose how many.

A draft comes from a table of what followed the same bytes in the training text, or from the source; see
drafts/lookup.py. beam_search.py verifies it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.drafts.lookup import find_entry, find_match
from bytenmt.decoding.search.state import RUNNING, SearchParams, SearchState
from bytenmt.jit import allocating, compiled, inlined
from bytenmt.kernel_constants import MOST_DRAFTED
from bytenmt.utf8 import BOS

if TYPE_CHECKING:
    from bytenmt.decoding.drafts.table import Speculation

MOST_ROWS = (
    64  # drafted bytes of all sentences in one pass; with more sentences than that there are no drafts
)
ADAPTIVE, PRESET = -1, -2  # in place of a number of drafted bytes; PRESET: those in the state
LEAST_CHANCE = 0.02  # bytes that are accepted less often are not drafted
LIKELY = 0.8  # acceptance rate of good drafts
MEMORY = 0.999  # decay of the record of accepted bytes per pass
PRIOR = 8.0  # weight of the table's own chances, in bytes

BYTE, LOW_BYTE = np.uint64(8), np.uint64(0xFF)


class DraftParams(NamedTuple):
    """A draft table for compiled code, and the cost of a pass.

    tag, chain, reach, copy: see drafts.table.DraftTable. most: drafted bytes of a sentence per pass, or
    ADAPTIVE or PRESET. price (rows + 1,) float64: seconds of a pass by its number of rows.
    record (2,) float64: recently drafted bytes that were expected to be accepted, and that were accepted.
    """

    tag: npt.NDArray[np.uint32]
    chain: npt.NDArray[np.uint64]
    reach: npt.NDArray[np.uint8]
    copy: npt.NDArray[np.uint8]
    most: int
    price: npt.NDArray[np.float64]
    record: npt.NDArray[np.float64]

    @staticmethod
    def from_speculation(speculation: Speculation | None, rows: int) -> DraftParams:
        """Return the parameters for passes of at most `rows` rows, whose prices are equal until measured."""
        price, record = np.ones(rows + 1), np.zeros(2)
        if speculation is None:
            nothing, none = np.zeros((0, MOST_DRAFTED), np.uint8), np.zeros(0, np.uint64)
            return DraftParams(none.astype(np.uint32), none, nothing, nothing, 0, price, record)
        table = speculation.table
        most = ADAPTIVE if speculation.most is None else speculation.most
        return DraftParams(table.tag, table.chain, table.reach, table.copy, most, price, record)


class PassInputs(NamedTuple):
    """The arguments of a pass other than the model: sentences, search parameters and drafts."""

    search: SearchState
    params: SearchParams
    drafts: DraftParams


@compiled
def draft_all(search: SearchState, drafts: DraftParams) -> None:
    """Draft the next bytes of every running sentence."""
    if drafts.most == PRESET:
        return
    n_running = 0
    for slot in range(len(search.state)):
        search.n_drafted[slot] = 0
        n_running += search.state[slot] == RUNNING
    room = len(search.rows) - n_running
    if drafts.most == 0 or room <= 0 or (drafts.most < 0 and not may_pay(drafts, n_running, room)):
        return
    for slot in range(len(search.state)):
        if search.state[slot] == RUNNING:
            n = draft_sentence(search, drafts, slot)
            search.n_drafted[slot] = n
            if drafts.most >= 0:
                search.n_drafted[slot] = min(n, drafts.most, room)
                room -= search.n_drafted[slot]
    if drafts.most == ADAPTIVE:
        keep_profitable(search, drafts, n_running, room)


@compiled
def gather_rows(search: SearchState) -> None:
    """List the rows of the running slots in search.rows."""
    n = 0
    for slot in range(len(search.state)):
        if search.state[slot] == RUNNING:
            for beam in range(search.last.shape[1]):
                search.rows[n, 0] = slot
                search.rows[n, 1] = beam
                search.rows[n, 2] = 0
                n += 1
            for column in range(1, search.n_drafted[slot] + 1):
                search.rows[n, 0] = slot
                search.rows[n, 1] = 0
                search.rows[n, 2] = column
                n += 1
    search.n_rows[0] = n


@compiled
def may_pay(drafts: DraftParams, n_running: int, room: int) -> bool:
    """Return whether drafts that are mostly accepted would yield more bytes per second than none."""
    if n_running > MOST_ROWS:
        return False
    for n in range(1, room + 1):
        if (n_running + LIKELY * n) * drafts.price[n_running] > n_running * drafts.price[n_running + n]:
            return True
    return False


@compiled
def draft_sentence(search: SearchState, drafts: DraftParams, slot: int) -> int:
    """Draft the next bytes of a sentence with their chances to be accepted; return their number."""
    step, forced = search.step[slot], search.n_prefix[slot]
    room = min(MOST_DRAFTED, search.limit[slot] - step)
    if step < forced:
        n = min(room, forced - step)
        for i in range(n):
            search.drafted[slot, i] = search.prefix[slot, step + i]
            search.draft_chance[slot, i] = 1.0
        return int(n)
    word = np.uint64(0)
    for back in range(MOST_DRAFTED, 0, -1):
        byte = np.uint64(search.history_byte[slot, step - back, 0] if step >= back else BOS)
        word = (word << BYTE) | byte
    entry = find_entry(drafts.tag, word)
    sum_table, sum_source = 0, 0
    if entry >= 0:
        for i in range(MOST_DRAFTED):
            sum_table += drafts.reach[entry, i]
    at, n_same = find_match(search.source[slot, : search.n_source[slot]], word)
    n_left = min(MOST_DRAFTED, search.n_source[slot] - at)
    for i in range(n_left):
        sum_source += drafts.copy[n_same, i]
    n = 0
    if sum_source > sum_table:
        for i in range(min(room, n_left)):
            search.drafted[slot, i] = search.source[slot, at + i]
            search.draft_chance[slot, i] = drafts.copy[n_same, i] / 255
            n += drafts.copy[n_same, i] > 0
    elif entry >= 0:
        for i in range(room):
            search.drafted[slot, i] = np.uint8((drafts.chain[entry] >> (BYTE * np.uint64(i))) & LOW_BYTE)
            search.draft_chance[slot, i] = drafts.reach[entry, i] / 255
            n += drafts.reach[entry, i] > 0
    return int(n)


@allocating
def keep_profitable(search: SearchState, drafts: DraftParams, n_running: int, room: int) -> None:
    """Keep as many of the likeliest drafted bytes as maximise the expected bytes per second of a pass."""
    taken = np.zeros(len(search.state), np.int64)
    order = np.empty(room, np.int64)
    better = min(1.25, (drafts.record[1] + PRIOR) / (drafts.record[0] + PRIOR))
    expected, most, n_best = float(n_running), n_running / drafts.price[n_running], 0
    for n in range(room):
        best, highest = -1, LEAST_CHANCE
        for slot in range(len(search.state)):
            if taken[slot] < search.n_drafted[slot]:
                chance = search.draft_chance[slot, taken[slot]]
                if search.step[slot] >= search.n_prefix[slot]:
                    chance = min(1.0, chance * better)
                if chance > highest:
                    best, highest = slot, chance
        if best < 0:
            break
        taken[best] += 1
        order[n] = best
        expected += highest
        if expected / drafts.price[n_running + n + 1] > most:
            most, n_best = expected / drafts.price[n_running + n + 1], n + 1
    for slot in range(len(search.state)):
        search.n_drafted[slot] = 0
    for n in range(n_best):
        search.n_drafted[order[n]] += 1


@inlined
def record_acceptance(search: SearchState, drafts: DraftParams, slot: int, began: int) -> None:
    """Record how many drafted bytes of a pass, which began at step `began`, were expected and were
    accepted."""
    if began < search.n_prefix[slot] or search.n_drafted[slot] == 0 or drafts.most == PRESET:
        return
    expected = 0.0
    for i in range(search.n_drafted[slot]):
        expected += search.draft_chance[slot, i]
    accepted = min(search.step[slot] - began - 1, search.n_drafted[slot])
    drafts.record[0] = MEMORY * drafts.record[0] + expected
    drafts.record[1] = MEMORY * drafts.record[1] + accepted
