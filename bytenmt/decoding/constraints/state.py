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

    is_used: whether sentences carry constraints. required_bonus: added to the ranking of a byte of a required
    item. separator_bytes (31,) uint8: see span_tracker.SEPARATORS; wordlike, symbol (256,) bool: see
    constraints.words. The other arrays are those of SpanTracker.
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
        from bytenmt.decoding.constraints.words import symbol_table, wordlike_table

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
            wordlike_table(),
            symbol_table(),
        )


class BeamStates(NamedTuple):
    """The constraint state of hypotheses, with k items and c automata of the span tracker.

    The leading axes are (p, b) for the b beams of p slots, or (b,) for the beams of one slot.

    pending (..., k) bool: items that are still to be written.
    matching (..., k) bool: items whose beginning the last n_matched (...) int64 bytes are.
    spans (..., c) int64: states of the span tracker's automata.
    inside (...) int64: the element that is open, see RequiredItem.within.
    ban (...) int64: state of the automaton of forbidden texts.
    commitment (...) int64: NONE, COMMITTED or FORCED_END, see state_machine.
    previous (...) int64: the last byte, a blank at the beginning.
    is_attended (...) bool: whether the item that is being written began where the attention lay on it.
    kept_bonus (...) float64: the bonus that the hypothesis keeps to its end.
    """

    pending: Bools
    matching: Bools
    n_matched: Ints
    spans: Ints
    inside: Ints
    ban: Ints
    commitment: Ints
    previous: Ints
    is_attended: Bools
    kept_bonus: npt.NDArray[np.float64]


class ConstraintState(NamedTuple):
    """The constraints of the sentences in p slots, tables of p rows, and the state of their beams."""

    tables: ConstraintArrays
    beams: BeamStates

    @staticmethod
    def allocate(n_slots: int, beam: int, size: ConstraintSize | None = None) -> ConstraintState:
        """Return slots without constraints. size: room for constraints to come, None for the least."""
        from bytenmt.decoding.constraints.constraint import ConstraintArrays, ConstraintSize

        size = size or ConstraintSize()
        items, each = (n_slots, beam, size.items), (n_slots, beam)
        beams = BeamStates(
            pending=np.zeros(items, np.bool_),
            matching=np.zeros(items, np.bool_),
            n_matched=np.zeros(each, np.int64),
            spans=np.zeros((*each, size.parts), np.int64),
            inside=np.zeros(each, np.int64),
            ban=np.zeros(each, np.int64),
            commitment=np.zeros(each, np.int64),
            previous=np.zeros(each, np.int64),
            is_attended=np.zeros(each, np.bool_),
            kept_bonus=np.zeros(each),
        )
        return ConstraintState(ConstraintArrays.allocate(n_slots, size), beams)

    def size(self) -> ConstraintSize:
        """Return the sizes of constraints for which there is room."""
        from bytenmt.decoding.constraints.constraint import ConstraintSize

        tables, beams = self
        n_items, n_parts = beams.pending.shape[2], beams.spans.shape[2]
        return ConstraintSize(
            n_items, tables.text.shape[1], tables.ban.shape[1], n_parts, tables.begins.shape[2]
        )

    def begin(self, slot: int, constraint: Constraint) -> None:
        """Put a new sentence's constraint into a slot."""
        tables, beams = self
        tables.write_row(slot, constraint)
        beams.pending[slot] = tables.pending[slot]
        beams.matching[slot] = False
        beams.n_matched[slot] = beams.ban[slot] = beams.commitment[slot] = 0
        beams.previous[slot] = BLANK
        beams.is_attended[slot], beams.kept_bonus[slot] = False, 0.0
        beams.spans[slot], beams.inside[slot] = tables.states[slot], constraint.inside


class Choices(NamedTuple):
    """The effect of the constraint on each possible next byte; filled by state_machine.prepare.

    allowed (256,) bool: bytes that may come.
    required (256,) bool: bytes that begin or continue a required item, which n-gram blocking does not remove.
    bonus (256,) float64: added to the ranking of a hypothesis that takes the byte, not to its score.
    bank (256,) int64: required items that are still to be written after the byte. The width of a beam search
        is shared among hypotheses by this number (Post and Vilar 2018).
    attended (256,) bool: bytes that begin an item that the attention of the step lies on.
    """

    allowed: Bools
    required: Bools
    bonus: npt.NDArray[np.float64]
    bank: Ints
    attended: Bools


@allocating
def empty_choices() -> Choices:
    """Return arrays for `prepare` to fill."""
    return Choices(
        np.empty(N_IDS, np.bool_),
        np.zeros(N_IDS, np.bool_),
        np.zeros(N_IDS),
        np.zeros(N_IDS, np.int64),
        np.zeros(N_IDS, np.bool_),
    )


@allocating
def slot_beams(state: ConstraintState, slot: int) -> BeamStates:
    """Return views of the state of a slot's beams, which change with it."""
    beams = state.beams
    return BeamStates(
        beams.pending[slot],
        beams.matching[slot],
        beams.n_matched[slot],
        beams.spans[slot],
        beams.inside[slot],
        beams.ban[slot],
        beams.commitment[slot],
        beams.previous[slot],
        beams.is_attended[slot],
        beams.kept_bonus[slot],
    )


@allocating
def snapshot(state: ConstraintState, slot: int) -> BeamStates:
    """Return a copy of the state of a slot's beams, from which `advance` computes their successors."""
    beams = slot_beams(state, slot)
    return BeamStates(
        beams.pending.copy(),
        beams.matching.copy(),
        beams.n_matched.copy(),
        beams.spans.copy(),
        beams.inside.copy(),
        beams.ban.copy(),
        beams.commitment.copy(),
        beams.previous.copy(),
        beams.is_attended.copy(),
        beams.kept_bonus.copy(),
    )
