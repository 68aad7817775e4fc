"""Write recurrent layers and read-outs as instructions, one decode step at a time or over a whole source.

Parameters have the names that the modules of bytenmt/layers give them.
"""

from __future__ import annotations

from bytenmt.program.instructions import Gru, Op, Register, RowKind, padded
from bytenmt.program.writer import Values, Writer


def maxout(step: Writer, x: Register, name: str, width: int) -> Register:
    """Write a linear map of x to `width` pairs; return the register with the larger of each pair."""
    pairs, maxed = step.register(2 * width), step.register(width)
    step.linear(pairs, x, f"{name}.weight", f"{name}.bias")
    step.emit(Op.MAXOUT, maxed, pairs)
    return maxed


def gru_step(
    step: Writer,
    new: Register,
    old: Register,
    x: Register,
    name: str,
    flags: int,
    state: int | None = None,
    fixed: tuple[int, int] | None = None,
) -> None:
    """Write new = GRU(x, old); `new` may be the same register as `old`.

    flags: bits of Gru. state: number of the state that `old` is read from, after everything that does not
    depend on it, and `new` is written to; None where the caller does both. fixed: of a GRU that also reads a
    context c as wide as `old`, the same at every step and reset after the product: the memory's fixed parts
    with the share of c in the gates, and with its share in what is reset.
    """
    d = old.width
    gates, u = step.register(3 * d), step.register(d)
    weight, bias = f"{name}.input.weight", f"{name}.input.bias"
    if fixed is not None:
        step.emit(Op.FIXED, gates, k=fixed[0])
        step.emit(Op.FIXED, u, k=fixed[1])
        own = Values(
            f"{weight}:own", (3 * d, x.width), {weight: (3 * d, x.width + d)}, lambda w: w[:, : x.width]
        )
        step.linear(gates, x, own, bias, add=True)
    else:
        step.linear(gates, x, weight, bias)
    if state is not None:
        step.emit(Op.READ_STATE, old, k=state)
    if new != old:
        step.emit(Op.COPY, new, old)
    step.linear(gates.part(0, 2 * d), old, f"{name}.gates.weight", add=True)
    reset = step.register(d)
    step.emit(Op.GRU_RESET, reset, gates, old)
    factor = old if flags & Gru.RESET_AFTER else reset
    step.linear(u, factor, f"{name}.candidate.weight", add=fixed is not None)
    step.emit(Op.GRU_STEP, new, gates, u, k=flags)
    if state is not None:
        step.emit(Op.WRITE_STATE, a=new, k=state)


def lstm_step(step: Writer, h: Register, x: Register, name: str, states: tuple[int, int]) -> None:
    """Write h, c = LSTM(x, h, c). states: the numbers of h and c, which are read and written back."""
    gates, c = step.register(4 * h.width), step.register(h.width)
    step.linear(gates, x, f"{name}.input.weight", f"{name}.input.bias")
    for register, state in zip((h, c), states, strict=True):
        step.emit(Op.READ_STATE, register, k=state)
    step.linear(gates, h, f"{name}.recurrent.weight", add=True)
    step.emit(Op.LSTM_STEP, h, gates, c)
    for register, state in zip((h, c), states, strict=True):
        step.emit(Op.WRITE_STATE, a=register, k=state)


def step_layers(
    step: Writer,
    x: Register,
    name: str,
    depth: int,
    d: int,
    flags: int | None,
    fixed: tuple[int, int] | None = None,
) -> Register:
    """Write a step of layers on top of each other; return h of the topmost one.

    name: prefix of the names of their parameters. flags: bits of Gru; None for LSTMs. States: h of each
    layer, then, of LSTMs, c of each. fixed: of the lowest one, see gru_step.
    """
    for layer in range(depth):
        h = step.register(d)
        if flags is None:
            lstm_step(step, h, x, f"{name}.{layer}", (layer, depth + layer))
        else:
            gru_step(step, h, h, x, f"{name}.{layer}", flags, layer, None if layer else fixed)
        x = h
    return x


def scan_layers(
    encode: Writer, x: Register, name: str, depth: int, d: int, flags: int | None
) -> tuple[Register, list[Register]]:
    """Write layers on top of each other over the sources; see step_layers.

    Return the register of the topmost h, and those of the last states of each sentence.
    """
    last = []
    for layer in range(depth):
        x, *states = scan(encode, x, f"{name}.{layer}", d, flags)
        last.append(states)
    return x, [state for states in zip(*last, strict=True) for state in states]


def scan(
    encode: Writer,
    x: Register,
    name: str,
    d: int,
    flags: int | None,
    states: Register | None = None,
    backwards: bool = False,
) -> tuple[Register, ...]:
    """Write a recurrent layer over the sources.

    Return the register of h, one row for each byte of the sources, and those of the last states of each
    sentence. name, flags: see step_layers. states: the register to write h into; None: a new one. backwards:
    a GRU that reads from the last byte to the first.
    """
    share = encode.register((4 if flags is None else 3) * d)
    encode.linear(share, x, f"{name}.input.weight", f"{name}.input.bias")
    scratch = encode.register(2 * padded(d) + 4 * d if flags is None else 2 * padded(d) + padded(2 * d) + d)
    states = encode.register(d) if states is None else states
    if flags is None:
        u = encode.matrix(f"{name}.recurrent.weight", 4 * d, d)
        encode.emit(Op.LSTM_SCAN, states, share, scratch, w=u.place, s=u.scales)
        return states, scratch.part(0, d), scratch.part(padded(d), d)
    u = encode.matrix(f"{name}.gates.weight", 2 * d, d)
    u_g = encode.matrix(f"{name}.candidate.weight", d, d)
    places = {"w": u.place, "s": u.scales, "v": u_g.place, "t": u_g.scales}
    encode.emit(Op.GRU_SCAN, states, share, scratch, RowKind.ALL, m=int(backwards), k=flags, **places)
    return states, scratch.part(0, d)
