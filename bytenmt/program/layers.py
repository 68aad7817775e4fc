"""Write recurrent layers and read-outs as instructions, of a decode step or of an encoder.

Parameters have the names that the modules of bytenmt/layers give them.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from bytenmt.program.instructions import GruFlag, Op, Register
from bytenmt.program.writer import Array, Shapes, WeightArray, Writer


def write_maxout(step: Writer, x: Register, name: str, width: int) -> Register:
    """Append a maxout layer: a linear map of x to `width` pairs, then the larger of each pair.

    Returns the result's register, of `width` floats. step: writer of the program. name: the map's
    parameters are {name}.weight and {name}.bias.
    """
    pairs = step.register(2 * width)
    maxed = step.register(width)
    step.linear(pairs, x, f"{name}.weight", f"{name}.bias")
    step.emit(Op.MAXOUT, maxed, pairs)
    return maxed


def write_gru_step(
    step: Writer,
    new: Register,
    old: Register,
    x: Register,
    name: str,
    reset: Literal["before", "after"] = "before",
    update: Literal["keep", "take"] = "keep",
    state: int | None = None,
    d_inside: int = 0,
) -> None:
    """Append the instructions for new = GRU(x, old); `new` may be the same register as `old`.

    step: writer of the program. name: prefix of the names of the GRU's parameters. reset: whether
    the reset gate multiplies the state "before" or "after" the product U h. update: whether the
    update gate weighs the old state ("keep", as in PyTorch) or the candidate ("take"). state:
    number of the decoder's recurrent state from which `old` is read and to which `new` is written,
    any number in an encoder; None if the caller does both. d_inside: with reset "after", the reset
    gate also multiplies the product of so many of the last numbers of x.
    """
    gates, u = _write_gru_input(step, x, name, old.width, d_inside)
    if state is not None:
        step.read_state(old, state)
    if new != old:
        step.emit(Op.COPY, new, old)
    step.linear(gates.part(0, 2 * old.width), old, f"{name}.gates.weight", add=True)
    reset_state = step.register(old.width)
    step.emit(Op.GRU_RESET, reset_state, gates, old)
    flags = 0
    factor = reset_state
    if reset == "after":
        flags |= GruFlag.RESET_AFTER
        factor = old
    if update == "take":
        flags |= GruFlag.UPDATE_TAKES
    step.linear(u, factor, f"{name}.candidate.weight", add=d_inside > 0)
    step.emit(Op.GRU_STEP, new, gates, u, k=flags)
    if state is not None:
        step.write_state(new, state)


def _write_gru_input(
    step: Writer, x: Register, name: str, d: int, d_inside: int
) -> tuple[Register, Register]:
    """Write a GRU's products of the input; return the registers of the gates and of what is reset.

    The gates r, z and g are (3 d,). What is reset, (d,), gets the product of the last d_inside
    inputs, if there are any.
    """
    weight = f"{name}.input.weight"
    bias = f"{name}.input.bias"
    gates = step.register(3 * d)
    u = step.register(d)
    if not d_inside:
        step.linear(gates, x, weight, bias)
        return gates, u
    first = x.width - d_inside
    shapes: Shapes = {weight: (3 * d, x.width)}
    inside = WeightArray(f"{weight}:inside", (d, d_inside), shapes, lambda w: w[2 * d :, first:])
    outside = WeightArray(f"{weight}:outside", (3 * d, x.width), shapes, partial(_outside, first))
    step.linear(u, x.part(first, d_inside), inside)
    step.linear(gates, x, outside, bias)
    return gates, u


def _outside(first: int, w: Array) -> Array:
    """Return a GRU's input matrix with zeros where g would read the inputs from `first` on."""
    outside = w.copy()
    outside[len(w) // 3 * 2 :, first:] = 0
    return outside


def write_lstm_step(
    step: Writer, x: Register, name: str, d: int, states: tuple[int, ...]
) -> tuple[Register, Register]:
    """Append instructions for h, c = LSTM(x, h, c); return the registers of h and c, (d,) each.

    step: writer of the program. name: prefix of the names of the LSTM's parameters. d: width of h
    and of c. states: the numbers of the decoder's recurrent states h and c, which are read and
    written; any two in an encoder.
    """
    h = step.register(d)
    gates = step.register(4 * d)
    c = step.register(d)
    step.linear(gates, x, f"{name}.input.weight", f"{name}.input.bias")
    for register, state in zip((h, c), states, strict=True):
        step.read_state(register, state)
    step.linear(gates, h, f"{name}.recurrent.weight", add=True)
    step.emit(Op.LSTM_STEP, h, gates, c)
    for register, state in zip((h, c), states, strict=True):
        step.write_state(register, state)
    return h, c
