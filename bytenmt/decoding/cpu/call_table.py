"""Pass records to compiled code: one table of integers, with the address and shape of every array.

A record is a NamedTuple of records, arrays, integers, booleans and floats. entry.py makes the same
record of the table.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]


class Field(NamedTuple):
    """A field of a record."""

    name: str
    kind: Any  # int, bool, float, the class of a record, or the dtype of an array
    n_axes: int  # of an array; 0 of others

    def is_record(self) -> bool:
        """Return whether the field is a record itself."""
        return self.n_axes == 0 and self.kind not in (int, bool, float)


@cache
def fields(record_class: Any) -> tuple[Field, ...]:
    """Return the fields of a record class, by its annotations.

    Those of arrays are Annotated[numpy.typing.NDArray[...], number of axes].
    """
    found = []
    for name, hint in get_type_hints(record_class, include_extras=True).items():
        kind = hint
        n_axes = 0
        if hasattr(hint, "__metadata__"):
            array, n_axes = get_args(hint)
            kind = np.dtype(get_args(get_args(array)[1])[0])
        found.append(Field(name, kind, n_axes))
    return tuple(found)


@cache
def n_slots(record_class: Any) -> int:
    """Return how many integers of a table a record takes."""
    total = 0
    for field in fields(record_class):
        if field.is_record():
            total += n_slots(field.kind)
        else:
            total += 1 + field.n_axes
    return total

    def is_record(self) -> bool:
        """Return whether the field is a record itself."""
        return self.n_axes == 0 and self.kind not in (int, bool, float)


def table_of(record: Any) -> Table:
    """Return the table of a record, whose arrays must live until the call ends.

    Raises TypeError where an array has another dtype or number of axes than its annotation says, or
    is not contiguous.
    """
    numbers: list[int] = []
    kind: Any = type(record)
    for field, value in zip(fields(kind), record, strict=True):
        numbers += _field_numbers(field, value)
    return np.array(numbers, np.int64)


def _field_numbers(field: Field, value: Any) -> list[int]:
    if field.n_axes > 0:
        if (value.dtype, value.ndim) != (field.kind, field.n_axes) or not value.flags.c_contiguous:
            raise TypeError(f"{field} is {value.dtype}, {value.shape}, strides {value.strides}")
        return [value.ctypes.data, *value.shape]
    if field.is_record():
        return list(table_of(value).tolist())
    if field.kind is float:
        return list(struct.unpack("q", struct.pack("d", value)))
    return [int(value)]


class TableCache:
    """Makes the tables of calls, and remembers those of the records that calls have in common."""

    def __init__(self) -> None:
        self._tables: dict[str, tuple[Any, Table]] = {}  # a record and its table, by field

    def table_of(self, call: Any) -> Table:
        """Return the table of a record. Its fields that are records, and the same as in the call
        before, are not read again."""
        parts = []
        kind: Any = type(call)
        for field, value in zip(fields(kind), call, strict=True):
            if field.is_record():
                parts.append(self._known_table(field.name, value))
            else:
                parts.append(np.array(_field_numbers(field, value), np.int64))
        return np.concatenate(parts)

    def _known_table(self, name: str, record: Any) -> Table:
        known = self._tables.get(name)
        if known is None or known[0] is not record:
            known = (record, table_of(record))
            self._tables[name] = known
        return known[1]
