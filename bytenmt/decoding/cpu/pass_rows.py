"""The rows of a decoder pass: which bytes of which beams it reads. Compiled as part of interpreter.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.decoder_memory import inherit_ancestors
from bytenmt.decoding.cpu.kernels.instructions import ModelBuffers, Rows
from bytenmt.decoding.search.drafting import gather_rows
from bytenmt.decoding.search.state import SearchState
from bytenmt.jit import compiled
from bytenmt.ngram_hash import N_BYTES, START

BYTE, LOW_BYTE = np.uint64(8), np.uint64(0xFF)


@compiled
def begin_pass(model: ModelBuffers, rows: Rows, search: SearchState) -> int:
    """Fill `rows` for a pass and return their number; with several beams, update the ancestors of rings."""
    gather_rows(search)
    for row in range(search.n_rows[0]):
        slot, beam, column = search.rows[row]
        rows.owner[row], rows.beam[row] = slot, beam
        rows.position[row] = search.step[slot] + column
        rows.ids[row] = search.drafted[slot, column - 1] if column > 0 else search.last[slot, beam]
        if len(rows.word) > 0:
            rows.word[row] = packed_last_bytes(search, slot, beam, column)
        if beam == 0 and column == 0 and len(model.rings) > 0 and search.last.shape[1] > 1:
            inherit_ancestors(model, slot, search.parent[slot], search.step[slot])
    return int(search.n_rows[0])


@compiled
def packed_last_bytes(search: SearchState, slot: int, beam: int, column: int) -> Any:
    """Return the last eight bytes that a row has read packed into an integer, the newest lowest."""
    if len(search.forced.n_text) > 0:
        word = search.forced.word[slot]
    else:
        word, at, step = np.uint64(START), beam, search.step[slot]
        shift = np.uint64(0)
        for back in range(step - 1, max(step - 1 - N_BYTES, -1), -1):
            byte = np.uint64(search.history_byte[slot, back, at])
            word = (word & ~(LOW_BYTE << shift)) | (byte << shift)
            shift += BYTE
            at = int(search.history_parent[slot, back, at])
    for i in range(column):
        word = (word << BYTE) | np.uint64(search.drafted[slot, i])
    return word


@compiled
def first_rows(rows: Rows, n: int) -> Rows:
    """Return a view of the first n rows of a step."""
    return Rows(
        rows.space,
        rows.capacity,
        rows.ids[:n],
        rows.word,
        rows.position,
        rows.owner,
        rows.beam,
        rows.first,
        rows.slot,
    )
