"""Write an HTML page that colours each character of a text by its bits, while the text is read.

The figures are written last, and the browser shows them on top.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from bytenmt.errors import printable
from bytenmt.language.summary import ScoredCharacters
from bytenmt.surprise_colours import colour, css_rules, legend, visible
from bytenmt.utf8 import EOS, NEWLINE

SHOWN = 200_000  # bytes of text at most: a browser is slow with more
STYLE = """
:root { color-scheme: light }
body { display: flex; flex-direction: column; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
  font: 16px/1.5 system-ui, sans-serif; color: #1c1c1c; background: #fff }
header { order: -2 } footer { order: -1 }
h1 { font-size: 1.3rem; margin: 0 }
footer pre { overflow-x: auto; font-size: .85rem; line-height: 1.4 }
main { white-space: pre-wrap; overflow-wrap: anywhere; font: 15px/1.75 ui-monospace, monospace; tab-size: 4;
  border-top: 1px solid #ccc; padding-top: 1rem }
s { text-decoration: none; padding: .12em 0 }
s:hover { outline: 2px solid #06c }
.legend s { display: inline-block; padding: .1em .6em; font-size: .85rem }
"""


class Page:
    """An HTML page. out: where it is written; title: any text; line_ends: whether EOS ends a line."""

    def __init__(self, out: BinaryIO, title: str, line_ends: bool = False) -> None:
        self._out, self._line_ends = out, line_ends
        self._n_shown = self._n_bytes = 0
        name = html.escape(printable(title))
        self._write(
            f'<!DOCTYPE html>\n<html lang="mul">\n<meta charset="utf-8">\n<title>{name}</title>\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<style>{STYLE}{''.join(css_rules())}</style>\n<header><h1>{name}</h1>\n"
            "<p>Each character's colour says how many bits it cost; point at one to see its bytes.</p>\n"
            f'<p class="legend">{"".join(legend())}</p></header>\n<main>'
        )

    def add(self, whole: ScoredCharacters) -> None:
        """Write the next characters, up to the limit of the page."""
        self._n_bytes += len(whole.surprise.data)
        if self._n_shown < SHOWN:
            self._write("".join(self._marked(whole)))

    def finish(self, lines: Iterable[str]) -> None:
        """Write the figures and the end of the page."""
        figures = html.escape("\n".join(lines))
        left = f"<p>The text's first {self._n_shown} bytes of {self._n_bytes}:</p>\n"
        self._write(f"</main>\n<footer><pre>{figures}</pre>\n")
        self._write(f"{left if self._n_shown < self._n_bytes else ''}</footer>\n</html>\n")

    def _marked(self, whole: ScoredCharacters) -> Iterator[str]:
        data, bits, rank = (part.tolist() for part in whole.surprise)
        start = 0
        for name, n_bytes in zip(whole.characters.names(), whole.characters.n_bytes.tolist(), strict=True):
            if self._n_shown >= SHOWN:
                return
            own = slice(start, start + n_bytes)
            total = sum(bits[own])
            told = ", ".join(
                f"{byte:02X}: {cost:.2f} bits, rank {place + 1}"
                for byte, cost, place in zip(data[own], bits[own], rank[own], strict=True)
            )
            if n_bytes > 1:
                told = f"{total:.2f} bits; {told}"
            ends = data[start] == NEWLINE or self._line_ends and data[start] == EOS
            text = "↵" if ends else html.escape(visible(name))
            yield f'<s class=c{colour(total)} title="{told}">{text}</s>' + "\n" * ends
            start += n_bytes
            self._n_shown += n_bytes

    def _write(self, text: str) -> None:
        self._out.write(text.encode("utf-8"))
