"""Execute basic operations of instructions.

Compiled as part of interpreter.py. Each thread computes its range of the rows, or of the panels of
weights.
"""

from __future__ import annotations

from typing import NamedTuple

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
from bytenmt.decoding.cpu.records import Address, Rows, ThreadContext
from bytenmt.decoding.search.state import Ints
from bytenmt.jit import compiled, inlined
from bytenmt.program import instructions
from bytenmt.program.instructions import Field, Op

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


def _exp_double(b: Builder, x: Value) -> Value:
    near = at_least(b, at_most(b, x, SCORE_LIMIT), -SCORE_LIMIT)
    return emit_exp(b, b.fadd(near, near))


# Kernels over n numbers; their first arguments, y, x, a and b, are addresses.
exp_double = map_kernel(1, 0, _exp_double)  # (y, x, n): exp(2 x), with x clamped to SCORE_LIMIT
copy = map_kernel(1, 0, lambda b, x: x)  # (y, x, n)
zero = map_kernel(0, 0, lambda b: splat(0.0))  # (y, n)
fill = map_kernel(0, 1, lambda b, value: value)  # (y, n, value)
# (y, a, b, n): (a + b) sqrt(1/2)
mean = map_kernel(2, 0, lambda b, x, y: b.fmul(b.fadd(x, y), splat(0.5**0.5)))
# (x, i): x[i]
load_float = emit_function(2, 0, lambda b, x, i: b.load(pointer(b, x, FLOAT, i)), types.float32)
store_float = emit_function(2, 1, _store_float)  # (y, i, value): y[i] = value
prefetch_range = emit_function(2, 0, _prefetch_range)  # (x, n): prefetch n bytes at x


class RowSelection(NamedTuple):
    """The rows for which an instruction is executed: origin + every * i for i < n_rows."""

    n_rows: int
    origin: int
    every: int


@inlined
def register_address(rows: Rows, start: int, column: int) -> int:
    """Return the address of row 0 of a register, which holds a vector of float32 for each row.

    start: floats per row of the registers before it. column: the first float within the register.
    """
    return int(rows.space + 4 * (start * rows.capacity + column))


@compiled
def thread_range(n: int, ctx: ThreadContext) -> tuple[int, int]:
    """Return this thread's share of n pieces of work as a range (first, last + 1)."""
    return n * ctx.thread // ctx.n_threads, n * (ctx.thread + 1) // ctx.n_threads


padded = compiled(instructions.padded)


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
    """Copy the inputs of an encoder's convolution from a to d, for rows begin to end - 1.

    A row is a source byte. It gets the vectors of the bytes around it (the window), zeros outside
    its sentence. If one side has to be longer, it is the right one. code (fields,): the instruction
    Op.WINDOW, with taps and dilation. d, a: addresses of row 0; rows are d_bytes and a_bytes apart.
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
    """Copy vectors of source bytes from a to d, for rows origin + begin to origin + end - 1.

    code (fields,): the instruction. Op.PREVIOUS gives each row (source byte) the vector of the byte
    before it, TURN reverses each sentence, LAST gives each row, a sentence here, the vector of its
    last byte; zeros where there is none. d, a: addresses of row `origin`, whose rows are d_bytes
    and a_bytes apart.
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
