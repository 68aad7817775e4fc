"""Follow a prefix or a finished text under a constraint, with the search's own state machine as Python."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from bytenmt.decoding.constraints.constraint import Constraint, ConstraintSize
from bytenmt.decoding.constraints.span_tracker import SpanTracker

NO_ATTENTION = np.zeros(0, np.float32)


class Functions(NamedTuple):
    """Functions of the state machine, as Python."""

    advance: Any
    snapshot: Any
    ended_item: Any
    pending_without: Any
    inside_after: Any


@cache
def state_machine() -> Functions:
    """Return the state machine as Python; imported on demand, because importing Numba takes a while."""
    from bytenmt.decoding.constraints import state, state_machine
    from bytenmt.jit import as_python

    return Functions(
        as_python(state_machine.advance),
        as_python(state.snapshot),
        as_python(state_machine.ended_item),
        as_python(state_machine.pending_without),
        as_python(state_machine.inside_after),
    )


class TextReader:
    """Follow a text byte by byte under a constraint.

    is_squeezed: whether there was a byte from which on the room sufficed for the required items alone.

    >>> reader = TextReader(tracker, constraint, limit=100).read(b"a prefix")  # doctest: +SKIP
    >>> constraint = reader.rest()  # doctest: +SKIP
    """

    def __init__(self, tracker: SpanTracker, constraint: Constraint, limit: int, n_prefix: int = 0) -> None:
        """limit: bytes of the whole text at most.

        n_prefix: the number of bytes at its beginning that the constraint has taken into account already.
        """
        from bytenmt.decoding.constraints.state import ConstraintState, SpanTables

        self._machine = state_machine()
        self._constraint, self._limit, self._n_prefix = constraint, limit, n_prefix
        self._tables = SpanTables.from_tracker(tracker)
        self._state = ConstraintState.allocate(1, 1, ConstraintSize.from_constraints([constraint], tracker))
        self._state.begin(0, constraint)
        self._utf8 = 0
        self._n_read = 0
        self.is_squeezed = False

    def read(self, text: bytes) -> TextReader:
        """Read more bytes of the text; return this reader."""
        for byte in text:
            if self._n_read >= self._n_prefix:
                self._read_byte(byte)
            self._n_read += 1
        return self

    def rest(self) -> Constraint:
        """Return the constraint of a continuation of the text: the same items, those met no longer
        pending."""
        machine, now = self._machine, self._machine.snapshot(self._state, 0)
        ended = machine.ended_item(self._state.tables, 0, now, 0)
        pending = machine.pending_without(self._state.tables, 0, now.pending[0], ended)
        inside = int(machine.inside_after(self._state.tables, 0, now.inside[0], ended))
        items = tuple(
            item._replace(pending=bool(pending[i])) for i, item in enumerate(self._constraint.items)
        )
        return self._constraint._replace(items=items, states=tuple(map(int, now.spans[0])), inside=inside)

    def _read_byte(self, byte: int) -> None:
        state, reserved = self._state, self._reserved()
        utf8 = 1 if byte & 0xC0 == 0x80 else 0  # a continuation byte begins no item
        before = self._machine.snapshot(state, 0)
        self._machine.advance(state, self._tables, 0, before, 0, 0, utf8, byte, False, 0, 0.0, NO_ATTENTION)
        beams = state.beams
        continues = beams.n_matched[0, 0] == before.n_matched[0] + 1 and before.n_matched[0] > 0
        if not continues and beams.pending[0, 0].any():
            left = self._limit - self._n_read - min(reserved, self._reserved())
            self.is_squeezed = self.is_squeezed or left < 1

    def _reserved(self) -> int:
        """Return the number of bytes that the pending items need."""
        return int(self._state.tables.cost[0] @ self._state.beams.pending[0, 0])
