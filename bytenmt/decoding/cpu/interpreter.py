"""The interpreter: executes the programs of models (program/) and steps of the search, in one
compiled function.

All threads execute the same instructions, each on its range of the rows or panels, and wait for
each other after each instruction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.attention import (
    attend_additive,
    attend_dot,
    attend_location,
    predict_centre,
    write_centre,
)
from bytenmt.decoding.cpu.kernels.barrier import barrier
from bytenmt.decoding.cpu.kernels.decoder_memory import (
    fixed_address,
    gather_taps,
    inherit_ancestors,
    item_column,
    state_address,
    store_column,
)
from bytenmt.decoding.cpu.kernels.elementwise import (
    add,
    glu,
    gru_reset,
    gru_update,
    layer_norm,
    lstm_step,
    multiplicative,
    relu,
    tanh,
)
from bytenmt.decoding.cpu.kernels.gemm import linear_panels
from bytenmt.decoding.cpu.kernels.instructions import (
    Bytes,
    Ints,
    ModelBuffers,
    Rows,
    ThreadContext,
    copy,
    copy_columns,
    exp_double,
    gather_windows,
    maxout,
    mean,
    padded,
    thread_range,
    zero,
)
from bytenmt.decoding.cpu.scoring import (
    append_byte,
    n_columns_of,
    record_attention,
    score_forced_bytes,
    write_log_p,
)
from bytenmt.decoding.search.beam_search import choose_bytes
from bytenmt.decoding.search.state import RUNNING, SearchParams, SearchState
from bytenmt.jit import compiled, inlined, njit_borrowing
from bytenmt.kernel_constants import FOLD_CASE, PANEL, WORD_BITS
from bytenmt.ngram_hash import N_BYTES, START, WORD_ORDER, fold_case, hash_ngram, mix
from bytenmt.program.instructions import Field, LinearBase, Op, RowKind

EPSILON = 1e-5  # PyTorch's default for layer norms
# The columns of an instruction as plain integers.
(OP, D_START, D_STRIDE, D_COLUMN, A_START, A_STRIDE, A_COLUMN, B_START, B_STRIDE, B_COLUMN) = map(
    int, list(Field)[:10]
)
W, V, S, T, N, M, K, ROWS = map(int, list(Field)[10:])
N_ROW_BITS = FOLD_CASE - 1  # mask of the bits of a row number in the operand of Op.NGRAMS
START_WORD, NO_PREFIX = np.uint64(START), np.uint64(0)  # what an empty text has read


@compiled
def execute(
    program: Ints, model: ModelBuffers, rows: Rows, search: SearchState, ctx: ThreadContext, n_all: int,
    n_columns: int,
) -> None:  # fmt: skip
    """Execute a program, (instructions, len(Field)), over the first n_all rows; all threads of ctx
    call it.

    n_columns: rows of each text; in an encoder, of the longest. A serial part of the program, whose
    rows depend on each other, is executed for the first row of all texts, then for the second, and
    so on.
    """
    # Records are passed to inlined functions number by number: pass a few arrays, not the whole
    # search.
    step, parent, forced = search.step, search.parent, search.forced
    layer = 0  # attention instructions before this one
    part, part_layer, column = 0, 0, 0  # where a serial part begins, and its current column
    pc = 0
    while pc < len(program):
        code = program[pc]
        op, n, m, k = code[OP], code[N], code[M], code[K]
        n_rows, origin, every = len(rows.slot) if code[ROWS] == RowKind.SENTENCES else n_all, 0, 1
        if code[ROWS] == RowKind.SERIAL:
            if len(rows.first) > 0:  # the sources of an encoder, column by column
                origin = rows.first[column]
                n_rows = rows.first[min(column + 1, n_columns)] - origin  # 0 without any column
            else:
                n_rows, origin, every = n_rows // n_columns, column, n_columns
        d, ds = rows.space + 4 * (code[D_START] * rows.capacity + code[D_COLUMN]), code[D_STRIDE]
        a, as_ = rows.space + 4 * (code[A_START] * rows.capacity + code[A_COLUMN]), code[A_STRIDE]
        b, bs = rows.space + 4 * (code[B_START] * rows.capacity + code[B_COLUMN]), code[B_STRIDE]
        d, a, b = d + 4 * origin * ds, a + 4 * origin * as_, b + 4 * origin * bs
        ds, as_, bs = every * ds, every * as_, every * bs
        w, v = model.weights + code[W], model.weights + code[V]
        first, last = thread_range(n_rows, ctx)
        if op == Op.LINEAR:
            base, base_stride = 0, 0
            if k == LinearBase.BIAS:
                base = v
            elif k == LinearBase.OWN:
                base, base_stride = d, ds
            first, last = thread_range(
                padded(n) // PANEL, ctx
            )  # each thread computes a range of the outputs
            linear_panels(
                a, as_, n_rows, w, m, d, ds, first, last, model.precision, base, base_stride,
                model.weights + code[S], ctx.scratch,
            )  # fmt: skip
        elif op < Op.RING:
            for row in range(first, last):
                execute_row_op(
                    op, rows.ids, rows.word, rows.position, origin + every * row, d + 4 * row * ds, a + 4 *
                    row * as_, b + 4 * row * bs, w, v, n, m, k,
                )  # fmt: skip
        elif op < Op.WINDOW:
            for row in range(first, last):
                execute_step_op(
                    op, model, rows, step, parent, ctx, origin + every * row, d + 4 * row * ds, a + 4 * row *
                    as_, b + 4 * row * bs, code,
                )  # fmt: skip
                if forced.attention.shape[2] > 0 and Op.ATTEND_DOT <= op <= Op.ATTEND_LOCATION:
                    bound, rooted = (
                        m if op == Op.ATTEND_LOCATION else 0,
                        op == Op.ATTEND_DOT and k != 0,
                    )
                    record_attention(
                        model, rows, forced, step, ctx, origin + every * row, layer, b + 4 * row * bs,
                        code[S], bound, rooted,
                    )  # fmt: skip
            layer += Op.ATTEND_DOT <= op <= Op.ATTEND_LOCATION
        elif op == Op.WINDOW:
            gather_windows(rows, first, last, d, ds, a, as_, n // m, m, k)
        elif op < Op.KEEP:
            copy_columns(op, rows, first, last, origin, d, ds, a, as_, n)
        else:
            for row in range(first, last):
                execute_source_op(op, model, rows, row, a + 4 * row * as_, n, m, k, ctx.scratch)
        if not barrier(ctx.barrier, ctx.n_threads):
            return
        pc += 1
        if code[ROWS] != RowKind.SERIAL:
            part, part_layer = pc, layer
        elif pc == len(program) or program[pc, ROWS] != RowKind.SERIAL:
            column += 1
            if column < n_columns:
                pc, layer = part, part_layer
            else:
                column = 0


@inlined
def execute_row_op(
    op: int, ids: Bytes, word: Any, position: Ints, row: int, d: int, a: int, b: int, w: int, v: int, n: int,
    m: int, k: int,
) -> None:  # fmt: skip
    """Execute an instruction before Op.RING, which depends on neither sentences nor states, for one
    row.

    d, a, b, w, v: addresses of its destination, sources and weights. n, m, k: its numbers, see Op.
    ids, word,
    position: what the rows have read, see Rows.
    """
    if op == Op.EMBED:
        copy(d, w + 4 * n * np.int64(ids[row]), n)
    elif op == Op.POSITION:
        add(d, d, w + 4 * n * min(position[row], m - 1), n)
    elif op == Op.ADD_VECTOR:
        add(d, d, v, n)
    elif op == Op.NORM:
        layer_norm(d, a, w, v, n, EPSILON)
    elif op == Op.RELU:
        relu(d, d, n)
    elif op == Op.TANH:
        tanh(d, d, n)
    elif op == Op.COPY:
        copy(d, a, n)
    elif op == Op.GLU:
        glu(d, a, a + 4 * n, n)
    elif op == Op.MEAN:
        mean(d, a, b, n)
    elif op == Op.MAXOUT:
        maxout(d, a, n)
    elif op == Op.GRU_RESET:
        gru_reset(d, a, b, n)
    elif op == Op.GRU_STEP:
        gru_update(d, a, b, n, k)
    elif op == Op.LSTM_STEP:
        lstm_step(d, b, a, n)
    elif op == Op.MULTIPLICATIVE:
        multiplicative(d, a, b, n)
    elif op == Op.NGRAMS:
        add_ngrams(d, w, word[row, 0], word[row, 1], n, m, k)


@compiled
def add_ngrams(d: int, tables: int, word: Any, prefix: Any, n: int, orders: int, k: int) -> None:
    """Add the embeddings of the n-grams that end with a byte to d (n,); see layers/ngram_tables.py.

    tables: address of the first table. word, prefix: the last eight bytes read and the hash of the
    word so far, uint64, see ngram_hash.py. orders: bit i is set if there is a table of i-grams. k:
    log2 of a table's rows, FOLD_CASE to ignore case, and from bit WORD_BITS on log2 of the rows of
    a table of words, or 0.
    """
    n_bits, word_bits = k & N_ROW_BITS, k >> WORD_BITS
    key = fold_case(word) if k & FOLD_CASE else word
    table = tables
    for order in range(2, N_BYTES + 1):
        if (orders >> order) & 1:
            row = np.int64(hash_ngram(key, order) >> np.uint64(64 - n_bits))
            add(d, d, table + 4 * n * row, n)
            table += 4 * n << n_bits
    if word_bits > 0:
        add(d, d, table + 4 * n * np.int64(mix(prefix, WORD_ORDER) >> np.uint64(64 - word_bits)), n)


@inlined
def execute_step_op(
    op: int, model: ModelBuffers, rows: Rows, step: Ints, parent: Ints, ctx: ThreadContext, row: int, d: int,
    a: int, b: int, code: Ints,
) -> None:  # fmt: skip
    """Execute an instruction that only decoder steps have, Op.RING to PREDICT_CENTRE, for one row.
    d, a, b: addresses of its destination and sources. code: the instruction. step (p,), parent (p,
    beams): of the search, see SearchState."""
    n, m, k, v = code[N], code[M], code[K], code[V]
    slot, beam, position = rows.owner[row], rows.beam[row], rows.position[row]
    n_beams, bank = parent.shape[1], position & 1
    if op == Op.RING:
        gather_taps(model, rows, step[slot], k, row, d, a, code[A_STRIDE], m)
    elif op == Op.READ_STATE:
        copy(d, state_address(model, k, bank, slot * n_beams + parent[slot, beam]), n)
    elif op == Op.WRITE_STATE:
        copy(state_address(model, k, 1 - bank, slot * n_beams + beam), a, n)
    elif op == Op.COLUMN:
        if position >= model.columns[slot]:
            zero(d, n)
        else:
            copy(d, item_column(model, slot, k, position), n)
    elif op == Op.FIXED:
        copy(d, fixed_address(model, slot, k), n)
    elif op == Op.ATTEND_DOT:
        attend_dot(model, ctx, slot, d, n, a, m, v, k, b, code[S], code[T])
    elif op == Op.ATTEND_ADDITIVE:
        attend_additive(model, ctx, slot, d, n, a, code[W], m, v, b, code[S], code[T])
    elif op == Op.ATTEND_LOCATION:
        attend_location(model, ctx, slot, d, n, a, m, v, k, b, code[S], code[T])
    elif op == Op.CENTRE:
        write_centre(model, slot, position, m, d)
    elif op == Op.PREDICT_CENTRE:
        predict_centre(model, slot, a, model.weights + code[W], n, m, d)


@compiled
def execute_source_op(
    op: int,
    model: ModelBuffers,
    rows: Rows,
    row: int,
    source: int,
    n: int,
    m: int,
    k: int,
    scratch: int,
) -> None:
    """Execute a KEEP instruction: copy a row of the encoder's results to the decoder's memory or
    first state.

    source: address of the row's register, which KEEP_EXPONENTIAL overwrites. n: its width. k:
    number of the memory's item or of the state's part. m: not 0 where columns are reversed.
    scratch: see store_column.
    """
    if op == Op.KEEP_FIXED:
        copy(fixed_address(model, rows.slot[row], k), source, n)
    elif op == Op.KEEP_STATE:
        n_beams = model.n_rows // len(model.columns)
        for beam in range(n_beams):
            copy(state_address(model, k, 0, rows.slot[row] * n_beams + beam), source, n)
    else:
        slot, column = rows.slot[rows.owner[row]], rows.position[row]
        if m and column < model.source_len[slot] - 1:
            column = model.source_len[slot] - 2 - column
        if column < model.columns[slot]:
            if op == Op.KEEP_EXPONENTIAL:
                exp_double(source, source, n)
            store_column(model, slot, k, column, source, scratch)


@compiled
def begin_pass(model: ModelBuffers, rows: Rows, search: SearchState) -> int:
    """Fill `rows` with the bytes that the running sentences read in the next pass; return their
    number.

    Also sets search.row_slot, n_rows and word and, with several beams, updates the ancestors of
    ring buffers.
    """
    forced, n_beams, row = search.forced, search.last.shape[1], 0
    for slot in range(len(search.state)):
        if search.state[slot] != RUNNING:
            continue
        if len(model.rings) > 0 and n_beams > 1:
            inherit_ancestors(model, slot, search.parent[slot], search.step[slot])
        for beam in range(n_beams):
            for column in range(n_columns_of(search, slot)):
                search.row_slot[row] = rows.owner[row] = slot
                rows.beam[row], rows.position[row] = beam, search.step[slot] + column
                rows.ids[row] = search.last[slot, beam]
                if column > 0:
                    rows.ids[row] = forced.text[slot, forced.n_read[slot] + column - 1]
                if len(rows.word) > 0:
                    bank, parent = search.step[slot] & 1, search.parent[slot, beam]
                    before = (
                        rows.word[row - 1] if column > 0 else search.word[1 - bank, slot, parent]
                    )
                    read_byte(rows, row, before)
                    if column == 0:
                        for k in range(2):
                            search.word[bank, slot, beam, k] = rows.word[row, k]
                row += 1
    search.n_rows[0] = row
    return row


@compiled
def read_byte(rows: Rows, row: int, before: Any) -> None:
    """Set the word of a row from that before its byte, (2,) uint64: see Rows."""
    for k in range(2):
        rows.word[row, k] = before[k]
    append_byte(rows.word[row], rows.ids[row])


@njit_borrowing
def run(
    program: Ints,
    logits: Ints,
    model: ModelBuffers,
    rows: Rows,
    search: SearchState,
    params: SearchParams,
    which: int,
    n_steps: int,
    ctx: ThreadContext,
) -> None:
    """Execute n_steps decode steps of one model for all running sentences, or fewer if all of them
    end.

    A step executes the program, stores the logits in `search` and, for the last model of an
    ensemble, chooses the next bytes (or scores those of fixed texts). All threads of ctx must call
    it at once.

    which: the model's number in the ensemble, from 0. n_steps = 0: the program is an encoder's, and
    is executed once over the rows as they are.
    logits (3,): start, stride and column of the register that holds the logits after a step.
    """
    if n_steps == 0:
        if ctx.thread == 0:
            for row in range(len(rows.word)):
                column = rows.position[row]
                if column == 0:
                    rows.word[row, 0], rows.word[row, 1] = START_WORD, NO_PREFIX
                    append_byte(rows.word[row], rows.ids[row])
                else:
                    read_byte(rows, row, rows.word[rows.first[column - 1] + rows.owner[row]])
        if not barrier(ctx.barrier, ctx.n_threads):
            return
        execute(program, model, rows, search, ctx, len(rows.ids), len(rows.first) - 1)
    for _ in range(n_steps):
        if ctx.thread == 0:
            begin_pass(model, rows, search)
        if not barrier(ctx.barrier, ctx.n_threads):
            return
        n_rows = search.n_rows[0]
        if n_rows == 0:
            break
        n_columns = n_columns_of(search, search.row_slot[0]) if len(model.states) > 0 else 1
        execute(program, model, rows, search, ctx, n_rows, n_columns)
        if ctx.thread == 0:
            start = rows.space + 4 * (logits[0] * rows.capacity + logits[2])
            for row in range(n_rows):
                target = search.logits[which, row]
                copy(target.ctypes.data, start + 4 * row * logits[1], len(target))
            if which == len(search.logits) - 1:
                write_log_p(search)
                if len(search.forced.n_text) > 0:
                    score_forced_bytes(search)
                else:
                    choose_bytes(search, params)
        if not barrier(ctx.barrier, ctx.n_threads):
            return
