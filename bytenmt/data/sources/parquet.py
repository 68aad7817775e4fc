"""Read pairs from two text columns of a Parquet file. Imports pyarrow on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bytenmt.data.text_file import check_file
from bytenmt.errors import BytenmtError, DataError

ROWS = 10_000  # that are read at once


def pairs(path: Path, columns: tuple[str, str]) -> Iterator[tuple[bytes, bytes]]:
    """Yield source and target of the rows that have both, each on one line, with whitespace as single spaces.

    columns: the names of two columns, or of two fields of a struct of them, as `translation` has `en` and
    `de`. They need not be UTF-8. Raises BytenmtError if pyarrow is missing, DataError if the file cannot be
    read.
    """
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise BytenmtError("--parquet needs pyarrow: pip install 'bytenmt[parquet]'") from None
    check_file(path)
    try:
        with ParquetFile(path, memory_map=True) as file:
            names = [_leaf(file.schema_arrow, column, path) for column in columns]
            for batch in file.iter_batches(ROWS, columns=names):
                table = pyarrow.Table.from_batches([batch]).flatten()
                sides = (table[name].cast(pyarrow.large_binary()).to_pylist() for name in names)
                for both in zip(*sides, strict=True):
                    source, target = (b" ".join((side or b"").split()) for side in both)
                    if source and target:
                        yield source, target
    except pyarrow.ArrowNotImplementedError:  # there is no such cast
        raise DataError(f"{path}: the columns {' and '.join(columns)} must both contain text") from None
    except (pyarrow.ArrowException, OSError) as error:
        told = str(error).partition("\n")[0][:200]
        raise DataError(f"{path} cannot be read as Parquet ({told})") from None


def _leaf(schema: Any, column: str, path: Path) -> str:
    """Return the full name of a column, or of the only struct field that has this name. Raises DataError."""
    leaves = [leaf for field in schema for leaf in _leaves(field)]
    found = [leaf for leaf in leaves if leaf == column] or [
        leaf for leaf in leaves if leaf.rpartition(".")[2] == column
    ]
    if len(found) != 1:
        raise DataError(
            f"{path}: --columns {column} matches {len(found)} of its columns, {_listed(leaves)}: name one"
            f" exactly"
        )
    return found[0]


def _leaves(field: Any) -> list[str]:
    """Return a column's name, or those of a struct's fields."""
    from pyarrow import types

    if not types.is_struct(field.type):
        return [field.name]
    return [f"{field.name}.{one.name}" for one in field.type]


def _listed(names: Sequence[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
