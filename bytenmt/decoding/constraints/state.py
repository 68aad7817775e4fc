"""Constraint state of a batch, as NumPy arrays that compiled code and Python share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.jit import allocating
from bytenmt.kernel_constants import BLANK
from bytenmt.utf8 import N_IDS

# No other imports: whatever this file imports is part of the kernels' cache key.
if TYPE_CHECKING:
    from bytenmt.decoding.constraints.constraint import Constraint, ConstraintArrays, ConstraintSize
    from bytenmt.decoding.constraints.span_tracker import SpanTracker

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class SpanTables(NamedTuple):
    """The tables of a SpanTracker for compiled code.

    is_used: whether sentences carry constraints. required_bonus: what a byte of a required item is ranked
    higher by. separator_bytes (31,) uint8; wordlike, symbol (256,) bool: see constraints.words. The other
    arrays are those of SpanTracker.
    """

    is_used: bool
    required_bonus: float
    follow: Ints
    free: npt.NDArray[np.int32]
    separators: npt.NDArray[np.int32]
    next_separators: npt.NDArray[np.int32]
    complete: Bools
    separator_bytes: npt.NDArray[np.uint8]
    wordlike: Bools
    symbol: Bools

    @staticmethod
    def from_tracker(tracker: SpanTracker | None, required_bonus: float = 0.0) -> SpanTables:
        """Return the tables of a tracker; without one, tables that are not used."""
        from bytenmt.decoding.constraints.span_tracker import SEPARATORS
        from bytenmt.decoding.constraints.words import symbols, wordlike

        separators = np.frombuffer(SEPARATORS, np.uint8).copy()
        if tracker is None:
            no, zero = np.zeros((1, 1), np.bool_), np.zeros((1, 1), np.int32)
            rest = zero.astype(np.int64), zero, zero[0], zero[0], no[0], separators, no[0], no[0]
            return SpanTables(False, required_bonus, *rest)
        return SpanTables(
            True,
            required_bonus,
            tracker.follow,
            tracker.free,
            tracker.separators,
            tracker.next_separators,
            tracker.complete,
            separators,
            wordlike(),
            symbols(),
        )


class BeamStates(NamedTuple):
    """The constraint state of the b beams of one sentence, with k items and c parts of the span tracker.

    pending (b, k) bool: items that are still to be written. matching (b, k) bool: items of which the last
    n_matched (b,) int64 bytes are the beginning. spans (b, c) int64: states of the span tracker's parts.
    inside (b,) int64: the element that is open, see nesting. ban (b,) int64: state of the automaton of
    forbidden texts. commitment (b,) int64: NONE, COMMITTED or FORCED_END, see state_machine. previous (b,)
    int64: the last byte, a blank at the beginning.
    """

    pending: Bools
    matching: Bools
    n_matched: Ints
    spans: Ints
    inside: Ints
    ban: Ints
    commitment: Ints
    previous: Ints


class ConstraintState(NamedTuple):
    """The constraints of the sentences in p slots: tables of p rows, and the arrays of BeamStates with p
    first."""

    tables: ConstraintArrays
    pending: Bools
    matching: Bools
    n_matched: Ints
    spans: Ints
    inside: Ints
    ban: Ints
    commitment: Ints
    previous: Ints

    @staticmethod
    def allocate(n_slots: int, beam: int, size: ConstraintSize | None = None) -> ConstraintState:
        """Return slots without constraints. size: room for constraints to come, None for the least."""
        from bytenmt.decoding.constraints.constraint import ConstraintArrays, ConstraintSize

        size = size or ConstraintSize()
        items, each = (n_slots, beam, size.items), (n_slots, beam)
        return ConstraintState(
            ConstraintArrays.allocate(n_slots, size),
            np.zeros(items, np.bool_),
            np.zeros(items, np.bool_),
            np.zeros(each, np.int64),
            np.zeros((*each, size.parts), np.int64),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
        )

    def size(self) -> ConstraintSize:
        """Return the room that there is."""
        from bytenmt.decoding.constraints.constraint import ConstraintSize

        tables = self.tables
        return ConstraintSize(
            self.pending.shape[2],
            tables.text.shape[1],
            tables.ban.shape[1],
            self.spans.shape[2],
            tables.begins.shape[2],
        )

    def begin(self, slot: int, constraint: Constraint) -> None:
        """Put a new sentence's constraint into a slot."""
        self.tables.write_row(slot, constraint)
        self.pending[slot] = self.tables.pending[slot]
        self.matching[slot] = False
        self.n_matched[slot] = self.ban[slot] = self.commitment[slot] = 0
        self.previous[slot] = BLANK
        self.spans[slot], self.inside[slot] = self.tables.states[slot], constraint.inside


class Choices(NamedTuple):
    """What the state machine says of the next byte: arrays that `prepare` fills.

    allowed (256,) bool: bytes that may come. required (256,) bool: of these, bytes that begin or continue a
    required item and come however often they stand there already. bonus (256,) float64: what a byte is ranked
    higher by. bank (256,) int64: required items that each byte leaves to be written, by which the width of a
    beam is shared.
    """

    allowed: Bools
    required: Bools
    bonus: npt.NDArray[np.float64]
    bank: Ints


@allocating
def no_choices() -> Choices:
    """Return arrays for `prepare` to fill."""
    return Choices(
        np.empty(N_IDS, np.bool_), np.zeros(N_IDS, np.bool_), np.zeros(N_IDS), np.zeros(N_IDS, np.int64)
    )


@allocating
def beams_of(state: ConstraintState, slot: int) -> BeamStates:
    """Return the state of a slot's beams, which changes as they go on."""
    return BeamStates(
        state.pending[slot],
        state.matching[slot],
        state.n_matched[slot],
        state.spans[slot],
        state.inside[slot],
        state.ban[slot],
        state.commitment[slot],
        state.previous[slot],
    )


@allocating
def snapshot(state: ConstraintState, slot: int) -> BeamStates:
    """Return a copy of the state of a slot's beams, for beams that continue one another."""
    return BeamStates(
        state.pending[slot].copy(),
        state.matching[slot].copy(),
        state.n_matched[slot].copy(),
        state.spans[slot].copy(),
        state.inside[slot].copy(),
        state.ban[slot].copy(),
        state.commitment[slot].copy(),
        state.previous[slot].copy(),
    )
