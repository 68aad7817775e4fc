"""Baselines for language models: a byte n-gram of the run's own training text, and xz.

Both read the evaluated bytes as they arrive.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from bytenmt.config.facts import Facts
from bytenmt.data.training_text import training_text
from bytenmt.errors import DataError
from bytenmt.language.ngram import ORDER, Bytes, NGram, Smoothing

NGRAM_BYTES = 1 << 25  # of training text that are counted at most: about 2 GB of memory and a minute
PRESET = 9  # xz -9
NAMES: dict[Smoothing, str] = {"witten-bell": "Witten-Bell", "kneser-ney": "modified Kneser-Ney"}


class Reference(Protocol):
    """A baseline that reads the evaluated bytes too."""

    def add(self, data: bytes) -> None:
        """Read the next bytes."""

    def lines(self) -> Iterator[str]:
        """Yield the result as lines for people, after the end of the stream."""


def references(facts: Facts, source: bool) -> tuple[list[Reference], list[str]]:
    """Return the baselines of a language model, `xz` and n-grams, and a reason for each that is missing.

    facts, source: of the run; a run with a source has no n-gram baseline, which would not see the source.
    """
    if source:
        return [CompressedSize()], []
    try:
        return [Counted(training_text(facts.texts)), CompressedSize()], []
    except DataError as error:
        return [CompressedSize()], [f"no n-gram beside it: {error}"]


class CompressedSize:
    """A baseline for language models: the bits per byte of a text that `xz -9` compresses."""

    def __init__(self) -> None:
        self._packer = lzma.LZMACompressor(preset=PRESET)
        self._n_packed = self._n_bytes = 0

    def add(self, data: bytes) -> None:
        """Read the next bytes."""
        self._n_bytes += len(data)
        self._n_packed += len(self._packer.compress(data))

    def lines(self) -> Iterator[str]:
        """Yield the bits per byte as a line, after the end of the stream."""
        self._n_packed += len(self._packer.flush())
        yield f"reference, xz -{PRESET}: {8 * self._n_packed / max(1, self._n_bytes):.4f}"


class Counted:
    """The cost of a stream under n-grams of a text. training: the text's files as bytes (uint8)."""

    def __init__(self, training: Sequence[Bytes]) -> None:
        n_bytes = sum(map(len, training))
        self._share = ""
        if n_bytes > NGRAM_BYTES:
            self._share = f" (of the first {NGRAM_BYTES} of {n_bytes} bytes)"
            starts = np.cumsum([0, *map(len, training)])
            training = [
                text[: max(0, NGRAM_BYTES - start)]
                for text, start in zip(training, starts.tolist(), strict=False)
            ]
        self._models = {smoothing: NGram.from_texts(training, ORDER, smoothing) for smoothing in NAMES}
        self._bits = dict.fromkeys(NAMES, 0.0)
        self._n_bytes = 0
        self._before = np.zeros(ORDER, np.uint8)

    def add(self, data: bytes) -> None:
        """Read the next bytes."""
        text = np.frombuffer(data, np.uint8)
        for smoothing, model in self._models.items():
            self._bits[smoothing] += float(model.bits(text, self._before).sum())
        self._before = np.concatenate([self._before, text])[-ORDER:]
        self._n_bytes += len(text)

    def lines(self) -> Iterator[str]:
        """Yield the bits per byte of each smoothing as a line, after the end of the stream."""
        for smoothing, bits in self._bits.items():
            figure = bits / max(1, self._n_bytes)
            yield f"reference, order-{ORDER} n-gram, {NAMES[smoothing]}{self._share}: {figure:.4f}"
