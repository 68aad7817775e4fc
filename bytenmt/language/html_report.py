"""Make an HTML page that colours each character of a text by its bits."""

from __future__ import annotations

import html
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from bytenmt.errors import printable
from bytenmt.language.scripts import ESCAPED, LAST_ESCAPED
from bytenmt.language.summary import Characters
from bytenmt.utf8 import EOS, NEWLINE

SHOWN = 200_000  # bytes of text at most: a browser is slow with more
BOUNDS = (0.25, 0.5, 1, 2, 3, 4, 6, 8, 12)  # bits of a character at which the next colour begins
COLOURS = ("fffff4", "fff6cf", "feebaa", "fed67f", "feb54f", "f98d2b", "e8631a", "c4410d", "8f2d0a", "571b08")
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # categories of characters
STYLE = "body { font: 15px/1.75 monospace } main { white-space: pre-wrap } s { text-decoration: none }\n"


def page(title: str, text: Iterable[Characters], figures: Sequence[str], line_ends: bool = False) -> bytes:
    """Return a self-contained HTML page: the figures, then the text, each character coloured by its bits.

    A tooltip has the bits and ranks of its bytes. text: from WholeCharacters; figures: lines for the top;
    line_ends: EOS ends a line, as in translations.
    """
    name = html.escape(printable(title))
    style = STYLE + "".join(f".c{number} {{ background: #{one} }}\n" for number, one in enumerate(COLOURS))
    legend = "".join(f"<s class=c{number}> {low} </s>" for number, low in enumerate((0, *BOUNDS)))
    marked = "".join(mark for characters in text for mark in _marked(characters, line_ends))
    return (
        f'<!DOCTYPE html>\n<html lang="mul">\n<meta charset="utf-8">\n<title>{name}</title>\n'
        f"<style>{style}</style>\n<h1>{name}</h1>\n<pre>{html.escape(chr(10).join(figures))}</pre>\n"
        f"<p>Bits of a character, at least: {legend}</p>\n<main>{marked}</main>\n</html>\n"
    ).encode()


def _marked(characters: Characters, line_ends: bool) -> Iterator[str]:
    data, bits, rank = (part.tolist() for part in characters.surprise)
    begin = 0
    for code, n_bytes in zip(characters.code.tolist(), characters.n_bytes.tolist(), strict=True):
        own = slice(begin, begin + n_bytes)
        costs = ", ".join(
            f"{byte:02X}: {cost:.2f} bits, rank {place + 1}"
            for byte, cost, place in zip(data[own], bits[own], rank[own], strict=True)
        )
        ends = data[begin] == NEWLINE or (line_ends and data[begin] == EOS)
        shown = "↵" if ends else html.escape(visible(code))
        colour = bisect_right(BOUNDS, sum(bits[own]))
        yield f'<s class=c{colour} title="{costs}">{shown}</s>' + "\n" * ends
        begin += n_bytes


def visible(code: int) -> str:
    r"""Return a visible text for a code point: the character, a sign or number, or \xff for a stray byte."""
    if ESCAPED <= code <= LAST_ESCAPED:
        return f"\\x{code - 0xDC00:02x}"
    if chr(code) == "\t" or unicodedata.category(chr(code)) not in INVISIBLE:
        return chr(code)
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"
