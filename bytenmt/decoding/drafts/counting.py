"""Counting a draft table: which bytes most often follow a context in the training text, and how surely.

Some texts are kept back to measure what drafts are worth; then all are counted. Knows bytes; no files, no
models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bytenmt.decoding.drafts.counting_kernels import (
    assign_slots,
    count_copies,
    count_hits,
    fill_positions,
    radix_sort,
)
from bytenmt.decoding.drafts.table import (
    CHAIN,
    LONGEST_MATCH,
    ORDERS,
    Array,
    DraftTable,
    empty_table,
)
from bytenmt.ngram_hash import KEYS, START
from bytenmt.utf8 import EOS

SLOTS = 1 << 17  # 2.6 MB
MOST_BYTES = 1 << 24  # of text that are counted: more adds little to so many slots
HELD_OUT = 20  # every so manieth text is kept back to measure what drafts are worth
# Tuned on Multi30k, German, at a rate of bytes per pass and 0.05 to 0.2 for each drafted byte.
# In hundredths: so that worth is a whole number, the same everywhere.
DISCOUNT = 75  # taken off how often a chain came: what came once will hardly come again
PRICE = 10  # of a drafted byte: a context is worth the bytes that it gets right, less this for each
MOST_COMPARED = 1 << 29  # pairs of source and target bytes from which the worth of copying is told
MASKS = np.array(KEYS, np.uint64)


class Positions(NamedTuple):
    """Every byte of some texts, the end of each where it has one.

    word (n,) uint64: the 8 bytes before it, the newest lowest. following (n,) uint64: itself, highest, and
    the 7 behind it, 0 behind the end. starts (m + 1,) int64: of the texts in both.
    """

    word: Array
    following: Array
    starts: Array

    @staticmethod
    def from_texts(texts: Sequence[bytes], ended: bool = True) -> Positions:
        """ended: EOS stands behind each; else they are pieces of a stream, without their last few bytes, of
        which it is not known what follows."""
        data = np.frombuffer(b"".join(texts), np.uint8)
        bounds = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        lengths = np.diff(bounds) + (1 if ended else 1 - CHAIN)
        starts = np.concatenate([[0], np.cumsum(np.maximum(0, lengths))]).astype(np.int64)
        word, following = (np.empty(starts[-1], np.uint64) for _ in range(2))
        fill_positions(data, bounds, starts, np.uint64(START), EOS, word, following)
        return Positions(word, following, starts)

    def bytes(self) -> Array:
        """Every byte itself: (n,) uint8."""
        return (self.following >> np.uint64(56)).astype(np.uint8)


def count_drafts(
    targets: Sequence[bytes], sources: Sequence[bytes] | None = None, ended: bool = True, slots: int = SLOTS
) -> DraftTable:
    """The table of a training text. targets: its lines, of which each ends a text (ended), or pieces of a
    stream; sources: line by line what they were translated from. About MOST_BYTES of the targets are counted
    at most, evenly chosen."""
    if sources is not None and len(sources) != len(targets):
        raise ValueError(f"{len(targets)} targets and {len(sources)} sources: expected one for each")
    chosen = _evenly(targets, MOST_BYTES)
    targets = [targets[i] for i in chosen]
    sources = None if sources is None else [sources[i] for i in chosen]
    known = [i for i in range(len(targets)) if i % HELD_OUT]
    partial = _fill_chains(Positions.from_texts([targets[i] for i in known], ended), slots)
    table = _fill_chains(Positions.from_texts(targets, ended), slots)
    if sources is not None:
        table.copy[:] = _copy_chances(targets, sources)
        partial.copy[:] = table.copy
    table.accepted[:] = accepted_shares(
        partial, targets[::HELD_OUT], None if sources is None else sources[::HELD_OUT], ended
    )
    return table


def split_stream(stream: Array, size: int = 1 << 12) -> list[bytes]:
    """A stream (n,) uint8 as `counted` takes it, no more of it than is counted."""
    n = len(stream) // size + 1
    chosen = range(n) if n * size <= MOST_BYTES else np.linspace(0, n - 2, MOST_BYTES // size).astype(int)
    return [stream[i * size : (i + 1) * size].tobytes() for i in chosen]


def accepted_shares(
    table: DraftTable, targets: Sequence[bytes], sources: Sequence[bytes] | None = None, ended: bool = True
) -> Array:
    """The share of the positions of texts at which the first j + 1 drafted bytes are right: (CHAIN,)
    float32."""
    where = Positions.from_texts(targets, ended)
    if not len(where.word):
        return np.zeros(CHAIN, np.float32)
    origin = Positions.from_texts(sources or [b""] * len(targets))
    hits = np.zeros(CHAIN, np.int64)
    count_hits(where, origin, origin.bytes(), table, hits)
    return (hits / len(where.word)).astype(np.float32)


def _evenly(texts: Sequence[bytes], most: int) -> list[int]:
    """Which texts to take so that they have about `most` bytes, or all."""
    ends = np.cumsum([len(text) for text in texts])
    total = int(ends[-1]) if len(texts) else 0
    if total <= most:
        return list(range(len(texts)))
    share = np.floor(np.arange(len(texts) + 1) * (most / total))
    return np.flatnonzero(np.diff(share)).tolist()


def _fill_chains(where: Positions, slots: int) -> DraftTable:
    """A table of chains; nothing is copied, and what is accepted is not measured."""
    n = len(where.word)
    table = empty_table(slots)
    if not n:
        return table
    order, spare = np.arange(n, dtype=np.int32), np.empty(n, np.int32)
    for shift in range(0, 64, 8):
        radix_sort(order, where.following, shift, spare)
        order, spare = spare, order
    value = np.zeros(slots, np.int64)  # of each slot's owner
    chain, drafted = np.zeros(n, np.uint64), np.zeros(n, np.uint8)  # at each position, by a shorter context
    for k in range(1, max(ORDERS) + 1):
        radix_sort(order, where.word, 8 * (k - 1), spare)
        order, spare = spare, order
        if k in ORDERS:
            settings = k, MASKS[k], DISCOUNT, PRICE, EOS
            assign_slots(order, where, chain, drafted, value, table, settings)
    return table


def _copy_chances(targets: Sequence[bytes], sources: Sequence[bytes]) -> Array:
    """How surely a text goes on as the source does behind a match: (LONGEST_MATCH + 1, CHAIN) uint8."""
    compared = sum(len(a) * len(b) for a, b in zip(targets, sources, strict=True))
    every = compared // MOST_COMPARED + 1
    counts = np.zeros((LONGEST_MATCH + 1, CHAIN + 1), np.int64)
    origin = Positions.from_texts(sources[::every])
    count_copies(Positions.from_texts(targets[::every]), origin, origin.bytes(), counts)
    share = counts[:, 1:] / (counts[:, :1] + 1.0)
    share[0] = 0
    return (255 * share).astype(np.uint8)
