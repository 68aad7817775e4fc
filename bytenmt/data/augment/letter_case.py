"""Write text in capitals, in title case and in small letters, to train models on all of them.

Kept spans (sentinels.py) keep their letters: a program would not find "%S" or "{NAME}".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from bytenmt.sentinels import find_spans

Case = Literal["upper", "title", "lower"]
# The first letter of a word; what follows an apostrophe inside one ("don't") begins none.
_WORD_START = re.compile(r"(?<![\w'’])[^\W\d_]")


def with_case(text: str, case: Case) -> str:
    """Return a text in another case, by Unicode's rules for letters: "groß" in capitals is "GROSS".

    Sentinels may stand in the text.
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


_CONVERSIONS: dict[Case, Callable[[str], str]] = {"upper": str.upper, "title": _title, "lower": str.lower}
