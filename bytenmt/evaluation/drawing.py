"""Helpers for pictures: matplotlib's set-up, and labels in any script.

A character that no installed font has is written in letters that one has.
"""

from __future__ import annotations

import importlib.util
import io
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXTRA = "plots"
SANS, MONO = "DejaVu Sans", "DejaVu Sans Mono"  # matplotlib brings them
NO_FONT = "Last Resort"  # a family of boxes that claims to have every character
LARGEST = 12_000  # pixels of a picture's longer side
DPI = 120


def require_matplotlib() -> None:
    """Raise BytenmtError if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise BytenmtError(
            f"drawing needs matplotlib, which is not installed: pip install 'bytenmt[{EXTRA}]'"
        )


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG file; a very large one has fewer dots per inch."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=min(DPI, LARGEST / max(figure.get_size_inches())))
    return file.getvalue()


class Labels(NamedTuple):
    """Fonts for labels.

    families: the fonts to draw with, in order of preference; unknown: characters that none has.
    """

    families: list[str]
    unknown: frozenset[str]

    @classmethod
    def from_texts(cls, texts: Iterable[str], family: str = SANS) -> Labels:
        """Choose fonts for all characters of these texts, as far as this machine has them."""
        missing = {ord(letter) for text in texts for letter in text if letter > " "}
        families = [family]
        missing -= _characters(_file(family))
        # One after another the font that has most of what is still missing.
        while missing:
            had = {name: len(missing & _characters(file)) for name, file in _fonts()}
            best = max(had, key=lambda name: had[name], default="")
            if not had.get(best):
                break
            families.append(best)
            missing -= _characters(dict(_fonts())[best])
        return cls(families, frozenset(map(chr, missing)))

    def legible(self, text: str) -> str:
        """Return a text with characters that the fonts lack replaced by ones that they have."""
        return "".join(spelt(letter) if letter in self.unknown else letter for letter in text)


def spelt(letter: str) -> str:
    """Write a character in ASCII: a Hangul syllable by its sound, any other by its number."""
    name = unicodedata.name(letter, "")
    if name.startswith("HANGUL SYLLABLE "):
        return name.removeprefix("HANGUL SYLLABLE ").lower()
    return f"{ord(letter):04X}"


def shown(letter: str) -> str:
    """Return a visible label for a character: a sign for a space and for characters without a shape."""
    if letter == " ":
        return "␣"
    if ord(letter) < 0x20:
        return chr(0x2400 + ord(letter))
    return letter if letter.isprintable() else f"{ord(letter):04X}"


@cache
def _fonts() -> Sequence[tuple[str, str]]:
    """Return the families of upright fonts of usual weight, and a file of each."""
    from matplotlib.font_manager import fontManager

    found = {
        font.name: font.fname
        for font in fontManager.ttflist
        if font.style == "normal" and font.weight in (400, "normal", "regular") and NO_FONT not in font.name
    }
    return sorted(found.items())


def _file(family: str) -> str:
    from matplotlib.font_manager import findfont

    return str(findfont(family))


@cache
def _characters(file: str) -> frozenset[int]:
    """Return the characters that a font has; none if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(FT2Font(file).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
