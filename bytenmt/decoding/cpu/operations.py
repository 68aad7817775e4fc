"""Execute one instruction for one row, by its operation code.

Compiled as part of interpreter.py. See program.instructions.Op for the operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.compiled_hashes import fold_case, hash_ngram, mix
from bytenmt.decoding.cpu.kernels.attention import (
    attend_additive,
    attend_dot,
    attend_location,
    predict_centre,
    write_centre,
)
from bytenmt.decoding.cpu.kernels.decoder_memory import (
    fixed_address,
    gather_taps,
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
from bytenmt.decoding.cpu.kernels.instructions import (
    A_STRIDE,
    OP,
    K,
    M,
    N,
    V,
    W,
    copy,
    exp_double,
    maxout,
    mean,
    zero,
)
from bytenmt.decoding.cpu.records import Address, ModelBuffers, Rows, ThreadContext
from bytenmt.decoding.search.state import Ints
from bytenmt.jit import compiled, inlined
from bytenmt.kernel_constants import FOLD_CASE, WORD_BITS
from bytenmt.ngram_hash import N_BYTES, WORD_ORDER
from bytenmt.program.instructions import Op

EPSILON = 1e-5  # PyTorch's default for layer norms
ROW_BITS_MASK = FOLD_CASE - 1  # in k of Op.NGRAMS: the bits that hold log2 of a table's rows


@inlined
def execute_row_op(  # noqa: C901 (the dispatch by opcode)
    code: Ints, model: ModelBuffers, rows: Rows, row: int, d: Address, a: Address, b: Address
) -> None:
    """Execute, for one row, an instruction that depends on neither sentences nor states.

    Those are the operations before Op.RING, such as an embedding or a layer norm. code (fields,):
    the instruction. row: index in `rows`. d, a, b: addresses of the row's destination and sources.
    """
    op = code[OP]
    n = code[N]
    w = model.weights + code[W]
    v = model.weights + code[V]
    if op == Op.EMBED:
        copy(d, w + 4 * n * np.int64(rows.ids[row]), n)
    elif op == Op.POSITION:
        add(d, d, w + 4 * n * min(rows.position[row], code[M] - 1), n)
    elif op == Op.NGRAMS:
        add_ngrams(d, w, rows.word[row, 0], rows.word[row, 1], n, code[M], code[K])
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
        gru_update(d, a, b, n, code[K])
    elif op == Op.LSTM_STEP:
        lstm_step(d, b, a, n)
    elif op == Op.MULTIPLICATIVE:
        multiplicative(d, a, b, n)


@compiled
def add_ngrams(
    d: Address, tables: Address, word: Any, prefix: Any, n: int, orders: int, k: int
) -> None:
    """Add the embeddings of the n-grams that end with the last byte read to d (n,).

    tables: address of the first table (rows, n) of hashed n-grams; the others follow it. word,
    prefix, uint64: the last eight bytes read, and a hash of the word that they end in. orders: bit
    i is set if there is a table of i-grams. k: log2 of a table's rows, plus FOLD_CASE to ignore the
    case of letters, plus (log2 of the rows of a last table, of words, or 0) << WORD_BITS.
    """
    n_bits = k & ROW_BITS_MASK
    word_bits = k >> WORD_BITS
    key = word
    if k & FOLD_CASE:
        key = fold_case(word)
    table = tables
    for order in range(2, N_BYTES + 1):
        if (orders >> order) & 1:
            row = np.int64(hash_ngram(key, order) >> np.uint64(64 - n_bits))
            add(d, d, table + 4 * n * row, n)
            table += 4 * n << n_bits
    if word_bits > 0:
        row = np.int64(mix(prefix, WORD_ORDER) >> np.uint64(64 - word_bits))
        add(d, d, table + 4 * n * row, n)


@inlined
def execute_step_op(  # noqa: C901 (the dispatch by opcode)
    code: Ints,
    model: ModelBuffers,
    rows: Rows,
    step: Ints,
    parent: Ints,
    ctx: ThreadContext,
    row: int,
    d: Address,
    a: Address,
    b: Address,
) -> None:
    """Execute, for one row, an instruction on states or attention, which only decoder steps have.

    Its operation is one of Op.RING to PREDICT_CENTRE. code (fields,): the instruction. step
    (slots,): how many bytes each text had before this pass. parent (slots, beams): the beam of the
    step before that each beam continues. row: index in `rows`. d, a, b: addresses of the row's
    destination and sources.
    """
    op = code[OP]
    n = code[N]
    k = code[K]
    slot = rows.owner[row]
    position = rows.position[row]
    beam = rows.beam[row]
    n_beams = parent.shape[1]
    bank = position & 1
    if op == Op.RING:
        gather_taps(model, rows, step[slot], k, row, d, a, code[A_STRIDE], code[M])
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
        attend_dot(code, model, ctx, slot, d, a, b)
    elif op == Op.ATTEND_ADDITIVE:
        attend_additive(code, model, ctx, slot, d, a, b)
    elif op == Op.ATTEND_LOCATION:
        attend_location(code, model, ctx, slot, d, a, b)
    elif op == Op.CENTRE:
        write_centre(code, model, slot, position, d)
    elif op == Op.PREDICT_CENTRE:
        predict_centre(code, model, slot, d, a)


@compiled
def execute_source_op(
    code: Ints, model: ModelBuffers, rows: Rows, row: int, source: Address, scratch: Address
) -> None:
    """Execute a KEEP instruction: copy a row of the encoder's results to the decoder's memory or
    first state.

    code (fields,): the instruction. row: index of a source byte in `rows`, or of a sentence.
    source: address of the row's results, which KEEP_EXPONENTIAL overwrites. scratch: address of
    temporary memory, where a vector is rounded to int8.
    """
    op = code[OP]
    n = code[N]
    k = code[K]
    if op == Op.KEEP_FIXED:
        copy(fixed_address(model, rows.slot[row], k), source, n)
    elif op == Op.KEEP_STATE:
        n_beams = model.n_rows // len(model.columns)
        for beam in range(n_beams):
            copy(state_address(model, k, 0, rows.slot[row] * n_beams + beam), source, n)
    else:
        slot = rows.slot[rows.owner[row]]
        column = rows.position[row]
        if code[M] and column < model.source_len[slot] - 1:  # columns are reversed
            column = model.source_len[slot] - 2 - column
        if column < model.columns[slot]:
            if op == Op.KEEP_EXPONENTIAL:
                exp_double(source, source, n)
            store_column(model, slot, k, column, source, scratch)
