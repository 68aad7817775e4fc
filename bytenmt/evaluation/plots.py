"""Draw figures with matplotlib: learning curves and attention weights.

Labels may be of any script; a character that no font of FAMILIES has is a box.
"""

from __future__ import annotations

import importlib.util
import io
import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

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
MAX_PIXELS = 12_000  # of a picture's longer side
DPI = 120
CHARACTER_INCHES = 0.19  # of a heat map
END_LABEL = "↵"  # the end of the source, which can be attended to as well

Records = Sequence[Mapping[str, float]]  # of metrics.jsonl, see comparison.read_metrics
Weights = npt.NDArray[np.float64]  # (characters of text, of source + EOS)


class Curve(NamedTuple):
    """A panel of a figure of learning curves: what its two axes show."""

    x: str  # key of the records in metrics.jsonl, such as "seconds"
    y: str  # key of the records in metrics.jsonl, such as "valid_chrf"
    x_label: str
    y_label: str
    x_unit: float  # what x is divided by, such as 60 for minutes

    def points(self, records: Records, y: str) -> list[tuple[float, float]]:
        """Return (x / x_unit, value of y) of each record in metrics.jsonl that has the key y.

        y: a key such as self.y, or "train_bits_per_byte" for a second line in the panel.
        """
        return [(record[self.x] / self.x_unit, record[y]) for record in records if y in record]


CURVES = (
    Curve("update", "valid_bits_per_byte", "update", "bits per byte", 1.0),
    Curve("seconds", "valid_bits_per_byte", "minutes", "bits per byte", 60.0),
    Curve("seconds", "valid_chrf", "minutes", "chrF", 60.0),
)
LOOKS: dict[str, dict[str, Any]] = {
    "validation": {"marker": "o", "markersize": 3, "linewidth": 1.2},
    "training": {"linewidth": 0.6, "alpha": 0.6},
}
LINE_STYLES = ("-", "--", ":")  # of the first ten runs, the next ten, and the next


def check_picture(output: str) -> None:
    """Raise BytenmtError if a picture's name does not end in .png, or matplotlib is missing."""
    if not output.endswith(".png"):
        raise BytenmtError(f"{output}: give a name that ends in .png")
    if importlib.util.find_spec("matplotlib") is None:
        missing = "drawing needs a missing package, matplotlib"
        raise BytenmtError(f"{missing}: pip install 'bytenmt[plots]'")


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG file; a very large one has fewer dots per inch."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        # One for each character without a font.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        dpi = min(DPI, MAX_PIXELS / max(figure.get_size_inches()))
        figure.savefig(file, format="png", dpi=dpi)
    return file.getvalue()


def label_families() -> list[str]:
    """Return the installed fonts for labels, of those in FAMILIES, in order of preference."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [name for name in FAMILIES if name in installed]


def visible_label(letter: str) -> str:
    """Return a visible label for a character: ␣ for a space, a code point if not printable."""
    if letter == " ":
        return "␣"
    return letter if letter.isprintable() else f"{ord(letter):04X}"


def learning_curves(runs: Mapping[str, Records]) -> Figure:
    """Draw learning curves: one line per run; panels for bits per byte, and chrF if measured.

    runs: the records of metrics.jsonl of each run, by the run's name for the legend.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    measured = set(chain.from_iterable(chain.from_iterable(runs.values())))
    panels = [curve for curve in CURVES if curve.y in measured]
    panels = panels or [*CURVES[:2]]  # before the first validation: training alone
    figure = Figure(figsize=(4.4 * len(panels), 4.2), layout="constrained")
    for place, panel in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), place)
        for number, (name, records) in enumerate(runs.items()):
            valid = panel.points(records, panel.y)
            trained = _training_points(panel, records)
            line_style = LINE_STYLES[number // 10 % len(LINE_STYLES)]
            style = {"color": f"C{number % 10}", "linestyle": line_style}
            look = LOOKS["validation"] | style | {"label": name}
            if valid:
                axes.plot(*zip(*valid, strict=True), **look)
            if trained and panel.y == "valid_bits_per_byte":
                axes.plot(*zip(*trained, strict=True), **LOOKS["training"] | style)
        axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    lines = figure.axes[0].get_legend_handles_labels()[0]
    lines += [Line2D([], [], color="k", label=label, **look) for label, look in LOOKS.items()]
    font = {"family": label_families()}
    figure.legend(handles=lines, loc="outside upper center", ncols=4, frameon=False, prop=font)
    return figure


def _training_points(panel: Curve, records: Records) -> list[tuple[float, float]]:
    """Return the points of the training loss, without a last one of a short interval, a hook."""
    points = panel.points(records, "train_bits_per_byte")
    updates = [record["update"] for record in records if "train_bits_per_byte" in record]
    spans = np.diff([0, *updates])
    if points and 2 * spans[-1] < max(spans):
        points.pop()
    return points


def attention_maps(
    source: bytes, text: bytes, layers: Mapping[int, npt.NDArray[np.float32]]
) -> dict[str, Weights]:
    """Merge attention weights of bytes into weights of characters; return a map for each layer.

    A map is (characters of text, characters of source + 1), by a title such as "layer 2"; the mean
    of several layers comes first. layers: weights, (bytes of text, bytes of source + 1 for EOS), by
    the number of the layer, from 1.
    """
    maps = {
        f"layer {number}": character_weights(weights, source, text)
        for number, weights in layers.items()
    }
    mean = np.mean([*maps.values()], axis=0)
    return {"": mean} if len(maps) == 1 else {f"mean of {len(maps)} layers": mean, **maps}


def draw_attention(source: str, text: str, maps: Mapping[str, Weights]) -> Figure:
    """Draw attention weights as heat maps: source at the top, text (its translation) at the side.

    maps: weights, (characters of text, of source + 1 for EOS), by title, from attention_maps.
    """
    from matplotlib.figure import Figure

    across = [*map(visible_label, source), END_LABEL]
    down = [*map(visible_label, text)]
    width = CHARACTER_INCHES * (len(across) + max(map(len, down))) + 0.9
    height = CHARACTER_INCHES * (len(down) + max(map(len, across))) + 0.9
    n_columns = min(len(maps), max(1, round(math.sqrt(len(maps) * height / width))))
    n_rows = math.ceil(len(maps) / n_columns)
    figure = Figure(figsize=(width * n_columns, height * n_rows + 0.4), layout="constrained")
    for place, (name, weights) in enumerate(maps.items(), 1):
        axes = figure.add_subplot(n_rows, n_columns, place)
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="equal", interpolation="nearest")
        style: dict[str, Any] = {"fontsize": 9, "fontfamily": label_families()}
        degrees = 90 if max(map(len, across)) > 1 else 0
        axes.set_xticks(range(len(across)), across, rotation=degrees, **style)
        axes.set_yticks(range(len(down)), down, **style)
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
        axes.set_xlabel(name)
    return figure
