"""The machine: carries out the programs of program/, and steps of the search, in one compiled function.

All threads run the same instructions, each on its share of the rows or panels, and meet after each one.
Knows the instructions; knows no models and no files.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.kernels.elementwise import (
    add,
    glu,
    layer_norm,
    lstm_step,
    multiplicative,
    relu,
    tanh,
)
from bytenmt.decoding.cpu.kernels.instructions import (
    Crew,
    Model,
    Rows,
    attend_additive,
    attend_dot,
    copy,
    exponential,
    fixed_at,
    inherit,
    item_at,
    maxout,
    mean,
    meet,
    product,
    read_ring,
    share,
    state_at,
    window,
    zero,
)
from bytenmt.decoding.cpu.kernels.recurrences import gru_new, gru_reset, gru_scan, lstm_scan
from bytenmt.decoding.cpu.kernels.simd import compiled
from bytenmt.decoding.cpu.program.instructions import Base, Op
from bytenmt.decoding.cpu.program.instructions import Rows as RowKind
from bytenmt.decoding.cpu.search.beam_search import choose, gather_rows
from bytenmt.decoding.cpu.search.drafter import Drafter, try_guesses
from bytenmt.decoding.cpu.search.slots import Rules, SearchState
from bytenmt.jit import njit

Ints = npt.NDArray[np.int64]
EPSILON = 1e-5  # of PyTorch's layer norm
# As plain numbers, which is what compiled code compares with.
(EMBED, POSITION, LINEAR, ADD_VECTOR, NORM_RELU, RELU, TANH, COPY, GLU, MEAN, MAXOUT) = map(
    int, list(Op)[:11]
)
GRU_RESET, GRU_STEP, LSTM_STEP = int(Op.GRU_RESET), int(Op.GRU_STEP), int(Op.LSTM_STEP)
NORM, MULTIPLICATIVE = int(Op.NORM), int(Op.MULTIPLICATIVE)
RING, READ_STATE, WRITE_STATE = int(Op.RING), int(Op.READ_STATE), int(Op.WRITE_STATE)
COLUMN, FIXED = int(Op.COLUMN), int(Op.FIXED)
ATTEND_DOT, ATTEND_ADDITIVE = int(Op.ATTEND_DOT), int(Op.ATTEND_ADDITIVE)
WINDOW, GRU_SCAN, LSTM_SCAN = int(Op.WINDOW), int(Op.GRU_SCAN), int(Op.LSTM_SCAN)
KEEP, KEEP_EXPONENTIAL = int(Op.KEEP), int(Op.KEEP_EXPONENTIAL)
KEEP_FIXED, KEEP_STATE = int(Op.KEEP_FIXED), int(Op.KEEP_STATE)
SENTENCES, BIAS, OWN = int(RowKind.SENTENCES), int(Base.BIAS), int(Base.OWN)


@compiled
def execute(program: Ints, model: Model, rows: Rows, places: SearchState, crew: Crew) -> None:
    """Carry out a program over all rows."""
    for pc in range(len(program)):
        one = program[pc]
        op, n, m, k = one[0], one[14], one[15], one[16]
        n_rows = len(rows.place) if one[17] == SENTENCES else len(rows.ids)
        d, ds = rows.space + 4 * (one[1] * rows.capacity + one[3]), one[2]
        a, as_ = rows.space + 4 * (one[4] * rows.capacity + one[6]), one[5]
        b, bs = rows.space + 4 * (one[7] * rows.capacity + one[9]), one[8]
        w, v = model.weights + one[10], model.weights + one[11]
        first, last = share(n_rows, crew)
        if op == LINEAR:
            base, base_stride = 0, 0
            if k == BIAS:
                base = v
            elif k == OWN:
                base, base_stride = d, ds
            product(model, crew, d, ds, a, as_, n_rows, one[10], one[12], n, m, base, base_stride)
        elif op == GRU_SCAN:
            gru_scan(
                model, rows, crew, d, ds, a, as_, b, bs, one[10], one[11], one[12], one[13], n, m, k
            )  # fmt: skip
        elif op == LSTM_SCAN:
            lstm_scan(model, rows, crew, d, ds, a, as_, b, bs, one[10], one[12], n, m)
        elif op < RING:
            for row in range(first, last):
                arithmetic(
                    op, rows, row, d + 4 * row * ds, a + 4 * row * as_, b + 4 * row * bs, w, v, n, m, k
                )  # fmt: skip
        elif op < WINDOW:
            for row in range(first, last):
                of_step(op, model, rows, places, crew, row, d + 4 * row * ds, a + 4 * row * as_, one)
        else:
            for row in range(first, last):
                of_source(op, model, rows, row, d + 4 * row * ds, a, as_, n, m, k)
        meet(crew)


@compiled
def arithmetic(
    op: int, rows: Rows, row: int, d: int, a: int, b: int, w: int, v: int, n: int, m: int, k: int
) -> None:
    """One row of an instruction that knows neither sentences nor states."""
    if op == EMBED:
        copy(d, w + 4 * n * np.int64(rows.ids[row]), n)
    elif op == POSITION:
        add(d, d, w + 4 * n * min(rows.position[row], m - 1), n)
    elif op == ADD_VECTOR:
        add(d, d, v, n)
    elif op == NORM_RELU:
        layer_norm(d, a, w, v, n, EPSILON)
        relu(d, d, n)
    elif op == RELU:
        relu(d, d, n)
    elif op == TANH:
        tanh(d, d, n)
    elif op == COPY:
        copy(d, a, n)
    elif op == GLU:
        glu(d, a, a + 4 * n, n)
    elif op == MEAN:
        mean(d, a, b, n)
    elif op == MAXOUT:
        maxout(d, a, n)
    elif op == GRU_RESET:
        gru_reset(d, a, b, n)
    elif op == GRU_STEP:
        gru_new(d, a, b, n, k)
    elif op == LSTM_STEP:
        lstm_step(d, b, a, n)
    elif op == NORM:
        layer_norm(d, a, w, v, n, EPSILON)
    elif op == MULTIPLICATIVE:
        multiplicative(d, a, b, n)


@compiled
def of_step(
    op: int, model: Model, rows: Rows, places: SearchState, crew: Crew, row: int, d: int, a: int, one: Ints
) -> None:
    """One row of an instruction that only a step has."""
    n, m, k, v = one[14], one[15], one[16], one[11]
    place, beam, position = rows.of[row], rows.beam[row], rows.position[row]
    n_beams = places.last.shape[1]
    bank = position & 1
    if op == RING:
        read_ring(model, rows, places.step[place], k, row, d, a, one[5], m)
    elif op == READ_STATE:
        copy(d, state_at(model, k, bank, place * n_beams + places.parent[place, beam]), n)
    elif op == WRITE_STATE:
        copy(state_at(model, k, 1 - bank, place * n_beams + beam), a, n)
    elif op == COLUMN:
        if position < model.columns[place]:
            copy(d, item_at(model, place, k) + 4 * n * position, n)
        else:
            zero(d, n)
    elif op == FIXED:
        copy(d, fixed_at(model, place, k), n)
    elif op == ATTEND_DOT:
        attend_dot(model, crew, place, d, n, a, m, v, k)
    elif op == ATTEND_ADDITIVE:
        attend_additive(model, crew, place, d, n, a, one[10], m, v)


@compiled
def of_source(
    op: int, model: Model, rows: Rows, row: int, d: int, a: int, a_stride: int, n: int, m: int, k: int
) -> None:
    """One row of an instruction that only an encoder has; a: of the first row."""
    own = a + 4 * row * a_stride
    if op == WINDOW:
        window(rows, row, d, a, a_stride, n // m, m, k)
    elif op == KEEP_FIXED:
        copy(fixed_at(model, rows.place[row], k), own, n)
    elif op == KEEP_STATE:
        n_beams = model.n_rows // len(model.columns)
        for beam in range(n_beams):
            copy(state_at(model, k, 0, rows.place[row] * n_beams + beam), own, n)
    else:
        place, column = rows.place[rows.of[row]], rows.position[row]
        if column < model.columns[place]:
            there = item_at(model, place, k) + 4 * n * column
            if op == KEEP:
                copy(there, own, n)
            else:
                exponential(there, own, n)


@compiled
def begin_step(model: Model, rows: Rows, places: SearchState) -> int:
    """List the rows of a pass, and hand the rings down from the parents; returns how many rows."""
    gather_rows(places)
    for row in range(places.n_rows[0]):
        place, beam, column = places.rows[row]
        rows.of[row], rows.beam[row] = place, beam
        rows.position[row] = places.step[place] + column
        rows.ids[row] = places.drafted[place, column - 1] if column > 0 else places.last[place, beam]
        if beam == 0 and column == 0 and len(model.rings) > 0:
            inherit(model, place, places.parent[place], places.step[place])
    return int(places.n_rows[0])


@compiled
def first_rows(rows: Rows, n: int) -> Rows:
    """The first n of a step's rows."""
    return Rows(
        rows.space, rows.capacity, rows.ids[:n], rows.position, rows.of, rows.beam, rows.first, rows.place
    )


@njit
def run(
    program: Ints,
    logits: Ints,
    model: Model,
    rows: Rows,
    places: SearchState,
    rules: Rules,
    drafter: Drafter,
    which: int,
    n_steps: int,
    crew: Crew,
) -> None:
    """n passes of model `which` over all running sentences; the first model's begin with a draft, the
    last one's choose the bytes. None: the program of an encoder, once, over the rows as they are given.

    logits (3,): start, stride and column of the register that holds them after a step.
    """
    if n_steps == 0:
        execute(program, model, rows, places, crew)
    for _ in range(n_steps):
        if crew.thread == 0:
            if which == 0:
                try_guesses(places, drafter)
            begin_step(model, rows, places)
        meet(crew)
        n_rows = places.n_rows[0]
        if n_rows == 0:
            break
        execute(program, model, first_rows(rows, n_rows), places, crew)
        if crew.thread == 0:
            start = rows.space + 4 * (logits[0] * rows.capacity + logits[2])
            for row in range(n_rows):
                there = places.logits[which, row]
                copy(there.ctypes.data, start + 4 * row * logits[1], len(there))
            if which == len(places.logits) - 1:
                choose(places, rules, drafter)
        meet(crew)
