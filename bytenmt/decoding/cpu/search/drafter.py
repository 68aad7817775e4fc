"""Which bytes a pass of the decoder tries beside the one that is sure: guesses, and how many of them pay.

Compiled without a cache of its own, as part of interpreter.py. A guess comes from a table of what followed
the same bytes in training, or from the source; see speculative/table.py. Knows no models, and does not judge
a guess.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.kernels.simd import compiled
from bytenmt.decoding.cpu.search.slots import RUNNING, Rules, SearchState
from bytenmt.speculative.table import CHAIN, LONGEST_MATCH, MIX, ORDERS, PER_ORDER, SPREAD, Speculation
from bytenmt.utf8 import BOS

MOST_ROWS = 64  # guesses of all sentences in one pass; of more sentences than that none is tried
AS_MANY_AS_PAY, AS_THEY_STAND = -1, -2  # instead of how many are tried
HOPELESS = 0.02  # a byte that comes less often than that is not tried
LIKELY = 0.8  # as often as good guesses come
MEMORY = 0.999  # of how good the guesses were: what a pass leaves of the earlier ones
DOUBT = 8.0  # bytes for which the table is believed at first

ONE = np.uint64(1)
BYTE, HALF = np.uint64(8), np.uint64(32)
LOW_BYTE, LOW_HALF = np.uint64(0xFF), np.uint64(0xFFFFFFFF)
SALT, FIRST, SECOND = np.uint64(PER_ORDER), np.uint64(SPREAD), np.uint64(MIX)


class Drafter(NamedTuple):
    """table.Table for compiled code, and what a pass costs.

    tag, guess, reach, copy: see there; orders (o,) int64; most: guesses a pass of a sentence, or one of
    AS_MANY_AS_PAY and AS_THEY_STAND; price (rows + 1,) float64: seconds of a pass over so many rows;
    trust (2,) float64: bytes that were hoped for of late, and that came.
    """

    tag: npt.NDArray[np.uint32]
    guess: npt.NDArray[np.uint64]
    reach: npt.NDArray[np.uint8]
    copy: npt.NDArray[np.uint8]
    orders: npt.NDArray[np.int64]
    most: int
    price: npt.NDArray[np.float64]
    trust: npt.NDArray[np.float64]

    @staticmethod
    def of(speculation: Speculation | None, rows: int) -> Drafter:
        """For passes of so many rows at most, all of one price."""
        price, trust = np.ones(rows + 1), np.zeros(2)
        if speculation is None:
            nothing, none = np.zeros((0, CHAIN), np.uint8), np.zeros(0, np.uint64)
            return Drafter(none.astype(np.uint32), none, nothing, nothing, np.array(ORDERS), 0, price, trust)
        table = speculation.table
        most = AS_MANY_AS_PAY if speculation.most is None else speculation.most
        return Drafter(table.tag, table.guess, table.reach, table.copy, np.array(ORDERS), most, price, trust)


class PassInputs(NamedTuple):
    """What a pass is carried out for: the sentences, how their bytes are chosen, and what is guessed."""

    places: SearchState
    rules: Rules
    drafter: Drafter


@compiled
def try_guesses(places: SearchState, drafter: Drafter) -> None:
    """Draft for every running sentence."""
    if drafter.most == AS_THEY_STAND:
        return
    n_running = 0
    for place in range(len(places.state)):
        places.n_drafted[place] = 0
        n_running += places.state[place] == RUNNING
    room = len(places.rows) - n_running
    if drafter.most == 0 or room <= 0 or (drafter.most < 0 and not may_pay(drafter, n_running, room)):
        return
    for place in range(len(places.state)):
        if places.state[place] == RUNNING:
            n = draft(places, drafter, place)
            places.n_drafted[place] = n
            if drafter.most >= 0:
                places.n_drafted[place] = min(n, drafter.most, room)
                room -= places.n_drafted[place]
    if drafter.most == AS_MANY_AS_PAY:
        take_what_pays(places, drafter, n_running, room)


@compiled
def may_pay(drafter: Drafter, n_running: int, room: int) -> bool:
    """Whether a pass with guesses that mostly come gives more bytes a second than one without."""
    if n_running > MOST_ROWS:
        return False
    for n in range(1, room + 1):
        if (n_running + LIKELY * n) * drafter.price[n_running] > n_running * drafter.price[n_running + n]:
            return True
    return False


@compiled
def draft(places: SearchState, drafter: Drafter, place: int) -> int:
    """Guess what comes next in a sentence, and how likely it is; returns how many bytes."""
    step, forced = places.step[place], places.n_prefix[place]
    room = min(CHAIN, places.limit[place] - step)
    if step < forced:
        n = min(room, forced - step)
        for i in range(n):
            places.drafted[place, i] = places.prefix[place, step + i]
            places.hope[place, i] = 1.0
        return int(n)
    word = np.uint64(0)
    for back in range(CHAIN, 0, -1):
        byte = np.uint64(places.chosen[place, step - back, 0] if step >= back else BOS)
        word = (word << BYTE) | byte
    slot = found(drafter, word)
    sum_table, sum_source = 0, 0
    if slot >= 0:
        for i in range(CHAIN):
            sum_table += drafter.reach[slot, i]
    at, n_same = matched(places.source[place, : places.n_source[place]], word)
    n_left = min(CHAIN, places.n_source[place] - at)
    for i in range(n_left):
        sum_source += drafter.copy[n_same, i]
    n = 0
    if sum_source > sum_table:
        for i in range(min(room, n_left)):
            places.drafted[place, i] = places.source[place, at + i]
            places.hope[place, i] = drafter.copy[n_same, i] / 255
            n += drafter.copy[n_same, i] > 0
    elif slot >= 0:
        for i in range(room):
            places.drafted[place, i] = np.uint8((drafter.guess[slot] >> (BYTE * np.uint64(i))) & LOW_BYTE)
            places.hope[place, i] = drafter.reach[slot, i] / 255
            n += drafter.reach[slot, i] > 0
    return int(n)


@compiled
def found(drafter: Drafter, word: np.uint64) -> int:
    """The slot of the longest context that the table knows; -1 for none. word: the last bytes."""
    n_slots = np.uint64(len(drafter.tag))
    for order in drafter.orders:
        kept = ~np.uint64(0) if order == CHAIN else (ONE << (BYTE * np.uint64(order))) - ONE
        h = ((word & kept) ^ (np.uint64(order) * SALT)) * FIRST
        h = (h ^ (h >> HALF)) * SECOND
        slot = (h >> HALF) * n_slots >> HALF  # its first bits, as many as there are slots
        if drafter.tag[slot] == np.uint32((h & LOW_HALF) | ONE):
            return np.int64(slot)  # type: ignore[return-value]
    return -1


@compiled
def matched(source: Any, word: np.uint64) -> tuple[int, int]:
    """Where in the source goes on what the text ends with, and how many bytes, of 8 at most, are the same:
    the longest match, the last of several."""
    best_at, best = 0, 0
    for at in range(len(source) - 1, 0, -1):
        n, rest = 0, word
        while n < min(LONGEST_MATCH, at) and source[at - 1 - n] == np.uint8(rest & LOW_BYTE):
            n += 1
            rest >>= BYTE
        if n > best:
            best_at, best = at, n
    return best_at, best


@compiled
def take_what_pays(places: SearchState, drafter: Drafter, n_running: int, room: int) -> None:
    """Of the likeliest guesses keep so many that the bytes of a pass, which are hoped for, over its price are
    the most."""
    taken = np.zeros(len(places.state), np.int64)
    order = np.empty(room, np.int64)
    trust = min(1.25, (drafter.trust[1] + DOUBT) / (drafter.trust[0] + DOUBT))
    hoped, most, n_best = float(n_running), n_running / drafter.price[n_running], 0
    for n in range(room):
        best, highest = -1, HOPELESS
        for place in range(len(places.state)):
            if taken[place] < places.n_drafted[place]:
                hope = places.hope[place, taken[place]]
                if places.step[place] >= places.n_prefix[place]:
                    hope = min(1.0, hope * trust)
                if hope > highest:
                    best, highest = place, hope
        if best < 0:
            break
        taken[best] += 1
        order[n] = best
        hoped += highest
        if hoped / drafter.price[n_running + n + 1] > most:
            most, n_best = hoped / drafter.price[n_running + n + 1], n + 1
    places.n_drafted[:] = 0
    for n in range(n_best):
        places.n_drafted[order[n]] += 1


@compiled
def learn(places: SearchState, drafter: Drafter, place: int, began: int) -> None:
    """After a pass that began at a step: how good its guesses were."""
    if began < places.n_prefix[place] or places.n_drafted[place] == 0 or drafter.most == AS_THEY_STAND:
        return
    hoped = 0.0
    for i in range(places.n_drafted[place]):
        hoped += places.hope[place, i]
    came = min(places.step[place] - began - 1, places.n_drafted[place])
    drafter.trust[0] = MEMORY * drafter.trust[0] + hoped
    drafter.trust[1] = MEMORY * drafter.trust[1] + came
