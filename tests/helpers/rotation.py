"""Pairs of what is tested and how, by rotation instead of all with all."""

from collections.abc import Sequence
from typing import TypeVar

Row = TypeVar("Row")
Column = TypeVar("Column")


def rotated(rows: Sequence[Row], columns: Sequence[Column], each: int = 2) -> list[tuple[Row, Column]]:
    """Every row with `each` columns, all columns in turn and about equally often."""
    return [(row, columns[(i * each + j) % len(columns)]) for i, row in enumerate(rows) for j in range(each)]
