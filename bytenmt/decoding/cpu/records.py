"""Define the records of arrays and addresses that compiled code works on.

Python fills them, and call_table.py passes them to compiled code. The number in an annotation is
that of an array's axes.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.search.state import Bytes, Ints, SearchParams, SearchState

Address = int  # of numbers in memory, float32 if nothing else is said

N_COUNTERS = 16  # int64 numbers of a barrier, initially zero: two cache lines, one a counter
ABORTED = 9  # index of one: not 0 if a thread has failed and the others must not wait for it

# Kinds of memory items. FLAT: columns of numbers, one after another. KEYS and VALUES: a matrix of
# int8 panels (panels.py), whose outputs are the columns for keys, and whose inputs are the columns
# for values. There is room for whole panels, and the scales of the columns follow them.
FLAT = 0
KEYS = 1
VALUES = 2


class ThreadContext(NamedTuple):
    """The view of one of the threads that execute a compiled call together."""

    thread: int  # its number, from 0
    n_threads: int
    barrier: Address  # of the counters by which the threads wait for each other
    # Temporary memory of this thread alone, for a matrix product's inputs or the attention scores
    # of a source.
    scratch: Address


class ModelBuffers(NamedTuple):
    """The weights of a packed model and its decoder state for p slots, for compiled code.

    The memory holds what the encoder made of a slot's source: items, which have a vector for each
    of its columns (positions, mostly one a byte), and fixed parts, one vector each.
    """

    weights: Address
    precision: int  # its code, see panels.py
    n_rows: int  # slots * beams
    hidden: Address  # the states, in two banks that are read and written in turn
    past: Address  # the ring buffers
    memory: Address  # of the encoder
    item_floats: int  # floats of one column of all items of the memory
    # (_, 2): offset in floats per row, and width, of each recurrent state
    states: Annotated[Ints, 2]
    # (_, 4): offset in floats per row, capacity, width and dilation of each ring buffer.
    rings: Annotated[Ints, 2]
    # (_, 3): offset in floats per column, width and kind (see decoder_memory.py) of each item.
    items: Annotated[Ints, 2]
    # (_, 2): offset in floats per slot, and width, of each part without columns
    fixed: Annotated[Ints, 2]
    # (p,): where a slot's memory begins, in floats. It holds columns[slot] columns of each item, in
    # whole panels, then the fixed parts.
    memory_offset: Annotated[Ints, 1]
    # (p,): columns of each slot's memory
    columns: Annotated[Ints, 1]
    # (p,): bytes of each source, EOS included
    source_len: Annotated[Ints, 1]
    # (2, rows, h): [bank, row, q mod h] is the beam whose ring buffers hold the column of position
    # q; two banks as for hidden.
    ancestors: Annotated[npt.NDArray[np.uint16], 3]


class Rows(NamedTuple):
    """The rows of a call, each of which reads a byte: the beams of a decoder step, or all bytes of
    n sources."""

    space: Address  # of the registers
    capacity: int  # rows for which there is room
    # (rows,): the byte that each row reads
    ids: Annotated[Bytes, 1]
    # (rows, 2): that byte and the seven before it, the newest lowest, and the prefix hash, see
    # ngram_hash.py; empty if the program has no n-gram tables.
    word: Annotated[npt.NDArray[np.uint64], 2]
    # (rows,): of the byte in the text
    position: Annotated[Ints, 1]
    # (rows,): the slot of a decoder step's row, or the number of an encoder's sentence
    owner: Annotated[Ints, 1]
    # (rows,): of a decoder step
    beam: Annotated[Ints, 1]
    # (n,): the slot of each sentence of an encoder
    slot: Annotated[Ints, 1]
    # (n,): its columns; longer sentences come first
    length: Annotated[Ints, 1]
    # (columns + 1,): the first row of each column of an encoder, in which sentences stand in their
    # order.
    first: Annotated[Ints, 1]


class EngineCall(NamedTuple):
    """The arguments of interpreter.run, which explains them."""

    program: Annotated[Ints, 2]
    logits: Annotated[Ints, 1]
    model: ModelBuffers
    rows: Rows
    search: SearchState
    params: SearchParams
    which: int
    n_steps: int
    ctx: ThreadContext


class SearchCall(NamedTuple):
    """The arguments of beam_search.choose_bytes."""

    search: SearchState
    params: SearchParams
