"""Change training pairs anew in every epoch: sentinels, items to copy, final signs, letter case,
empty sources and noise.

The change depends on the seed, the epoch, the batch and the row (for sentinels: the index in the
corpus) and on nothing else: a resumed run and any number of processes see the same pairs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from bytenmt.config.schema import DataConfig
from bytenmt.data.augment.copying import with_other_items
from bytenmt.data.augment.draws import HALF, Keys, chance_threshold, row_keys
from bytenmt.data.augment.noise import Letters, with_noise
from bytenmt.data.augment.sentinels import SentinelAugmenter
from bytenmt.data.batches import Batch
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.sentinels import find_spans, has_sentinels, to_bytes, to_text
from bytenmt.splitmix import mixed

N_SAMPLED = 20_000  # lines that the letters of a corpus are taken from
# What the draws of a batch are for: noise takes the batch's key itself, the others this one added
# to it.
NOISE, COPY, CASE, EMPTY, FINAL_SIGN = range(5)
PLACES = -1  # the number that stands for a batch's where the draws are an epoch's
Case = Literal["upper", "title", "lower"]
# The first letter of a word; what follows an apostrophe inside one ("don't") begins none.
_WORD_START = re.compile(r"(?<![\w'’])[^\W\d_]")
FINAL = re.compile(r"[.!?…。！？｡]+\Z")

# Returns a source and a target, UTF-8 with sentinels, for those given, drawn from a key.
Change = Callable[[bytes, bytes, np.uint64], tuple[bytes, bytes]]


class AugmentationStep(NamedTuple):
    """One kind of augmentation: it changes the pairs whose random number, from 0 to 1, is in a
    range."""

    number: int  # NOISE, COPY, …: steps of the same number have the same random number for a pair
    low: float  # the range: low <= random number < high
    high: float
    change: Change  # (source, target, random key) -> the changed (source, target)


class Augmenter:
    """Randomly changes training pairs (typos, made-up names, letter case, …), as the settings of
    DataConfig say: call `corpus` before an epoch is planned, and `change` on each of its batches.
    """

    def __init__(self, corpus: ParallelCorpus, config: DataConfig, seed: int) -> None:
        self._corpus, self._config, self._seed = corpus, config, seed
        upper, title = config.upper_case, config.upper_case + config.title_case
        steps = [
            AugmentationStep(COPY, 0.0, config.copy, with_other_items),
            AugmentationStep(FINAL_SIGN, 0.0, config.unpunctuated, without_final_sign),
            AugmentationStep(CASE, 0.0, upper, _in_case("upper")),
            AugmentationStep(CASE, upper, title, _in_case("title")),
            AugmentationStep(CASE, title, title + config.lower_case, _in_case("lower")),
            AugmentationStep(EMPTY, 0.0, config.empty_source, without_source),
        ]
        if config.noise:
            steps.append(AugmentationStep(NOISE, 0.0, 1.0, self._noise()))
        self._steps = [step for step in steps if step.high > step.low]
        self._sentinels = SentinelAugmenter(corpus, config.sentinels) if config.sentinels else None

    def _noise(self) -> Change:
        corpus, config = self._corpus, self._config
        sampled = range(0, len(corpus), max(1, len(corpus) // N_SAMPLED))
        letters = Letters.from_texts(corpus.source(k).decode() for k in sampled)
        limit = config.max_source_bytes
        return lambda source, target, key: (
            with_noise(source, config.noise, letters, limit, key),
            target,
        )

    def corpus(self, epoch: int) -> ParallelCorpus:
        """Return the corpus to plan an epoch's batches from: with sentinels if data.sentinels is
        above 0, else unchanged. A sentinel is a byte, 0xF5 to 0xFC, in the place of a span of text
        that a model learns to copy, such as a tag."""
        if self._sentinels is None:
            return self._corpus
        return self._sentinels.corpus(mixed(mixed(mixed(self._seed) + epoch) + PLACES))

    def change(
        self, batch: Batch, index: int, epoch: int, share: tuple[int, int] = (0, 1)
    ) -> Batch:
        """Return a batch with random changes of its pairs: all augmentations but sentinels, which
        `corpus` has made.

        batch: this process' rows of batch number `index`, from 0, of the epoch; share (rank, size):
        they are the rows rank, rank + size, … of the whole batch. The batch may grow beyond
        max_tokens; a pair that would exceed data.max_source_bytes or data.max_target_bytes stays as
        it was.
        """
        pairs, (rank, size) = batch.pairs(), share
        if not pairs:
            return batch
        rows = np.arange(rank, rank + size * len(pairs), size)
        batch_key = mixed(mixed(mixed(self._seed) + epoch) + index)
        for step in self._steps:
            key = batch_key if step.number == NOISE else mixed(batch_key + step.number)
            keys = row_keys(np.uint64(key), rows)
            for i in _drawn_rows(keys, step.low, step.high):
                source, target = step.change(*pairs[i], keys[i])
                if self._fits(source, target):
                    pairs[i] = source, target
        return Batch.from_pairs(pairs)

    def _fits(self, source: bytes, target: bytes) -> bool:
        """Return whether a pair is within the limits of the lengths."""
        limits = self._config
        return len(source) <= limits.max_source_bytes and len(target) <= limits.max_target_bytes


def _drawn_rows(keys: Keys, low: float, high: float) -> list[int]:
    """Return the rows whose random number, from 0 to 1, is from low to below high.

    keys (n,) uint64: of the rows; their upper halves are the random numbers.
    """
    draws = keys >> HALF
    is_drawn = (draws >= chance_threshold(low)) & (draws < chance_threshold(high))
    return [int(row) for row in np.flatnonzero(is_drawn)]


def without_final_sign(source: bytes, target: bytes, key: np.uint64) -> tuple[bytes, bytes]:
    """Return (source, target) without full stops and the like at the end of both texts, as in
    headings and hasty writing; unchanged if one text has no such sign at its end, or nothing else.
    `key` is ignored: nothing is random.
    """
    new_source, new_target = (to_bytes(FINAL.sub("", to_text(text))) for text in (source, target))
    is_changed = new_source and new_target and new_source != source and new_target != target
    return (new_source, new_target) if is_changed else (source, target)


def without_source(source: bytes, target: bytes, key: np.uint64) -> tuple[bytes, bytes]:
    """Return an empty source and the target, so that a model learns targets alone; unchanged if the
    target has sentinels (bytes that stand for spans to copy). `key` is ignored: nothing is random.
    """
    return (source if has_sentinels(target) else b""), target


def _in_case(case: Case) -> Change:
    """Return a step that changes the letter case of both sides.

    "lower" changes the source alone: people type without capitals, but want German with its own.
    """

    def change(source: bytes, target: bytes, key: np.uint64) -> tuple[bytes, bytes]:
        new_source = to_bytes(with_case(to_text(source), case))
        if case == "lower":
            return new_source, target
        return new_source, to_bytes(with_case(to_text(target), case))

    return change


def with_case(text: str, case: Case) -> str:
    """Return a text in the case "upper", "title" or "lower": "groß" becomes "GROSS".

    "title" makes the first letter of each word a capital and leaves the others, as in "NATO". Tags,
    addresses and placeholders stay as they are: a program would not find "%S" or "{NAME}".
    """
    convert = _CONVERSIONS[case]
    parts, end = [], 0
    for begin, after in find_spans(text):
        parts += [convert(text[end:begin]), text[begin:after]]
        end = after
    return "".join([*parts, convert(text[end:])])


def _title(text: str) -> str:
    """Return a text whose words begin with a capital; the other letters stay, as in "NATO"."""
    return _WORD_START.sub(lambda match: match.group().title(), text)


_CONVERSIONS: dict[Case, Callable[[str], str]] = {
    "upper": str.upper,
    "title": _title,
    "lower": str.lower,
}
