"""Addresses, loads and stores of the decoder's states, ring buffers and encoder memories, by slot.

Compiled as part of interpreter.py. The layout is described at instructions.ModelBuffers.
"""

from __future__ import annotations

from numba import types

from bytenmt.decoding.cpu.kernels.gemm import prepare_w8a8
from bytenmt.decoding.cpu.kernels.instructions import (
    Ints,
    ModelBuffers,
    Rows,
    copy,
    from_bf16,
    load_float,
    padded,
    prefetch_range,
    rounded_to_bf16,
    store_float,
    to_bf16,
    zero,
)
from bytenmt.decoding.cpu.kernels.microkernels import ROW_HEADER
from bytenmt.decoding.cpu.kernels.panels import BF16, PANEL, STEP_BYTES, W8A8, ZERO
from bytenmt.decoding.cpu.kernels.simd import INT8, INT64, Builder, Value, emit_function, pointer
from bytenmt.jit import compiled, inlined

# Kinds of memory items. FLAT: columns of numbers, one after another. KEYS and VALUES: a matrix of int8 panels
# (panels.py), whose outputs are the columns for keys, and whose inputs are the columns for values. There is
# room for whole panels, and the scales of the columns follow them.
FLAT, KEYS, VALUES = range(3)


def _emit_store_byte(b: Builder, x: Value, i: Value, byte: Value) -> None:
    b.store(b.trunc(byte, INT8), pointer(b, x, INT8, i))


_load_byte = emit_function(2, 0, lambda b, x, i: b.zext(b.load(pointer(b, x, INT8, i)), INT64), types.int64)
_store_byte = emit_function(3, 0, _emit_store_byte)  # (x, i, byte)


@inlined
def gather_taps(
    model: ModelBuffers, rows: Rows, step: int, ring: int, row: int, d: int, a: int, a_stride: int, taps: int
) -> None:
    """Copy the taps of a causal convolution to d, oldest first, and store a, the newest, in the row's ring.

    Taps from the sentence's `step` on are inputs of earlier rows of this pass, at a's stride; they are
    rounded as the ring buffer rounds them.
    """
    capacity, width, dilation = model.rings[ring, 1], model.rings[ring, 2], model.rings[ring, 3]
    position = rows.position[row]
    following, ahead = (ring + 1, 0) if ring + 1 < len(model.rings) else (0, 1)
    for tap in range(taps - 1):  # prefetch what this row will read from the next ring
        at = position + ahead - (taps - 1 - tap) * model.rings[following, 3]
        if 0 <= at < step:
            n = item_bytes(model) * model.rings[following, 2]
            prefetch_range(ring_column(model, rows, following, row, at), n)
    for tap in range(taps - 1):
        at = position - (taps - 1 - tap) * dilation
        if at < 0:
            zero(d + 4 * tap * width, width)
        elif at >= step:
            round_row(model, d + 4 * tap * width, a - 4 * (position - at) * a_stride, width)
        else:
            load_row(model, d + 4 * tap * width, ring_column(model, rows, ring, row, at), width)
    round_row(model, d + 4 * (taps - 1) * width, a, width)
    own = model.n_rows // len(model.columns) * rows.owner[row] + rows.beam[row]
    store_row(model, ring_entry(model, ring, own, position % capacity), a, width)


@inlined
def ring_column(model: ModelBuffers, rows: Rows, ring: int, row: int, at: int) -> int:
    """Return the address of the column of an earlier position, in the ring of the row's ancestor."""
    n_beams, history = model.n_rows // len(model.columns), model.ancestors.shape[2]
    slot, beam = rows.owner[row], rows.beam[row]
    if n_beams > 1:
        beam = model.ancestors[rows.position[row] & 1, slot * n_beams + beam, at % history]
    return ring_entry(model, ring, slot * n_beams + beam, at % model.rings[ring, 1])


@inlined
def ring_entry(model: ModelBuffers, ring: int, row: int, index: int) -> int:
    """Return the address of column `index` of a row's ring; numbers have item_bytes each."""
    capacity, width = model.rings[ring, 1], model.rings[ring, 2]
    first = model.past + 4 * model.rings[ring, 0] * model.n_rows
    address: int = first + item_bytes(model) * width * (row * capacity + index)
    return address


@compiled
def inherit_ancestors(model: ModelBuffers, slot: int, parents: Ints, position: int) -> None:
    """Set the ancestors of a slot's beams before a step: those of their parents, and themselves for the new
    position."""
    n_beams, history = len(parents), model.ancestors.shape[2]
    now, before = model.ancestors[position & 1], model.ancestors[1 - (position & 1)]
    for beam in range(n_beams):
        row, parent = slot * n_beams + beam, slot * n_beams + parents[beam]
        for at in range(history):
            now[row, at] = before[parent, at]
        now[row, position % history] = beam


@compiled
def state_address(model: ModelBuffers, k: int, bank: int, row: int) -> int:
    """Return the address of state k of a row, in one of the two banks."""
    start, width = model.states[k, 0], model.states[k, 1]
    address: int = model.hidden + 4 * (start * 2 * model.n_rows + (bank * model.n_rows + row) * width)
    return address


@inlined
def item_address(model: ModelBuffers, slot: int, k: int) -> int:
    """Return the address of item k of a slot's memory."""
    before = model.items[k, 0] * padded(model.columns[slot])
    first: int = model.memory + 4 * (model.memory_offset[slot] + before)
    return first


@inlined
def item_column(model: ModelBuffers, slot: int, k: int, column: int) -> int:
    """Return the address of a column of a flat item; numbers have item_bytes each, with room for 4."""
    address: int = item_address(model, slot, k) + item_bytes(model) * model.items[k, 1] * column
    return address


@inlined
def item_scales(model: ModelBuffers, slot: int, k: int) -> int:
    """Return the address of the scales of an int8 item."""
    n, width, kind = model.columns[slot], model.items[k, 1], model.items[k, 2]
    n_outputs, n_inputs = (n, width) if kind == KEYS else (width, n)
    return item_address(model, slot, k) + padded(n_outputs) // PANEL * int8_panel_bytes(n_inputs)


@inlined
def int8_panel_bytes(n_inputs: int) -> int:
    """Return the bytes of an int8 panel of n_inputs."""
    return ((n_inputs + 3) >> 2) * STEP_BYTES


@inlined
def item_bytes(model: ModelBuffers) -> int:
    """Return the bytes of a number in a flat item or a ring: 4, or 2 for bfloat16.

    bfloat16 is used where products round their inputs about as far: reading is most of what attention costs.
    """
    return 2 if model.precision == BF16 or model.precision == W8A8 else 4


@inlined
def store_row(model: ModelBuffers, address: int, x: int, n: int) -> None:
    """Store n numbers x at an address of an item or a ring."""
    if item_bytes(model) == 4:
        copy(address, x, n)
    else:
        to_bf16(address, x, n)


@inlined
def load_row(model: ModelBuffers, d: int, address: int, n: int) -> None:
    """Load n numbers of an item or a ring to d."""
    if item_bytes(model) == 4:
        copy(d, address, n)
    else:
        from_bf16(d, address, n)


@inlined
def round_row(model: ModelBuffers, d: int, x: int, n: int) -> None:
    """Set d = x rounded as by store_row and load_row."""
    if item_bytes(model) == 4:
        copy(d, x, n)
    else:
        rounded_to_bf16(d, x, n)


@compiled
def store_column(model: ModelBuffers, slot: int, k: int, column: int, x: int, scratch: int) -> None:
    """Store x as a column of item k. scratch: address of room for a prepared row."""
    width, kind = model.items[k, 1], model.items[k, 2]
    if kind == FLAT:
        store_row(model, item_column(model, slot, k, column), x, width)
        return
    prepare_w8a8(scratch, x, width)
    store_float(item_scales(model, slot, k), column, load_float(scratch, 0))
    address = item_address(model, slot, k)
    size = int8_panel_bytes(width if kind == KEYS else model.columns[slot])
    for i in range(width):
        output, input_ = (column, i) if kind == KEYS else (i, column)
        step = address + (output >> 6) * size + (input_ >> 2) * STEP_BYTES
        _store_byte(step, ((output & 63) << 2) + (input_ & 3), _load_byte(scratch + ROW_HEADER, i) ^ ZERO)


@inlined
def load_column(model: ModelBuffers, slot: int, k: int, column: int, d: int) -> None:
    """Load a column of flat item k to d."""
    load_row(model, d, item_column(model, slot, k, column), model.items[k, 1])


@compiled
def fixed_address(model: ModelBuffers, slot: int, k: int) -> int:
    """Return the address of fixed part k of a slot's memory."""
    after = model.item_floats * padded(model.columns[slot])
    address: int = model.memory + 4 * (model.memory_offset[slot] + after + model.fixed[k, 0])
    return address
