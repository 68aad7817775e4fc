"""Align output characters with source characters by attention weights.

Weights of bytes are summed to those of characters. The weights come from one teacher-forced pass
over a text that any engine has produced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.scorer import Scorer, Weights


class CharacterLink(NamedTuple):
    """An output character and the source character to which the model attends most for it.

    The byte at which a character begins is len(text[:begin].encode()).
    """

    chars: tuple[int, int]  # begin and end (exclusive) of the output character, in characters
    source_chars: tuple[int, int]  # begin and end of the source character
    weight: float  # attention to it, 0 to 1: sum over its bytes, mean over the output's bytes


def align_lines(
    models: Sequence[Scorer], lines: Sequence[Sequence[tuple[bytes, bytes, bytes]]]
) -> list[list[CharacterLink]]:
    """Align lines with their translations: return a link for each output character, in order.

    models: scorers of models with attention. lines: for each line the (source, translation,
    separator) of its chunks (parts that were translated one by one), in UTF-8. A separator follows
    its chunk in both texts and has no link.
    """
    pairs = [(source, text) for line in lines for source, text, _ in line]
    weights = iter(mean_weights(models, pairs))
    links_of_lines = []
    for line in lines:
        links = list[CharacterLink]()
        n_before = 0  # characters of the line before this chunk
        n_source_before = 0
        for source, text, separator in line:
            links += link_characters(next(weights), source, text, n_before, n_source_before)
            n_before += len((text + separator).decode())
            n_source_before += len((source + separator).decode())
        links_of_lines.append(links)
    return links_of_lines


def mean_weights(models: Sequence[Scorer], pairs: Sequence[tuple[bytes, bytes]]) -> list[Weights]:
    """Return the attention weights of each pair (source, text) without EOS, averaged over layers
    and models.

    models: scorers of models with attention. Weights are float32 (bytes of the text, bytes of the
    source + 1): a row for each predicted byte, a column for each source byte and, last, its EOS.
    """
    with_text = [i for i, (_, text) in enumerate(pairs) if text]
    means = [np.zeros((len(text), len(source) + 1), np.float32) for source, text in pairs]
    if not with_text:
        return means
    for model in models:
        weights = model.attention_weights([pairs[i] for i in with_text])
        for i, layers in zip(with_text, weights, strict=True):
            means[i] += sum(layers.values()) / (len(layers) * len(models))
    return means


def link_characters(
    weights: Weights, source: bytes, text: bytes, n_before: int = 0, n_source_before: int = 0
) -> list[CharacterLink]:
    """Return a link to the source for each character of a text; none if the source is empty.

    weights: attention (bytes of the text, bytes of the source + 1). source, text: UTF-8. n_before,
    n_source_before: characters of the line before the text and source, added to all positions.
    """
    if not source or not text:
        return []
    means = character_weights(weights, source, text)[:, :-1]
    links = []
    for k, j in enumerate(means.argmax(axis=1).tolist()):
        begin = n_before + k
        source_begin = n_source_before + j
        weight = round(float(means[k, j]), 6)
        links.append(CharacterLink((begin, begin + 1), (source_begin, source_begin + 1), weight))
    return links


def character_weights(weights: Weights, source: bytes, text: bytes) -> npt.NDArray[np.float64]:
    """Return attention weights of characters from weights of bytes.

    weights: (bytes of the text, bytes of the source + 1), a row for each predicted byte. Returns
    (characters of the text, characters of the source + 1), EOS last: summed over the bytes of a
    source character, averaged over those of a text character.
    """
    of_source = np.add.reduceat(weights, [*_starts(source), len(source)], axis=1)
    starts = _starts(text)
    sizes = np.diff([*starts, len(text)])
    means: npt.NDArray[np.float64] = np.add.reduceat(of_source, starts, axis=0) / sizes[:, None]
    return means


def _starts(text: bytes) -> list[int]:
    """Return where each character of valid UTF-8 begins, in bytes."""
    return [i for i, byte in enumerate(text) if byte & 0xC0 != 0x80]
