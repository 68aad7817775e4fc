"""Write recurrent layers and read-outs as instructions, of a decode step or of an encoder.

Parameters have the names that the modules of bytenmt/layers give them.
"""

from __future__ import annotations

from functools import partial

from bytenmt.program.instructions import GruFlag, Op, Register
from bytenmt.program.writer import Array, Shapes, WeightArray, Writer


def write_maxout(step: Writer, x: Register, name: str, width: int) -> Register:
    """Write a maxout layer: a linear map of x to `width` pairs, then the larger of each pair.

    Returns the register of the result. name: prefix of the map's parameters.
    """
    pairs, maxed = step.register(2 * width), step.register(width)
    step.linear(pairs, x, f"{name}.weight", f"{name}.bias")
    step.emit(Op.MAXOUT, maxed, pairs)
    return maxed


def write_gru_step(
    step: Writer,
    new: Register,
    old: Register,
    x: Register,
    name: str,
    flags: int,
    state: int | None = None,
    d_inside: int = 0,
) -> None:
    """Write instructions for new = GRU(x, old); `new` may be the same register as `old`.

    name: prefix of its parameters. flags: bits of GruFlag. state: number of the decoder's state
    that `old` is read from and `new` is written to, any number in an encoder; None if the caller
    does both. d_inside: how many of the last inputs the reset gate also multiplies, see
    layers.recurrent.GRU.
    """
    d, weight, bias = old.width, f"{name}.input.weight", f"{name}.input.bias"
    gates, u = step.register(3 * d), step.register(d)
    if d_inside:
        first = x.width - d_inside
        read: Shapes = {weight: (3 * d, x.width)}
        inside = WeightArray(f"{weight}:inside", (d, d_inside), read, lambda w: w[2 * d :, first:])
        step.linear(u, x.part(first, d_inside), inside)
        step.linear(
            gates,
            x,
            WeightArray(f"{weight}:outside", (3 * d, x.width), read, partial(_outside, first)),
            bias,
        )
    else:
        step.linear(gates, x, weight, bias)
    if state is not None:
        step.read_state(old, state)
    if new != old:
        step.emit(Op.COPY, new, old)
    step.linear(gates.part(0, 2 * d), old, f"{name}.gates.weight", add=True)
    reset = step.register(d)
    step.emit(Op.GRU_RESET, reset, gates, old)
    factor = old if flags & GruFlag.RESET_AFTER else reset
    step.linear(u, factor, f"{name}.candidate.weight", add=d_inside > 0)
    step.emit(Op.GRU_STEP, new, gates, u, k=flags)
    if state is not None:
        step.write_state(new, state)


def _outside(first: int, w: Array) -> Array:
    """Return a GRU's input matrix without what g has of the inputs from `first` on."""
    outside = w.copy()
    outside[len(w) // 3 * 2 :, first:] = 0
    return outside


def write_recurrent_layers(
    step: Writer, x: Register, name: str, depth: int, d: int, flags: int | None, d_inside: int = 0
) -> tuple[Register, list[Register]]:
    """Write a stack of recurrent layers over input x; return the registers of the top layer's h and
    of all
    states: h of each layer, then c of LSTMs. They are the decoder's states 0, 1 and so on in a
    decode step.

    name: prefix of their parameters. depth: layers, each of width d. flags: bits of GruFlag; None
    for LSTMs.
    d_inside: of the lowest layer, see write_gru_step.
    """
    all_h, all_c = list[Register](), list[Register]()
    for layer in range(depth):
        h, prefix = step.register(d), f"{name}.{layer}"
        if flags is not None:
            write_gru_step(step, h, h, x, prefix, flags, layer, 0 if layer else d_inside)
        else:
            gates, c = step.register(4 * d), step.register(d)
            step.linear(gates, x, f"{prefix}.input.weight", f"{prefix}.input.bias")
            states = ((h, layer), (c, depth + layer))
            for register, state in states:
                step.read_state(register, state)
            step.linear(gates, h, f"{prefix}.recurrent.weight", add=True)
            step.emit(Op.LSTM_STEP, h, gates, c)
            for register, state in states:
                step.write_state(register, state)
            all_c.append(c)
        all_h.append(h)
        x = h
    return x, all_h + all_c
