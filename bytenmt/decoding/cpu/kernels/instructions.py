"""What instructions do to rows, and the records of what they work on, by address.

Compiled without a cache of its own, as part of interpreter.py. A thread does its share of the rows or of the
panels of weights. Knows no models and no search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from bytenmt.decoding.cpu.kernels.barrier import barrier
from bytenmt.decoding.cpu.kernels.elementwise import span
from bytenmt.decoding.cpu.kernels.functions import exp_of, greatest, least
from bytenmt.decoding.cpu.kernels.gemm import linear_panels
from bytenmt.decoding.cpu.kernels.panels import PANEL
from bytenmt.decoding.cpu.kernels.simd import (
    FLOAT,
    INT64,
    VECTOR,
    Builder,
    Value,
    call,
    emitted,
    loop,
    pointer,
    prefetch,
    spread,
    spread_int,
    whole,
)
from bytenmt.decoding.cpu.kernels.simd import to_half as half_bits
from bytenmt.jit import compiled

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

WIDEST = (
    20.0  # of an additive score's terms: products of two exponentials stay finite, and tanh(9) is 1 already
)


def _write(b: Builder, address: Value, i: Value, x: Value) -> None:
    b.store(x, pointer(b, address, FLOAT, i))


def _count(b: Builder, address: Value, place: Value, before: Value) -> Value:
    outside = b.basic_block
    with b.if_then(b.icmp_signed("!=", address, whole(0))):
        now, at = call(b, "llvm.readcyclecounter", INT64, []), pointer(b, address, INT64, place)
        since = b.select(b.icmp_signed("!=", before, whole(0)), b.sub(now, before), whole(0))
        b.store(b.add(b.load(at), since), at)
        inside = b.basic_block
    ticks = b.phi(INT64)
    ticks.add_incoming(whole(0), outside)
    ticks.add_incoming(now, inside)
    return ticks


def _fetch(b: Builder, address: Value, n: Value) -> None:
    def line(place: Value) -> list[Value]:
        prefetch(b, b.add(address, place))
        return []

    loop(b, n, 64, [], line)


def _twice(b: Builder, x: Value) -> Value:
    near = greatest(b, least(b, x, WIDEST), -WIDEST)
    return exp_of(b, b.fadd(near, near))


def _rounded(b: Builder, x: Value) -> Value:
    return b.bitcast(b.shl(half_bits(b, x), spread_int(16)), VECTOR)


exponential = span(1, 0, _twice)  # (y, x, n): exp(2 x), x held within WIDEST
copy = span(1, 0, lambda b, x: x)  # (y, x, n)
to_half = span(1, 0, lambda b, x: x, to_half=True)  # (y, x, n): y in bfloat16
from_half = span(1, 0, lambda b, x: x, half=0)  # (y, x, n): x in bfloat16
rounded = span(1, 0, _rounded)  # (y, x, n): as if they had been in bfloat16
zero = span(0, 0, lambda b: spread(0.0))  # (y, n)
fill = span(0, 1, lambda b, value: value)  # (y, n, value)
mean = span(2, 0, lambda b, x, y: b.fmul(b.fadd(x, y), spread(0.5**0.5)))  # (y, a, b, n): (a + b) sqrt(1/2)
read = emitted(2, 0, lambda b, address, i: b.load(pointer(b, address, FLOAT, i)), types.float32)
write = emitted(2, 1, _write)
# (ticks, i, before): the ticks of now; number i of `ticks` grows by those since `before`, if that is no 0.
# Where `ticks` is 0 nothing is read.
fetch = emitted(2, 0, _fetch)  # (x, n): n bytes at x are on their way
count = emitted(3, 0, _count, types.int64)


class Crew(NamedTuple):
    """The threads of a call: this one's number, how many there are; addresses: where they meet, and scratch
    of this one's own, for scratch_bytes of every matrix or the scores of a source; and where this one counts
    the ticks that each instruction takes, and last those of whole calls, int64, 0 for nowhere."""

    thread: int
    n_threads: int
    meeting: int
    scratch: int
    ticks: int


class Model(NamedTuple):
    """A packed model and what it keeps of the sentences at its places, for compiled code.

    weights, hidden, past, memory: addresses; precision: its code; n_rows: places * beams. states
    (_, 2): floats of a row before it, width. rings (_, 4): floats of a row before it, capacity, width,
    dilation. items (_, 3): floats of a column before it, width, kind (see kept.py); fixed (_, 2): floats of a
    place before it, width. hidden: two banks of rows, which take turns; past: the rings; memory: at
    memory_at[place] floats from its start the columns[place] columns of each item, then the fixed parts.
    source_len (p,): bytes with EOS. ancestors (2, rows, h) uint8: the beam in whose rings stands the column
    of position q, at q mod h; two banks as of hidden.
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
    memory_at: Ints
    columns: Ints
    source_len: Ints
    ancestors: npt.NDArray[np.uint8]


class Rows(NamedTuple):
    """The rows of a call.

    space: address of the registers; capacity: rows that there is room for. ids (rows,) uint8: the byte that
    each reads; word (rows,) uint64: that byte and the seven before it, the newest lowest, no rows where the
    program has no tables of n-grams; position (rows,); of (rows,): a step's place, an encoder's sentence;
    beam (rows,) of a step.
    In an encoder: first (n + 1,): columns before each sentence, longer ones first; place (n,): where its
    memory goes.
    """

    space: int
    capacity: int
    ids: Bytes
    word: npt.NDArray[np.uint64]
    position: Ints
    of: Ints
    beam: Ints
    first: Ints
    place: Ints


@compiled
def share(n: int, crew: Crew) -> tuple[int, int]:
    """This thread's part of n pieces of work: first, last + 1."""
    return n * crew.thread // crew.n_threads, n * (crew.thread + 1) // crew.n_threads


@compiled
def meet(crew: Crew) -> bool:
    """Wait for the other threads. False: one of them has failed, and this one must end the call, too."""
    if crew.n_threads > 1:
        return barrier(crew.meeting, crew.n_threads)
    return True


@compiled
def product(
    model: Model,
    crew: Crew,
    y: int,
    y_stride: int,
    x: int,
    x_stride: int,
    n_rows: int,
    w: int,
    scales: int,
    n: int,
    m: int,
    base: int,
    base_stride: int,
) -> None:
    """y = base + W x: this thread's panels of n outputs, m inputs; base: an address, 0 for nothing."""
    first, last = share((n + PANEL - 1) // PANEL, crew)
    matrix = model.weights + w
    scaled = model.weights + scales
    linear_panels(
        x, x_stride, n_rows, matrix, m, y, y_stride, first, last, model.precision, base, base_stride, scaled,
        crew.scratch,
    )  # fmt: skip


@compiled
def maxout(d: int, a: int, n: int) -> None:
    """A row: the larger of each of n pairs."""
    for i in range(n):
        write(d, i, max(read(a, 2 * i), read(a, 2 * i + 1)))


@compiled
def windows(
    rows: Rows, begin: int, end: int, d: int, d_stride: int, a: int, a_stride: int, width: int, taps: int,
    dilation: int,
) -> None:  # fmt: skip
    """Rows `begin` to `end` - 1: d = the columns around a row's, zero outside of its sentence; d, a: of the
    first row of all.

    An even number of taps looks one column further to the right.
    """
    for row in range(begin, end):
        sentence, to = rows.of[row], d + 4 * row * d_stride
        first = row - (taps - 1) * dilation // 2
        for tap in range(taps):
            at = first + tap * dilation
            if rows.first[sentence] <= at < rows.first[sentence + 1]:
                copy(to + 4 * tap * width, a + 4 * at * a_stride, width)
            else:
                zero(to + 4 * tap * width, width)
