"""A byte n-gram with interpolation: a baseline for language models.

Counts of a byte after 0 to `order` bytes of context, interpolated down to the uniform distribution:

    p_k(b | c_k) = (n(c_k b) + a(c_k) p_{k-1}(b | c_{k-1})) / t(c_k)            p_{-1} = 1 / 256
    Witten-Bell:            n counts, a how many bytes follow c_k, t = counts + a  (Bell, Cleary, Witten 1990)
    modified Kneser-Ney:    n counts less a discount for 1, 2 and more, a the discounts' sum, t the counts;
                            below the longest context a count is of the bytes seen before it
                            (Chen and Goodman 1999)

where c_k is the last k bytes; for a context that was never seen p_k is p_{k-1}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.utf8 import N_IDS

Bytes = npt.NDArray[np.uint8]
Keys = npt.NDArray[np.uint64]
Reals = npt.NDArray[np.float64]
Smoothing = Literal["witten-bell", "kneser-ney"]

ORDER = 5  # bytes of context
LONGEST = 7  # that fit into a key with the byte after them
ONE_BYTE = np.uint64(8)  # bits
LEAST = 0.1  # of a discount, so that a byte not seen yet keeps some probability


class Level(NamedTuple):
    """Counts for one length of context.

    pairs (m,) and contexts (c,) uint64, sorted: the last bytes, in a pair with the next byte lowest. seen
    (m,) float64: n of each pair; back, total (c,) float64: a and t of each context.
    """

    pairs: Keys
    seen: Reals
    contexts: Keys
    back: Reals
    total: Reals


class NGram(NamedTuple):
    """A byte n-gram. levels: for 0, 1, … `order` bytes of context."""

    levels: tuple[Level, ...]

    @staticmethod
    def from_texts(texts: Sequence[Bytes], order: int = ORDER, smoothing: Smoothing = "kneser-ney") -> NGram:
        """Count texts (uint8, not all empty), each as a stream of its own after zeros."""
        if not 0 <= order <= LONGEST or not any(len(text) for text in texts):
            raise ValueError(f"order {order} of {len(texts)} texts: expected 0 to {LONGEST}, and a byte")
        pairs, counts = _counted(np.concatenate([_pairs(text, _zeros(order), order) for text in texts]))
        if smoothing == "witten-bell":
            return NGram.from_counts(pairs, counts, order)
        tables = [_kneser_ney(pairs, counts)]
        for k in range(order - 1, -1, -1):
            pairs, counts = _counted(pairs & _lowest(k + 1))
            tables.append(_kneser_ney(pairs, counts))
        return NGram(tuple(reversed(tables)))

    @staticmethod
    def from_counts(pairs: Keys, counts: npt.NDArray[np.int64], order: int) -> NGram:
        """Return the Witten-Bell n-gram of counts.

        pairs (m,) uint64: `order` bytes and the next one, the last one lowest, in ascending order; counts
        (m,) int64: at least 1.
        """
        tables = [_witten_bell(pairs, counts)]
        for k in range(order - 1, -1, -1):
            pairs, counts = _counted(pairs & _lowest(k + 1), counts)
            tables.append(_witten_bell(pairs, counts))
        return NGram(tuple(reversed(tables)))

    def bits(self, text: Bytes, before: Bytes | None = None) -> Reals:
        """Return -log2 p of each byte of text (n,) uint8 as (n,).

        before (order,): the bytes before it; zeros if none.
        """
        order = len(self.levels) - 1
        before = _zeros(order) if before is None else before
        probability = np.full(len(text), 1 / N_IDS)
        for k, level in enumerate(self.levels):
            wanted = _pairs(text, before[order - k :], k)
            at, there = _look_up(level.contexts, wanted >> ONE_BYTE)
            pair_at, pair_there = _look_up(level.pairs, wanted)
            seen = np.where(pair_there, level.seen[pair_at], 0.0)
            longer = (seen + level.back[at] * probability) / level.total[at]
            probability = np.where(there, longer, probability)
        bits: Reals = -np.log2(probability)
        return bits


def _witten_bell(pairs: Keys, counts: npt.NDArray[np.int64]) -> Level:
    contexts, first, follow = np.unique(pairs >> ONE_BYTE, return_index=True, return_counts=True)
    total = np.add.reduceat(counts, first) + follow
    return Level(pairs, counts.astype(float), contexts, follow.astype(float), total.astype(float))


def _kneser_ney(pairs: Keys, counts: npt.NDArray[np.int64]) -> Level:
    """Return a level with discounts estimated from how many pairs were counted once, twice, three and
    four times.
    """
    once, twice, thrice, four = (int((counts == count).sum()) for count in (1, 2, 3, 4))
    share = once / max(1, once + 2 * twice)
    ratios = 2 * twice / max(1, once), 3 * thrice / max(1, twice), 4 * four / max(1, thrice)
    guessed = [count - share * ratio for count, ratio in enumerate(ratios, 1)]
    discounts = np.array([0.0, *(min(max(d, LEAST), c - LEAST) for c, d in enumerate(guessed, 1))])
    taken = discounts[np.minimum(counts, 3)]
    contexts, first = np.unique(pairs >> ONE_BYTE, return_index=True)
    total, back = np.add.reduceat(counts, first), np.add.reduceat(taken, first)
    return Level(pairs, counts - taken, contexts, back, total.astype(float))


def _zeros(n: int) -> Bytes:
    return np.zeros(n, np.uint8)


def _lowest(n_bytes: int) -> np.uint64:
    return np.uint64((1 << 8 * n_bytes) - 1)


def _pairs(text: Bytes, before: Bytes, k: int) -> Keys:
    """Return each byte of a text with the k bytes before it: text (n,), before (k,) uint8 -> (n,) uint64."""
    whole = np.concatenate([before, text])
    keys = np.zeros(len(text), np.uint64)
    for start in range(k + 1):
        keys = keys << ONE_BYTE | whole[start : start + len(text)]
    return keys


def _counted(keys: Keys, weights: npt.NDArray[np.int64] | None = None) -> tuple[Keys, npt.NDArray[np.int64]]:
    """Return the distinct keys, sorted, and their counts. weights (n,): how often each key counts."""
    if weights is None:
        unique, counts = np.unique(keys, return_counts=True)
        return unique, counts.astype(np.int64)
    order = np.argsort(keys, kind="stable")
    unique, first = np.unique(keys[order], return_index=True)
    return unique, np.add.reduceat(weights[order], first)


def _look_up(sorted_keys: Keys, keys: Keys) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the position of each wanted key, and whether it is there."""
    at = np.searchsorted(sorted_keys, keys).clip(max=len(sorted_keys) - 1)
    return at, sorted_keys[at] == keys
