"""Align output characters with source characters by the attention weights, summed from bytes to characters.

The weights come from one teacher-forced pass over a text that any engine has produced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.reading import Reader, Weights


class CharacterLink(NamedTuple):
    """An output character and the source character that it attends to most.

    bytes, chars: begin and end (exclusive) of the output character in its text, in bytes and in characters;
    source_bytes, source_chars: the same of the source character. weight: its share of the attention, from 0
    to 1, averaged over the output character's bytes.
    """

    bytes: tuple[int, int]
    chars: tuple[int, int]
    source_bytes: tuple[int, int]
    source_chars: tuple[int, int]
    weight: float


@dataclass(frozen=True, eq=False)
class Aligner:
    """Aligns texts with their sources by the attention weights of one model, or the mean of several.

    models: a reader of each model; all of them have attention.
    """

    models: Sequence[Reader]

    def weights(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[Weights]:
        """Return the attention weights of each pair (source, text) without EOS, averaged over layers and
        models.

        Each is float32 (bytes of the text, bytes of the source + 1): a row for each predicted byte, a column
        for each source byte and, last, its EOS.
        """
        asked = [i for i in range(len(pairs)) if pairs[i][1]]
        means = [np.zeros((len(text), len(source) + 1), np.float32) for source, text in pairs]
        for model in self.models if asked else ():
            for i, layers in zip(asked, model.attention_weights([pairs[i] for i in asked]), strict=True):
                means[i] += sum(layers.values()) / (len(layers) * len(self.models))
        return means

    def links(self, lines: Sequence[Sequence[tuple[bytes, bytes, bytes]]]) -> list[list[CharacterLink]]:
        """Return the links of each line: one for each output character, in order.

        lines: the chunks (source, text, separator) of each, as TranslationResult.best_chunks returns them.
        The separator follows its chunk in source and text and has no link.
        """
        pairs = [(source, text) for line in lines for source, text, _ in line]
        weights = iter(self.weights(pairs))
        links_of_lines = []
        for line in lines:
            links, text_before, source_before = list[CharacterLink](), b"", b""
            for source, text, separator in line:
                links += link_characters(next(weights), source, text, text_before, source_before)
                text_before += text + separator
                source_before += source + separator
            links_of_lines.append(links)
        return links_of_lines


def link_characters(
    weights: Weights, source: bytes, text: bytes, text_before: bytes = b"", source_before: bytes = b""
) -> list[CharacterLink]:
    """Return a link for each character of a text, made of attention weights; none if the source is empty.

    weights: (bytes of the text, bytes of the source + 1). The weight of a source character is the sum over
    its bytes. text_before, source_before: earlier parts of both texts, after which positions are counted.
    """
    if not source or not text:
        return []
    means = character_weights(weights, source, text)[:, :-1]
    spans, source_spans = _characters(text, len(text_before)), _characters(source, len(source_before))
    n_chars, n_source_chars = len(text_before.decode()), len(source_before.decode())
    links = []
    for k, j in enumerate(means.argmax(axis=1).tolist()):
        chars, source_chars = (n_chars + k, n_chars + k + 1), (n_source_chars + j, n_source_chars + j + 1)
        links.append(
            CharacterLink(spans[k], chars, source_spans[j], source_chars, round(float(means[k, j]), 6))
        )
    return links


def character_weights(weights: Weights, source: bytes, text: bytes) -> npt.NDArray[np.float64]:
    """Return the attention weights of characters: (characters of the text, characters of the source + 1).

    weights: (bytes of the text, bytes of the source + 1). They are summed over the bytes of a source
    character and averaged over those of a text character. The last column is the EOS of the source.
    """
    source_starts = [start for start, _ in _characters(source)]
    of_source = np.add.reduceat(weights, [*source_starts, len(source)], axis=1)
    starts, ends = zip(*_characters(text), strict=True)
    sizes = np.array(ends) - np.array(starts)
    means: npt.NDArray[np.float64] = np.add.reduceat(of_source, starts, axis=0) / sizes[:, None]
    return means


def _characters(text: bytes, first: int = 0) -> list[tuple[int, int]]:
    """Return begin and end of each character of valid UTF-8, whose first byte has the number `first`."""
    starts = [i for i, byte in enumerate(text, first) if byte & 0xC0 != 0x80]
    return list(zip(starts, [*starts[1:], first + len(text)], strict=False))
