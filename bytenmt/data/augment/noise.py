"""Noise in a text as people make it: typos, letter case, swapped neighbours, dropped and doubled
characters.

Each character is disturbed at random; ASCII digits and what is between two of them stay, as nobody
could guess what they were, and so do sentinels.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bytenmt.data.augment.draws import HALF, chance_threshold, draw_words, row_keys
from bytenmt.sentinels import to_bytes, to_text

KINDS = ("typo", "case", "swap", "drop", "double")  # equally often, where the character lets it
DIGITS = frozenset("0123456789")


class Letters(NamedTuple):
    """Two tables of the letters of some texts: the other case, and other letters for typos."""

    # Of a letter: the letter in the other case, where that has as many bytes.
    cased: dict[str, str]
    # Of a letter: all letters of its script, case and number of bytes, for typos.
    alike: dict[str, str]

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Letters:
        """Build both tables from the distinct letters of the texts, however often each occurs."""
        letters = sorted({letter for text in texts for letter in text if letter.isalpha()})
        groups: dict[tuple[int, str, bool], str] = {}
        for letter in letters:
            groups[_group(letter)] = groups.get(_group(letter), "") + letter
        cased = {letter: letter.swapcase() for letter in letters}
        return cls(
            {
                letter: other
                for letter, other in cased.items()
                if other != letter
                and len(other) == 1
                and len(other.encode()) == len(letter.encode())
            },
            {letter: groups[_group(letter)] for letter in letters},
        )


def _group(letter: str) -> tuple[int, str, bool]:
    script = unicodedata.name(letter, "").partition(" ")[0]
    return len(letter.encode()), script, letter.isupper()


def with_noise(data: bytes, share: float, letters: Letters, limit: int, key: np.uint64) -> bytes:
    """Return a text with typos, swapped or missing characters and the like at random places.

    data: UTF-8; bytes from 0xF5 to 0xFC in it (sentinels) and numbers stay. share: the share of
    its characters to change, 0 to 1. letters: from which typos are drawn. limit: number of bytes
    beyond which the text does not grow. key: random seed.
    """
    text = to_text(data)
    words = draw_words(key, 2 * len(text))  # one for each character, and another one for a typo
    parts, n_bytes = list[str](), len(data)
    place = word = 0  # the next character, and the draw for it
    for hit in np.flatnonzero(words >> HALF < chance_threshold(share)).tolist():
        position = place + hit - word
        if hit < word or position >= len(text):
            continue
        letter, following = text[position], text[position + 1 : position + 2]
        new, n_read = letter, 1
        parts.append(text[place:position])
        word = hit + 1
        if not _is_kept(text, position):
            kind = KINDS[(int(words[hit]) & 0xFFFFFFFF) * len(KINDS) >> 32]
            alike = letters.alike.get(letter, "")
            if kind == "case" and letter not in letters.cased:
                kind = "typo"
            if (
                (kind == "typo" and len(alike) < 2)
                or (
                    kind == "swap"
                    and (not following or following in DIGITS or _is_sentinel(following))
                )
                or (kind == "drop" and not following and not any(parts))  # no line gets empty
            ):
                kind = "double"
            width = len(letter.encode())
            if kind == "case":
                new = letters.cased[letter]
            elif kind == "typo":
                other = alike[(int(words[word]) >> 32) * (len(alike) - 1) >> 32]
                new = alike[-1] if other == letter else other
                word += 1
            elif kind == "swap":
                new, n_read = following + letter, 2
            elif kind == "drop":
                new, n_bytes = "", n_bytes - width
            elif n_bytes + width <= limit:
                new, n_bytes = 2 * letter, n_bytes + width
        parts.append(new)
        place = position + n_read
    return to_bytes("".join([*parts, text[place:]]))


def _is_kept(text: str, position: int) -> bool:
    """Return whether a character belongs to a number, or is a sentinel."""
    is_between = (
        position > 0
        and text[position - 1] in DIGITS
        and text[position + 1 : position + 2] in DIGITS
    )
    return text[position] in DIGITS or is_between or _is_sentinel(text[position])


def _is_sentinel(character: str) -> bool:
    return "\udc80" <= character <= "\udcff"


def noisy_lines(
    lines: Sequence[bytes], share: float, letters: Letters, seed: int = 0
) -> list[bytes]:
    """Add typos and the like to a share (0 to 1) of the characters of UTF-8 lines, see with_noise.

    letters: from which typos are drawn. The noise depends on seed, line number and text alone.
    """
    keys = row_keys(np.uint64(seed), np.arange(len(lines)))
    return [
        with_noise(line, share, letters, 2 * len(line), key)
        for line, key in zip(lines, keys, strict=True)
    ]
