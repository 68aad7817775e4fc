"""Tabulate how a model's cost and signal paths grow with the lengths of source and target.

This is the comparison of Kalchbrenner et al. 2016 (table 1) for configured models. The figures are
those of ModelSection.properties; no model is run.
"""

from __future__ import annotations

from collections.abc import Sequence

from bytenmt.architectures.section import ModelSection

HEAD = ("model", "nets", "time", "RP", "Path_S", "Path_T", "encoder's field", "decoder's field")
LEGEND = """\
S, T: bytes of source and target; c: layers or a window, whatever the lengths. RP: what is kept of a
source grows with it. Path_S, Path_T: layers and steps between a source or target byte and a
prediction that depends on it. Fields: bytes that a column of the encoder and a prediction depend
on; past its field no target byte has a path to a prediction."""


def table(models: Sequence[tuple[str, ModelSection]]) -> str:
    """Return a text: a table of the properties of named models, a row each, and a legend."""
    rows = [HEAD, *(_row(name, config) for name, config in models)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", LEGEND])


def _row(name: str, config: ModelSection) -> tuple[str, ...]:
    """Return the cells of a model's line in the table."""
    row = config.properties()
    if row is None:
        return (name, *("?" for _ in HEAD[1:]))
    if not config.source:
        row = row._replace(encoder="–", path_s="–", source_field="–")
    encoder, decoder, time, keeps, *paths_and_fields = row
    kept = "no"
    if not config.source:
        kept = "–"
    elif keeps:
        kept = "yes"
    return (name, f"{encoder}/{decoder}", time, kept, *paths_and_fields)
