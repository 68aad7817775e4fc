"""The constraint of one sentence: as a value that requests carry, and as arrays for the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.constraints.span_tracker import SpanTracker
from bytenmt.decoding.constraints.words import ban_automaton
from bytenmt.kernel_constants import ANYWHERE, ROOT
from bytenmt.utf8 import N_IDS

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
SEPARATOR = 1  # bytes reserved before an item, for a separator that it may need


class RequiredItem(NamedTuple):
    """A text that a translation must contain: a kept span, or one of the target forms of a glossary term.

    text: its bytes.
    group: index shared by alternatives, of which one is enough.
    cost: bytes reserved for the group. Only its first item has a cost, which is the one that is written when
        room gets short; 0 for the others.
    binding: number of bytes after which the item must be completed, because they form a span by themselves
        or can occur in items alone.
    within: index of the opening tag of the element in which the item stands, ROOT, or ANYWHERE.
    next_within: the element in which text after the item stands; ANYWHERE if the item does not change it.
    after: index of the item that must come before this one, or -1.
    closes: whether it is a closing tag, which comes last in its element.
    needs_word_end: whether no letter or digit may follow.
    pending: whether it is still to be written; False if the prefix contains it.
    begins: for each state of the span tracker, whether the item may begin there, see SpanTracker.may_begin;
        empty without a tracker.
    source_begin, source_end: its bytes in the source; equal where they are not known.
    """

    text: bytes
    group: int
    cost: int
    binding: int
    within: int = ANYWHERE
    next_within: int = ANYWHERE
    after: int = -1
    closes: bool = False
    needs_word_end: bool = False
    pending: bool = True
    begins: bytes = b""
    source_begin: int = 0
    source_end: int = 0


class Constraint(NamedTuple):
    """The texts that the translation of one sentence must contain, and those that it must not.

    items: in the order of the source.
    forbidden: texts that must not occur, as words where they begin or end like words.
    reserved_bytes: bytes that may occur in items only.
    states: states of the span tracker at the end of the prefix; () without a prefix.
    inside: the element that is open at the end of the prefix.
    is_short: whether the items alone are longer than the length limit that was asked for.
    """

    items: tuple[RequiredItem, ...] = ()
    forbidden: tuple[bytes, ...] = ()
    reserved_bytes: bytes = b""
    states: tuple[int, ...] = ()
    inside: int = ROOT
    is_short: bool = False

    @property
    def n_pending_bytes(self) -> int:
        """The number of bytes reserved for all pending items."""
        return sum(item.cost for item in self.items if item.pending)


NO_CONSTRAINT = Constraint()

_ITEM_NUMBERS = (
    *("first", "length", "cost", "group", "binding", "within", "next_within", "after"),
    *("source_begin", "source_end"),
)
_ITEM_FLAGS = ("closes", "needs_word_end", "pending")


class ConstraintSize(NamedTuple):
    """Sizes of the arrays of constraints.

    items: per sentence; text: bytes of all items of a sentence; states: of the automaton of forbidden texts;
    parts, tracked: automata and states of the span tracker, which all constraints of a search share.
    """

    items: int = 1
    text: int = 1
    states: int = 1
    parts: int = 1
    tracked: int = 1

    @staticmethod
    def from_constraints(constraints: Sequence[Constraint], tracker: SpanTracker) -> ConstraintSize:
        """Return the sizes that hold all of these constraints."""
        bans = [ban_automaton(constraint.forbidden) for constraint in constraints if constraint.forbidden]
        return ConstraintSize(
            max([1, *(len(constraint.items) for constraint in constraints)]),
            max([1, *(sum(len(item.text) for item in constraint.items) for constraint in constraints)]),
            max([1, *map(len, bans)]),
            tracker.n_parts,
            len(tracker.follow),
        )

    def union(self, other: ConstraintSize) -> ConstraintSize:
        """Return the sizes that hold the constraints of both."""
        return ConstraintSize(*map(max, self, other))


class ConstraintArrays(NamedTuple):
    """Constraints of n sentences with k items each, as arrays; missing items are not pending.

    text (n, p) uint8: bytes of the items of a sentence, concatenated.
    first, length (n, k) int64: where an item begins in text, and its number of bytes.
    cost, group, binding, within, next_within, after, source_begin, source_end (n, k) int64; closes,
        needs_word_end, pending (n, k) bool: see RequiredItem.
    begins (n, k, q) bool: whether an item may begin at each of q states of the span tracker.
    ban (n, s, 256) int16: transitions of the automaton of forbidden texts, -1 where a byte completes one;
        state 0 is the start.
    reserved_bytes (n, 256) bool. states (n, c) int64: of the c automata of the span tracker. inside (n,).
    """

    text: npt.NDArray[np.uint8]
    first: Ints
    length: Ints
    cost: Ints
    group: Ints
    binding: Ints
    within: Ints
    next_within: Ints
    after: Ints
    source_begin: Ints
    source_end: Ints
    closes: Bools
    needs_word_end: Bools
    pending: Bools
    begins: Bools
    ban: npt.NDArray[np.int16]
    reserved_bytes: Bools
    states: Ints
    inside: Ints

    @staticmethod
    def allocate(n: int, size: ConstraintSize) -> ConstraintArrays:
        """Return n rows without a constraint."""
        numbers: dict[str, Any] = {name: np.zeros((n, size.items), np.int64) for name in _ITEM_NUMBERS}
        flags: dict[str, Any] = {name: np.zeros((n, size.items), np.bool_) for name in _ITEM_FLAGS}
        return ConstraintArrays(
            text=np.zeros((n, size.text), np.uint8),
            begins=np.zeros((n, size.items, size.tracked), np.bool_),
            ban=np.zeros((n, size.states, N_IDS), np.int16),
            reserved_bytes=np.zeros((n, N_IDS), np.bool_),
            states=np.arange(size.parts)[None].repeat(n, axis=0),
            inside=np.full(n, ROOT, np.int64),
            **numbers,
            **flags,
        )

    def write_row(self, row: int, constraint: Constraint) -> None:
        """Replace one sentence's constraint."""
        for array in self[:-2]:
            array[row] = 0
        items, at = constraint.items, 0
        for i, item in enumerate(items):
            self.text[row, at : at + len(item.text)] = np.frombuffer(item.text, np.uint8)
            self.first[row, i], self.length[row, i] = at, len(item.text)
            self.begins[row, i] = np.frombuffer(item.begins, np.bool_) if item.begins else True
            at += len(item.text)
        k = len(items)
        for name in (*_ITEM_NUMBERS[2:], *_ITEM_FLAGS):
            getattr(self, name)[row, :k] = [getattr(item, name) for item in items]
        if constraint.forbidden:
            ban = ban_automaton(constraint.forbidden)
            self.ban[row, : len(ban)] = ban
        self.reserved_bytes[row, list(constraint.reserved_bytes)] = True
        # The states at the beginning of a text have the first numbers.
        self.states[row] = constraint.states or range(self.states.shape[1])
        self.inside[row] = constraint.inside
