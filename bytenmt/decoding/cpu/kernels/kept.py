"""What is kept of the sentences at their places, by address: states, rings and memories.

Compiled without a cache of its own, as part of interpreter.py. Knows records of addresses; knows neither
instructions nor the search.
"""

from __future__ import annotations

from numba import types

from bytenmt.decoding.cpu.kernels.gemm import prepare_w8a8
from bytenmt.decoding.cpu.kernels.instructions import (
    Ints,
    Model,
    Rows,
    copy,
    fetch,
    from_half,
    read,
    rounded,
    to_half,
    write,
    zero,
)
from bytenmt.decoding.cpu.kernels.microkernels import HEADER
from bytenmt.decoding.cpu.kernels.panels import BF16, PANEL, STEP_BYTES, W8A8, ZERO
from bytenmt.decoding.cpu.kernels.simd import INT8, INT64, Builder, Value, emitted, pointer
from bytenmt.jit import compiled, inlined

# How an item of the memory is kept: number by number, a column after the other; or in bytes, as a matrix of
# panels.py's int8 that a product takes: the columns are the outputs of one of keys, the inputs of one of
# values. There is room for whole panels; the columns' scales stand behind them.
FLAT, KEYS, VALUES = range(3)


def _put(b: Builder, x: Value, i: Value, byte: Value) -> None:
    b.store(b.trunc(byte, INT8), pointer(b, x, INT8, i))


_byte = emitted(2, 0, lambda b, x, i: b.zext(b.load(pointer(b, x, INT8, i)), INT64), types.int64)
_put_byte = emitted(3, 0, _put)  # (x, i, byte)


@inlined
def read_ring(
    model: Model, rows: Rows, step: int, ring: int, row: int, d: int, a: int, a_stride: int, taps: int
) -> None:
    """d = the taps, oldest first; the newest is a, which takes its slot in the row's own ring. Those from the
    sentence's step on are of this pass' rows before it, at a's stride, rounded as they will be kept."""
    capacity, width, dilation = model.rings[ring, 1], model.rings[ring, 2], model.rings[ring, 3]
    position = rows.position[row]
    following, ahead = (ring + 1, 0) if ring + 1 < len(model.rings) else (0, 1)
    for tap in range(taps - 1):  # what this row will read of the next ring is on its way meanwhile
        at = position + ahead - (taps - 1 - tap) * model.rings[following, 3]
        if 0 <= at < step:
            n = item_bytes(model) * model.rings[following, 2]
            fetch(column_at(model, rows, following, row, at), n)
    for tap in range(taps - 1):
        at = position - (taps - 1 - tap) * dilation
        if at < 0:
            zero(d + 4 * tap * width, width)
        elif at >= step:
            as_kept(model, d + 4 * tap * width, a - 4 * (position - at) * a_stride, width)
        else:
            read_kept(model, d + 4 * tap * width, column_at(model, rows, ring, row, at), width)
    as_kept(model, d + 4 * (taps - 1) * width, a, width)
    own = model.n_rows // len(model.columns) * rows.of[row] + rows.beam[row]
    keep(model, slot_at(model, ring, own, position % capacity), a, width)


@inlined
def column_at(model: Model, rows: Rows, ring: int, row: int, at: int) -> int:
    """The address of an earlier position's column in the ring that a row has it from."""
    n_beams, history = model.n_rows // len(model.columns), model.ancestors.shape[2]
    place, beam = rows.of[row], rows.beam[row]
    if n_beams > 1:
        beam = model.ancestors[rows.position[row] & 1, place * n_beams + beam, at % history]
    return slot_at(model, ring, place * n_beams + beam, at % model.rings[ring, 1])


@inlined
def slot_at(model: Model, ring: int, row: int, slot: int) -> int:
    """The address of a slot in a row's ring; see item_bytes."""
    capacity, width = model.rings[ring, 1], model.rings[ring, 2]
    first = model.past + 4 * model.rings[ring, 0] * model.n_rows
    there: int = first + item_bytes(model) * width * (row * capacity + slot)
    return there


@compiled
def inherit(model: Model, place: int, parents: Ints, position: int) -> None:
    """A place's ancestors before the step of a position: those of the parents, and itself from here on."""
    n_beams, history = len(parents), model.ancestors.shape[2]
    now, before = model.ancestors[position & 1], model.ancestors[1 - (position & 1)]
    for beam in range(n_beams):
        row, parent = place * n_beams + beam, place * n_beams + parents[beam]
        for at in range(history):
            now[row, at] = before[parent, at]
        now[row, position % history] = beam


@compiled
def state_at(model: Model, k: int, bank: int, row: int) -> int:
    """The address of a state."""
    start, width = model.states[k, 0], model.states[k, 1]
    place: int = model.hidden + 4 * (start * 2 * model.n_rows + (bank * model.n_rows + row) * width)
    return place


@inlined
def item_at(model: Model, place: int, k: int) -> int:
    """The address of a memory's item."""
    before = model.items[k, 0] * whole_panels(model.columns[place])
    first: int = model.memory + 4 * (model.memory_at[place] + before)
    return first


@inlined
def column_of(model: Model, place: int, k: int, column: int) -> int:
    """The address of a column of a flat item, whose numbers have item_bytes each; there is room for 4."""
    there: int = item_at(model, place, k) + item_bytes(model) * model.items[k, 1] * column
    return there


@inlined
def scales_of(model: Model, place: int, k: int) -> int:
    """The address of the scales of an item's columns."""
    n, width, kind = model.columns[place], model.items[k, 1], model.items[k, 2]
    n_outputs, n_inputs = (n, width) if kind == KEYS else (width, n)
    return item_at(model, place, k) + whole_panels(n_outputs) // PANEL * panel_size(n_inputs)


@inlined
def whole_panels(n: int) -> int:
    """As many columns as whole panels have."""
    return (n + PANEL - 1) & -PANEL


@inlined
def panel_size(n_inputs: int) -> int:
    """Bytes of a panel of bytes."""
    return ((n_inputs + 3) >> 2) * STEP_BYTES


@inlined
def item_bytes(model: Model) -> int:
    """Of a number of a flat item or of a ring: float32, or bfloat16 where products round what they read
    about as far; reading it is most of what attention does. There is room for 4."""
    return 2 if model.precision == BF16 or model.precision == W8A8 else 4


@inlined
def keep(model: Model, there: int, x: int, n: int) -> None:
    """Keep numbers x in an item or a ring."""
    if item_bytes(model) == 4:
        copy(there, x, n)
    else:
        to_half(there, x, n)


@inlined
def read_kept(model: Model, d: int, there: int, n: int) -> None:
    """d = numbers of an item or a ring."""
    if item_bytes(model) == 4:
        copy(d, there, n)
    else:
        from_half(d, there, n)


@inlined
def as_kept(model: Model, d: int, x: int, n: int) -> None:
    """d = numbers x as read_kept will give them."""
    if item_bytes(model) == 4:
        copy(d, x, n)
    else:
        rounded(d, x, n)


@compiled
def keep_column(model: Model, place: int, k: int, column: int, x: int, scratch: int) -> None:
    """A column of a memory's item = x; scratch: room for a prepared row."""
    width, kind = model.items[k, 1], model.items[k, 2]
    if kind == FLAT:
        keep(model, column_of(model, place, k, column), x, width)
        return
    prepare_w8a8(scratch, x, width)
    write(scales_of(model, place, k), column, read(scratch, 0))
    there = item_at(model, place, k)
    size = panel_size(width if kind == KEYS else model.columns[place])
    for i in range(width):
        output, input_ = (column, i) if kind == KEYS else (i, column)
        step = there + (output >> 6) * size + (input_ >> 2) * STEP_BYTES
        _put_byte(step, ((output & 63) << 2) + (input_ & 3), _byte(scratch + HEADER, i) ^ ZERO)


@inlined
def read_column(model: Model, place: int, k: int, column: int, d: int) -> None:
    """d = a column of a flat item."""
    read_kept(model, d, column_of(model, place, k, column), model.items[k, 1])


@compiled
def fixed_at(model: Model, place: int, k: int) -> int:
    """The address of a memory's fixed part."""
    after = model.item_floats * whole_panels(model.columns[place])
    there: int = model.memory + 4 * (model.memory_at[place] + after + model.fixed[k, 0])
    return there
