"""Describe the records that compiled code works on, by the annotations of their fields.

A record is a NamedTuple of records, arrays, integers, booleans and floats. An array is
Annotated[numpy.typing.NDArray[...], shape], where the shape names or counts its axes: "slots 8".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np


class Field(NamedTuple):
    """A field of a record: a NamedTuple whose values are passed to compiled code one by one."""

    name: str
    kind: Any  # int, bool, float, the class of a record, or the dtype of an array
    shape: tuple[str, ...]  # name or length of each axis of an array; () if it is none

    @property
    def is_record(self) -> bool:
        """True if the value of this field is itself a record, not an array or a number."""
        return not self.shape and self.kind not in (int, bool, float)


@cache
def fields(record_class: Any) -> tuple[Field, ...]:
    """Return the fields of a record class, a NamedTuple, from its annotations: for an array,
    Annotated[NDArray[dtype], "slots 8"], with the name or length of each axis."""
    described = []
    for name, hint in get_type_hints(record_class, include_extras=True).items():
        if hasattr(hint, "__metadata__"):
            array, shape = get_args(hint)
            dtype = np.dtype(get_args(get_args(array)[1])[0])
            described.append(Field(name, dtype, tuple(shape.split())))
        else:
            described.append(Field(name, hint, ()))
    return tuple(described)


def allocate_arrays(record_class: Any, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return an array of zeros for each array field of a record class, by the field's name.

    sizes: the length of each axis that has a name in the annotations ("slots"), by that name.
    """
    arrays = {}
    for field in fields(record_class):
        if field.shape:
            shape = [sizes[axis] if axis in sizes else int(axis) for axis in field.shape]
            arrays[field.name] = np.zeros(shape, field.kind)
    return arrays
