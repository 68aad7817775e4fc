"""Tell the script of a character."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

ESCAPED, LAST_ESCAPED = 0xDC80, 0xDCFF  # how Python's surrogateescape keeps a byte that is not UTF-8
NOT_UTF8 = "not UTF-8"
SPACES = "spaces and line ends"
SYMBOLS = frozenset("<>[]{}()|=&*_#/\\`~^@$%+")
NAMED = ("Latin", "Hangul", "Greek", "Cyrillic", "Arabic", "Hebrew", "Devanagari", "Thai")
SCRIPTS = {"FULLWIDTH": "Latin", "CJK": "Han", "HIRAGANA": "Kana", "KATAKANA": "Kana"}  # by the first word of
SCRIPTS |= {name.upper(): name for name in NAMED}  # a character's name


@lru_cache(maxsize=1 << 16)
def script(code: int) -> str:
    """Return the group of a code point by which figures are listed: its script ("Latin"), or its kind
    ("digits") if it is not a letter."""
    if ESCAPED <= code <= LAST_ESCAPED:
        return NOT_UTF8
    character = chr(code)
    if character.isspace():
        return SPACES
    if character in SYMBOLS:
        return "brackets and symbols"
    kind = unicodedata.category(character)
    if kind.startswith("N"):
        return "digits"
    if kind.startswith("P"):
        return "punctuation"
    if kind[0] not in "LM":
        return "other symbols"
    return SCRIPTS.get(unicodedata.name(character, "").split(" ")[0], "other letters")
