"""Split a stream of bytes into characters, and tell their scripts and the position of each byte in its
character.

Bytes that are not UTF-8 are taken one by one.
"""

from __future__ import annotations

import codecs
import unicodedata
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

ESCAPED, LAST_ESCAPED = 0xDC80, 0xDCFF  # how Python's surrogateescape keeps a byte that is not UTF-8
NOT_UTF8 = "not UTF-8"
POSITIONS = ("one byte", "first byte", "continuation", NOT_UTF8)

SPACES = "spaces and line ends"
MARKUP = frozenset("<>[]{}()|=&*_#/\\`~^@$%+")
SCRIPTS = {  # by the first word of a character's name
    "LATIN": "Latin",
    "FULLWIDTH": "Latin",
    "HANGUL": "Hangul",
    "CJK": "Han",
    "HIRAGANA": "Kana",
    "KATAKANA": "Kana",
    "GREEK": "Greek",
    "CYRILLIC": "Cyrillic",
    "ARABIC": "Arabic",
    "HEBREW": "Hebrew",
    "DEVANAGARI": "Devanagari",
    "THAI": "Thai",
}


class Characters(NamedTuple):
    """Characters of a text.

    code (n,) uint32: code points, a byte that is not UTF-8 as 0xDC00 plus the byte; n_bytes (n,) int64.
    """

    code: npt.NDArray[np.uint32]
    n_bytes: npt.NDArray[np.int64]

    def names(self) -> list[str]:
        r"""Return a name of each character for JSON or a page: itself, or \xff for a byte that is not
        UTF-8.
        """
        return [
            chr(code) if not ESCAPED <= code <= LAST_ESCAPED else f"\\x{code - 0xDC00:02x}"
            for code in self.code.tolist()
        ]


class Splitter:
    """Splits a stream of bytes into whole characters; an incomplete character waits for the next call."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def split(self, data: bytes, last: bool = False) -> Characters:
        """Return the characters that these bytes complete. last: nothing follows."""
        text = self._decoder.decode(data, last)
        code = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        n_bytes = 1 + (code >= 0x80).astype(np.int64) + (code >= 0x800) + (code >= 0x10000)
        n_bytes[(code >= ESCAPED) & (code <= LAST_ESCAPED)] = 1
        return Characters(code, n_bytes)


@lru_cache(maxsize=1 << 16)
def script(code: int) -> str:
    """Return the group of a character: its script, or its kind if it is not a letter."""
    if ESCAPED <= code <= LAST_ESCAPED:
        return NOT_UTF8
    character = chr(code)
    if character.isspace():
        return SPACES
    if character in MARKUP:
        return "markup"
    kind = unicodedata.category(character)
    if kind.startswith("N"):
        return "digits"
    if kind.startswith("P"):
        return "punctuation"
    if kind[0] not in "LM":
        return "symbols and others"
    return SCRIPTS.get(unicodedata.name(character, "").split(" ")[0], "other letters")


def positions(characters: Characters) -> npt.NDArray[np.int64]:
    """Return the position of each byte in its character as indices (bytes,) into POSITIONS."""
    code, n_bytes = characters
    first = np.where(n_bytes > 1, 1, np.where(code >= 0x80, 3, 0))
    of_bytes = np.full(int(n_bytes.sum()), 2, np.int64)
    of_bytes[np.cumsum(n_bytes) - n_bytes] = first
    return of_bytes
