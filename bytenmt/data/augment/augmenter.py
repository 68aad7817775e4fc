"""Batches as training sees them: noise on sources, other things to copy, drawn anew in every epoch.

What becomes of a pair depends on the seed, the epoch, its batch and its row there, on nothing else: it is the
same in a run that is resumed, and in any number of processes. Knows corpora and batches; knows no models.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bytenmt.config.schema import DataConfig
from bytenmt.data.augment.copying import draws, other_items
from bytenmt.data.augment.noise import HALF, Letters, chance, noisy_rows, row_keys
from bytenmt.data.batches import Batch
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.epoch_plan import mix

N_SAMPLED = 20_000  # lines that the letters of a corpus are taken from


class Augmenter:
    """What data.noise and data.copy say of a corpus with a source."""

    def __init__(self, corpus: ParallelCorpus, config: DataConfig, seed: int, round_to: int = 1) -> None:
        self._config, self._seed, self._round_to = config, seed, round_to
        step = max(1, len(corpus) // N_SAMPLED)
        sampled = range(0, len(corpus) if config.noise else 0, step)
        self._letters = Letters.of(corpus.source(k).decode() for k in sampled)

    def change(self, batch: Batch, index: int, epoch: int, share: tuple[int, int] = (0, 1)) -> Batch:
        """A process' share of batch `index`; see batches.batches. A source may grow by a few bytes, and
        with it the batch, which the plan has counted without noise."""
        rank, size = share
        key = mix(mix(mix(self._seed) + epoch) + index)
        rows = np.arange(rank, rank + size * len(batch.target_len), size)
        if self._config.copy:
            self._copy(batch, mix(key + 1), rows)
        if self._config.noise and len(rows):
            source, lengths = noisy_rows(
                batch.source,
                batch.source_len,
                self._config.noise,
                self._letters,
                self._config.max_source_bytes,
                np.uint64(key),
                rows,
                self._round_to,
            )
            batch = batch._replace(source=source, source_len=lengths)
        return batch

    def _copy(self, batch: Batch, key: int, rows: npt.NDArray[np.int64]) -> None:
        """In place: what is made up has as many bytes."""
        keys = row_keys(np.uint64(key), rows)
        for i in np.flatnonzero(keys >> HALF < chance(self._config.copy)).tolist():
            n_source, n_target = int(batch.source_len[i]) - 1, int(batch.target_len[i]) - 1
            own, other = batch.source[i, :n_source], batch.target[i, 1 : 1 + n_target]
            source, target = other_items(own.tobytes().decode(), other.tobytes().decode(), draws(keys[i]))
            own[:] = np.frombuffer(source.encode(), np.uint8)
            other[:] = np.frombuffer(target.encode(), np.uint8)
