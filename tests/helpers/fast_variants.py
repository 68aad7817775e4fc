"""Parametrize tests by variants of architectures, few of them under --fast."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

# One of each architecture, of convolutions and recurrences without a source.
MAIN = frozenset(
    ("seq2seq", "bahdanau", "luong", "bytenet", "convs2s", "transformer")
    + ("luong-alone", "convs2s-alone")
)


def by_variant(names: str | tuple[str, ...], rows: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test as pytest.mark.parametrize does; rows with another name are slow."""
    at = 0 if isinstance(names, str) else names.index("name")
    marked = []
    for row in rows:
        values = (row,) if isinstance(names, str) else tuple(row)
        marked.append(pytest.param(*values, marks=() if values[at] in MAIN else pytest.mark.slow))
    return pytest.mark.parametrize(names, marked)


def rotated(rows: Sequence[Any], columns: Sequence[Any], each: int = 2) -> list[tuple[Any, Any]]:
    """Every row with `each` columns, all columns in turn and about equally often."""
    places = [(i, j) for i in range(len(rows)) for j in range(each)]
    return [(rows[i], columns[(i * each + j) % len(columns)]) for i, j in places]
