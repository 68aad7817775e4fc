"""Define the records of arrays and addresses that compiled code works on, and basic operations.

Compiled as part of interpreter.py. Each thread computes its range of the rows, or of the panels of
weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from bytenmt.decoding.cpu.kernels.elementwise import at_least, at_most, emit_exp, map_kernel
from bytenmt.decoding.cpu.kernels.simd import (
    FLOAT,
    Address,
    Builder,
    Value,
    emit_function,
    loop,
    pointer,
    prefetch,
    splat,
)
from bytenmt.jit import compiled, inlined
from bytenmt.kernel_constants import PANEL
from bytenmt.program.instructions import Field, Op

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# The fields of an instruction, program.instructions.Field, as plain integers: compiled code takes
# no other indices.
OP = int(Field.OP)
D_START = int(Field.D_START)
D_STRIDE = int(Field.D_STRIDE)
D_COLUMN = int(Field.D_COLUMN)
A_START = int(Field.A_START)
A_STRIDE = int(Field.A_STRIDE)
A_COLUMN = int(Field.A_COLUMN)
B_START = int(Field.B_START)
B_STRIDE = int(Field.B_STRIDE)
B_COLUMN = int(Field.B_COLUMN)
W = int(Field.W)
V = int(Field.V)
S = int(Field.S)
T = int(Field.T)
N = int(Field.N)
M = int(Field.M)
K = int(Field.K)
ROWS = int(Field.ROWS)

# Limit of the terms of an additive score: products of two exponentials stay finite, and tanh(9) is
# 1 already.
SCORE_LIMIT = 20.0


def _store_float(b: Builder, address: Value, i: Value, x: Value) -> None:
    b.store(x, pointer(b, address, FLOAT, i))


def _prefetch_range(b: Builder, address: Value, n: Value) -> None:
    def line(place: Value) -> list[Value]:
        prefetch(b, b.add(address, place))
        return []

    loop(b, n, 64, [], line)


def _mean(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(b.fadd(x, y), splat(0.5**0.5))


def _load_float(b: Builder, address: Value, i: Value) -> Value:
    return b.load(pointer(b, address, FLOAT, i))


def _exp_double(b: Builder, x: Value) -> Value:
    near = at_least(b, at_most(b, x, SCORE_LIMIT), -SCORE_LIMIT)
    return emit_exp(b, b.fadd(near, near))


# Kernels over n numbers; their first arguments, y, x, a and b, are addresses.
exp_double = map_kernel(1, 0, _exp_double)  # (y, x, n): exp(2 x), with x clamped to SCORE_LIMIT
copy = map_kernel(1, 0, lambda b, x: x)  # (y, x, n)
zero = map_kernel(0, 0, lambda b: splat(0.0))  # (y, n)
fill = map_kernel(0, 1, lambda b, value: value)  # (y, n, value)
mean = map_kernel(2, 0, _mean)  # (y, a, b, n): (a + b) sqrt(1/2)
load_float = emit_function(2, 0, _load_float, types.float32)  # (x, i): x[i]
store_float = emit_function(2, 1, _store_float)  # (y, i, value): y[i] = value
prefetch_range = emit_function(2, 0, _prefetch_range)  # (x, n): prefetch n bytes at x


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
    states: Ints  # (_, 2): offset in floats per row, and width, of each recurrent state
    rings: (
        Ints  # (_, 4): offset in floats per row, capacity, width and dilation of each ring buffer
    )
    # (_, 3): offset in floats per column, width and kind (see decoder_memory.py) of each item.
    items: Ints
    fixed: Ints  # (_, 2): offset in floats per slot, and width, of each part without columns
    # (p,): where a slot's memory begins, in floats. It holds columns[slot] columns of each item, in
    # whole panels, then the fixed parts.
    memory_offset: Ints
    columns: Ints  # (p,): columns of each slot's memory
    source_len: Ints  # (p,): bytes of each source, EOS included
    # (2, rows, h): [bank, row, q mod h] is the beam whose ring buffers hold the column of position
    # q; two banks as for hidden.
    ancestors: npt.NDArray[np.uint16]


class Rows(NamedTuple):
    """The rows of a call, each of which reads a byte: the beams of a decoder step, or all bytes of
    n sources."""

    space: Address  # of the registers
    capacity: int  # rows for which there is room
    ids: Bytes  # (rows,): the byte that each row reads
    # (rows, 2): that byte and the seven before it, the newest lowest, and the prefix hash, see
    # ngram_hash.py; empty if the program has no n-gram tables.
    word: npt.NDArray[np.uint64]
    position: Ints  # (rows,): of the byte in the text
    owner: Ints  # (rows,): the slot of a decoder step's row, or the number of an encoder's sentence
    beam: Ints  # (rows,): of a decoder step
    slot: Ints  # (n,): the slot of each sentence of an encoder
    length: Ints  # (n,): its columns; longer sentences come first
    # (columns + 1,): the first row of each column of an encoder, in which sentences stand in their
    # order.
    first: Ints


class RowSelection(NamedTuple):
    """The rows for which an instruction is executed: origin + every * i for i < n_rows."""

    n_rows: int
    origin: int
    every: int


@inlined
def register_address(rows: Rows, start: int, column: int) -> int:
    """Return the address of a register for row 0. start, column: see program.Register."""
    address: int = rows.space + 4 * (start * rows.capacity + column)
    return address


@compiled
def thread_range(n: int, ctx: ThreadContext) -> tuple[int, int]:
    """Return this thread's share of n pieces of work as a range (first, last + 1)."""
    return n * ctx.thread // ctx.n_threads, n * (ctx.thread + 1) // ctx.n_threads


@compiled
def padded(width: int) -> int:
    """Return the smallest multiple of PANEL (64) that is at least `width`."""
    return (width + PANEL - 1) & -PANEL


@compiled
def maxout(d: Address, a: Address, n: int) -> None:
    """Set d[i] = max(a[2 i], a[2 i + 1]) for n outputs."""
    for i in range(n):
        store_float(d, i, max(load_float(a, 2 * i), load_float(a, 2 * i + 1)))


@compiled
def gather_windows(
    code: Ints,
    rows: Rows,
    begin: int,
    end: int,
    d: Address,
    d_bytes: int,
    a: Address,
    a_bytes: int,
) -> None:
    """Execute Op.WINDOW for rows begin to end - 1: copy a convolution's inputs to d, the columns of
    a around each row's, zeros outside its sentence.

    d, a: registers of row 0, whose rows are d_bytes and a_bytes apart. If one side of the window
    has to be longer, it is the right one.
    """
    taps = code[M]
    dilation = code[K]
    width = code[N] // taps
    for row in range(begin, end):
        sentence = rows.owner[row]
        target = d + row * d_bytes
        first = rows.position[row] - (taps - 1) * dilation // 2
        for tap in range(taps):
            column = first + tap * dilation
            if 0 <= column < rows.length[sentence]:
                copy(target, a + (rows.first[column] + sentence) * a_bytes, width)
            else:
                zero(target, width)
            target += 4 * width


@compiled
def copy_columns(
    code: Ints,
    rows: Rows,
    begin: int,
    end: int,
    origin: int,
    d: Address,
    d_bytes: int,
    a: Address,
    a_bytes: int,
) -> None:
    """Execute Op.PREVIOUS or TURN for rows origin + begin to origin + end - 1, or LAST for these
    sentences.

    d, a: registers of row `origin`, whose rows are d_bytes and a_bytes apart.
    """
    op = code[OP]
    for row in range(begin, end):
        if op == Op.LAST:
            sentence = row
            column = rows.length[row] - 1
        else:
            sentence = rows.owner[origin + row]
            column = rows.position[origin + row] - 1
        if op == Op.TURN:
            column = rows.length[sentence] - 2 - column
        if column < 0:
            zero(d + row * d_bytes, code[N])
        else:
            copy(d + row * d_bytes, a + (rows.first[column] + sentence - origin) * a_bytes, code[N])
