"""Draft look-up and copying, compiled: what table.Table does in plain Python, which is the reference.

For the kernels that count a table and for the search of the CPU engine. Knows bytes and words; knows no
sentences.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.jit import njit
from bytenmt.kernel_constants import LONGEST_MATCH, ORDERS
from bytenmt.ngram_hash_compiled import hash_ngram_compiled

ONE, BYTE, HALF = np.uint64(1), np.uint64(8), np.uint64(32)
LOW_BYTE, LOW_HALF = np.uint64(0xFF), np.uint64(0xFFFFFFFF)


@njit
def tag_of(h: Any) -> Any:
    """table.tag_of: what a slot tells of the context that owns it."""
    return np.uint32((h & LOW_HALF) | ONE)


@njit
def slot_of(h: Any, n_slots: Any) -> Any:
    """Where a context stands if it has a slot: the first bits of its hash, as many as number the slots."""
    return np.int64((h >> HALF) * np.uint64(n_slots) >> HALF)


@njit
def find_entry(tag: Any, word: Any) -> Any:
    """The slot of the longest context that the table knows, -1 for none. tag: Table.tag."""
    for order in ORDERS:
        h = hash_ngram_compiled(word, order)
        slot = slot_of(h, len(tag))
        if tag[slot] == tag_of(h):
            return slot
    return np.int64(-1)


@njit
def find_match(source: Any, word: Any) -> Any:
    """Table.copied: where in a source (bytes,) uint8 goes on what the text ends with, and how many bytes, of
    LONGEST_MATCH at most, are the same: the longest match, the last of several; 0, 0 where there is none."""
    best_at, best = 0, 0
    for at in range(len(source) - 1, 0, -1):
        n, rest = 0, word
        while n < min(LONGEST_MATCH, at) and source[at - 1 - n] == np.uint8(rest & LOW_BYTE):
            n += 1
            rest >>= BYTE
        if n > best:
            best_at, best = at, n
    return best_at, best
