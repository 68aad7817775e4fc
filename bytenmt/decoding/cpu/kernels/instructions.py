"""Basic operations of instructions, and the records of addresses that compiled code works on.

Compiled as part of interpreter.py. Each thread computes its range of the rows, or of the panels of
weights. Arguments named x, y, a or d are addresses of float32 numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from bytenmt.decoding.cpu.kernels.elementwise import at_least, at_most, emit_exp, map_kernel
from bytenmt.decoding.cpu.kernels.simd import (
    FLOAT,
    Builder,
    Value,
    emit_function,
    loop,
    pointer,
    prefetch,
    splat,
)
from bytenmt.jit import compiled
from bytenmt.kernel_constants import PANEL
from bytenmt.program.instructions import Op

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# Limit of the terms of an additive score: products of two exponentials stay finite, and tanh(9) is
# already 1.
SCORE_LIMIT = 20.0


def _write(b: Builder, address: Value, i: Value, x: Value) -> None:
    b.store(x, pointer(b, address, FLOAT, i))


def _fetch(b: Builder, address: Value, n: Value) -> None:
    def line(place: Value) -> list[Value]:
        prefetch(b, b.add(address, place))
        return []

    loop(b, n, 64, [], line)


def _exp_double(b: Builder, x: Value) -> Value:
    near = at_least(b, at_most(b, x, SCORE_LIMIT), -SCORE_LIMIT)
    return emit_exp(b, b.fadd(near, near))


exp_double = map_kernel(1, 0, _exp_double)  # (y, x, n): exp(2 x), with x clamped to SCORE_LIMIT
copy = map_kernel(1, 0, lambda b, x: x)  # (y, x, n)
zero = map_kernel(0, 0, lambda b: splat(0.0))  # (y, n)
fill = map_kernel(0, 1, lambda b, value: value)  # (y, n, value)
mean = map_kernel(
    2, 0, lambda b, x, y: b.fmul(b.fadd(x, y), splat(0.5**0.5))
)  # (y, a, b, n): (a + b) sqrt(1/2)
load_float = emit_function(
    2, 0, lambda b, address, i: b.load(pointer(b, address, FLOAT, i)), types.float32
)
store_float = emit_function(2, 1, _write)
prefetch_range = emit_function(2, 0, _fetch)  # (x, n): prefetch n bytes at x


class ThreadContext(NamedTuple):
    """The view of one of the threads that execute a compiled call together.

    thread, n_threads: its number from 0, and how many there are. barrier: address of the counters
    by which they wait for each other. scratch: address of temporary memory of this thread alone,
    for a matrix product's inputs or the attention scores of a source.
    """

    thread: int
    n_threads: int
    barrier: int
    scratch: int


class ModelBuffers(NamedTuple):
    """The weights of a packed model and its decoder state for p slots, as addresses for compiled
    code.

    The memory holds what the encoder made of a slot's source: items, which have a vector for each
    of its
    columns (positions, mostly one a byte), and fixed parts, one vector each.
    weights, hidden, past, memory: addresses. precision: its code, see panels.py. n_rows: slots *
    beams.
    item_floats: floats of one column of all items of the memory.
    states (_, 2): offset in floats per row, and width, of each recurrent state.
    rings (_, 4): offset in floats per row, capacity, width and dilation of each ring buffer.
    items (_, 3): offset in floats per column, width and kind (see decoder_memory.py) of each item.
    fixed (_, 2): offset in floats per slot, and width, of each part of the memory without columns.
    hidden: the states, in two banks that are read and written in turn. past: the ring buffers.
    memory: of the encoder. memory_offset (p,): where a slot's memory begins, in floats. It holds
        columns[slot] columns of each item, in whole panels, then the fixed parts.
    source_len (p,): bytes of each source, EOS included.
    ancestors (2, rows, h) uint16: [bank, row, q mod h] is the beam whose ring buffers hold the
    column of
        position q; two banks as for hidden.
    """

    weights: int
    precision: int
    n_rows: int
    hidden: int
    past: int
    memory: int
    item_floats: int
    states: Ints
    rings: Ints
    items: Ints
    fixed: Ints
    memory_offset: Ints
    columns: Ints
    source_len: Ints
    ancestors: npt.NDArray[np.uint16]


class Rows(NamedTuple):
    """The rows of a call, each of which reads a byte: the beams of a decoder step, or all bytes of
    n sources.

    space: address of the registers; capacity: the number of rows for which there is room.
    ids (rows,) uint8: the byte that each row reads. position (rows,): its position in the text.
    word (rows, 2) uint64: that byte and the seven before it, the newest lowest, and the prefix
    hash, see
        ngram_hash.py; empty if the program has no n-gram tables.
    owner (rows,): the slot of a decoder step's row, or the number of an encoder's sentence.
    beam (rows,): of a decoder step.
    slot, length (n,): the slot of each sentence of an encoder, and its columns; longer ones come
    first.
    first (columns + 1,): the first row of each column of an encoder, in which sentences stand in
    their order.
    """

    space: int
    capacity: int
    ids: Bytes
    word: npt.NDArray[np.uint64]
    position: Ints
    owner: Ints
    beam: Ints
    slot: Ints
    length: Ints
    first: Ints


@compiled
def thread_range(n: int, ctx: ThreadContext) -> tuple[int, int]:
    """Return this thread's share of n pieces of work as a range (first, last + 1)."""
    return n * ctx.thread // ctx.n_threads, n * (ctx.thread + 1) // ctx.n_threads


@compiled
def padded(width: int) -> int:
    """Return the smallest multiple of PANEL (64) that is at least `width`."""
    return (width + PANEL - 1) & -PANEL


@compiled
def maxout(d: int, a: int, n: int) -> None:
    """Set d[i] = max(a[2 i], a[2 i + 1]) for n outputs."""
    for i in range(n):
        store_float(d, i, max(load_float(a, 2 * i), load_float(a, 2 * i + 1)))


@compiled
def gather_windows(
    rows: Rows, begin: int, end: int, d: int, d_stride: int, a: int, a_stride: int, width: int, taps: int,
    dilation: int,
) -> None:  # fmt: skip
    """Copy a convolution's inputs to d: `taps` columns of a around each row's, zeros outside its
    sentence.

    Done for rows begin to end - 1; d and a are the addresses of row 0, width that of a column. If
    one side has to be longer, it is the right one.
    """
    for row in range(begin, end):
        sentence, to = rows.owner[row], d + 4 * row * d_stride
        first = rows.position[row] - (taps - 1) * dilation // 2
        for tap in range(taps):
            column = first + tap * dilation
            if 0 <= column < rows.length[sentence]:
                copy(
                    to + 4 * tap * width, a + 4 * (rows.first[column] + sentence) * a_stride, width
                )
            else:
                zero(to + 4 * tap * width, width)


@compiled
def copy_columns(
    op: int, rows: Rows, begin: int, end: int, origin: int, d: int, d_stride: int, a: int, a_stride: int,
    n: int,
) -> None:  # fmt: skip
    """Execute Op.PREVIOUS or TURN for rows origin + begin to origin + end - 1, or LAST for these
    sentences.

    d and a are the addresses of row `origin`.
    """
    for row in range(begin, end):
        if op == Op.LAST:
            sentence, column = row, rows.length[row] - 1
        else:
            sentence, column = rows.owner[origin + row], rows.position[origin + row] - 1
        if op == Op.TURN:
            column = rows.length[sentence] - 2 - column
        if column < 0:
            zero(d + 4 * row * d_stride, n)
        else:
            copy(
                d + 4 * row * d_stride,
                a + 4 * (rows.first[column] + sentence - origin) * a_stride,
                n,
            )
