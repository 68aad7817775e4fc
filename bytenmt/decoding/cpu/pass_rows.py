"""The rows of a pass: which texts at which beams and columns it reads, and what they inherit.

Compiled without a cache of its own, as part of interpreter.py. Knows neither programs nor how a byte is
chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.instructions import Model, Rows
from bytenmt.decoding.cpu.kernels.kept import inherit
from bytenmt.decoding.search.drafting import gather_rows
from bytenmt.decoding.search.state import SearchState
from bytenmt.jit import compiled
from bytenmt.ngram_hash import N_BYTES, START

BYTE, LOW_BYTE = np.uint64(8), np.uint64(0xFF)


@compiled
def begin_pass(model: Model, rows: Rows, search: SearchState) -> int:
    """List the rows of a pass, and hand the rings down from the parents where there are several beams;
    returns how many rows."""
    gather_rows(search)
    for row in range(search.n_rows[0]):
        place, beam, column = search.rows[row]
        rows.of[row], rows.beam[row] = place, beam
        rows.position[row] = search.step[place] + column
        rows.ids[row] = search.drafted[place, column - 1] if column > 0 else search.last[place, beam]
        if len(rows.word) > 0:
            rows.word[row] = word_of_row(search, place, beam, column)
        if beam == 0 and column == 0 and len(model.rings) > 0 and search.last.shape[1] > 1:
            inherit(model, place, search.parent[place], search.step[place])
    return int(search.n_rows[0])


@compiled
def word_of_row(search: SearchState, place: int, beam: int, column: int) -> Any:
    """The last eight bytes that a row has read with its own, as one integer, the newest lowest."""
    if len(search.forced.n_text) > 0:
        word = search.forced.word[place]
    else:
        word, at, step = np.uint64(START), beam, search.step[place]
        shift = np.uint64(0)
        for back in range(step - 1, max(step - 1 - N_BYTES, -1), -1):
            byte = np.uint64(search.history_byte[place, back, at])
            word = (word & ~(LOW_BYTE << shift)) | (byte << shift)
            shift += BYTE
            at = int(search.history_parent[place, back, at])
    for i in range(column):
        word = (word << BYTE) | np.uint64(search.drafted[place, i])
    return word


@compiled
def first_rows(rows: Rows, n: int) -> Rows:
    """The first n of a step's rows."""
    return Rows(
        rows.space,
        rows.capacity,
        rows.ids[:n],
        rows.word,
        rows.position,
        rows.of,
        rows.beam,
        rows.first,
        rows.place,
    )
