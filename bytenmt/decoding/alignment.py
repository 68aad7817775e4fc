"""Align output characters with source characters by the attention weights, summed from bytes to characters.

The weights come from one teacher-forced pass over a text that any engine has produced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.reading import Attention, Weights


class Link(NamedTuple):
    """An output character and the source character that it attends to most.

    bytes, chars: begin and end (exclusive) of each in its text; weight: the share of attention, averaged over
    the output character's bytes.
    """

    bytes: tuple[int, int]
    chars: tuple[int, int]
    source_bytes: tuple[int, int]
    source_chars: tuple[int, int]
    weight: float

    def shifted(self, n_bytes: int, n_chars: int, source_bytes: int, source_chars: int) -> Link:
        """Return the link for texts that have so many bytes and characters before these."""
        return Link(
            _moved(self.bytes, n_bytes),
            _moved(self.chars, n_chars),
            _moved(self.source_bytes, source_bytes),
            _moved(self.source_chars, source_chars),
            self.weight,
        )


def _moved(span: tuple[int, int], by: int) -> tuple[int, int]:
    return span[0] + by, span[1] + by


@dataclass(frozen=True, eq=False)
class Aligner:
    """Aligns texts by one model with attention, or by the mean weights of several."""

    models: Sequence[Attention]

    def weights(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[Weights]:
        """Return the attention weights of each pair (source, text) without EOS, averaged over layers.

        Each is (bytes of the text, bytes of the source + 1): a row for each predicted byte, a column for each
        source byte and its EOS. For an empty line no model is asked.
        """
        asked = [i for i in range(len(pairs)) if pairs[i][1]]
        found = [np.zeros((len(text), len(source) + 1), np.float32) for source, text in pairs]
        for model in self.models if asked else ():
            for i, layers in zip(asked, model.layers([pairs[i] for i in asked]), strict=True):
                found[i] += sum(layers.values()) / (len(layers) * len(self.models))
        return found

    def links(self, lines: Sequence[Sequence[tuple[bytes, bytes, bytes]]]) -> list[list[Link]]:
        """Return the links of each line, whose chunks are (source, text, separator).

        The separator follows its chunk in both texts and has no link.
        """
        pairs = [(source, text) for line in lines for source, text, _ in line]
        weights = iter(self.weights(pairs))
        found = []
        for line in lines:
            links: list[Link] = []
            at = (0, 0, 0, 0)
            for source, text, separator in line:
                links += [link.shifted(*at) for link in fold(next(weights), source, text)]
                whole = (text + separator, source + separator)
                sizes = [size for part in whole for size in (len(part), len(part.decode()))]
                at = (at[0] + sizes[0], at[1] + sizes[1], at[2] + sizes[2], at[3] + sizes[3])
            found.append(links)
        return found


def fold(weights: Weights, source: bytes, text: bytes) -> list[Link]:
    """Return a link for each character of the text; none if the source is empty.

    weights: (bytes of the text, bytes of the source + 1). The weight of a source character is the sum over
    its bytes.
    """
    source_spans, spans = _characters(source), _characters(text)
    if not source_spans or not spans:
        return []
    means = by_character(weights, source, text)[:, :-1]
    best = means.argmax(axis=1).tolist()
    return [
        Link(span, (k, k + 1), source_spans[j], (j, j + 1), round(float(means[k, j]), 6))
        for k, (span, j) in enumerate(zip(spans, best, strict=True))
    ]


def by_character(weights: Weights, source: bytes, text: bytes) -> npt.NDArray[np.float64]:
    """Sum weights (bytes of the text, bytes of the source + 1) to (characters of the text, of the source +
    1).

    Weights are summed over the bytes of a source character and averaged over those of a text character.
    """
    source_starts = [start for start, _ in _characters(source)]
    of_source = np.add.reduceat(weights, [*source_starts, len(source)], axis=1)
    starts, ends = zip(*_characters(text), strict=True)
    sizes = np.array(ends) - np.array(starts)
    means: npt.NDArray[np.float64] = np.add.reduceat(of_source, starts, axis=0) / sizes[:, None]
    return means


def _characters(text: bytes) -> list[tuple[int, int]]:
    """Return begin and end of each character of valid UTF-8."""
    starts = [i for i, byte in enumerate(text) if byte & 0xC0 != 0x80]
    return list(zip(starts, [*starts[1:], len(text)], strict=False))
