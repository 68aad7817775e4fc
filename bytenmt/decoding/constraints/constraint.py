"""The constraint of one sentence: as a value that requests carry, and as arrays for the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.constraints.nesting import ANYWHERE, ROOT
from bytenmt.decoding.constraints.span_tracker import SpanTracker
from bytenmt.decoding.constraints.words import ban_automaton
from bytenmt.utf8 import N_IDS

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
SEPARATOR = 1  # bytes that may have to stand before an item; room for it is reserved


class Item(NamedTuple):
    """Bytes that must be written.

    group: one of its items is enough; an index. cost: bytes that are reserved for the group, at its first
    item, which is the one that is written where room gets short; at others 0. binding: bytes of it in which a
    span is complete already, or that no text may have but it, so that after them it is written to its end.
    within, leads, after, closes: see nesting.Nesting. right: no letter may follow. pending: it is still to be
    written; False where the prefix has it. begins: for each state of the span tracker, whether it may begin
    there, see SpanTracker.may_begin; empty without a tracker.
    """

    text: bytes
    group: int
    cost: int
    binding: int
    within: int = ANYWHERE
    leads: int = ANYWHERE
    after: int = -1
    closes: bool = False
    right: bool = False
    pending: bool = True
    begins: bytes = b""


class Constraint(NamedTuple):
    """What the translation of one sentence must and must not hold.

    items: in the order of the source. forbidden: texts that must not come. reserved_bytes: bytes that may
    stand in items alone. states: of the span tracker, () at the beginning of a text, and inside: the element
    that is open, where the prefix ends. is_short: the items alone are longer than was allowed.
    """

    items: tuple[Item, ...] = ()
    forbidden: tuple[bytes, ...] = ()
    reserved_bytes: bytes = b""
    states: tuple[int, ...] = ()
    inside: int = ROOT
    is_short: bool = False

    @property
    def n_pending_bytes(self) -> int:
        """The room that is reserved for all items at first."""
        return sum(item.cost for item in self.items if item.pending)


NO_CONSTRAINT = Constraint()


_OF_ITEMS = ("first", "length", "cost", "group", "binding", "within", "leads", "after")
_FLAGS = ("closes", "right", "pending")


class ConstraintSize(NamedTuple):
    """Sizes of the arrays of constraints: items, their bytes, states of the automaton of forbidden texts;
    parts and states of the span tracker, which are the same for all constraints of a search."""

    items: int = 1
    text: int = 1
    states: int = 1
    parts: int = 1
    tracked: int = 1

    @staticmethod
    def from_constraints(constraints: Sequence[Constraint], tracker: SpanTracker) -> ConstraintSize:
        """Return the sizes that hold all of these constraints."""
        return ConstraintSize(
            max([1, *(len(one.items) for one in constraints)]),
            max([1, *(sum(len(item.text) for item in one.items) for one in constraints)]),
            max([1, *(len(ban_automaton(one.forbidden)) for one in constraints if one.forbidden)]),
            tracker.n_parts,
            len(tracker.follow),
        )

    def joined(self, other: ConstraintSize) -> ConstraintSize:
        """Return the sizes that hold both."""
        return ConstraintSize(*map(max, self, other))


class ConstraintArrays(NamedTuple):
    """Constraints of n sentences with k items and p bytes of them each, padded with items that are not
    pending.

    text (n, p) uint8: the items' bytes, one after the other; first, length, cost, group, binding, within,
    leads, after (n, k) int64, first: where in text; closes, right, pending (n, k) bool. begins (n, k, q)
    bool: whether an item may begin at each of q states of the span tracker. ban (n, s, 256) int16: an
    automaton that goes to -1 where a forbidden text is complete; its state 0 is the beginning. reserved_bytes
    (n, 256) bool. states (n, c) int64: of the c parts of the span tracker. inside (n,) int64.
    """

    text: npt.NDArray[np.uint8]
    first: Ints
    length: Ints
    cost: Ints
    group: Ints
    binding: Ints
    within: Ints
    leads: Ints
    after: Ints
    closes: Bools
    right: Bools
    pending: Bools
    begins: Bools
    ban: npt.NDArray[np.int16]
    reserved_bytes: Bools
    states: Ints
    inside: Ints

    @staticmethod
    def allocate(n: int, size: ConstraintSize) -> ConstraintArrays:
        """Return n rows without a constraint."""
        each: dict[str, Any] = {name: np.zeros((n, size.items), np.int64) for name in _OF_ITEMS}
        flags: dict[str, Any] = {name: np.zeros((n, size.items), np.bool_) for name in _FLAGS}
        return ConstraintArrays(
            text=np.zeros((n, size.text), np.uint8),
            begins=np.zeros((n, size.items, size.tracked), np.bool_),
            ban=np.zeros((n, size.states, N_IDS), np.int16),
            reserved_bytes=np.zeros((n, N_IDS), np.bool_),
            states=np.arange(size.parts)[None].repeat(n, axis=0),
            inside=np.full(n, ROOT, np.int64),
            **each,
            **flags,
        )

    def write_row(self, row: int, constraint: Constraint) -> None:
        """Replace one sentence's constraint."""
        for part in self[:-2]:
            part[row] = 0
        items, at = constraint.items, 0
        for i, item in enumerate(items):
            self.text[row, at : at + len(item.text)] = np.frombuffer(item.text, np.uint8)
            self.first[row, i], self.length[row, i] = at, len(item.text)
            self.begins[row, i] = np.frombuffer(item.begins, np.bool_) if item.begins else True
            at += len(item.text)
        k = len(items)
        for name in (*_OF_ITEMS[2:], *_FLAGS):
            getattr(self, name)[row, :k] = [getattr(item, name) for item in items]
        if constraint.forbidden:
            ban = ban_automaton(constraint.forbidden)
            self.ban[row, : len(ban)] = ban
        self.reserved_bytes[row, list(constraint.reserved_bytes)] = True
        # The states at the beginning of a text have the first numbers.
        self.states[row] = constraint.states or range(self.states.shape[1])
        self.inside[row] = constraint.inside
