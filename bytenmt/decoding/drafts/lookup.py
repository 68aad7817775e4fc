"""Look up drafts in a table, and matches in the source: compiled code, for counting tables and for the
search.

A draft is the table's chain for the end of the text, or what follows its longest match in the source. `word`
is the last eight bytes of a text as one integer, see ngram_hash.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.jit import njit
from bytenmt.kernel_constants import LONGEST_MATCH, ORDERS
from bytenmt.ngram_hash import hash_ngram

ONE, BYTE, HALF = np.uint64(1), np.uint64(8), np.uint64(32)
LOW_BYTE, LOW_HALF = np.uint64(0xFF), np.uint64(0xFFFFFFFF)


@njit
def tag_of(h: Any) -> Any:
    """Return the tag by which a slot identifies the context that owns it, never 0. h: hash of the context."""
    return np.uint32((h & LOW_HALF) | ONE)


@njit
def slot_of(h: Any, n_slots: Any) -> Any:
    """Return the slot of a context: the highest bits of its hash."""
    return np.int64((h >> HALF) * np.uint64(n_slots) >> HALF)


@njit
def find_entry(tag: Any, word: Any) -> Any:
    """Return the slot of the longest context of a text that has one, -1 for none. tag: see DraftTable."""
    for order in ORDERS:
        h = hash_ngram(word, order)
        slot = slot_of(h, len(tag))
        if tag[slot] == tag_of(h):
            return slot
    return np.int64(-1)


@njit
def find_match(source: Any, word: Any) -> Any:
    """Find the longest match of the end of the text in a source (bytes,) uint8, the last one of several.

    Returns the index of the byte after the match, and its length, at most LONGEST_MATCH; 0, 0 if there is no
    match with a byte after it.
    """
    best_at, best = 0, 0
    for at in range(len(source) - 1, 0, -1):
        n, rest = 0, word
        while n < min(LONGEST_MATCH, at) and source[at - 1 - n] == np.uint8(rest & LOW_BYTE):
            n += 1
            rest >>= BYTE
        if n > best:
            best_at, best = at, n
    return best_at, best
