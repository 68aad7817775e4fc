"""Change training pairs anew in every epoch: sentinels, noise, items to copy, letter case, final signs, empty
sources.

The change depends on the seed, the epoch, the batch and the row (for sentinels: the index in the corpus)
and on nothing else: a resumed run and any number of processes see the same pairs.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt

from bytenmt.config.schema import DataConfig
from bytenmt.data.augment.copying import keyed_draws, other_items
from bytenmt.data.augment.final_sign import without_final_sign
from bytenmt.data.augment.letter_case import Case, with_case
from bytenmt.data.augment.noise import HALF, Letters, chance, noisy_rows, row_keys
from bytenmt.data.augment.sentinels import SentinelAugmenter
from bytenmt.data.batches import Batch
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.epoch_plan import mix
from bytenmt.errors import DataError, printable
from bytenmt.plugins import AUGMENTATIONS, Augmentation
from bytenmt.sentinels import FIRST_SENTINEL, N_SENTINELS, SENTINELS, to_bytes, to_text
from bytenmt.utf8 import BOS, EOS, PAD, first_invalid

N_SAMPLED = 20_000  # lines that the letters of a corpus are taken from
# What the draws of a batch are for: noise takes the batch's key itself, the others this one added to it.
COPY, CASE, EMPTY, FINAL_SIGN, FIRST_ADDED = 1, 2, 3, 4, 5
PLACES = -1  # the number that stands for a batch's where the draws are an epoch's


class Augmenter:
    """Changes a corpus with a source as the keys of schema.AUGMENTATIONS say."""

    def __init__(self, corpus: ParallelCorpus, config: DataConfig, seed: int, round_to: int = 1) -> None:
        self._corpus, self._config, self._seed, self._round_to = corpus, config, seed, round_to
        step = max(1, len(corpus) // N_SAMPLED)
        sampled = range(0, len(corpus) if config.noise else 0, step)
        self._letters = Letters.from_texts(corpus.source(k).decode() for k in sampled)
        self._sentinels = SentinelAugmenter(corpus, config.sentinels) if config.sentinels else None

    def corpus(self, epoch: int) -> ParallelCorpus:
        """Return the corpus with the sentinels of an epoch, by which the epoch's batches are planned."""
        if self._sentinels is None:
            return self._corpus
        return self._sentinels.corpus(mix(mix(mix(self._seed) + epoch) + PLACES))

    def change(self, batch: Batch, index: int, epoch: int, share: tuple[int, int] = (0, 1)) -> Batch:
        """Return what training sees of a process' share of batch `index`; see batches.batches.

        Both sides may grow by a few bytes, and with them the batch: its plan does not count noise and case.
        """
        rank, size = share
        key = mix(mix(mix(self._seed) + epoch) + index)
        rows = np.arange(rank, rank + size * len(batch.target_len), size)
        if not len(rows):
            return batch
        config = self._config
        if config.copy:
            self._copy(batch, mix(key + COPY), rows)
        if config.unpunctuated:
            by = without_final_sign, config.unpunctuated, "unpunctuated"
            batch = self._change_by(*by, batch, mix(key + FINAL_SIGN), rows)
        if config.upper_case or config.title_case or config.lower_case:
            batch = self._change_case(batch, mix(key + CASE), rows)
        if config.empty_source:
            _empty_sources(batch, config.empty_source, mix(key + EMPTY), rows)
        for number, (name, part) in enumerate(sorted(config.augment.items()), FIRST_ADDED):
            batch = self._change_by(AUGMENTATIONS[name], part, name, batch, mix(key + number), rows)
        if config.noise:
            source, lengths = noisy_rows(
                batch.source,
                batch.source_len,
                config.noise,
                self._letters,
                config.max_source_bytes,
                np.uint64(key),
                rows,
                self._round_to,
            )
            batch = batch._replace(source=source, source_len=lengths)
        return batch

    def _copy(self, batch: Batch, key: int, rows: npt.NDArray[np.int64]) -> None:
        """Replace items in place; a made-up item has as many bytes."""
        keys = row_keys(np.uint64(key), rows)
        for i in np.flatnonzero(keys >> HALF < chance(self._config.copy)).tolist():
            n_source, n_target = int(batch.source_len[i]) - 1, int(batch.target_len[i]) - 1
            own, other = batch.source[i, :n_source], batch.target[i, 1 : 1 + n_target]
            source, target = other_items(
                to_text(own.tobytes()), to_text(other.tobytes()), keyed_draws(keys[i])
            )
            own[:] = np.frombuffer(to_bytes(source), np.uint8)
            other[:] = np.frombuffer(to_bytes(target), np.uint8)

    def _change_case(self, batch: Batch, key: int, rows: npt.NDArray[np.int64]) -> Batch:
        """Return the batch with some rows in another case; a row that would exceed a limit stays."""
        config = self._config
        drawn = row_keys(np.uint64(key), rows) >> HALF
        shares: dict[Case, float] = {
            "upper": config.upper_case,
            "title": config.title_case,
            "lower": config.lower_case,
        }
        sources: dict[int, bytes] = {}
        targets: dict[int, bytes] = {}
        low = 0.0
        for case, share in shares.items():
            high = low + share
            for i in np.flatnonzero((drawn >= chance(low)) & (drawn < chance(high))).tolist():
                own = _converted(batch.source[i, : batch.source_len[i] - 1], case)
                other = _converted(batch.target[i, 1 : batch.target_len[i]], case)
                if len(own) <= config.max_source_bytes and len(other) <= config.max_target_bytes:
                    sources[i], targets[i] = own, other
            low = high
        return self._replaced(batch, sources, targets)

    def _change_by(
        self,
        change: Augmentation,
        share: float,
        name: str,
        batch: Batch,
        key: int,
        rows: npt.NDArray[np.int64],
    ) -> Batch:
        """Return the batch with a share of its rows changed by an augmentation.

        A row that would exceed a limit stays. Raises DataError where a plugin's makes something that is no
        text of one line.
        """
        config, keys = self._config, row_keys(np.uint64(key), rows)
        sources: dict[int, bytes] = {}
        targets: dict[int, bytes] = {}
        for i in np.flatnonzero(keys >> HALF < chance(share)).tolist():
            own = batch.source[i, : batch.source_len[i] - 1].tobytes()
            other = batch.target[i, 1 : batch.target_len[i]].tobytes()
            pair = change(own, other, random.Random(int(keys[i])))
            problem = _problem(pair)
            if problem:
                raise DataError(
                    f"data.augment.{name} returned {printable(repr(pair))}, which {problem}:"
                    f" correct the plugin"
                )
            own, other = pair
            if len(own) <= config.max_source_bytes and len(other) <= config.max_target_bytes:
                sources[i], targets[i] = own, other
        return self._replaced(batch, sources, targets)

    def _replaced(self, batch: Batch, sources: dict[int, bytes], targets: dict[int, bytes]) -> Batch:
        """Return the batch with other texts in some rows."""
        source, source_len = _with_rows(batch.source, batch.source_len, sources, b"", self._round_to)
        target, target_len = _with_rows(batch.target, batch.target_len, targets, bytes([BOS]), self._round_to)
        return Batch(source, source_len, target, target_len)


def _problem(pair: Any) -> str:
    """Say what is wrong with a pair that an augmentation of a plugin has returned; "" for nothing."""
    is_pair = isinstance(pair, tuple | list) and len(pair) == 2
    if not is_pair or not all(isinstance(text, bytes | bytearray) for text in pair):
        return "is not a source and a target as bytes"
    if any(first_invalid(text.translate(None, SENTINELS)) >= 0 for text in pair):
        return "is not valid UTF-8"
    return "has a line break" if any(b"\n" in text for text in pair) else ""


def _converted(row: npt.NDArray[np.uint8], case: Case) -> bytes:
    return to_bytes(with_case(to_text(row.tobytes()), case))


def _with_rows(
    rows: npt.NDArray[np.uint8],
    lengths: npt.NDArray[np.int64],
    changed: dict[int, bytes],
    first: bytes,
    round_to: int,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return rows of a batch with some texts replaced, and their lengths with EOS. first: BOS or nothing."""
    if not changed:
        return rows, lengths
    lengths = lengths.copy()
    for i, text in changed.items():
        lengths[i] = len(text) + 1
    width = -(-int(lengths.max()) // round_to) * round_to + len(first)
    if width > rows.shape[1]:
        wider = np.full((len(rows), width), PAD, np.uint8)
        wider[:, : rows.shape[1]] = rows
        rows = wider
    for i, text in changed.items():
        whole = first + text + bytes([EOS])
        rows[i, : len(whole)] = np.frombuffer(whole, np.uint8)
        rows[i, len(whole) :] = PAD
    return rows, lengths


def _empty_sources(batch: Batch, share: float, key: int, rows: npt.NDArray[np.int64]) -> None:
    """Leave nothing but EOS of some sources, in place; not where the target has sentinels to carry over."""
    carried = (batch.target - np.uint8(FIRST_SENTINEL) < N_SENTINELS).any(axis=1)
    empty = np.flatnonzero((row_keys(np.uint64(key), rows) >> HALF < chance(share)) & ~carried)
    batch.source[empty] = PAD
    batch.source[empty, 0] = EOS
    batch.source_len[empty] = 1
