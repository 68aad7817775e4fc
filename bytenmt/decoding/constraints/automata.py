"""Automata over bytes: parts of patterns are put together, then made deterministic.

Knows characters as UTF-8 has them; knows neither how a pattern is written nor any class of text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.errors import SettingError
from bytenmt.utf8 import ACCEPT, N_IDS, REJECT, UTF8_NEXT

DEAD = -1
MOST_STATES = 4000  # of either automaton: more than any reasonable pattern needs
LEADS = frozenset(range(0xC2, 0xF5))  # the first bytes of characters that are not ASCII
ASCII = frozenset(range(0x80)) - {0x0A}
Build = Callable[["Nondeterministic", int], int]  # from a state on, returns the state behind the part


class Characters(NamedTuple):
    """One character: of these ASCII ones, or one whose first byte is among leads."""

    ascii: frozenset[int]
    leads: frozenset[int] = frozenset()


ANY = Characters(ASCII, LEADS)


class Automaton(NamedTuple):
    """follow (states, 256) int32: DEAD where no pattern goes on; state 0 is the beginning, and never entered
    again. label (states,) int32: the first of the patterns that end there, or -1."""

    follow: npt.NDArray[np.int32]
    label: npt.NDArray[np.int32]


class Nondeterministic:
    """States with edges over sets of bytes, and edges over none."""

    def __init__(self) -> None:
        self.edges: list[list[tuple[frozenset[int], int]]] = []
        self.free: list[list[int]] = []

    def state(self) -> int:
        if len(self.edges) == MOST_STATES:
            raise SettingError("the pattern is too large: give shorter repetitions")
        self.edges.append([])
        self.free.append([])
        return len(self.edges) - 1

    def character(self, begin: int, of: Characters) -> int:
        """One character from `begin` on; returns the state behind it."""
        end = self.state()
        if of.ascii:
            self.edges[begin].append((of.ascii, end))
        states, waiting = {ACCEPT: end}, list[int]()

        def join(at: int, state: int, among: Iterable[int]) -> None:
            to: dict[int, set[int]] = {}
            for byte in among:
                to.setdefault(int(UTF8_NEXT[state, byte]), set()).add(byte)
            for target in sorted(to.keys() - {REJECT}):
                if target not in states:
                    states[target] = self.state()
                    waiting.append(target)
                self.edges[at].append((frozenset(to[target]), states[target]))

        join(begin, ACCEPT, of.leads)
        while waiting:
            state = waiting.pop()
            join(states[state], state, range(0x80, 0xC0))
        return end

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        found, waiting = set(states), list(states)
        while waiting:
            for other in self.free[waiting.pop()]:
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return frozenset(found)


def compiled(patterns: Sequence[Build]) -> Automaton:
    """One automaton for all patterns. Raises SettingError where it would be too large."""
    nfa = Nondeterministic()
    begin, accepting = nfa.state(), dict[int, int]()
    for number, pattern in enumerate(patterns):
        own = nfa.state()
        nfa.free[begin].append(own)
        accepting[pattern(nfa, own)] = number
    kinds = _kinds_of_bytes(nfa)
    first = nfa.closure([begin])
    # The beginning is a state of its own even where a pattern comes back to the same states.
    numbers: dict[frozenset[int], int] = {}
    sets, rows = [first], list[list[int]]()
    while len(rows) < len(sets):
        row = [DEAD] * N_IDS
        for same in kinds:
            to = {end for state in sets[len(rows)] for over, end in nfa.edges[state] if same[0] in over}
            if not to:
                continue
            target = nfa.closure(to)
            if target not in numbers:
                if len(sets) == MOST_STATES:
                    raise SettingError("the patterns are too large together: give fewer")
                numbers[target] = len(sets)
                sets.append(target)
            for byte in same:
                row[byte] = numbers[target]
        rows.append(row)
    labels = [min((accepting[s] for s in part if s in accepting), default=-1) for part in sets]
    return Automaton(np.array(rows, np.int32), np.array(labels, np.int32))


def _kinds_of_bytes(nfa: Nondeterministic) -> list[list[int]]:
    """Bytes that no edge tells apart."""
    sets = list(dict.fromkeys(over for edges in nfa.edges for over, _ in edges))
    kinds: dict[tuple[int, ...], list[int]] = {}
    for byte in range(N_IDS):
        kinds.setdefault(tuple(i for i, over in enumerate(sets) if byte in over), []).append(byte)
    return [same for signature, same in kinds.items() if signature]


def one(of: Characters) -> Build:
    """One character."""
    return lambda nfa, begin: nfa.character(begin, of)


def literal(text: bytes) -> Build:
    """These bytes."""

    def build(nfa: Nondeterministic, at: int) -> int:
        for byte in text:
            end = nfa.state()
            nfa.edges[at].append((frozenset([byte]), end))
            at = end
        return at

    return build


def sequence(parts: Sequence[Build]) -> Build:
    """One behind the other."""

    def build(nfa: Nondeterministic, at: int) -> int:
        for part in parts:
            at = part(nfa, at)
        return at

    return build


def either(parts: Sequence[Build]) -> Build:
    """One of them."""

    def build(nfa: Nondeterministic, begin: int) -> int:
        end = nfa.state()
        for part in parts:
            own = nfa.state()
            nfa.free[begin].append(own)
            nfa.free[part(nfa, own)].append(end)
        return end

    return build


def repeated(part: Build, least: int, most: int | None) -> Build:
    """So many times; most: None for any number."""

    def build(nfa: Nondeterministic, at: int) -> int:
        for _ in range(least):
            at = part(nfa, at)
        if most is None:
            begin = nfa.state()
            nfa.free[at].append(begin)
            nfa.free[part(nfa, begin)].append(begin)
            at = nfa.state()
            nfa.free[begin].append(at)
            return at
        end = nfa.state()
        for _ in range(most - least):
            nfa.free[at].append(end)
            at = part(nfa, at)
        nfa.free[at].append(end)
        return end

    return build
