"""Write the results of a table as Markdown and as plots."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bytenmt.evaluation.comparison import read_metrics
from tools.results.recipe import Recipe, command

Results = Mapping[str, Mapping[str, Any]]  # the contents of row.json by row name
# Columns of the scores of translations, and of language models.
SCORE_NAMES = {"bleu": "BLEU", "bleu_lowercased": "BLEU, lower-cased", "chrf": "chrF"}
SCORE_NAMES["exact_match"] = "exact, %"
BIT_COLUMNS = ("bits/byte, stream", "bits/byte, windows")
MEASURED_COLUMNS = ("bytes/s, batch 1", "bytes/s, batch 32", "MB int8")


def table(recipe: Recipe, results: Results, corpora: Path, folder: Path) -> str:
    """Return the table in Markdown, with the commands of rows that are missing or unfinished.

    For a row with several seeds it gives the mean and the largest deviation from it.
    """
    heads = BIT_COLUMNS if recipe.is_language_model else SCORE_NAMES.values()
    columns = ["", *heads, "valid bits/byte", "parameters", "updates", "wall minutes"]
    columns += MEASURED_COLUMNS if recipe.noise else ()
    lines = [f"# {recipe.title}", "", _line(columns), "|---" + "|---:" * (len(columns) - 1) + "|"]
    for name, rows in _by_seed(recipe).items():
        there = [results[row] for row in rows if row in results]
        missing = [_state(folder, rows[0]), *[""] * (len(columns) - 2)]
        cells = _cells(recipe, there) if there else missing
        title = recipe.rows[name].title or name
        lines.append(_line([title.rpartition(", seed ")[0] if recipe.seeds else title, *cells]))
    if recipe.noise and results:
        lines += ["", *_noise(recipe, results)]
    for row in recipe.row:
        if row.name not in results and not row.ensemble:
            why = f" ({row.not_run})" if row.not_run else ""
            words = recipe.training_arguments(row.name, corpora, folder)
            lines += ["", f"{row.name}, {_state(folder, row.name)}{why}:", ""]
            lines.append(f"    {command(row.program, words)}")
    return "\n".join(lines) + "\n"


def draw(folder: Path, recipe: Recipe, results: Results) -> None:
    """Write curves.png: validation bits per byte over minutes."""
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(7, 4.5))).add_subplot()
    axes.set(xlabel="minutes", ylabel="validation bits per byte", yscale="log")
    for row in recipe.row:
        curve = results.get(row.name, {}).get("curve")
        if curve and (not recipe.seeds or row.name.endswith(f"@{recipe.seeds[0]}")):
            seconds, bits = zip(*curve, strict=True)
            title = (row.title or row.name).partition(", seed ")[0]
            axes.plot([second / 60 for second in seconds], bits, label=title)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.legend(fontsize=8)
    figure.savefig(folder / "curves.png", dpi=120, bbox_inches="tight")


def _state(folder: Path, row: str) -> str:
    """Return how far a row without results has come."""
    records = read_metrics(folder / row / "run")
    return f"{records[-1]['update']:,} updates, stopped" if records else "not run"


def _by_seed(recipe: Recipe) -> dict[str, list[str]]:
    """Group the row names of all seeds by the first's name; a row without seeds is alone."""
    found: dict[str, list[str]] = {}
    for row in recipe.row:
        base = row.name.partition("@")[0] if recipe.seeds else row.name
        found.setdefault(base, []).append(row.name)
    return {rows[0]: rows for rows in found.values()}


def _cells(recipe: Recipe, seeds: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the cells of a row after its title, averaged over its seeds."""

    def mean_and_spread(form: str, value: Callable[[Mapping[str, Any]], float]) -> str:
        values = [value(one) for one in seeds]
        mean = math.fsum(values) / len(values)
        spread = max(abs(one - mean) for one in values)
        return format(mean, form) + (f" ± {format(spread, form)}" if len(values) > 1 else "")

    one = seeds[0]
    if recipe.is_language_model:
        cells = [mean_and_spread(".4f", partial(_bits, which)) for which in (0, -1)]
    else:
        cells = [mean_and_spread(".2f", partial(_score, key)) for key in SCORE_NAMES]
    bits = "valid_bits_per_byte"
    cells.append("" if one[bits] is None else mean_and_spread(".4f", lambda one: one[bits]))
    cells.append(one["parameters"])
    cells.append(mean_and_spread(",.0f", lambda one: one["updates"]))
    cells.append(mean_and_spread(".0f", lambda one: one["seconds"] / 60))
    if recipe.noise:
        speeds = one["measured"]["text_bytes_per_second_by_batch"]
        cells += [f"{speeds[batch]:,.0f}" for batch in ("1", "32")]
        cells.append(f"{one['measured']['megabytes']:.1f}")
    return cells


def _score(key: str, one: Mapping[str, Any]) -> float:
    return float(one["scores"][key]["score"])


def _bits(which: int, one: Mapping[str, Any]) -> float:
    """Return the bits per byte that `predict` printed: of the stream (which 0), of windows (-1)."""
    lines = [line for line in one["scores"]["predict"] if line.startswith("bits per byte")]
    return float(lines[which].rpartition(": ")[2].split()[0])


def _noise(recipe: Recipe, results: Results) -> list[str]:
    """Return a table of chrF by disturbed share of the source, and the chrF kept at 10 %."""
    shares = list(next(iter(results.values()))["measured"]["chrf_by_noise"])
    percent = [f"{float(share):.0%}" for share in shares]
    head = ["chrF, int8, source disturbed", *percent, "kept at 10 %"]
    lines = [_line(head), "|---" + "|---:" * (len(head) - 1) + "|"]
    for row in recipe.row:
        if row.name in results:
            chrf = results[row.name]["measured"]["chrf_by_noise"]
            kept_percent = f"{100 * chrf['0.1'] / chrf['0']:.1f} %" if chrf["0"] else ""
            cells = [f"{chrf[share]:.2f}" for share in shares]
            lines.append(_line([row.title or row.name, *cells, kept_percent]))
    return lines


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
