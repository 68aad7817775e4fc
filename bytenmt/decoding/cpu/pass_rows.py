"""The rows of a pass: which byte each of them reads, and what its text has read before.

Compiled as part of interpreter.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.compiled_hashes import extend_prefix
from bytenmt.decoding.cpu.kernels.decoder_memory import inherit_ancestors
from bytenmt.decoding.cpu.records import ModelBuffers, Rows
from bytenmt.decoding.search.state import RUNNING, SearchState
from bytenmt.jit import compiled, inlined
from bytenmt.ngram_hash import START

BYTE_BITS = np.uint64(8)  # bits of a byte
# The word and the prefix hash of a text of which nothing has been read.
START_WORD = np.uint64(START)
NO_PREFIX = np.uint64(0)


@compiled
def begin_pass(model: ModelBuffers, rows: Rows, search: SearchState) -> None:
    """Fill `rows` with the bytes that the decoder reads next in all running sentences.

    Each sentence has a row for every beam, or for several bytes of its fixed text. Also sets the
    number of rows, search.n_rows, and their slots, row_slot, and updates the last bytes read, word,
    and model.ancestors, which says whose ring buffers hold the past of each beam.
    """
    n_beams = search.last.shape[1]
    row = 0
    for slot in range(len(search.state)):
        if search.state[slot] != RUNNING:
            continue
        if len(model.rings) > 0 and n_beams > 1:
            inherit_ancestors(model, slot, search.parent[slot], search.step[slot])
        for beam in range(n_beams):
            for column in range(n_columns_of(search, slot)):
                search.row_slot[row] = slot
                fill_row(rows, search, row, slot, beam, column)
                row += 1
    search.n_rows[0] = row


@inlined
def fill_row(rows: Rows, search: SearchState, row: int, slot: int, beam: int, column: int) -> None:
    """Set the fields of a row of a decode step: slot, beam, position and the byte that it reads.

    row: index in `rows`. slot: the sentence's place in the batch. beam: the hypothesis. column: 0
    to read the byte chosen last; k > 0, only in fixed texts, to read the k-th byte after it, when
    row - 1 holds column k - 1. For n-gram tables rows.word is set, too: the last eight bytes read,
    and a hash of the word that they end in. Column 0 copies it to search.word.
    """
    forced = search.forced
    rows.owner[row] = slot
    rows.beam[row] = beam
    rows.position[row] = search.step[slot] + column
    rows.ids[row] = search.last[slot, beam]
    if column > 0:
        rows.ids[row] = forced.text[slot, forced.n_read[slot] + column - 1]
    if len(rows.word) == 0:
        return
    if column > 0:
        read_byte(rows, row, rows.word[row - 1])
    else:
        bank = search.step[slot] & 1
        read_byte(rows, row, search.word[1 - bank, slot, search.parent[slot, beam]])
        for k in range(2):
            search.word[bank, slot, beam, k] = rows.word[row, k]


@compiled
def read_source_bytes(rows: Rows) -> None:
    """Set rows.word of an encoder's rows from their bytes, rows.ids; n-gram tables read it.

    Each row gets the last eight bytes of its source up to its own, and a hash of the word so far.
    """
    for row in range(len(rows.word)):
        column = rows.position[row]
        if column == 0:
            rows.word[row, 0] = START_WORD
            rows.word[row, 1] = NO_PREFIX
            append_byte(rows.word[row], rows.ids[row])
        else:
            read_byte(rows, row, rows.word[rows.first[column - 1] + rows.owner[row]])


@compiled
def read_byte(rows: Rows, row: int, before: Any) -> None:
    """Set rows.word[row] to a copy of `before` to which the row's byte, rows.ids[row], is appended.

    before (2,) uint64: the last eight bytes of the text before it, and a hash of the word so far.
    """
    for k in range(2):
        rows.word[row, k] = before[k]
    append_byte(rows.word[row], rows.ids[row])


@compiled
def append_byte(word: Any, byte: int) -> None:
    """Append a byte to word (2,) uint64, in place.

    word[0]: the last eight bytes of a text, the latest lowest. word[1]: a hash of the letters and
    digits in which the text ends, 0 if there are none; ngram_hash.py defines it.
    """
    word[0] = (word[0] << BYTE_BITS) | np.uint64(byte)
    word[1] = extend_prefix(word[1], np.uint64(byte))


@inlined
def n_columns_of(search: SearchState, slot: int) -> int:
    """Return how many bytes of a slot's sentence the next pass reads for each beam.

    In a search that is one. Of a fixed text it is the number of bytes still to be scored, at most
    forced.max_columns: each byte is scored when the byte before it (at first BOS) is read.
    """
    forced = search.forced
    if len(forced.n_text) == 0:
        return 1
    return int(min(forced.max_columns[0], forced.n_text[slot] - forced.n_read[slot]))
