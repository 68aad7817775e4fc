"""What sentences owe, as arrays that compiled code shares with Python.

Knows no rule by which a byte may come; constraints.py does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.kernels.simd import allocating
from bytenmt.kernel_constants import BLANK

# No other imports from decoding.constraints: whatever stands there would be part of the kernels' cache key.
if TYPE_CHECKING:
    from bytenmt.decoding.constraints.constraint import Constraint, Numbers, Size
    from bytenmt.decoding.constraints.span_tracker import SpanTracker

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class SpanTables(NamedTuple):
    """span_tracker.SpanTracker for compiled code. there: whether sentences carry constraints. separator_bytes
    (31,) uint8; wordlike, symbol (256,) bool: see words."""

    there: bool
    follow: Ints
    free: npt.NDArray[np.int32]
    separators: npt.NDArray[np.int32]
    next_separators: npt.NDArray[np.int32]
    complete: Bools
    separator_bytes: npt.NDArray[np.uint8]
    wordlike: Bools
    symbol: Bools

    @staticmethod
    def of(tracker: SpanTracker | None) -> SpanTables:
        from bytenmt.decoding.constraints.span_tracker import SEPARATORS
        from bytenmt.decoding.constraints.words import symbols, wordlike

        own = np.frombuffer(SEPARATORS, np.uint8).copy()
        if tracker is None:
            none, zero = np.zeros((1, 1), np.bool_), np.zeros((1, 1), np.int32)
            return SpanTables(
                False, zero.astype(np.int64), zero, zero[0], zero[0], none[0], own, none[0], none[0]
            )
        bits = tracker.free, tracker.separators, tracker.next_separators
        return SpanTables(True, tracker.follow, *bits, tracker.complete, own, wordlike(), symbols())


class Standing(NamedTuple):
    """What each of b beams owes still: owed, track (b, k) bool; spans (b, c) int64; offset, inside,
    banned, firm, before (b,) int64; as in the twin's Owing."""

    owed: Bools
    track: Bools
    offset: Ints
    spans: Ints
    inside: Ints
    banned: Ints
    firm: Ints
    before: Ints


class Owing(NamedTuple):
    """What the sentences at p places owe: tables of p rows, and Standing's arrays with places first. credit
    (p, b) float64: as in the twin; ending (p,) float64: that of the text that ends."""

    tables: Numbers
    owed: Bools
    track: Bools
    offset: Ints
    spans: Ints
    inside: Ints
    banned: Ints
    firm: Ints
    before: Ints
    credit: npt.NDArray[np.float64]
    ending: npt.NDArray[np.float64]

    @staticmethod
    def make(n_places: int, beam: int, size: Size | None = None) -> Owing:
        """Nothing is owed. size: of the constraints to come, None for the least."""
        from bytenmt.decoding.constraints.constraint import Numbers, Size

        size = size or Size()
        many, each = (n_places, beam, size.items), (n_places, beam)
        return Owing(
            Numbers.blank(n_places, size),
            np.zeros(many, np.bool_),
            np.zeros(many, np.bool_),
            np.zeros(each, np.int64),
            np.zeros((*each, size.parts), np.int64),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
            np.zeros(each),
            np.zeros(n_places),
        )

    def size(self) -> Size:
        """Of the tables."""
        from bytenmt.decoding.constraints.constraint import Size

        tables = self.tables
        return Size(
            self.owed.shape[2],
            tables.text.shape[1],
            tables.ban.shape[1],
            self.spans.shape[2],
            tables.begins.shape[2],
        )

    def begin(self, place: int, constraint: Constraint) -> None:
        """A new sentence at a place."""
        self.tables.put(place, constraint)
        self.owed[place] = self.tables.owed[place]
        self.track[place] = False
        self.firm[place] = self.credit[place] = self.ending[place] = 0
        self.offset[place] = self.banned[place] = 0
        self.before[place] = BLANK
        self.spans[place], self.inside[place] = self.tables.states[place], constraint.inside


@allocating
def standing(owing: Owing, place: int) -> Standing:
    """A copy of what is owed at a place, before bytes are taken."""
    return Standing(
        owing.owed[place].copy(),
        owing.track[place].copy(),
        owing.offset[place].copy(),
        owing.spans[place].copy(),
        owing.inside[place].copy(),
        owing.banned[place].copy(),
        owing.firm[place].copy(),
        owing.before[place].copy(),
    )
