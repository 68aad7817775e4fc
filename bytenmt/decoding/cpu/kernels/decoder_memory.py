"""Find, load and store the decoder's states, ring buffers and encoder memories, by slot.

Compiled as part of interpreter.py. records.ModelBuffers describes the layout.
"""

from __future__ import annotations

from numba import types

from bytenmt.decoding.cpu.kernels.gemm import prepare_int8
from bytenmt.decoding.cpu.kernels.instructions import (
    copy,
    load_float,
    padded,
    prefetch_range,
    store_float,
    zero,
)
from bytenmt.decoding.cpu.kernels.panels import ROW_HEADER_BYTES, STEP_BYTES, ZERO_BYTE
from bytenmt.decoding.cpu.kernels.simd import INT8, INT64, Builder, Value, emit_function, pointer
from bytenmt.decoding.cpu.records import FLAT, KEYS, Address, ModelBuffers, Rows
from bytenmt.decoding.search.state import Ints
from bytenmt.jit import compiled, inlined
from bytenmt.kernel_constants import PANEL


def _emit_store_byte(b: Builder, x: Value, i: Value, byte: Value) -> None:
    b.store(b.trunc(byte, INT8), pointer(b, x, INT8, i))


# (x, i): byte i at address x
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
    d: Address,
    a: Address,
    a_stride: int,
    taps: int,
) -> None:
    """Copy the inputs (taps) of a causal convolution at a row to address d, oldest first.

    The newest, at address a, is also stored in ring buffer number `ring`: a cyclic cache of a
    beam's last inputs, which gives their width and dilation, too. taps: number of inputs, the
    newest included; those before the text are zero. row: index in `rows`. step: the first position
    of the row's text in this pass. Inputs before it are read from the ring buffer of the beam that
    wrote them, later ones from earlier rows of this pass, a_stride floats apart.
    """
    capacity = model.rings[ring, 1]
    width = model.rings[ring, 2]
    dilation = model.rings[ring, 3]
    position = rows.position[row]
    # Prefetch what this row will read from the next ring, or from the first one at the next step.
    next_ring = ring + 1
    next_position = position
    if next_ring == len(model.rings):
        next_ring = 0
        next_position += 1
    for tap in range(taps - 1):
        column = next_position - (taps - 1 - tap) * model.rings[next_ring, 3]
        if 0 <= column < step:
            first = ring_column(model, rows, next_ring, row, column)
            prefetch_range(first, 4 * model.rings[next_ring, 2])
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
    """Return the address of a causal convolution's input at an earlier position of a row's text.

    It lies in ring buffer number `ring` (a cyclic cache of inputs) of the beam that wrote it, which
    the row's beam descends from. row: index in `rows`. position: 0 for the first byte of the text.
    """
    n_beams = model.n_rows // len(model.columns)
    history = model.ancestors.shape[2]
    slot = rows.owner[row]
    beam = rows.beam[row]
    if n_beams > 1:
        beam = model.ancestors[rows.position[row] & 1, slot * n_beams + beam, position % history]
    return ring_entry(model, ring, slot * n_beams + beam, position % model.rings[ring, 1])


@inlined
def ring_entry(model: ModelBuffers, ring: int, row: int, index: int) -> int:
    """Return the address of vector number `index` of ring buffer `ring`, a cyclic cache of vectors,
    of a row (slot * beams + beam)."""
    capacity = model.rings[ring, 1]
    width = model.rings[ring, 2]
    first = model.past + 4 * model.rings[ring, 0] * model.n_rows
    return int(first + 4 * width * (row * capacity + index))


@compiled
def inherit_ancestors(model: ModelBuffers, slot: int, parents: Ints, position: int) -> None:
    """Update the table model.ancestors for the beams of a slot, before the step at a position.

    The table says, for each beam and each earlier position, in which beam's ring buffer the input
    of that position is stored. A beam copies the row of its parent in the previous step and enters
    itself at the new position. parents (n_beams,): the parent of each beam.
    """
    n_beams = len(parents)
    history = model.ancestors.shape[2]
    now = model.ancestors[position & 1]
    before = model.ancestors[1 - (position & 1)]
    for beam in range(n_beams):
        row = slot * n_beams + beam
        parent = slot * n_beams + parents[beam]
        for age in range(history):
            now[row, age] = before[parent, age]
        now[row, position % history] = beam


@compiled
def state_address(model: ModelBuffers, k: int, bank: int, row: int) -> int:
    """Return the address of recurrent state k of a row (slot * beams + beam) in a bank, 0 or 1.

    The step at a position of the text reads bank position % 2 and writes the other.
    """
    start = model.states[k, 0] * 2 * model.n_rows
    width = model.states[k, 1]
    return int(model.hidden + 4 * (start + (bank * model.n_rows + row) * width))


@inlined
def item_address(model: ModelBuffers, slot: int, k: int) -> int:
    """Return the address of item k of a slot's encoder memory: a vector for each source column.

    Row k of model.items has the item's kind: FLAT, float32 vectors one after another; KEYS or
    VALUES, an int8 matrix in panels (64 outputs each), with columns as its outputs or its inputs.
    """
    before = model.items[k, 0] * padded(model.columns[slot])
    return int(model.memory + 4 * (model.memory_offset[slot] + before))


@inlined
def item_column(model: ModelBuffers, slot: int, k: int, column: int) -> int:
    """Return the address of a source column's float32 numbers in FLAT item k of a slot's memory."""
    return int(item_address(model, slot, k) + 4 * model.items[k, 1] * column)


@inlined
def item_scales(model: ModelBuffers, slot: int, k: int) -> int:
    """Return the address of the scales, one for each column, of item k of a slot's encoder memory.
    The item is int8, of the kind KEYS or VALUES."""
    n_outputs = model.items[k, 1]
    n_inputs = model.columns[slot]
    if model.items[k, 2] == KEYS:
        n_outputs = model.columns[slot]
        n_inputs = model.items[k, 1]
    return item_address(model, slot, k) + padded(n_outputs) // PANEL * int8_panel_bytes(n_inputs)


@inlined
def int8_panel_bytes(n_inputs: int) -> int:
    """Return the bytes of a panel of an int8 matrix: 64 outputs of n_inputs weights each."""
    return ((n_inputs + 3) >> 2) * STEP_BYTES


@compiled
def store_column(
    model: ModelBuffers, slot: int, k: int, column: int, x: Address, scratch: Address
) -> None:
    """Store a vector as a column (source position) of item k of a slot's encoder memory.

    x: address of the vector, float32. It is rounded to int8 if the item's kind is KEYS or VALUES.
    scratch: address of temporary memory for that, scratch_bytes(width of the vector, 1) bytes.
    """
    width = model.items[k, 1]
    kind = model.items[k, 2]
    if kind == FLAT:
        copy(item_column(model, slot, k, column), x, width)
        return
    prepare_int8(scratch, x, width)
    store_float(item_scales(model, slot, k), column, load_float(scratch, 0))
    address = item_address(model, slot, k)
    n_inputs = model.columns[slot]
    if kind == KEYS:
        n_inputs = width
    panel_bytes = int8_panel_bytes(n_inputs)
    for i in range(width):
        output = i
        input_ = column
        if kind == KEYS:
            output = column
            input_ = i
        step = address + (output >> 6) * panel_bytes + (input_ >> 2) * STEP_BYTES
        place = ((output & 63) << 2) + (input_ & 3)
        _store_byte(step, place, _load_byte(scratch + ROW_HEADER_BYTES, i) ^ ZERO_BYTE)


@compiled
def fixed_address(model: ModelBuffers, slot: int, k: int) -> int:
    """Return the address of fixed part k of a slot's encoder memory: one vector for the source."""
    after = model.item_floats * padded(model.columns[slot])
    return int(model.memory + 4 * (model.memory_offset[slot] + after + model.fixed[k, 0]))
