"""Draw attention weights of a line as a picture and as a page, with bytes merged to characters."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.alignment import by_character
from bytenmt.evaluation.drawing import Labels, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Weights = npt.NDArray[np.float64]  # (characters of the text, characters of the source + 1)
END = "↵"  # of the source, which can be attended to as well
INCH = 0.19  # of a character
LEVELS = 16  # of colour in a page
STYLE = """
:root { color-scheme: light }
body { margin: 2rem; font: 16px/1.5 system-ui, sans-serif; color: #1c1c1c; background: #fff }
h1 { font-size: 1.3rem } h2 { font-size: 1rem; margin: 1.5rem 0 .3rem }
main { display: flex; flex-wrap: wrap; gap: 0 3rem }
section { overflow-x: auto }
table { border-collapse: collapse; font: 14px/1.2 ui-monospace, monospace }
th { font-weight: normal; text-align: center; padding: .1rem .25rem; min-width: 1ch }
tr > th:first-child { text-align: right }
td { min-width: 1.15rem; height: 1.15rem; border: 1px solid #eee }
td:hover { outline: 2px solid #c40 }
"""


class HeatMaps(NamedTuple):
    """Attention weights of a line. source, text: without EOS; maps: by name; a single one has no name."""

    source: str
    text: str
    maps: Mapping[str, Weights]

    @classmethod
    def from_layers(
        cls, source: bytes, text: bytes, layers: Mapping[int, npt.NDArray[np.float32]]
    ) -> HeatMaps:
        """Merge the bytes of attention weights to characters.

        layers: see Aligner.by_layer; if there are several, their mean comes first.
        """
        merged = {
            f"layer {number}": by_character(weights, source, text) for number, weights in layers.items()
        }
        mean = np.mean([*merged.values()], axis=0)
        merged = {f"mean of {len(merged)} layers": mean, **merged} if len(merged) > 1 else {"": mean}
        return cls(source.decode(), text.decode(), merged)


def figure(of: HeatMaps) -> Figure:
    """Draw a panel for each map: the source along the top, the text down the side, dark for a large
    weight.
    """
    from matplotlib.figure import Figure

    labels = Labels.from_texts((of.source, of.text))
    across = [labels.legible(shown(letter)) for letter in of.source] + [END]
    down = [labels.legible(shown(letter)) for letter in of.text]
    width = INCH * (len(across) + max(map(len, down))) + 0.9
    height = INCH * (len(down) + max(map(len, across))) + 0.9
    n = len(of.maps)
    n_columns = min(n, max(1, round(math.sqrt(n * height / width))))
    n_rows = math.ceil(n / n_columns)
    made = Figure(figsize=(width * n_columns, height * n_rows + 0.4), layout="constrained")
    for place, (name, weights) in enumerate(of.maps.items(), 1):
        axes = made.add_subplot(n_rows, n_columns, place)
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="equal", interpolation="nearest")
        style: dict[str, Any] = {"fontsize": 9, "fontfamily": labels.families}
        upright = 90 if any(len(label) > 1 for label in across[:-1]) else 0
        axes.set_xticks(range(len(across)), across, rotation=upright, **style)
        axes.set_yticks(range(len(down)), down, **style)
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
        axes.set_xticks(np.arange(0.5, len(across) - 1), minor=True)
        axes.set_yticks(np.arange(0.5, len(down) - 1), minor=True)
        axes.grid(which="minor", color="#ddd", linewidth=0.4)
        axes.tick_params(which="minor", length=0)
        axes.set_xlabel(name)
    return made


def page(of: HeatMaps, title: str) -> bytes:
    """Return a self-contained HTML page with a table for each map; the pointer shows the weight of a cell."""
    return "\n".join([*_page(of, title), ""]).encode()


def _page(of: HeatMaps, title: str) -> Iterator[str]:
    name = html.escape(title)
    yield f'<!DOCTYPE html>\n<html lang="mul">\n<meta charset="utf-8">\n<title>{name}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{STYLE}{''.join(_rules())}</style>\n<h1>{name}</h1>"
    yield "<p>Each row is a character of the text, dark where in the source the model looked for it.</p>"
    yield "<main>"
    for called, weights in of.maps.items():
        yield f"<section><h2>{html.escape(called)}</h2>\n<table>" if called else "<section><table>"
        yield "".join(
            ["<tr><th>", *(f"<th>{html.escape(shown(letter))}" for letter in of.source), f"<th>{END}"]
        )
        for letter, row in zip(of.text, weights.tolist(), strict=True):
            yield "".join([f"<tr><th>{html.escape(shown(letter))}", *map(_cell, row)])
        yield "</table></section>"
    yield "</main>\n</html>"


def _cell(weight: float) -> str:
    level = min(LEVELS - 1, int(weight * LEVELS))
    return f'<td class=c{level} title="{weight:.3f}">' if level else f'<td title="{weight:.3f}">'


def _rules() -> Iterator[str]:
    """Yield CSS rules for colours from white to dark blue."""
    for level in range(1, LEVELS):
        share = level / (LEVELS - 1)
        red, green, blue = (round(255 + share * (dark - 255)) for dark in (8, 48, 107))
        yield f".c{level} {{ background: rgb({red} {green} {blue}) }}\n"
