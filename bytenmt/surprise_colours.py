"""The colours of pages that show what each character cost a model. Knows bits and HTML; no texts."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator

BOUNDS = (0.25, 0.5, 1, 2, 3, 4, 6, 8, 12)  # bits of a character at which the next colour begins
COLOURS = ("fffff4", "fff6cf", "feebaa", "fed67f", "feb54f", "f98d2b", "e8631a", "c4410d", "8f2d0a", "571b08")
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def colour(bits: float) -> int:
    """The number of its colour."""
    return bisect_right(BOUNDS, bits)


def visible(name: str) -> str:
    """A character as it can be seen: what has no shape by its number."""
    if len(name) > 1 or name == "\t" or unicodedata.category(name) not in INVISIBLE:
        return name
    return chr(0x2400 + ord(name)) if ord(name) < 0x20 else f"⟨U+{ord(name):04X}⟩"


def rules() -> Iterator[str]:
    """CSS: the classes c0, c1, … of the colours."""
    for number, colour in enumerate(COLOURS):
        ink = "; color: #fff" if number >= len(COLOURS) - 3 else ""
        yield f".c{number} {{ background: #{colour}{ink} }}\n"


def legend() -> Iterator[str]:
    """HTML: each colour and its bits."""
    for number, (low, high) in enumerate(zip((0, *BOUNDS), (*BOUNDS, None), strict=True)):
        yield f"<s class=c{number}>{f'{low} to {high}' if high else f'{low} bits and more'}</s>"
