"""Records of the benchmarks, one per figure, printed as a Markdown table or written as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Record(NamedTuple):
    """A measured figure and the reference that it is compared with, both measured in the same run.

    bench: the benchmark; case: what was measured, in words; unit: of value and reference_value;
    reference: what the figure is compared with, in words; ratio: the speed-up relative to a
    reference implementation, or the achieved share of a peak.
    """

    bench: str
    case: str
    value: float
    unit: str
    reference: str
    reference_value: float
    ratio: float


def format_table(records: Sequence[Record]) -> str:
    """Format records as a Markdown table."""
    lines = [
        "| case | value | unit | reference | its value | ratio |",
        "|---|---:|---|---|---:|---:|",
    ]
    for r in records:
        own, other = map(_number, (r.value, r.reference_value))
        lines.append(f"| {r.case} | {own} | {r.unit} | {r.reference} | {other} | {r.ratio:.3g} |")
    return "\n".join(lines)


def show_records(records: Sequence[Record], path: Path | None) -> None:
    """Print records as a table; write them to a file too, as a JSON list of objects."""
    print(format_table(records))
    if path:
        text = json.dumps([record._asdict() for record in records], indent=1)
        path.write_text(f"{text}\n", "utf-8")


def _number(value: float) -> str:
    """Format a number with three significant digits: 0.0123, 4.57, 12,345.

    From 1000 on it has thousands separators.
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
