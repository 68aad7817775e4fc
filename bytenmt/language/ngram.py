"""A byte n-gram with interpolated modified Kneser-Ney smoothing (Chen and Goodman 1999).

Counts of a byte after 0 to `order` bytes of context, interpolated down to the uniform distribution:

    p_k(b | c_k) = (n(c_k b) + a(c_k) p_{k-1}(b | c_{k-1})) / t(c_k)            p_{-1} = 1 / 256

where c_k is the last k bytes, n the counts less a discount for 1, 2 and more, a the discounts' sum
and t the counts; below the longest context a count is of the bytes seen before it. After a context
that was never seen p_k is p_{k-1}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.utf8 import N_IDS

Bytes = npt.NDArray[np.uint8]
Keys = npt.NDArray[np.uint64]
Reals = npt.NDArray[np.float64]

ORDER = 5  # bytes of context
MAX_COUNTED_BYTES = 1 << 25  # of a training text: about 2 GB of memory and a minute
BITS_PER_BYTE = np.uint64(8)
MIN_DISCOUNT = 0.1  # so that a byte not seen yet keeps some probability


class Level(NamedTuple):
    """The discounted counts of an n-gram model for one length of context, from 0 bytes on."""

    pairs: Keys  # (m,), sorted: a context and the next byte as one integer, the next byte lowest
    seen: Reals  # (m,), the count of each pair less its discount
    contexts: Keys  # (c,), sorted: the distinct contexts of the pairs
    back: Reals  # (c,), the sum of each context's discounts, the weight of the shorter context
    total: Reals  # (c,), the sum of each context's counts


class NGram(NamedTuple):
    """A byte n-gram language model with modified Kneser-Ney smoothing."""

    levels: tuple[Level, ...]  # for 0, 1, … `order` bytes of context

    @staticmethod
    def from_texts(texts: Sequence[Bytes], order: int = ORDER) -> NGram:
        """Estimate the model from texts, each (length,) uint8; they must not all be empty.

        order: bytes of context, 0 to 7. At the beginning of a text they are 0x00.
        """
        keys = np.concatenate([_pairs(text, np.zeros(order, np.uint8), order) for text in texts])
        tables = [_level(keys)]
        for k in range(order - 1, -1, -1):
            tables.append(_level(tables[-1].pairs & np.uint64((1 << 8 * (k + 1)) - 1)))
        return NGram(tuple(reversed(tables)))

    def bits(self, text: Bytes, before: Bytes | None = None) -> Reals:
        """Return the bits, -log2 p, of each byte of text (n,) uint8 under the model: (n,) float64.

        before (order,) uint8: the `order` bytes of context before the text; None: 0x00.
        """
        order = len(self.levels) - 1
        if before is None:
            before = np.zeros(order, np.uint8)
        probability = np.full(len(text), 1 / N_IDS)
        for k, level in enumerate(self.levels):
            wanted = _pairs(text, before[order - k :], k)
            indices, there = _look_up(level.contexts, wanted >> BITS_PER_BYTE)
            pair_at, pair_there = _look_up(level.pairs, wanted)
            seen = np.where(pair_there, level.seen[pair_at], 0.0)
            longer = (seen + level.back[indices] * probability) / level.total[indices]
            probability = np.where(there, longer, probability)
        bits: Reals = -np.log2(probability)
        return bits


class NGramBaseline:
    """Measures bits per byte of a stream under an n-gram, to compare a language model with."""

    def __init__(self, training: Sequence[Bytes]) -> None:
        """training: the texts (uint8) that the n-gram is estimated from, of which the first
        MAX_COUNTED_BYTES (2^25) count."""
        counted = []
        n_bytes = 0
        for text in training:
            counted.append(text[: max(0, MAX_COUNTED_BYTES - n_bytes)])
            n_bytes += len(text)
        self._share = ""
        if n_bytes > MAX_COUNTED_BYTES:
            self._share = f" of the first {MAX_COUNTED_BYTES} of {n_bytes} bytes"
        self._model = NGram.from_texts(counted)
        self._bits = 0.0
        self._n_bytes = 0
        self._before = np.zeros(ORDER, np.uint8)  # the last bytes of the stream so far

    def add(self, data: bytes) -> None:
        """Add the bits (-log2 p) of `data`, the next bytes of the stream, to the sum."""
        text = np.frombuffer(data, np.uint8)
        self._bits += float(self._model.bits(text, self._before).sum())
        self._before = np.concatenate([self._before, text])[-ORDER:]
        self._n_bytes += len(text)

    def line(self) -> str:
        """Return a line for users with the bits per byte of all bytes added so far."""
        figure = self._bits / max(1, self._n_bytes)
        return f"reference, order-{ORDER} n-gram of the training text{self._share}: {figure:.4f}"


def _level(keys: Keys) -> Level:
    """Return the level of pairs of context and byte, in any order.

    Discounts follow from how many distinct pairs occur once to four times.
    """
    pairs, counts = np.unique(keys, return_counts=True)
    once, twice, thrice, four = (int((counts == count).sum()) for count in (1, 2, 3, 4))
    share = once / max(1, once + 2 * twice)
    ratios = [2 * twice / max(1, once), 3 * thrice / max(1, twice), 4 * four / max(1, thrice)]
    counted = np.arange(1, 4)
    discounts = np.clip(counted - share * np.array(ratios), MIN_DISCOUNT, counted - MIN_DISCOUNT)
    taken = discounts[np.minimum(counts, 3) - 1]
    contexts, first = np.unique(pairs >> BITS_PER_BYTE, return_index=True)
    total = np.add.reduceat(counts, first)
    back = np.add.reduceat(taken, first)
    return Level(pairs, counts - taken, contexts, back, total.astype(float))


def _pairs(text: Bytes, before: Bytes, k: int) -> Keys:
    """Return each byte of a text (n,) uint8 with the k bytes before it, as integers (n,) uint64.

    before (k,) uint8: the bytes before the text.
    """
    whole = np.concatenate([before, text])
    keys = np.zeros(len(text), np.uint64)
    for start in range(k + 1):
        keys = keys << BITS_PER_BYTE | whole[start : start + len(text)]
    return keys


def _look_up(sorted_keys: Keys, keys: Keys) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the position of each wanted key, and whether it is there."""
    indices = np.searchsorted(sorted_keys, keys).clip(max=len(sorted_keys) - 1)
    return indices, sorted_keys[indices] == keys
