"""Compute log-probabilities from the models' logits: of all next bytes for the search, and of the
bytes of given texts.

Compiled as part of interpreter.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.attention import n_visible, window_range
from bytenmt.decoding.cpu.kernels.elementwise import exp_sum, row_max
from bytenmt.decoding.cpu.kernels.instructions import OP, K, M, S, load_float
from bytenmt.decoding.cpu.pass_rows import append_byte, n_columns_of
from bytenmt.decoding.cpu.records import Address, ModelBuffers, Rows, ThreadContext
from bytenmt.decoding.search.state import DONE, ForcedText, Ints, SearchState
from bytenmt.jit import compiled
from bytenmt.program.instructions import Op
from bytenmt.utf8 import N_IDS


@compiled
def write_log_p(search: SearchState) -> None:
    """Set search.log_p of all rows of the pass from search.logits, averaging the models'
    probabilities."""
    for row in range(search.n_rows[0]):
        log_softmax(search.logits, row, search.log_p[row], search.work.exponentials)


@compiled
def log_softmax(logits: Any, row: int, merged: Any, exponentials: Any) -> None:
    """Set merged (256,) float32 to the logarithm of the mean of the models' probabilities in a row.

    logits (models, rows, 256). exponentials (256,) float32: overwritten. The result is NaN
    everywhere if any logit in the row is NaN.
    """
    n_models = logits.shape[0]
    for model in range(n_models):
        values = logits[model, row]
        highest = row_max(values.ctypes.data, N_IDS)
        total = exp_sum(exponentials.ctypes.data, values.ctypes.data, N_IDS, highest)
        shift = np.float32(highest + np.float32(math.log(total)))
        for byte in range(N_IDS):
            value = np.float32(values[byte] - shift)
            if model == 0:
                merged[byte] = value
            else:
                higher = max(merged[byte], value)
                lower = min(merged[byte], value)
                merged[byte] = higher + np.float32(math.log1p(math.exp(lower - higher)))
    if n_models > 1:
        for byte in range(N_IDS):
            merged[byte] -= np.float32(math.log(n_models))


@compiled
def record_attention(
    code: Ints,
    model: ModelBuffers,
    rows: Rows,
    forced: ForcedText,
    step: Ints,
    ctx: ThreadContext,
    row: int,
    layer: int,
    centre: Address,
) -> None:
    """Store the attention weights of one byte of a fixed text, a row, in forced.attention.

    code (fields,): its attention instruction, which has just left them in ctx.scratch. step
    (slots,): number of bytes read before this pass. row: index in `rows`. layer: number of
    attention instructions before this one. centre: address of the source position at the middle of
    local attention's window. Weights that the instruction has multiplied by the square root of the
    source length are divided by it.
    """
    slot = rows.owner[row]
    bound = 0
    if code[OP] == Op.ATTEND_LOCATION:
        bound = code[M]
    factor = 1.0
    if code[OP] == Op.ATTEND_DOT and code[K] != 0:
        factor = math.sqrt(model.source_len[slot])
    target_position = forced.n_read[slot] + rows.position[row] - step[slot]
    first, last = window_range(n_visible(model, slot, bound), centre, code[S])
    weights = forced.attention[slot, target_position, layer]
    for j in range(len(weights)):
        weights[j] = np.float32(0)
    for j in range(first, last):
        weights[j] = np.float32(load_float(ctx.scratch, j - first) / factor)


@compiled
def score_forced_bytes(search: SearchState) -> None:
    """Store the log-probability and rank of each byte of the fixed texts that a pass has predicted.

    The log-probabilities are in search.log_p. Each text then advances by the bytes that were
    scored; a text that has been scored to its end gets the state DONE.
    """
    forced = search.forced
    first = 0
    while first < search.n_rows[0]:
        slot = search.row_slot[first]
        n = n_columns_of(search, slot)
        read = forced.n_read[slot]
        for column in range(n):
            log_p = search.log_p[first + column]
            byte = forced.text[slot, read + column]
            rank = 0  # how many bytes are likelier, or as likely and of lower value
            for other in range(N_IDS):
                rank += log_p[other] > log_p[byte] or (log_p[other] == log_p[byte] and other < byte)
            forced.rank[slot, read + column] = rank
            # An ensemble's may be rounded up beyond 0.
            forced.log_p[slot, read + column] = min(log_p[byte], np.float32(0))
        bank = search.step[slot] & 1
        word = search.word[bank, slot, 0]
        for column in range(n - 1):  # its first byte is there already
            append_byte(word, forced.text[slot, read + column])
        for k in range(2):
            search.word[1 - bank, slot, 0, k] = word[k]
        search.last[slot, 0] = forced.text[slot, read + n - 1]
        search.step[slot] += n
        forced.n_read[slot] = read + n
        if read + n == forced.n_text[slot]:
            search.state[slot] = DONE
        first += n
