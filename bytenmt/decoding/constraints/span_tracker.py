"""Tables that tell a search, byte by byte, which spans its output could become part of.

The extractor (bytenmt.spans.extractor) finds spans in a whole line; a search must avoid unwanted spans before
it has written them. For each automaton of each class of spans it therefore tracks all spans that may have
begun, so that

1. a byte of plain text never completes a span;
2. a required item begins only where no span that began before could end inside it, and not inside a word.

Then every span of the output lies in an item, and the extractor finds the items again as they are.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bytenmt.errors import SettingError
from bytenmt.spans.automata import DEAD, Automaton
from bytenmt.spans.extractor import SpanExtractor, span_extractor
from bytenmt.spans.grammar import WORDLIKE, SpanClass
from bytenmt.spans.patterns import cannot_be_kept
from bytenmt.utf8 import N_IDS

# Bytes that separate an item from the text before it, the best ones first; 31 at most, one bit each.
SEPARATORS = bytes(dict.fromkeys(b" ,.;-/" + string.punctuation.encode().replace(b"_", b"")))[:31]
# A span that only these can end may stay open in plain text: items rarely have them without their partners.
CLOSING_SIGNS = b")]}>"
MAX_TRACKED = 1500  # states of an automaton; above, only the earliest span that has begun is tracked
MAX_PAIRS = 200_000  # pairs of states of a pattern; the longest built-in pattern has 102
MAX_CACHED = 8192  # items for which the result of may_begin is cached

NEVER = Automaton([[DEAD] * N_IDS], [False])  # matches nothing; used when there are no classes
State = tuple[frozenset[int], bool]  # states of all spans that have begun, and whether a letter comes before


@dataclass(frozen=True, eq=False)
class SpanTracker:
    """The tables of some classes of spans: c automata with q states in all.

    A search holds one state for each automaton; at the beginning of a text these are 0 to c - 1. Sets of
    separators are bit masks: bit i stands for SEPARATORS[i].

    follow (q, 256) int64: the state after a byte.
    separators (q,) int32: separators after which any item may begin.
    next_separators (q,) int32: separators that lead to a state that has some.
    free (q, 256) int32: the separators of the state after a byte, 0 if a span is complete there. A byte of
        plain text needs a separator that all automata have in common.
    complete (q,) bool: whether a span is complete.
    order (q,): for each state, its index among the concatenated states of `parts`.
    """

    extractor: SpanExtractor
    n_parts: int
    follow: npt.NDArray[np.int64]
    separators: npt.NDArray[np.int32]
    next_separators: npt.NDArray[np.int32]
    free: npt.NDArray[np.int32]
    complete: npt.NDArray[np.bool_]
    parts: tuple[TrackedAutomaton, ...]
    order: npt.NDArray[np.int64]
    _begins: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def start(self) -> tuple[int, ...]:
        """The state of each automaton at the beginning of a text."""
        return tuple(range(self.n_parts))

    def step(self, states: Sequence[int], byte: int) -> tuple[int, ...]:
        """Return the states after a byte."""
        return tuple(int(self.follow[state, byte]) for state in states)

    def first_complete(self, text: bytes) -> int:
        """Return after how many bytes of a text a span is complete; the length of the text if none is."""
        states = self.start
        for n, byte in enumerate(text, 1):
            states = self.step(states, byte)
            if self.complete[list(states)].any():
                return n
        return len(text)

    def may_begin(self, text: bytes) -> bytes:
        """Return for each state, as q bytes of 0 or 1, whether an item of this text may begin there."""
        cached = self._begins.get(text)
        if cached is None:
            by_part = np.concatenate([part.may_begin(text) for part in self.parts])
            cached = by_part[self.order].astype(np.uint8).tobytes()
            if len(self._begins) >= MAX_CACHED:
                self._begins.clear()
            self._begins[text] = cached
        return cached


@lru_cache(maxsize=64)
def span_tracker(classes: tuple[str, ...], patterns: tuple[str, ...] = ()) -> SpanTracker:
    """Return the tables of classes from spans.grammar.CLASSES and of a user's patterns.

    Raises SettingError.
    """
    extractor = span_extractor(classes, patterns)
    parts = [part for span_class in extractor.classes for part in _tracked_automata(span_class)] or [
        _track_automaton(NEVER)
    ]
    sizes = [len(part.separators) for part in parts]
    # The states at the beginning of a text get the first numbers.
    firsts = np.cumsum([0, *sizes[:-1]])
    order = np.argsort(np.isin(np.arange(sum(sizes)), firsts, invert=True), kind="stable")
    number = np.argsort(order)
    follow = np.concatenate([number[part.follow + first] for part, first in zip(parts, firsts, strict=True)])
    follow, separators = follow[order], np.concatenate([part.separators for part in parts])[order]
    complete = np.concatenate([part.complete for part in parts])[order]
    usable = np.where(complete, 0, separators).astype(np.int32)
    free = usable[follow]
    # The first byte of a character is free if it begins some character that is free.
    continuations, finished = follow[:, 0x80:0xC0], usable != 0
    for first, end in ((0xC2, 0xE0), (0xE0, 0xF0), (0xF0, 0xF5)):
        finished = finished[continuations].any(axis=1)
        free[:, first:end] *= finished[follow[:, first:end]]
    return SpanTracker(
        extractor=extractor,
        n_parts=len(parts),
        follow=follow,
        separators=separators,
        next_separators=_pack_bits(free[:, list(SEPARATORS)] != 0),
        free=free,
        complete=complete,
        parts=tuple(parts),
        order=order,
    )


@dataclass(frozen=True, eq=False)
class TrackedAutomaton:
    """An automaton of s states, tracked for all spans that may have begun: a subset construction of q states.

    State 0 is the beginning of a text.

    follow (q, 256), separators (q,), complete (q,): as in SpanTracker, in numbers of this automaton.
    after_letter (q,) bool: whether the last character is a letter or digit.
    members (q, s) bool: the states of the automaton in each subset.
    transitions (s + 1, 256) int64: of the automaton, where state s is DEAD; accepting (s + 1,) bool.
    """

    follow: npt.NDArray[np.int64]
    separators: npt.NDArray[np.int32]
    complete: npt.NDArray[np.bool_]
    after_letter: npt.NDArray[np.bool_]
    members: npt.NDArray[np.bool_]
    transitions: npt.NDArray[np.int64]
    accepting: npt.NDArray[np.bool_]

    def may_begin(self, text: bytes) -> npt.NDArray[np.bool_]:
        """Return for each state whether an item may begin there: see SpanTracker.may_begin."""
        dead = len(self.transitions) - 1
        states = np.arange(dead + 1)
        ends_inside = np.zeros(dead + 1, np.bool_)
        for byte in text:
            states = self.transitions[states, byte]
            ends_inside |= self.accepting[states]
            if (states == dead).all():
                break
        may = np.logical_not((self.members & ends_inside[:-1]).any(axis=1))
        return may & ~self.after_letter if text[0] in WORDLIKE else may


@lru_cache(maxsize=256)
def _tracked_automata(span_class: SpanClass) -> tuple[TrackedAutomaton, ...]:
    """Return the automata of a class. Raises SettingError if no separator ends a span of it."""
    ends = list(SEPARATORS)
    for automaton in span_class.parts:
        for row, accepts in zip(automaton.follow, automaton.accepting, strict=True):
            if accepts and all(row[byte] != DEAD for byte in ends):
                raise SettingError(cannot_be_kept(span_class.name, "no space or punctuation ends it"))
    try:
        return tuple(map(_track_automaton, span_class.parts))
    except SettingError as error:
        raise SettingError(cannot_be_kept(span_class.name, str(error))) from None


def _track_automaton(automaton: Automaton) -> TrackedAutomaton:
    """Return an automaton tracked for all spans that may have begun, or for the earliest one if these are too
    many."""
    sets, rows = (
        _all_beginnings(automaton, only_first=False)
        or _all_beginnings(automaton, only_first=True)
        or ([], [])
    )
    n_states = len(automaton.follow)
    follow = np.array(rows, np.int64)
    members = np.zeros((len(sets), n_states), np.bool_)
    for number, (states, _) in enumerate(sets):
        members[number, list(states)] = True
    after_letter = np.array([letter for _, letter in sets])
    complete = (members & np.array(automaton.accepting)).any(axis=1)
    harmful = _can_end_inside_another(automaton) | _can_end_with_other_than(automaton, CLOSING_SIGNS)
    safe = ~(complete | after_letter | (members & harmful).any(axis=1))
    transitions = np.full((n_states + 1, N_IDS), n_states)
    transitions[:-1] = np.where(np.array(automaton.follow) == DEAD, n_states, automaton.follow)
    return TrackedAutomaton(
        follow=follow,
        separators=_pack_bits(safe[follow[:, list(SEPARATORS)]]),
        complete=complete,
        after_letter=after_letter,
        members=members,
        transitions=transitions,
        accepting=np.array([*automaton.accepting, False]),
    )


def _all_beginnings(automaton: Automaton, only_first: bool) -> tuple[list[State], list[list[int]]] | None:
    """Return the subsets of states that spans may be in, and the transitions between subsets; None if there
    are more than MAX_TRACKED. only_first: track a span only if none has begun before it."""
    groups = dict[tuple[tuple[int, ...], bool, bool], list[int]]()
    for byte in range(N_IDS):
        is_continuation = 0x80 <= byte < 0xC0
        column = tuple(row[byte] for row in automaton.follow)
        groups.setdefault((column, byte in WORDLIKE, is_continuation), []).append(byte)
    start: State = (frozenset(), False)
    numbers, sets, rows = {start: 0}, [start], list[list[int]]()
    while len(rows) < len(sets):
        states, letter_before = sets[len(rows)]
        row = [0] * N_IDS
        for (_, is_letter, is_continuation), group in groups.items():
            following = {automaton.follow[state][group[0]] for state in states} - {DEAD}
            if not (letter_before and is_letter) and not (only_first and following):
                following |= {automaton.follow[0][group[0]]} - {DEAD}
            target: State = (frozenset(following), letter_before if is_continuation else is_letter)
            if target not in numbers:
                if len(sets) == MAX_TRACKED and not only_first:
                    return None
                numbers[target] = len(sets)
                sets.append(target)
            for byte in group:
                row[byte] = numbers[target]
        rows.append(row)
    return sets, rows


def _can_end_inside_another(automaton: Automaton) -> npt.NDArray[np.bool_]:
    """Return for each state whether a span that is in it could end inside another span that begins now.

    No item may begin while a span may be in such a state. Raises SettingError if there are more than
    MAX_PAIRS pairs of states, as in a long repetition of one character.
    """
    columns = list(dict.fromkeys(zip(*automaton.follow, strict=True)))
    n_states = len(automaton.follow)
    pairs = [
        (state, 0) for state in range(n_states)
    ]  # states of the earlier span, and of the one that begins
    seen = set(pairs)
    origins: dict[tuple[int, int], set[tuple[int, int]]] = {}
    harmful: set[tuple[int, int]] = set()
    for pair in pairs:
        for column in columns:
            following = column[pair[0]], column[pair[1]]
            if DEAD in following:
                continue
            if automaton.accepting[following[0]]:
                harmful.add(pair)
            origins.setdefault(following, set()).add(pair)
            if following not in seen:
                if len(pairs) == MAX_PAIRS:
                    raise SettingError("it is too large: give shorter repetitions")
                seen.add(following)
                pairs.append(following)
    waiting = list(harmful)
    while waiting:
        for origin in origins.get(waiting.pop(), ()):
            if origin not in harmful:
                harmful.add(origin)
                waiting.append(origin)
    return np.array([(state, 0) in harmful for state in range(n_states)])


def _can_end_with_other_than(automaton: Automaton, signs: bytes) -> npt.NDArray[np.bool_]:
    """Return for each state whether a span that is in it can end with a byte other than the signs."""
    ends: list[set[int]] = [
        {to for byte, to in enumerate(row) if to != DEAD and byte not in signs} for row in automaton.follow
    ]
    can_end = {state for state, to in enumerate(ends) if any(automaton.accepting[end] for end in to)}
    before: dict[int, set[int]] = {}
    for state, row in enumerate(automaton.follow):
        for to in set(row) - {DEAD}:
            before.setdefault(to, set()).add(state)
    waiting = list(can_end)
    while waiting:
        for state in before.get(waiting.pop(), set()) - can_end:
            can_end.add(state)
            waiting.append(state)
    return np.array([state in can_end for state in range(len(automaton.follow))])


def _pack_bits(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """Return each row of flags as a number: flag k is bit k."""
    bits = flags.astype(np.int64) << np.arange(flags.shape[1])
    return np.asarray(bits.sum(axis=1), np.int32)
