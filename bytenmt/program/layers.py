"""Write recurrent layers and read-outs as instructions, one decode step at a time or over a whole source.

Parameters have the names that the modules of bytenmt/layers give them.
"""

from __future__ import annotations

from bytenmt.program.instructions import Gru, Op, Register, padded
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
    depend on it; None where it has been read already. fixed: of a GRU that also reads a context c as wide as
    `old`, the same at every step and reset after the product: the memory's fixed parts with the share of c in
    the gates, and with its share in what is reset.
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


def lstm_step(
    step: Writer, h: Register, c: Register, x: Register, name: str, states: tuple[int, int]
) -> None:
    """Write h, c = LSTM(x, h, c). states: the numbers of the two states, which are read and written back."""
    gates = step.register(4 * h.width)
    step.linear(gates, x, f"{name}.input.weight", f"{name}.input.bias")
    for register, state in zip((h, c), states, strict=True):
        step.emit(Op.READ_STATE, register, k=state)
    step.linear(gates, h, f"{name}.recurrent.weight", add=True)
    step.emit(Op.LSTM_STEP, h, gates, c)
    for register, state in zip((h, c), states, strict=True):
        step.emit(Op.WRITE_STATE, a=register, k=state)


def gru_scan(
    encode: Writer,
    x: Register,
    name: str,
    d: int,
    flags: int,
    states: Register | None = None,
    backwards: bool = False,
) -> tuple[Register, Register]:
    """Write a GRU layer over the sources.

    Return the register of its states, one row for each byte of the sources, and that of the last state of
    each sentence. name: prefix of the names of its parameters. flags: bits of Gru. states: the register to
    write into; None: a new one. backwards: from the last byte to the first.
    """
    share = encode.register(3 * d)
    encode.linear(share, x, f"{name}.input.weight", f"{name}.input.bias")
    scratch = encode.register(padded(d) + padded(2 * d) + padded(d) + d)
    states = encode.register(d) if states is None else states
    gates = encode.matrix(f"{name}.gates.weight", 2 * d, d)
    candidate = encode.matrix(f"{name}.candidate.weight", d, d)
    encode.emit(
        Op.GRU_SCAN,
        states,
        share,
        scratch,
        w=gates.place,
        s=gates.scales,
        v=candidate.place,
        t=candidate.scales,
        m=int(backwards),
        k=flags,
    )
    return states, scratch.part(0, d)


def lstm_scan(encode: Writer, x: Register, name: str, d: int) -> tuple[Register, Register, Register]:
    """Emit the instructions of an LSTM layer over the source; return the registers with its results.

    These are the states (one row for each source byte), and the last h and c of each sentence."""
    share = encode.register(4 * d)
    encode.linear(share, x, f"{name}.input.weight", f"{name}.input.bias")
    scratch = encode.register(2 * padded(d) + 4 * d)
    states = encode.register(d)
    u = encode.matrix(f"{name}.recurrent.weight", 4 * d, d)
    encode.emit(Op.LSTM_SCAN, states, share, scratch, w=u.place, s=u.scales)
    return states, scratch.part(0, d), scratch.part(padded(d), d)
