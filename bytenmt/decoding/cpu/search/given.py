"""Texts that are given: what each of their bytes costs, instead of a search for better ones.

Compiled without a cache of its own, as part of interpreter.py. Knows log-probabilities; knows no models.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.attention import around, seen
from bytenmt.decoding.cpu.kernels.elementwise import exp_sum, largest
from bytenmt.decoding.cpu.kernels.instructions import Crew, Model, Rows, read
from bytenmt.decoding.cpu.kernels.simd import allocating, compiled
from bytenmt.decoding.cpu.search.candidates import log_softmax
from bytenmt.decoding.cpu.search.slots import DONE, RUNNING, Given, Ints, SearchState
from bytenmt.utf8 import N_IDS

BYTE = np.uint64(8)


@compiled
def look_ahead(search: SearchState) -> None:
    """The bytes that this pass reads beside the last ones: as many as there is room for, all but the last of
    each text, which is only foretold."""
    given = search.given
    width = min(search.drafted.shape[1], given.most[0] - 1)
    for place in range(len(given.n_text)):
        search.n_drafted[place] = 0
        if search.state[place] == RUNNING:
            read = given.n_read[place]
            n = min(width, given.n_text[place] - read - 1)
            for i in range(n):
                search.drafted[place, i] = given.text[place, read + i]
            search.n_drafted[place] = n


@compiled
def keep_attention(
    model: Model, rows: Rows, given: Given, step: Ints, crew: Crew, row: int, layer: int, centre: int,
    window: int, bound: int, rooted: bool,
) -> None:  # fmt: skip
    """Keep a row's weights, which an instruction that attends has just left in the scratch, times the root of
    the source's bytes where rooted; centre, window, bound: as it had them."""
    place = rows.of[row]
    at = given.n_read[place] + rows.position[row] - step[place]
    first, last = around(seen(model, place, bound), centre, window)
    weights = given.attention[place, at, layer]
    for j in range(len(weights)):
        weights[j] = np.float32(0)
    factor = math.sqrt(model.source_len[place]) if rooted else 1.0
    for j in range(first, last):
        weights[j] = np.float32(read(crew.scratch, j - first) / factor)


@allocating
def read_bytes(search: SearchState) -> None:
    """What the bytes after those of the pass cost; then they are the last ones."""
    given = search.given
    merged = np.empty(N_IDS, np.float32)
    first = 0
    while first < search.n_rows[0]:
        place = search.rows[first, 0]
        n, read = 1 + search.n_drafted[place], given.n_read[place]
        for column in range(n):
            byte = given.text[place, read + column]
            given.log_p[place, read + column] = log_p_of(search.logits, first + column, byte)
            given.rank[place, read + column] = rank_of(search.logits, first + column, byte, merged)
            given.word[place] = (given.word[place] << BYTE) | np.uint64(byte)
        search.last[place, 0] = given.text[place, read + n - 1]
        search.step[place] += n
        given.n_read[place] = read + n
        if read + n == given.n_text[place]:
            search.state[place] = DONE
        first += n


@allocating
def log_p_of(logits: Any, row: int, byte: int) -> float:
    """The logarithm of a byte's probability, the mean over the models."""
    exponentials = np.empty(N_IDS, np.float32)
    merged = 0.0
    for model in range(logits.shape[0]):
        values = logits[model, row]
        highest = largest(values.ctypes.data, N_IDS)
        total = np.float64(exp_sum(exponentials.ctypes.data, values.ctypes.data, N_IDS, highest))
        own = np.float64(values[byte]) - np.float64(highest) - math.log(total)
        if model == 0:
            merged = own
        else:
            higher, lower = max(merged, own), min(merged, own)
            merged = higher + math.log1p(math.exp(lower - higher))
    return merged - math.log(logits.shape[0])


@compiled
def rank_of(logits: Any, row: int, byte: int, merged: Any) -> int:
    """How many bytes are likelier, or as likely and of lower value."""
    if logits.shape[0] == 1:
        for other in range(N_IDS):
            merged[other] = logits[0, row, other]
    else:
        log_softmax(logits, row, merged)
    own, rank = merged[byte], 0
    for other in range(N_IDS):
        rank += merged[other] > own or (merged[other] == own and other < byte)
    return rank
