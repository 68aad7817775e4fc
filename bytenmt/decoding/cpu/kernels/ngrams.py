"""Embeddings of byte n-grams, see layers/ngram_tables.py. Compiled as part of interpreter.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.elementwise import add
from bytenmt.jit import compiled
from bytenmt.kernel_constants import FOLD_CASE
from bytenmt.ngram_hash_compiled import fold_case, hash_ngram_compiled

LONGEST = 8  # bytes of an n-gram
BITS = FOLD_CASE - 1


@compiled
def add_ngrams(d: int, tables: int, word: Any, n: int, orders: int, k: int) -> None:
    """Add the rows of n-gram tables that a byte reads to d (n,).

    word: the last eight bytes read, uint64. orders: bit i is set if there is a table of i-grams. k: bits of a
    row number, and FOLD_CASE.
    """
    n_bits = k & BITS
    key = fold_case(word) if k & FOLD_CASE else word
    table = tables
    for order in range(2, LONGEST + 1):
        if (orders >> order) & 1:
            row = np.int64(hash_ngram_compiled(key, order) >> np.uint64(64 - n_bits))
            add(d, d, table + 4 * n * row, n)
            table += 4 * n << n_bits
