"""Recurrent layers and read-outs as instructions, a step at a time and over whole sources.

Parameters have the names that the modules of bytenmt/layers give them. Knows no model.
"""

from __future__ import annotations

from bytenmt.decoding.cpu.program.instructions import Gru, Op, Register, Writer, padded


def output(step: Writer, x: Register, name: str, table_bias: str | None) -> Register:
    """OutputLayer of layers/embedding.py: its own weight, or the byte embedding's behind a projection."""
    logits = step.register(256)
    weight = f"{name}.weight" if f"{name}.weight" in step.tensors else "embedding.weight"
    if f"{name}.projection.weight" in step.tensors:
        projected = step.register(step.tensors["embedding.weight"].shape[1])
        step.linear(projected, x, f"{name}.projection.weight", f"{name}.projection.bias")
        x = projected
    step.linear(logits, x, weight, table_bias)
    return logits


def maxout(step: Writer, seen: Register, name: str, width: int) -> Register:
    """The larger of each of `width` pairs of a linear map's outcomes."""
    pairs, maxed = step.register(2 * width), step.register(width)
    step.linear(pairs, seen, f"{name}.weight", f"{name}.bias")
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
    """new = GRU(x, old); `new` may be the same register.

    state: number of the one that `old` is read from, behind all that does not depend on it; None where it has
    been read. fixed: the memory's parts with the gates' share of the inputs behind x, which are the same at
    every step, and with g's that is reset, for a reset after the product.
    """
    d = old.width
    gates, u = step.register(3 * d), step.register(d)
    weight, bias = f"{name}.input.weight", f"{name}.input.bias"
    if fixed is not None:
        step.emit(Op.FIXED, gates, k=fixed[0])
        step.emit(Op.FIXED, u, k=fixed[1])
        own = step.tensors[weight][:, : x.width]
        step.linear(gates, x, (f"{weight}:own", own), bias, add=True)
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
    """h, c = LSTM(x, h, c), from states of these numbers and back to them."""
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
    """A GRU layer over the sources: its states, a row a column, and the last one of each sentence."""
    share = encode.register(3 * d)
    encode.linear(share, x, f"{name}.input.weight", f"{name}.input.bias")
    scratch = encode.register(padded(d) + padded(2 * d) + padded(d) + d)
    states = encode.register(d) if states is None else states
    gates, candidate = (
        encode.weights.matrix(encode.tensors[full], full)
        for full in (f"{name}.gates.weight", f"{name}.candidate.weight")
    )
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
    """An LSTM layer over the sources: its states, a row a column, and each sentence's last h and c."""
    share = encode.register(4 * d)
    encode.linear(share, x, f"{name}.input.weight", f"{name}.input.bias")
    scratch = encode.register(2 * padded(d) + 4 * d)
    states = encode.register(d)
    recurrent = f"{name}.recurrent.weight"
    u = encode.weights.matrix(encode.tensors[recurrent], recurrent)
    encode.emit(Op.LSTM_SCAN, states, share, scratch, w=u.place, s=u.scales)
    return states, scratch.part(0, d), scratch.part(padded(d), d)
