"""Parametrize tests by variants of architectures; under --fast only the main ones run."""

from collections.abc import Iterable
from typing import Any

import pytest

# One of each architecture, of convolutions and recurrences without a source.
MAIN = frozenset(
    ("seq2seq", "bahdanau", "luong", "bytenet", "convs2s", "transformer") + ("luong-alone", "convs2s-alone")
)


def by_variant(names: str | tuple[str, ...], rows: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test as pytest.mark.parametrize does; rows with another "name" than MAIN's are slow."""
    at = 0 if isinstance(names, str) else names.index("name")
    marked = []
    for row in rows:
        values = (row,) if isinstance(names, str) else tuple(row)
        marked.append(pytest.param(*values, marks=() if values[at] in MAIN else pytest.mark.slow))
    return pytest.mark.parametrize(names, marked)
