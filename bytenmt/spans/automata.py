"""Finite automata over UTF-8 bytes: built from parts of a pattern, then made deterministic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bytenmt.errors import SettingError

N_BYTES = 256
DEAD = -1
MAX_STATES = 4000  # of either automaton: more than any reasonable pattern needs
LEAD_BYTES = frozenset(range(0xC2, 0xF5))  # the first bytes of characters that are not ASCII
ASCII = frozenset(range(0x80)) - {0x0A}
Build = Callable[["Nfa", int], int]  # adds a part behind a state and returns the state after the part


class CharacterSet(NamedTuple):
    """A set of characters: these ASCII codes, and all characters whose first byte is among `lead_bytes`."""

    ascii: frozenset[int]
    lead_bytes: frozenset[int] = frozenset()


ANY = CharacterSet(ASCII, LEAD_BYTES)


class Automaton(NamedTuple):
    """A minimal deterministic automaton; state 0 is the start.

    follow[state][byte]: the next state, or DEAD. accepting[state]: whether the bytes read so far match.
    """

    follow: list[list[int]]
    accepting: list[bool]


class Nfa:
    """A nondeterministic automaton under construction: edges over sets of bytes, and empty edges."""

    def __init__(self) -> None:
        self.edges: list[list[tuple[frozenset[int], int]]] = []
        self.empty_edges: list[list[int]] = []

    def add_state(self) -> int:
        """Add a state and return its number. Raises SettingError above MAX_STATES."""
        if len(self.edges) == MAX_STATES:
            raise SettingError("the pattern is too large: give shorter repetitions")
        self.edges.append([])
        self.empty_edges.append([])
        return len(self.edges) - 1

    def add_character(self, begin: int, characters: CharacterSet) -> int:
        """Add one character, in UTF-8, behind the state `begin`; return the state after it."""
        from bytenmt.utf8 import ACCEPT, REJECT, UTF8_NEXT  # it imports NumPy

        end = self.add_state()
        if characters.ascii:
            self.edges[begin].append((characters.ascii, end))
        states, waiting = {ACCEPT: end}, list[int]()

        def connect(at: int, utf8_state: int, among: Iterable[int]) -> None:
            targets: dict[int, set[int]] = {}
            for byte in among:
                targets.setdefault(int(UTF8_NEXT[utf8_state, byte]), set()).add(byte)
            for target in sorted(targets.keys() - {REJECT}):
                if target not in states:
                    states[target] = self.add_state()
                    waiting.append(target)
                self.edges[at].append((frozenset(targets[target]), states[target]))

        connect(begin, ACCEPT, characters.lead_bytes)
        while waiting:
            utf8_state = waiting.pop()
            connect(states[utf8_state], utf8_state, range(0x80, 0xC0))
        return end

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """Return the states that can be reached over empty edges, these included."""
        reached, waiting = set(states), list(states)
        while waiting:
            for other in self.empty_edges[waiting.pop()]:
                if other not in reached:
                    reached.add(other)
                    waiting.append(other)
        return frozenset(reached)


def determinize(pattern: Build) -> Automaton:
    """Return the minimal automaton of a pattern. Raises SettingError where it would be too large."""
    nfa = Nfa()
    begin = nfa.add_state()
    end = pattern(nfa, begin)
    groups = _byte_groups(nfa)
    first = nfa.closure([begin])
    numbers = {first: 0}
    sets, rows = [first], list[list[int]]()
    while len(rows) < len(sets):
        row = [DEAD] * N_BYTES
        for group in groups:
            targets = {to for state in sets[len(rows)] for over, to in nfa.edges[state] if group[0] in over}
            if not targets:
                continue
            target = nfa.closure(targets)
            if target not in numbers:
                if len(sets) == MAX_STATES:
                    raise SettingError("the pattern is too large: give shorter repetitions")
                numbers[target] = len(sets)
                sets.append(target)
            for byte in group:
                row[byte] = numbers[target]
        rows.append(row)
    return _minimize(rows, [end in states for states in sets])


def _minimize(rows: list[list[int]], accepting: list[bool]) -> Automaton:
    """Merge the states that accept the same texts (Hopcroft's algorithm, n log n steps for n states)."""
    dead = len(rows)
    columns = [[*column, DEAD] for column in dict.fromkeys(zip(*rows, strict=True))]
    origins: list[list[list[int]]] = []  # of each column and state: the states that lead there
    for column in columns:
        origins.append([[] for _ in range(dead + 1)])
        for state, to in enumerate(column):
            origins[-1][to].append(state)  # DEAD, -1, is the last state
    blocks = [{state for state in range(dead) if accepting[state] is accepts} for accepts in (True, False)]
    blocks = [block for block in (*blocks, {dead}) if block]
    block_of = {state: number for number, block in enumerate(blocks) for state in block}
    waiting = set(range(len(blocks)))
    while waiting:
        splitter = list(blocks[waiting.pop()])
        for leading_to in origins:
            touched: dict[int, set[int]] = {}
            for to in splitter:
                for state in leading_to[to]:
                    touched.setdefault(block_of[state], set()).add(state)
            for number, inside in touched.items():
                if len(inside) == len(blocks[number]):
                    continue
                blocks[number] -= inside
                blocks.append(inside)
                for state in inside:
                    block_of[state] = len(blocks) - 1
                smaller = number if len(blocks[number]) < len(inside) else len(blocks) - 1
                waiting.add(len(blocks) - 1 if number in waiting else smaller)
    # Number the blocks by their first state, so that the start stays state 0.
    first_states = sorted(min(block) for block in blocks if dead not in block)
    numbers = {block_of[state]: number for number, state in enumerate(first_states)}
    follow = [[numbers[block_of[to]] if to >= 0 else DEAD for to in rows[state]] for state in first_states]
    return Automaton(follow, [accepting[state] for state in first_states])


def _byte_groups(nfa: Nfa) -> list[list[int]]:
    """Group the bytes that no edge distinguishes; bytes without any edge are left out."""
    sets = list(dict.fromkeys(over for edges in nfa.edges for over, _ in edges))
    groups: dict[tuple[int, ...], list[int]] = {}
    for byte in range(N_BYTES):
        groups.setdefault(tuple(i for i, over in enumerate(sets) if byte in over), []).append(byte)
    return [group for signature, group in groups.items() if signature]


def character(characters: CharacterSet) -> Build:
    """Match one character of a set."""
    return lambda nfa, begin: nfa.add_character(begin, characters)


def literal(text: bytes) -> Build:
    """Match exactly these bytes."""

    def build(nfa: Nfa, at: int) -> int:
        for byte in text:
            end = nfa.add_state()
            nfa.edges[at].append((frozenset([byte]), end))
            at = end
        return at

    return build


def sequence(parts: Sequence[Build]) -> Build:
    """Match the parts one after the other."""

    def build(nfa: Nfa, at: int) -> int:
        for part in parts:
            at = part(nfa, at)
        return at

    return build


def alternatives(parts: Sequence[Build]) -> Build:
    """Match any one of the parts."""

    def build(nfa: Nfa, begin: int) -> int:
        end = nfa.add_state()
        for part in parts:
            own = nfa.add_state()
            nfa.empty_edges[begin].append(own)
            nfa.empty_edges[part(nfa, own)].append(end)
        return end

    return build


def repetition(part: Build, least: int, most: int | None) -> Build:
    """Match a part `least` to `most` times; most: None for any number."""

    def build(nfa: Nfa, at: int) -> int:
        for _ in range(least):
            at = part(nfa, at)
        if most is None:
            begin = nfa.add_state()
            nfa.empty_edges[at].append(begin)
            nfa.empty_edges[part(nfa, begin)].append(begin)
            at = nfa.add_state()
            nfa.empty_edges[begin].append(at)
            return at
        end = nfa.add_state()
        for _ in range(most - least):
            nfa.empty_edges[at].append(end)
            at = part(nfa, at)
        nfa.empty_edges[at].append(end)
        return end

    return build
