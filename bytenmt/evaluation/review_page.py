"""Write an HTML page for reviewing translations: source and target side by side.

Characters of the target are coloured by their bits, and the pointer marks the source characters that each was
made from.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from bytenmt.decoding.confidence import Verdict, bits_of_characters
from bytenmt.decoding.line_batch import TranslationResult
from bytenmt.errors import printable
from bytenmt.surprise_colours import colour, css_rules, legend, visible

if TYPE_CHECKING:  # it imports PyTorch
    from bytenmt.decoding.alignment import Link

STYLE = """
:root { color-scheme: light }
body { margin: 2rem auto; max-width: 80rem; padding: 0 1rem; font: 16px/1.6 system-ui, sans-serif;
  color: #1c1c1c; background: #fff }
h1 { font-size: 1.3rem } table { border-collapse: collapse; width: 100%; table-layout: fixed }
td { border-top: 1px solid #ddd; padding: .4rem .6rem; vertical-align: top; overflow-wrap: anywhere;
  white-space: pre-wrap } td:first-child { width: 3.5rem; color: #666; text-align: right }
td:last-child { width: 7rem; color: #666; font-size: .85rem } .flagged td:last-child { color: #a11 }
s, i { text-decoration: none; font-style: normal } .legend s { padding: .1em .6em; font-size: .85rem }
.on { outline: 2px solid #06c }
"""
SCRIPT = """
let lit = [];
document.querySelector("table").addEventListener("pointerover", event => {
  for (const one of lit) one.classList.remove("on");
  lit = [];
  const [row, of] = [event.target.closest("tr"), event.target.dataset.of];
  if (of === undefined) return;
  lit = [event.target, row.cells[1].children[of]].filter(one => one);
  for (const one of lit) one.classList.add("on");
});
"""


class ReviewPage:
    """The page.

    out: where it is written while translations arrive; title: any text.
    """

    def __init__(self, out: BinaryIO, title: str) -> None:
        self._out = out
        name = html.escape(printable(title))
        self._write(
            f'<!DOCTYPE html>\n<html lang="mul">\n<meta charset="utf-8">\n<title>{name}</title>\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<style>{STYLE}{''.join(css_rules())}</style>\n<h1>{name}</h1>\n"
            "<p>A character's colour says how many bits it cost; point at one to see what it was made"
            " from.</p>\n"
            f'<p class="legend">{"".join(legend())}</p>\n<table>\n'
        )

    def add(
        self, results: Sequence[TranslationResult], first: int, links: Sequence[Sequence[Link]] | None
    ) -> None:
        """Write lines from number `first` on, counted from 0. links: of each, if a model has attention."""
        for i, result in enumerate(results):
            self._write("".join(self._row(first + i + 1, result, [] if links is None else links[i])))

    def finish(self) -> None:
        """Write the end of the page."""
        self._write(f"</table>\n<script>{SCRIPT}</script>\n</html>\n")

    def _row(self, number: int, result: TranslationResult, links: Sequence[Link]) -> Iterator[str]:
        source, best = result.source, result.best
        level, reasons = Verdict.from_flags(best.flags or ())
        yield f"<tr{' class=flagged' if reasons else ''}><td>{number}<td dir=auto>"
        yield from (f"<i>{html.escape(visible(character))}</i>" for character in source.decode())
        yield "<td dir=auto>"
        of = {link.chars[0]: link.source_chars[0] for link in links}
        for k, (character, bits) in enumerate(bits_of_characters(best) if best.byte_scores else []):
            from_ = f" data-of={of[k]}" if k in of else ""
            shown = html.escape(visible(character)) if character else ""
            yield f'<s class=c{colour(bits)}{from_} title="{bits:.2f} bits">{shown}</s>'
        bits_a_byte = best.bits_per_byte
        told = [] if bits_a_byte is None else [f"{bits_a_byte:.2f} bits/byte"]
        yield f"<td>{html.escape('; '.join([level, *reasons, *told]))}</tr>\n"

    def _write(self, text: str) -> None:
        self._out.write(text.encode("utf-8"))
