"""Profiles of languages: the most frequent byte trigrams of a text, small enough for a file's metadata.

Training counts one of either side of its corpus, a weights file carries them, and evaluation.judge tells by
them a translation that is in the language of its source. As text a profile is the base64 of four bytes for
each trigram: its three bytes and a logarithm of its count.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

N_BYTES = 3  # of an n-gram
MOST_TRIGRAMS = 1000
SAMPLED_BYTES = 400_000  # of a text; more changes little
LONGEST_LINE = 1000  # bytes of each line that are sampled
STEPS = 8  # of a count's logarithm, between a number and its double
# What says nothing of a language: white space, digits, and ASCII and general punctuation.
NO_LETTERS = re.compile(r"[\s\d!-/:-@\[-`{-~\u00a0-\u00bf\u2000-\u206f\u3000-\u303f\ufffd]+")


def normalise(text: str) -> bytes:
    """Prepare a text for counting trigrams: lower case, digits and punctuation removed, one space before and
    after each word, in UTF-8."""
    return f" {NO_LETTERS.sub(' ', text.lower()).strip()} ".encode("utf-8", "ignore")


class LanguageProfile(NamedTuple):
    """The 1000 (MOST_TRIGRAMS) most frequent byte trigrams of a text and their counts, by which its language
    is told from others."""

    keys: npt.NDArray[np.uint64]  # (m,), ascending: the three bytes of each trigram, the last one lowest
    counts: npt.NDArray[np.int64]  # (m,): how often each trigram occurs

    @staticmethod
    def from_lines(lines: Iterable[bytes]) -> LanguageProfile | None:
        """Count the byte trigrams of the first 400,000 bytes of a text; return None if it has no letters."""
        parts, size = [], 0
        for line in lines:
            parts.append(normalise(line[:LONGEST_LINE].decode("utf-8", "ignore")))
            size += len(parts[-1])
            if size >= SAMPLED_BYTES:
                break
        data = np.frombuffer(b"".join(parts), np.uint8).astype(np.uint64)
        if size <= 2 * len(parts):
            return None
        trigrams = data[:-2] << np.uint64(16) | data[1:-1] << np.uint64(8) | data[2:]
        keys, counts = np.unique(trigrams, return_counts=True)
        most = np.sort(np.argsort(-counts, kind="stable")[:MOST_TRIGRAMS])
        return LanguageProfile(keys[most], counts[most].astype(np.int64))

    def to_text(self) -> str:
        """Write the profile as base64 text for a file's metadata; counts are rounded by at most five
        percent."""
        logarithms = np.round(STEPS * np.log2(self.counts)).clip(0, 255).astype(np.uint8)
        columns = [(self.keys >> np.uint64(shift)).astype(np.uint8) for shift in (16, 8, 0)]
        return base64.b64encode(np.stack([*columns, logarithms], axis=1).tobytes()).decode("ascii")

    @staticmethod
    def from_text(text: str) -> LanguageProfile:
        """Read a profile that to_text has written. Raises ValueError for any other text."""
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("a language profile is not base64") from None
        if not data or len(data) % 4 or len(data) > 4 * MOST_TRIGRAMS:
            raise ValueError(f"a language profile has {len(data)} bytes: expected 4 for each trigram")
        first, second, third, logarithms = np.frombuffer(data, np.uint8).reshape(-1, 4).T.astype(np.uint64)
        keys = first << np.uint64(16) | second << np.uint64(8) | third
        if (keys[1:] <= keys[:-1]).any():
            raise ValueError("the trigrams of a language profile are not in order")
        counts = np.round(2.0 ** (logarithms.astype(float) / STEPS)).astype(np.int64)
        return LanguageProfile(keys, counts)
