"""Log-probabilities from the models' logits: of all next bytes for the search, and of the bytes of
given texts.

Compiled as part of interpreter.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.attention import n_visible, window_range
from bytenmt.decoding.cpu.kernels.elementwise import exp_sum, row_max
from bytenmt.decoding.cpu.kernels.instructions import ModelBuffers, Rows, ThreadContext, load_float
from bytenmt.decoding.search.state import DONE, ForcedText, Ints, SearchState
from bytenmt.jit import allocating, compiled, inlined
from bytenmt.ngram_hash import extend_prefix, without_form
from bytenmt.utf8 import N_IDS

BYTE = np.uint64(8)


@allocating
def write_log_p(search: SearchState) -> None:
    """Set search.log_p of all rows of the pass from search.logits, averaging the models'
    probabilities."""
    for row in range(search.n_rows[0]):
        log_softmax(search.logits, row, search.log_p[row])


@allocating
def log_softmax(logits: Any, row: int, merged: Any) -> None:
    """Set merged (256,) float32 to the logarithm of the mean of the models' probabilities in a row.

    logits (models, rows, 256). The result is NaN everywhere if any logit in the row is NaN.
    """
    n_models = logits.shape[0]
    exponentials = np.empty(N_IDS, np.float32)
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
                higher, lower = max(merged[byte], value), min(merged[byte], value)
                merged[byte] = higher + np.float32(math.log1p(math.exp(lower - higher)))
    if n_models > 1:
        for byte in range(N_IDS):
            merged[byte] -= np.float32(math.log(n_models))


@inlined
def n_columns_of(search: SearchState, slot: int) -> int:
    """Return how many bytes of a sentence a pass reads for each beam: one, or several of a forced
    text.

    The first one is the last byte of the pass before. The last byte of a text is predicted but not
    read.
    """
    if len(search.forced.n_text) == 0:
        return 1
    return int(min(search.forced.most[0], search.forced.n_text[slot] - search.forced.n_read[slot]))


@compiled
def record_attention(
    model: ModelBuffers, rows: Rows, forced: ForcedText, step: Ints, ctx: ThreadContext, row: int, layer: int,
    centre: int, window: int, bound: int, rooted: bool,
) -> None:  # fmt: skip
    """Store the attention weights of a row, which its instruction has just left in the scratch
    memory.

    They go to forced.attention; layer: the instruction's number among the attention instructions.
    centre, window, bound: its arguments. rooted: whether the weights were multiplied by the square
    root of the source length, which is undone here.
    """
    slot = rows.owner[row]
    target_position = forced.n_read[slot] + rows.position[row] - step[slot]
    first, last = window_range(n_visible(model, slot, bound), centre, window)
    weights = forced.attention[slot, target_position, layer]
    for j in range(len(weights)):
        weights[j] = np.float32(0)
    factor = math.sqrt(model.source_len[slot]) if rooted else 1.0
    for j in range(first, last):
        weights[j] = np.float32(load_float(ctx.scratch, j - first) / factor)


@compiled
def append_byte(word: Any, byte: int) -> None:
    """Append a byte to word (2,) uint64, which holds the last eight bytes of a text and its prefix
    hash."""
    hashed = without_form(np.uint64(byte))
    word[0] = (word[0] << BYTE) | hashed
    word[1] = extend_prefix(word[1], hashed)


@compiled
def score_forced_bytes(search: SearchState) -> None:
    """Store log-probability (of search.log_p) and rank of the bytes of fixed texts that a pass has
    predicted, and move on.

    Texts that are scored to their end get the state DONE.
    """
    forced = search.forced
    first = 0
    while first < search.n_rows[0]:
        slot = search.row_slot[first]
        n, read = n_columns_of(search, slot), forced.n_read[slot]
        for column in range(n):
            log_p, byte = search.log_p[first + column], forced.text[slot, read + column]
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
