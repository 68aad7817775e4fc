"""The two functions of the machine code: each takes the address of a table of integers.

call_table.py writes the table; here records are made of it again. No reference is counted: Python
keeps the arrays alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np import arrayobj

from bytenmt.decoding.cpu.call_table import n_slots
from bytenmt.decoding.cpu.interpreter import run
from bytenmt.decoding.cpu.kernels.simd import INT64, Builder, Value, const_int, pointer
from bytenmt.decoding.cpu.records import Address, EngineCall, SearchCall
from bytenmt.decoding.search.beam_search import choose_bytes
from bytenmt.decoding.search.record_fields import Field, fields
from bytenmt.jit import njit_borrowing

SLOT_BYTES = 8  # of a number of the table


def numba_type(field: Field) -> Any:
    """Return the Numba type of a field: int64, boolean, float64, a contiguous array or a record.

    field: one of record_fields.fields(record_class).
    """
    if field.is_record:
        return record_type(field.kind)
    if field.shape:
        return types.Array(numba.from_dtype(field.kind), len(field.shape), "C")
    return {int: types.int64, bool: types.boolean, float: types.float64}[field.kind]


def record_type(record_class: type) -> Any:
    """Return the Numba type of a record class, a NamedTuple whose fields have annotations."""
    named_tuple: Any = types.NamedTuple  # has no types
    return named_tuple([numba_type(field) for field in fields(record_class)], record_class)


def record_reader(record_class: type) -> Callable[[Address], Any]:
    """Return a function by which compiled code reads a record from the table at an address.

    record_class: the NamedTuple of the record, such as EngineCall. The table is one that
    call_table.table_of returns: int64 numbers in the order of the fields, for an array its address
    and shape.
    """

    def read(typing_context: Any, table: Any) -> Any:
        def build(context: Any, b: Builder, signature: Any, arguments: Any) -> Value:
            return _emit_record(context, b, arguments[0], record_class)

        return record_type(record_class)(types.int64), build

    reader: Any = intrinsic(read)
    return cast(Callable[[Address], Any], reader)


def _emit_record(context: Any, b: Builder, table: Value, record_class: type) -> Value:
    """Emit code that makes a record of the table at the address `table`; return the record."""
    values = []
    for field in fields(record_class):
        values.append(_emit_field(context, b, table, field))
        table = b.add(table, const_int(SLOT_BYTES * n_slots(field)))
    return context.make_tuple(b, record_type(record_class), values)


def _emit_field(context: Any, b: Builder, table: Value, field: Field) -> Value:
    """Emit code that reads a field from its slots at the address `table`."""
    if field.is_record:
        return _emit_record(context, b, table, field.kind)
    slots = [b.load(pointer(b, table, INT64, const_int(i))) for i in range(n_slots(field))]
    if field.kind is float:
        return b.bitcast(slots[0], ir.DoubleType())
    if field.kind is bool:
        return b.icmp_signed("!=", slots[0], const_int(0))
    if field.kind is int:
        return slots[0]
    array_type = numba_type(field)
    emitter: Any = arrayobj  # has no types
    array = emitter.make_array(array_type)(context, b)
    strides = [const_int(field.kind.itemsize)]
    for length in reversed(slots[2:]):
        strides.insert(0, b.mul(strides[0], length))
    element = context.get_data_type(array_type.dtype).as_pointer()
    emitter.populate_array(
        array,
        data=b.inttoptr(slots[0], element),
        shape=slots[1:],
        strides=strides,
        itemsize=const_int(field.kind.itemsize),
        meminfo=None,
    )
    return array._getvalue()


_read_engine_call = record_reader(EngineCall)
_read_search_call = record_reader(SearchCall)


@njit_borrowing
def run_engine(table: Address) -> None:
    """Execute decode steps of a model, or its encoder, as an EngineCall describes it.

    table: address of the int64 array that table_of makes of the EngineCall. Each of its n_threads
    threads must call this. Results: in `search`; those of an encoder in the memory of `model`.
    """
    run(_read_engine_call(table))


@njit_borrowing
def run_search(table: Address) -> None:
    """Choose the next byte of every beam: one step of the search, as a SearchCall describes it.

    table: address of the int64 array that table_of makes of it. Results go to its `search`.
    """
    call = _read_search_call(table)
    choose_bytes(call.search, call.params)
