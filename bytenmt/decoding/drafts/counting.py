"""Count a draft table: which bytes most often follow a context in the training text, and with what chance.

Some texts are held out to measure the share of right drafts; then all texts are counted.
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
from bytenmt.ngram_hash import N_BYTES, START
from bytenmt.utf8 import EOS

SLOTS = 1 << 17  # 2.6 MB
MOST_BYTES = 1 << 24  # of text that are counted: more adds little to so many slots
HELD_OUT = 20  # one in so many texts is held out
# In hundredths, so that the worth of a context is an integer, equal on all machines. Tuned on Multi30k,
# German, for the bytes per pass less 0.05 to 0.2 for each drafted byte.
DISCOUNT = 75  # subtracted from the frequency of a chain: a chain that occurred once will hardly occur again
PRICE = 10  # of a drafted byte: a context is worth the bytes that it gets right, less this for each byte
MOST_COMPARED = 1 << 29  # pairs of source and target bytes from which the chances of copying are estimated
MASKS = np.array([(1 << 8 * n) - 1 for n in range(N_BYTES + 1)], np.uint64)


class Positions(NamedTuple):
    """All positions of m texts, and the ends of texts that have one.

    word (n,) uint64: the 8 bytes before a position, the newest lowest. following (n,) uint64: the byte at it,
    highest, and the 7 bytes after it, 0 after the end. starts (m + 1,) int64: where the texts begin.
    """

    word: Array
    following: Array
    starts: Array

    @staticmethod
    def from_texts(texts: Sequence[bytes], ended: bool = True) -> Positions:
        """Return the positions of texts.

        ended: whether EOS follows each text; else they are parts of a stream, whose last few bytes are left
        out because it is unknown what follows them.
        """
        data = np.frombuffer(b"".join(texts), np.uint8)
        bounds = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        lengths = np.diff(bounds) + (1 if ended else 1 - CHAIN)
        starts = np.concatenate([[0], np.cumsum(np.maximum(0, lengths))]).astype(np.int64)
        word, following = (np.empty(starts[-1], np.uint64) for _ in range(2))
        fill_positions(data, bounds, starts, np.uint64(START), EOS, word, following)
        return Positions(word, following, starts)

    def bytes(self) -> Array:
        """Return the byte at each position: (n,) uint8."""
        return (self.following >> np.uint64(56)).astype(np.uint8)


def count_drafts(
    targets: Sequence[bytes], sources: Sequence[bytes] | None = None, ended: bool = True, slots: int = SLOTS
) -> DraftTable:
    """Count the draft table of a training text.

    targets: its lines, each a text (ended) or part of a stream. sources: the source of each line, or None.
    About MOST_BYTES of the targets are counted at most, evenly chosen.
    """
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
    """Split a stream (n,) uint8 into parts for count_drafts, no more of it than is counted."""
    n = len(stream) // size + 1
    chosen = range(n) if n * size <= MOST_BYTES else np.linspace(0, n - 2, MOST_BYTES // size).astype(int)
    return [stream[i * size : (i + 1) * size].tobytes() for i in chosen]


def accepted_shares(
    table: DraftTable, targets: Sequence[bytes], sources: Sequence[bytes] | None = None, ended: bool = True
) -> Array:
    """Return the share of positions at which the first j + 1 drafted bytes are right: (CHAIN,) float32."""
    where = Positions.from_texts(targets, ended)
    if not len(where.word):
        return np.zeros(CHAIN, np.float32)
    origin = Positions.from_texts(sources or [b""] * len(targets))
    hits = np.zeros(CHAIN, np.int64)
    count_hits(where, origin, origin.bytes(), table, hits)
    return (hits / len(where.word)).astype(np.float32)


def _evenly(texts: Sequence[bytes], most: int) -> list[int]:
    """Return indices of texts, evenly chosen, that have about `most` bytes in all; all indices if they
    fit."""
    ends = np.cumsum([len(text) for text in texts])
    total = int(ends[-1]) if len(texts) else 0
    if total <= most:
        return list(range(len(texts)))
    share = np.floor(np.arange(len(texts) + 1) * (most / total))
    return np.flatnonzero(np.diff(share)).tolist()


def _fill_chains(where: Positions, slots: int) -> DraftTable:
    """Count the chains of a table, without the chances of copying and of acceptance."""
    n = len(where.word)
    table = empty_table(slots)
    if not n:
        return table
    order, spare = np.arange(n, dtype=np.int32), np.empty(n, np.int32)
    for shift in range(0, 64, 8):
        radix_sort(order, where.following, shift, spare)
        order, spare = spare, order
    value = np.zeros(slots, np.int64)  # worth of each slot's owner
    chain, drafted = np.zeros(n, np.uint64), np.zeros(n, np.uint8)  # at each position, by a shorter context
    for k in range(1, max(ORDERS) + 1):
        radix_sort(order, where.word, 8 * (k - 1), spare)
        order, spare = spare, order
        if k in ORDERS:
            settings = k, MASKS[k], DISCOUNT, PRICE, EOS
            assign_slots(order, where, chain, drafted, value, table, settings)
    return table


def _copy_chances(targets: Sequence[bytes], sources: Sequence[bytes]) -> Array:
    """Estimate the chances that a text continues as the source does after a match, see DraftTable.copy."""
    compared = sum(len(a) * len(b) for a, b in zip(targets, sources, strict=True))
    every = compared // MOST_COMPARED + 1
    counts = np.zeros((LONGEST_MATCH + 1, CHAIN + 1), np.int64)
    origin = Positions.from_texts(sources[::every])
    count_copies(Positions.from_texts(targets[::every]), origin, origin.bytes(), counts)
    share = counts[:, 1:] / (counts[:, :1] + 1.0)
    share[0] = 0
    return (255 * share).astype(np.uint8)
