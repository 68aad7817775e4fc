"""Pass records to compiled code: one table of integers, with the address and shape of every array.

entry.py makes the same record of the table.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.search.record_fields import Field, fields

Table = npt.NDArray[np.int64]  # a record as numbers, see table_of


@cache
def n_slots(field: Field) -> int:
    """Return how many int64 numbers a field of a record takes in the table that table_of returns.

    field: one of record_fields.fields(record_class). A number takes 1, an array 1 + its number of
    axes, an inner record the sum of its fields.
    """
    if field.is_record:
        return sum(map(n_slots, fields(field.kind)))
    return 1 + len(field.shape)


def table_of(record: Any) -> Table:
    """Return a record as int64 numbers, from which compiled code rebuilds it.

    record: a NamedTuple with annotated fields, such as EngineCall. The numbers are in the order of
    its fields: a number's value (a float's bits), an array's address and shape, and the numbers of
    an inner record. The table does not own the arrays: they must live until the call ends.

    Raises TypeError where an array has another dtype or number of axes than its annotation says, or
    is not contiguous.
    """
    return np.array(_numbers(Field("", type(record), ()), record), np.int64)


def _numbers(field: Field, value: Any) -> list[int]:
    if field.is_record:
        parts = zip(fields(field.kind), value, strict=True)
        return [number for part in parts for number in _numbers(*part)]
    if field.kind is float:
        return list(struct.unpack("q", struct.pack("d", value)))
    if not field.shape:
        return [int(value)]
    is_fitting = value.dtype == field.kind and value.ndim == len(field.shape)
    if not (is_fitting and value.flags.c_contiguous):
        raise TypeError(f"{field} is {value.dtype}, {value.shape}, strides {value.strides}")
    return [value.ctypes.data, *value.shape]


class TableCache:
    """Converts records to tables (int64 arrays for compiled code), unchanged fields only once."""

    def __init__(self) -> None:
        self._tables: dict[str, tuple[Any, Table]] = {}  # a value and its table, by field

    def table_of(self, call: Any) -> Table:
        """Return a record, such as EngineCall, as the int64 array that compiled code reads.

        A field that holds the same object as in the previous call is not converted again.
        """
        parts = []
        kind: Any = type(call)
        for field, value in zip(fields(kind), call, strict=True):
            known = self._tables.get(field.name)
            if known is None or known[0] is not value:
                known = value, np.array(_numbers(field, value), np.int64)
                self._tables[field.name] = known
            parts.append(known[1])
        return np.concatenate(parts)
