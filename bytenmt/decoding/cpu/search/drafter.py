"""Which bytes a pass of the decoder reads beside the one that is sure: drafts, and how many of them pay.

Compiled without a cache of its own, as part of interpreter.py. A draft comes from a table of what followed
the same bytes in training, or from the source; see speculative/lookup.py. Knows no models, and does not
verify a draft: beam_search.py does. Its twin is decoding/pytorch/drafter.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.kernels.simd import allocating, compiled, inlined
from bytenmt.decoding.cpu.search.slots import RUNNING, Rules, SearchState
from bytenmt.kernel_constants import MOST_DRAFTED as CHAIN
from bytenmt.speculative.lookup import found, matched
from bytenmt.utf8 import BOS

if TYPE_CHECKING:
    from bytenmt.speculative.table import Speculation

MOST_ROWS = 64  # drafted bytes of all sentences in one pass; of more sentences than that none is read
AS_MANY_AS_PAY, AS_THEY_STAND = -1, -2  # instead of how many are read
LEAST_CHANCE = 0.02  # a byte that is accepted less often than that is not read
LIKELY = 0.8  # as often as good drafts are accepted
MEMORY = 0.999  # of how many were accepted: what a pass leaves of the earlier ones
PRIOR = 8.0  # bytes for which the table's own chances hold at first

BYTE, LOW_BYTE = np.uint64(8), np.uint64(0xFF)


class Drafter(NamedTuple):
    """table.Table for compiled code, and what a pass costs.

    tag, chain, reach, copy: see there; most: drafted bytes a pass of a sentence, or one of AS_MANY_AS_PAY and
    AS_THEY_STAND; price (rows + 1,) float64: seconds of a pass over so many rows; record (2,) float64: bytes
    of late whose acceptance was expected, and that were accepted.
    """

    tag: npt.NDArray[np.uint32]
    chain: npt.NDArray[np.uint64]
    reach: npt.NDArray[np.uint8]
    copy: npt.NDArray[np.uint8]
    most: int
    price: npt.NDArray[np.float64]
    record: npt.NDArray[np.float64]

    @staticmethod
    def of(speculation: Speculation | None, rows: int) -> Drafter:
        """For passes of so many rows at most, all of one price."""
        price, record = np.ones(rows + 1), np.zeros(2)
        if speculation is None:
            nothing, none = np.zeros((0, CHAIN), np.uint8), np.zeros(0, np.uint64)
            return Drafter(none.astype(np.uint32), none, nothing, nothing, 0, price, record)
        table = speculation.table
        most = AS_MANY_AS_PAY if speculation.most is None else speculation.most
        return Drafter(table.tag, table.chain, table.reach, table.copy, most, price, record)


class PassInputs(NamedTuple):
    """What a pass is carried out for: the sentences, how their bytes are chosen, and what is drafted."""

    search: SearchState
    rules: Rules
    drafter: Drafter


@compiled
def draft_all(search: SearchState, drafter: Drafter) -> None:
    """Draft for every running sentence."""
    if drafter.most == AS_THEY_STAND:
        return
    n_running = 0
    for place in range(len(search.state)):
        search.n_drafted[place] = 0
        n_running += search.state[place] == RUNNING
    room = len(search.rows) - n_running
    if drafter.most == 0 or room <= 0 or (drafter.most < 0 and not may_pay(drafter, n_running, room)):
        return
    for place in range(len(search.state)):
        if search.state[place] == RUNNING:
            n = draft(search, drafter, place)
            search.n_drafted[place] = n
            if drafter.most >= 0:
                search.n_drafted[place] = min(n, drafter.most, room)
                room -= search.n_drafted[place]
    if drafter.most == AS_MANY_AS_PAY:
        take_what_pays(search, drafter, n_running, room)


@compiled
def gather_rows(search: SearchState) -> None:
    """List the rows of the running places."""
    n = 0
    for place in range(len(search.state)):
        if search.state[place] == RUNNING:
            for beam in range(search.last.shape[1]):
                search.rows[n, 0] = place
                search.rows[n, 1] = beam
                search.rows[n, 2] = 0
                n += 1
            for column in range(1, search.n_drafted[place] + 1):
                search.rows[n, 0] = place
                search.rows[n, 1] = 0
                search.rows[n, 2] = column
                n += 1
    search.n_rows[0] = n


@compiled
def may_pay(drafter: Drafter, n_running: int, room: int) -> bool:
    """Whether a pass whose drafts are mostly accepted gives more bytes a second than one without."""
    if n_running > MOST_ROWS:
        return False
    for n in range(1, room + 1):
        if (n_running + LIKELY * n) * drafter.price[n_running] > n_running * drafter.price[n_running + n]:
            return True
    return False


@compiled
def draft(search: SearchState, drafter: Drafter, place: int) -> int:
    """Draft what comes next in a sentence, each byte with its chance; returns how many bytes."""
    step, forced = search.step[place], search.n_prefix[place]
    room = min(CHAIN, search.limit[place] - step)
    if step < forced:
        n = min(room, forced - step)
        for i in range(n):
            search.drafted[place, i] = search.prefix[place, step + i]
            search.chance[place, i] = 1.0
        return int(n)
    word = np.uint64(0)
    for back in range(CHAIN, 0, -1):
        byte = np.uint64(search.chosen[place, step - back, 0] if step >= back else BOS)
        word = (word << BYTE) | byte
    slot = found(drafter.tag, word)
    sum_table, sum_source = 0, 0
    if slot >= 0:
        for i in range(CHAIN):
            sum_table += drafter.reach[slot, i]
    at, n_same = matched(search.source[place, : search.n_source[place]], word)
    n_left = min(CHAIN, search.n_source[place] - at)
    for i in range(n_left):
        sum_source += drafter.copy[n_same, i]
    n = 0
    if sum_source > sum_table:
        for i in range(min(room, n_left)):
            search.drafted[place, i] = search.source[place, at + i]
            search.chance[place, i] = drafter.copy[n_same, i] / 255
            n += drafter.copy[n_same, i] > 0
    elif slot >= 0:
        for i in range(room):
            search.drafted[place, i] = np.uint8((drafter.chain[slot] >> (BYTE * np.uint64(i))) & LOW_BYTE)
            search.chance[place, i] = drafter.reach[slot, i] / 255
            n += drafter.reach[slot, i] > 0
    return int(n)


@allocating
def take_what_pays(search: SearchState, drafter: Drafter, n_running: int, room: int) -> None:
    """Of the likeliest drafted bytes keep so many that the bytes expected of a pass, over its price, are the
    most."""
    taken = np.zeros(len(search.state), np.int64)
    order = np.empty(room, np.int64)
    better = min(1.25, (drafter.record[1] + PRIOR) / (drafter.record[0] + PRIOR))
    expected, most, n_best = float(n_running), n_running / drafter.price[n_running], 0
    for n in range(room):
        best, highest = -1, LEAST_CHANCE
        for place in range(len(search.state)):
            if taken[place] < search.n_drafted[place]:
                chance = search.chance[place, taken[place]]
                if search.step[place] >= search.n_prefix[place]:
                    chance = min(1.0, chance * better)
                if chance > highest:
                    best, highest = place, chance
        if best < 0:
            break
        taken[best] += 1
        order[n] = best
        expected += highest
        if expected / drafter.price[n_running + n + 1] > most:
            most, n_best = expected / drafter.price[n_running + n + 1], n + 1
    for place in range(len(search.state)):
        search.n_drafted[place] = 0
    for n in range(n_best):
        search.n_drafted[order[n]] += 1


@inlined
def learn(search: SearchState, drafter: Drafter, place: int, began: int) -> None:
    """After a pass that began at a step: how many of its drafted bytes were accepted."""
    if began < search.n_prefix[place] or search.n_drafted[place] == 0 or drafter.most == AS_THEY_STAND:
        return
    expected = 0.0
    for i in range(search.n_drafted[place]):
        expected += search.chance[place, i]
    accepted = min(search.step[place] - began - 1, search.n_drafted[place])
    drafter.record[0] = MEMORY * drafter.record[0] + expected
    drafter.record[1] = MEMORY * drafter.record[1] + accepted
