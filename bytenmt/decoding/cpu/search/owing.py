"""What sentences owe, as arrays that compiled code shares with Python.

Knows no rule by which a byte may come; constraints.py does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.constraints.constraint import Constraint, Numbers, Size
from bytenmt.decoding.constraints.lexer import Lexer
from bytenmt.decoding.constraints.words import BLANK, symbols, wordlike
from bytenmt.decoding.cpu.kernels.simd import allocating

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Extractor(NamedTuple):
    """lexer.Lexer for compiled code. there: whether sentences carry constraints."""

    there: bool
    follow: Ints
    begins: Bools
    freely: Bools
    loose: Bools
    escape: npt.NDArray[np.uint8]
    wordlike: Bools
    symbol: Bools

    @staticmethod
    def of(lexer: Lexer | None) -> Extractor:
        if lexer is None:
            none, zero = np.zeros((1, 1), np.bool_), np.zeros((1, 1), np.int64)
            return Extractor(False, zero, none, none, none[0], np.zeros(1, np.uint8), none[0], none[0])
        tables = lexer.follow, lexer.begins, lexer.freely, lexer.loose, lexer.escape
        return Extractor(True, *tables, wordlike(), symbols())


class Standing(NamedTuple):
    """What each of b beams owes still: owed, track (b, k) bool; offset, lexer, inside, banned, firm,
    before (b,) int64; as in the twin's Owing."""

    owed: Bools
    track: Bools
    offset: Ints
    lexer: Ints
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
    lexer: Ints
    inside: Ints
    banned: Ints
    firm: Ints
    before: Ints
    credit: npt.NDArray[np.float64]
    ending: npt.NDArray[np.float64]

    @staticmethod
    def make(n_places: int, beam: int, size: Size) -> Owing:
        """Nothing is owed."""
        many, each = (n_places, beam, size.items), (n_places, beam)
        return Owing(
            Numbers.blank(n_places, size),
            np.zeros(many, np.bool_),
            np.zeros(many, np.bool_),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
            np.zeros(each, np.int64),
            np.zeros(each),
            np.zeros(n_places),
        )

    def size(self) -> Size:
        """Of the tables."""
        return Size(self.owed.shape[2], self.tables.text.shape[1], self.tables.ban.shape[1])

    def begin(self, place: int, constraint: Constraint) -> None:
        """A new sentence at a place."""
        self.tables.put(place, constraint)
        self.owed[place] = self.tables.owed[place]
        self.track[place] = False
        self.firm[place] = self.credit[place] = self.ending[place] = 0
        self.offset[place] = self.banned[place] = 0
        self.before[place] = BLANK
        self.lexer[place], self.inside[place] = constraint.state, constraint.inside


@allocating
def standing(owing: Owing, place: int) -> Standing:
    """A copy of what is owed at a place, before bytes are taken."""
    return Standing(
        owing.owed[place].copy(),
        owing.track[place].copy(),
        owing.offset[place].copy(),
        owing.lexer[place].copy(),
        owing.inside[place].copy(),
        owing.banned[place].copy(),
        owing.firm[place].copy(),
        owing.before[place].copy(),
    )
