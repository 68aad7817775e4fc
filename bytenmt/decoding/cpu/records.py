"""Define the records of arrays and addresses that compiled code works on.

Python fills them, and call_table.py passes them to compiled code. Arrays have their shapes in their
annotations, see search/record_fields.py.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.search.state import Bytes, Ints, SearchParams, SearchState

Address = int  # of numbers in memory, float32 if nothing else is said

N_COUNTERS = 16  # int64 numbers of a barrier, initially zero: two cache lines, one a counter
ABORTED = 9  # index of a counter: not 0 if a thread has failed, and others must not wait for it

# Kinds of items of the encoder's memory, see ModelBuffers. FLAT: columns of float32 numbers, one
# after another. KEYS and VALUES: a matrix of int8 panels (panels.py), whose outputs are the columns
# for keys, and whose inputs are the columns for values. There is room for whole panels, and the
# scales of the columns follow them.
FLAT = 0
KEYS = 1
VALUES = 2


class ThreadContext(NamedTuple):
    """One of the threads that execute a compiled call together: its number and its memory."""

    thread: int  # its number, from 0
    n_threads: int
    barrier: Address  # of the counters by which the threads wait for each other
    # Temporary memory of this thread alone, for a matrix product's inputs or the attention scores
    # of a source.
    scratch: Address


class ModelBuffers(NamedTuple):
    """The weights of a packed model and its decoder state for all slots, for compiled code.

    The memory holds what the encoder made of a slot's source: items, which have a vector for each
    of its columns (positions, mostly one a byte), and fixed parts, one vector each.
    """

    weights: Address
    precision: int  # of the matrices, as an index in PRECISIONS: 0 is fp32, 1 int8
    n_rows: int  # slots * beams
    hidden: Address  # the recurrent states, in two banks: each step reads one, writes the other
    past: Address  # the ring buffers: the last inputs (columns) of each causal convolution
    memory: Address  # of the encoder
    item_floats: int  # floats of one column of all items of the memory
    # Offset in floats per row, and width, of each recurrent state.
    states: Annotated[Ints, "states 2"]
    # Offset in floats per row, capacity, width and dilation of each ring buffer.
    rings: Annotated[Ints, "rings 4"]
    # Offset in floats per column, width and kind of each item: FLAT for float32, KEYS or VALUES for
    # the two layouts of int8.
    items: Annotated[Ints, "items 3"]
    # Offset in floats per slot, and width, of each part without columns.
    fixed: Annotated[Ints, "parts 2"]
    # Where a slot's memory begins, in floats. It holds columns[slot] columns of each item, in whole
    # panels, then the fixed parts.
    memory_offset: Annotated[Ints, "slots"]
    columns: Annotated[Ints, "slots"]  # of each slot's memory
    source_len: Annotated[Ints, "slots"]  # bytes of each source, EOS included
    # [bank, row, q mod history] is the beam whose ring buffers hold the column of position q of a
    # row's text; two banks as for hidden. history: the capacity of the largest ring.
    ancestors: Annotated[npt.NDArray[np.uint16], "2 rows history"]


class Rows(NamedTuple):
    """The rows of a call, each of which reads a byte: the beams of a decoder step, or all bytes of
    some sources (sentences)."""

    space: Address  # of the workspace: the registers, each a float32 vector of every row
    capacity: int  # rows for which there is room
    ids: Annotated[Bytes, "rows"]  # the byte that each row reads
    # That byte and the seven before it, the newest lowest, and a hash of the word so far (see
    # ngram_hash.py); empty if the program has no n-gram tables.
    word: Annotated[npt.NDArray[np.uint64], "rows 2"]
    position: Annotated[Ints, "rows"]  # of the byte in the text
    # The slot of a decoder step's row, or the number of an encoder's sentence.
    owner: Annotated[Ints, "rows"]
    beam: Annotated[Ints, "rows"]  # of a decoder step
    # The other fields are an encoder's, empty in a decoder. Its longer sentences come first.
    slot: Annotated[Ints, "sentences"]  # of each sentence
    length: Annotated[Ints, "sentences"]  # bytes that the encoder reads of it
    # Rows are sorted by position, then by sentence: the first row of each position; then the end.
    first: Annotated[Ints, "columns"]


class EngineCall(NamedTuple):
    """The arguments of a call of compiled code: decode steps of one model, or its encoder.

    With n_steps > 0, `program` (a table of instructions) is the decoder's: that many decode steps
    are executed for all running sentences. With n_steps = 0 it is the encoder's: it is executed
    once, over the sources in `rows`, into which the caller has written every byte.
    """

    program: Annotated[Ints, "instructions fields"]
    # The register of the logits: floats per row before it, its stride, column of the first logit.
    logits: Annotated[Ints, "3"]
    model: ModelBuffers
    rows: Rows
    search: SearchState
    params: SearchParams
    which: int  # the model's number in the ensemble, from 0
    n_steps: int
    ctx: ThreadContext


class SearchCall(NamedTuple):
    """The arguments of a compiled step of the search, which chooses the next byte of every beam."""

    search: SearchState
    params: SearchParams
