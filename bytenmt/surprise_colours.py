"""Colours for HTML pages that show the bits that a model needs for each character."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator

BOUNDS = (0.25, 0.5, 1, 2, 3, 4, 6, 8, 12)  # bits of a character at which the next colour begins
COLOURS = ("fffff4", "fff6cf", "feebaa", "fed67f", "feb54f", "f98d2b", "e8631a", "c4410d", "8f2d0a", "571b08")
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def colour(bits: float) -> int:
    """Return the index in COLOURS for a character that costs so many bits."""
    return bisect_right(BOUNDS, bits)


def visible(name: str) -> str:
    """Return a printable form of a character: invisible ones are shown by their code point."""
    if len(name) > 1 or name == "\t" or unicodedata.category(name) not in INVISIBLE:
        return name
    return chr(0x2400 + ord(name)) if ord(name) < 0x20 else f"⟨U+{ord(name):04X}⟩"


def css_rules() -> Iterator[str]:
    """Yield a CSS rule for each colour that a character has by its bits: classes c0 (cheap), c1, …"""
    for number, colour in enumerate(COLOURS):
        ink = "; color: #fff" if number >= len(COLOURS) - 3 else ""
        yield f".c{number} {{ background: #{colour}{ink} }}\n"


def legend() -> Iterator[str]:
    """Yield the HTML of a legend: each colour with its range of bits."""
    for number, (low, high) in enumerate(zip((0, *BOUNDS), (*BOUNDS, None), strict=True)):
        yield f"<s class=c{number}>{f'{low} to {high}' if high else f'{low} bits and more'}</s>"
