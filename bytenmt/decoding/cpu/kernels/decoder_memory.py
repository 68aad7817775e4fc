"""Addresses, loads and stores of the decoder's states, ring buffers and encoder memories, by slot.

Compiled as part of interpreter.py. The layout is described at instructions.ModelBuffers.
"""

from __future__ import annotations

from numba import types

from bytenmt.decoding.cpu.kernels.gemm import prepare_int8
from bytenmt.decoding.cpu.kernels.instructions import (
    Ints,
    ModelBuffers,
    Rows,
    copy,
    load_float,
    padded,
    prefetch_range,
    store_float,
    zero,
)
from bytenmt.decoding.cpu.kernels.microkernels import ROW_HEADER
from bytenmt.decoding.cpu.kernels.panels import STEP_BYTES, ZERO
from bytenmt.decoding.cpu.kernels.simd import INT8, INT64, Builder, Value, emit_function, pointer
from bytenmt.jit import compiled, inlined
from bytenmt.kernel_constants import PANEL

# Kinds of memory items. FLAT: columns of numbers, one after another. KEYS and VALUES: a matrix of
# int8 panels (panels.py), whose outputs are the columns for keys, and whose inputs are the columns
# for values. There is room for whole panels, and the scales of the columns follow them.
FLAT, KEYS, VALUES = range(3)


def _emit_store_byte(b: Builder, x: Value, i: Value, byte: Value) -> None:
    b.store(b.trunc(byte, INT8), pointer(b, x, INT8, i))


_load_byte = emit_function(
    2, 0, lambda b, x, i: b.zext(b.load(pointer(b, x, INT8, i)), INT64), types.int64
)
_store_byte = emit_function(3, 0, _emit_store_byte)  # (x, i, byte)


@inlined
def gather_taps(
    model: ModelBuffers,
    rows: Rows,
    step: int,
    ring: int,
    row: int,
    d: int,
    a: int,
    a_stride: int,
    taps: int,
) -> None:
    """Copy the inputs (taps) of a causal convolution at a row to d, oldest first; store the newest,
    at a, in ring buffer number `ring`, which also gives their width and dilation.

    d, a: addresses; a is this row's input. taps: their number, the newest included; those before
    the text are zero. step: the first position of the sentence in this pass. Taps before it are
    read from the ring of the ancestor beam, later ones from earlier rows of this pass, a_stride
    floats apart.
    """
    capacity, width, dilation = model.rings[ring, 1], model.rings[ring, 2], model.rings[ring, 3]
    position = rows.position[row]
    following, ahead = (ring + 1, 0) if ring + 1 < len(model.rings) else (0, 1)
    for tap in range(taps - 1):  # prefetch what this row will read from the next ring
        column = position + ahead - (taps - 1 - tap) * model.rings[following, 3]
        if 0 <= column < step:
            prefetch_range(
                ring_column(model, rows, following, row, column), 4 * model.rings[following, 2]
            )
    for tap in range(taps - 1):
        column = position - (taps - 1 - tap) * dilation
        if column < 0:
            zero(d + 4 * tap * width, width)
        elif column >= step:
            copy(d + 4 * tap * width, a - 4 * (position - column) * a_stride, width)
        else:
            copy(d + 4 * tap * width, ring_column(model, rows, ring, row, column), width)
    copy(d + 4 * (taps - 1) * width, a, width)
    memory_row = model.n_rows // len(model.columns) * rows.owner[row] + rows.beam[row]
    copy(ring_entry(model, ring, memory_row, position % capacity), a, width)


@inlined
def ring_column(model: ModelBuffers, rows: Rows, ring: int, row: int, position: int) -> int:
    """Return the address of the column of a row's text at an earlier position, in ring buffer
    `ring` of the beam that wrote this position."""
    n_beams, history = model.n_rows // len(model.columns), model.ancestors.shape[2]
    slot, beam = rows.owner[row], rows.beam[row]
    if n_beams > 1:
        beam = model.ancestors[rows.position[row] & 1, slot * n_beams + beam, position % history]
    return ring_entry(model, ring, slot * n_beams + beam, position % model.rings[ring, 1])


@inlined
def ring_entry(model: ModelBuffers, ring: int, row: int, index: int) -> int:
    """Return the address of column `index` of ring buffer `ring` of a row (slot * beams + beam)."""
    capacity, width = model.rings[ring, 1], model.rings[ring, 2]
    first = model.past + 4 * model.rings[ring, 0] * model.n_rows
    address: int = first + 4 * width * (row * capacity + index)
    return address


@compiled
def inherit_ancestors(model: ModelBuffers, slot: int, parents: Ints, position: int) -> None:
    """Update model.ancestors (whose ring buffers hold a beam's past) before a step: each beam of a
    slot takes those of its parent in the step before, and is its own at the new position."""
    n_beams, history = len(parents), model.ancestors.shape[2]
    now, before = model.ancestors[position & 1], model.ancestors[1 - (position & 1)]
    for beam in range(n_beams):
        row, parent = slot * n_beams + beam, slot * n_beams + parents[beam]
        for age in range(history):
            now[row, age] = before[parent, age]
        now[row, position % history] = beam


@compiled
def state_address(model: ModelBuffers, k: int, bank: int, row: int) -> int:
    """Return the address of recurrent state k of a row in bank 0 or 1: a step reads one, writes the
    other."""
    start, width = model.states[k, 0], model.states[k, 1]
    address: int = model.hidden + 4 * (
        start * 2 * model.n_rows + (bank * model.n_rows + row) * width
    )
    return address


@inlined
def item_address(model: ModelBuffers, slot: int, k: int) -> int:
    """Return the address of item k (a row of model.items) of a slot's encoder memory.

    An item has a vector for each source column: FLAT float32 columns one after another, KEYS and
    VALUES a matrix of int8 panels.
    """
    before = model.items[k, 0] * padded(model.columns[slot])
    first: int = model.memory + 4 * (model.memory_offset[slot] + before)
    return first


@inlined
def item_column(model: ModelBuffers, slot: int, k: int, column: int) -> int:
    """Return the address of a column of item k of a slot's encoder memory; for items of the kind
    FLAT."""
    address: int = item_address(model, slot, k) + 4 * model.items[k, 1] * column
    return address


@inlined
def item_scales(model: ModelBuffers, slot: int, k: int) -> int:
    """Return the address of the scales, float32, of item k of a slot's encoder memory; for int8
    items."""
    n, width, kind = model.columns[slot], model.items[k, 1], model.items[k, 2]
    n_outputs, n_inputs = (n, width) if kind == KEYS else (width, n)
    return item_address(model, slot, k) + padded(n_outputs) // PANEL * int8_panel_bytes(n_inputs)


@inlined
def int8_panel_bytes(n_inputs: int) -> int:
    """Return the bytes of an int8 panel: 64 outputs of n_inputs weights each, see panels.py."""
    return ((n_inputs + 3) >> 2) * STEP_BYTES


@compiled
def store_column(model: ModelBuffers, slot: int, k: int, column: int, x: int, scratch: int) -> None:
    """Store a vector x as a column of item k of a slot's encoder memory, rounded to int8 for KEYS
    and VALUES.
    scratch: address of temporary memory for a prepared row (see microkernels.Int8)."""
    width, kind = model.items[k, 1], model.items[k, 2]
    if kind == FLAT:
        copy(item_column(model, slot, k, column), x, width)
        return
    prepare_int8(scratch, x, width)
    store_float(item_scales(model, slot, k), column, load_float(scratch, 0))
    address = item_address(model, slot, k)
    size = int8_panel_bytes(width if kind == KEYS else model.columns[slot])
    for i in range(width):
        output, input_ = (column, i) if kind == KEYS else (i, column)
        step = address + (output >> 6) * size + (input_ >> 2) * STEP_BYTES
        _store_byte(
            step, ((output & 63) << 2) + (input_ & 3), _load_byte(scratch + ROW_HEADER, i) ^ ZERO
        )


@compiled
def fixed_address(model: ModelBuffers, slot: int, k: int) -> int:
    """Return the address of part k of a slot's encoder memory that has one vector for the whole
    source."""
    after = model.item_floats * padded(model.columns[slot])
    address: int = model.memory + 4 * (model.memory_offset[slot] + after + model.fixed[k, 0])
    return address
