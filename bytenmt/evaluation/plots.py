"""Draw figures with matplotlib: learning curves and attention weights.

Labels may be of any script; a character that no font of FAMILIES has is a box.
"""

from __future__ import annotations

import importlib.util
import io
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bytenmt.errors import BytenmtError
from bytenmt.translation.alignment import character_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Fonts of labels; matplotlib brings the first one. The others have Korean, Chinese and Japanese
# letters.
FAMILIES = (
    "DejaVu Sans",
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "NanumGothic",
    "Malgun Gothic",
    "Apple SD Gothic Neo",
)
FIRST_EASTERN = "\u2e80"  # from here on characters are in the other fonts alone
LARGEST = 12_000  # most pixels of a picture's longer side
DPI = 120
INCH = 0.19  # inches of a character in a heat map
END = "↵"  # of the source, which can be attended to as well

Records = Sequence[Mapping[str, float]]  # of metrics.jsonl, see comparison.read_metrics
Weights = npt.NDArray[
    np.float64
]  # attention: (characters of the text, characters of the source + EOS)

CURVES = (  # keys of the records of metrics, labels, and what the first key is divided by
    ("update", "valid_bits_per_byte", "update", "bits per byte", 1.0),
    ("seconds", "valid_bits_per_byte", "minutes", "bits per byte", 60.0),
    ("seconds", "valid_chrf", "minutes", "chrF", 60.0),
)
LOOKS: dict[str, dict[str, Any]] = {
    "validation": {"marker": "o", "markersize": 3, "linewidth": 1.2},
    "training": {"linewidth": 0.6, "alpha": 0.6},
}


def check_picture(output: str) -> None:
    """Raise BytenmtError if the name of a picture does not end in .png, or matplotlib is not
    installed."""
    if not output.endswith(".png"):
        raise BytenmtError(f"{output}: give a name that ends in .png")
    if importlib.util.find_spec("matplotlib") is None:
        raise BytenmtError(
            "drawing needs a missing package, matplotlib: pip install 'bytenmt[plots]'"
        )


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG file; a very large one has fewer dots per inch."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Glyph .* missing"
        )  # one for each character without a font
        figure.savefig(file, format="png", dpi=min(DPI, LARGEST / max(figure.get_size_inches())))
    return file.getvalue()


def label_families() -> list[str]:
    """Return those of FAMILIES that are installed: the fonts of labels, in order of preference."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [name for name in FAMILIES if name in installed]


def visible_label(letter: str) -> str:
    """Return a visible label for a character: ␣ for a space, the code point in hex if it is not
    printable."""
    if letter == " ":
        return "␣"
    return letter if letter.isprintable() else f"{ord(letter):04X}"


def learning_curves(runs: Mapping[str, Records]) -> Figure:
    """Draw learning curves, a line for each run: validation bits per byte by update and by time,
    and chrF by time, each in a panel if any run has measured it.

    runs: the records of each run, by the name that the legend shows.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    panels = [
        curve
        for curve in CURVES
        if any(curve[1] in record for log in runs.values() for record in log)
    ]
    panels = panels or [*CURVES[:2]]  # before the first validation: training alone
    figure = Figure(figsize=(4.4 * len(panels), 4.2), layout="constrained")
    for place, (x, y, x_label, y_label, unit) in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), place)
        for number, (name, records) in enumerate(runs.items()):
            valid, trained = (
                [(record[x] / unit, record[key]) for record in records if key in record]
                for key in (y, "train_bits_per_byte")
            )
            spans = np.diff(
                [0, *(record["update"] for record in records if "train_bits_per_byte" in record)]
            )
            if trained and 2 * spans[-1] < max(
                spans
            ):  # the mean of a rest of a log interval makes a hook
                trained.pop()
            style = {"color": f"C{number % 10}", "linestyle": ("-", "--", ":")[number // 10 % 3]}
            look = LOOKS["validation"] | style | {"label": name}
            if valid:
                axes.plot(*zip(*valid, strict=True), **look)
            if trained and y == "valid_bits_per_byte":
                axes.plot(*zip(*trained, strict=True), **LOOKS["training"] | style)
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    lines = figure.axes[0].get_legend_handles_labels()[0]
    lines += [Line2D([], [], color="k", label=label, **look) for label, look in LOOKS.items()]
    font = {"family": label_families()}
    figure.legend(handles=lines, loc="outside upper center", ncols=4, frameon=False, prop=font)
    return figure


def attention_maps(
    source: bytes, text: bytes, layers: Mapping[int, npt.NDArray[np.float32]]
) -> dict[str, Weights]:
    """Return the attention weights of characters instead of bytes, by a title for each layer.

    The mean of several layers comes first. layers: weights, (bytes of text, bytes of source + 1 for
    EOS), by the number of the layer, from 1.
    """
    maps = {
        f"layer {number}": character_weights(weights, source, text)
        for number, weights in layers.items()
    }
    mean = np.mean([*maps.values()], axis=0)
    return {f"mean of {len(maps)} layers": mean, **maps} if len(maps) > 1 else {"": mean}


def draw_attention(source: str, text: str, maps: Mapping[str, Weights]) -> Figure:
    """Draw a heat map for each map of attention_maps: source at the top, text at the side, large is
    dark."""
    from matplotlib.figure import Figure

    across, down = ([*map(visible_label, line)] for line in (source, text))
    across.append(END)
    width = INCH * (len(across) + max(map(len, down))) + 0.9
    height = INCH * (len(down) + max(map(len, across))) + 0.9
    n_columns = min(len(maps), max(1, round(math.sqrt(len(maps) * height / width))))
    n_rows = math.ceil(len(maps) / n_columns)
    figure = Figure(figsize=(width * n_columns, height * n_rows + 0.4), layout="constrained")
    for place, (name, weights) in enumerate(maps.items(), 1):
        axes = figure.add_subplot(n_rows, n_columns, place)
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="equal", interpolation="nearest")
        style: dict[str, Any] = {"fontsize": 9, "fontfamily": label_families()}
        upright = 90 if max(map(len, across)) > 1 else 0
        axes.set_xticks(range(len(across)), across, rotation=upright, **style)
        axes.set_yticks(range(len(down)), down, **style)
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
        axes.set_xlabel(name)
    return figure
