"""What is kept of the sentences at their places, by address: states, rings and memories.

Compiled without a cache of its own, as part of interpreter.py. Knows records of addresses; knows neither
instructions nor the search.
"""

from __future__ import annotations

from bytenmt.decoding.cpu.kernels.instructions import (
    Ints,
    Model,
    Rows,
    copy,
    fetch,
    from_half,
    rounded,
    to_half,
    zero,
)
from bytenmt.decoding.cpu.kernels.panels import BF16, W8A8
from bytenmt.decoding.cpu.kernels.simd import compiled, inlined


@inlined
def read_ring(
    model: Model, rows: Rows, step: int, ring: int, row: int, d: int, a: int, a_stride: int, taps: int
) -> None:
    """d = the taps, oldest first; the newest is a, which takes its slot in the row's own ring. Those from the
    sentence's step on are of this pass' rows before it, at a's stride, rounded as they will be kept."""
    capacity, width, dilation = model.rings[ring, 1], model.rings[ring, 2], model.rings[ring, 3]
    position = rows.position[row]
    if row + 1 < len(rows.ids):  # what the next row will read is on its way meanwhile
        n = item_bytes(model) * width
        for tap in range(taps - 1):
            at = rows.position[row + 1] - (taps - 1 - tap) * dilation
            if 0 <= at < step:
                fetch(column_at(model, rows, ring, row + 1, at), n)
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
def column_of(model: Model, place: int, k: int, column: int) -> int:
    """The address of a column of a memory's item, whose numbers have item_bytes each; there is room for 4."""
    first = model.memory + 4 * (model.memory_at[place] + model.items[k, 0] * model.columns[place])
    there: int = first + item_bytes(model) * model.items[k, 1] * column
    return there


@inlined
def item_bytes(model: Model) -> int:
    """Of a number of a memory's item or a ring: float32, or bfloat16 where products round what they read
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


@inlined
def keep_column(model: Model, place: int, k: int, column: int, x: int) -> None:
    """A column of a memory's item = x."""
    keep(model, column_of(model, place, k, column), x, model.items[k, 1])


@inlined
def read_column(model: Model, place: int, k: int, column: int, d: int) -> None:
    """d = a column of a memory's item."""
    read_kept(model, d, column_of(model, place, k, column), model.items[k, 1])


@compiled
def fixed_at(model: Model, place: int, k: int) -> int:
    """The address of a memory's fixed part."""
    after = model.item_floats * model.columns[place]
    there: int = model.memory + 4 * (model.memory_at[place] + after + model.fixed[k, 0])
    return there
