"""Shared parts of the benchmarks: one record per figure, a table for people and a JSON file for programs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Record(NamedTuple):
    """A figure beside what it is held against, both measured in the same run.

    bench: the program; case: what was measured, in plain words; unit: of value and reference_value alike.
    reference: what the figure is held against, in plain words. ratio: against a reference path how many times
    faster, against a peak achieved over peak.
    """

    bench: str
    case: str
    value: float
    unit: str
    reference: str
    reference_value: float
    ratio: float


def show(records: Sequence[Record]) -> str:
    """The records as a Markdown table."""
    lines = ["| case | value | unit | reference | its value | ratio |", "|---|---:|---|---|---:|---:|"]
    for r in records:
        numbers = _number(r.value), _number(r.reference_value)
        lines.append(f"| {r.case} | {numbers[0]} | {r.unit} | {r.reference} | {numbers[1]} | {r.ratio:.3g} |")
    return "\n".join(lines)


def write_json(path: Path, records: Sequence[Record]) -> None:
    """The records as a JSON list of objects."""
    path.write_text(json.dumps([record._asdict() for record in records], indent=1) + "\n", encoding="utf-8")


def _number(value: float) -> str:
    """Three digits that count, thousands with commas: 0.0123, 4.57, 12,345."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
