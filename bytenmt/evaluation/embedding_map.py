"""Map the byte embedding of a model: two principal axes, and nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table = npt.NDArray[np.float64]  # (256, d)
KINDS = {  # of bytes, in the order of their legend
    "letter": [*range(0x41, 0x5B), *range(0x61, 0x7B)],
    "digit": range(0x30, 0x3A),
    "other ASCII": [*range(0x20, 0x30), *range(0x3A, 0x41), *range(0x5B, 0x61), *range(0x7B, 0x7F)],
    "continuation": range(0x80, 0xC0),
    "first of two": range(0xC2, 0xE0),
    "first of three": range(0xE0, 0xF0),
    "first of four": range(0xF0, 0xF5),
}
KIND = {byte: kind for kind, bytes_ in KINDS.items() for byte in bytes_}
IN_TEXT = sorted(KIND)  # bytes that a line of UTF-8 is made of


def label(byte: int) -> str:
    """Return a label for a byte: printable ASCII as it is, a sign for a space, else its number."""
    if byte == 0x20:
        return "␣"
    return chr(byte) if 0x20 < byte < 0x7F else f"{byte:02X}"


def principal(table: Table, chosen: Sequence[int]) -> tuple[Table, npt.NDArray[np.float64]]:
    """Project the chosen bytes' vectors on their two axes of most variance.

    Returns (n, 2), and the share of the variance along each axis, (2,).
    """
    centred = table[chosen] - table[chosen].mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    places, shares = np.zeros((len(chosen), 2)), np.zeros(2)
    n = min(2, len(s))
    places[:, :n] = (u * s)[:, :n]
    shares[:n] = s[:n] ** 2 / max(float((s**2).sum()), np.finfo(np.float64).tiny)
    return places, shares


def neighbours(table: Table, chosen: Sequence[int], n: int) -> Iterator[tuple[int, list[tuple[int, float]]]]:
    """Yield each chosen byte with its n nearest others by angle, nearest first, and their cosines."""
    rows = table[chosen]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -np.inf)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, : min(n, len(chosen) - 1)]
    for own, others in enumerate(order.tolist()):
        yield chosen[own], [(chosen[other], float(cosines[own, other])) for other in others]


def listing(table: Table, chosen: Sequence[int], n: int) -> Iterator[str]:
    """Yield a line for each byte with its neighbours."""
    for byte, near in neighbours(table, chosen, n):
        told = "  ".join(f"{label(other):>2} {cosine:5.2f}" for other, cosine in near)
        yield f"{label(byte):>2}   {told}"


def figure(table: Table, chosen: Sequence[int]) -> Figure:
    """Draw the map: the label of each byte at its place, coloured by its kind."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from bytenmt.evaluation.drawing import MONO

    places, shares = principal(table, chosen)
    kinds = list(dict.fromkeys(KIND.get(byte, "not in a text") for byte in chosen))
    colours = {kind: f"C{place}" for place, kind in enumerate([*KINDS, "not in a text"])}
    made = Figure(figsize=(10, 10), layout="constrained")
    axes = made.add_subplot()
    axes.plot(*places.T, linestyle="")  # so that the axes know the range
    for byte, (x, y) in zip(chosen, places.tolist(), strict=True):
        colour = colours[KIND.get(byte, "not in a text")]
        axes.text(x, y, label(byte).replace("$", r"\$"), color=colour, ha="center", va="center", fontsize=11,
                  family=MONO)  # fmt: skip
    axes.set(
        xlabel=f"first component, {100 * shares[0]:.0f} % of the variance",
        ylabel=f"second component, {100 * shares[1]:.0f} % of the variance",
    )
    marks = [Line2D([], [], marker="s", linestyle="", color=colours[kind], label=kind) for kind in kinds]
    made.legend(handles=marks, loc="outside upper center", ncols=len(kinds), frameon=False, title="bytes")
    return made
