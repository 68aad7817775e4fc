"""Luong's attention in the programs of recurrent.py: what is kept of the source, and a step's look at it.

Parameters have the names that models/luong.py gives them. Knows nothing of the layers below.
"""

from __future__ import annotations

from typing import Any

from bytenmt.config.schema import LuongConfig
from bytenmt.decoding.cpu.program.instructions import Bell, Op, Register, Writer


def keep_source(encode: Writer, x: Register, config: LuongConfig) -> None:
    """Keep the top states x, in the order of the text where that matters, and their keys."""
    turned = int(config.reverse_source and config.by_place)
    encode.emit(Op.KEEP, a=x, k=0, m=turned)
    if config.score in ("general", "concat"):
        keys = encode.register(x.width)
        encode.linear(keys, x, "keys.weight")
        keep = Op.KEEP_EXPONENTIAL if config.score == "concat" else Op.KEEP
        encode.emit(keep, a=keys, k=1, m=turned)


def attentional(step: Writer, top: Register, config: LuongConfig) -> Register:
    """A step's h~ = tanh(W_c [c ; h]); top: h."""
    d = top.width
    combined = step.register(2 * d)  # c_t, h_t
    _context(step, combined.part(0, d), top, config)
    step.emit(Op.COPY, combined.part(d, d), top)
    attentional = step.register(d)
    step.linear(attentional, combined, "decoder.combine.weight")
    step.emit(Op.TANH, attentional)
    return attentional


def _context(step: Writer, context: Register, top: Register, config: LuongConfig) -> None:
    """Dot products with the states or their keys, the additive score, or a score for each place."""
    centre = _centre(step, top, config) if config.local else None
    where: dict[str, Any] = {"s": config.window, "t": int(Bell[config.bell.upper()])}
    if config.score == "location":
        scores = step.register(config.n_locations)
        step.linear(scores, top, "decoder.location.weight")
        twice = int(config.location_softmax == "twice")
        step.emit(Op.ATTEND_LOCATION, context, scores, centre, m=config.n_locations, k=twice, **where)
    elif config.score == "concat":
        query = step.register(top.width)
        step.linear(query, top, "decoder.score.query.weight")
        v = step.vector("decoder.score.v")
        step.emit(Op.ATTEND_ADDITIVE, context, query, centre, w=v, m=1, v=0, **where)
    else:
        step.emit(Op.ATTEND_DOT, context, top, centre, m=0 if config.score == "dot" else 1, v=0, **where)


def _centre(step: Writer, top: Register, config: LuongConfig) -> Register:
    """p_t."""
    centre = step.register(1)
    if config.attention == "local-m":
        step.emit(Op.CENTRE, centre, m=config.n_locations)
        return centre
    hidden = step.register(top.width)
    step.linear(hidden, top, "decoder.position.hidden.weight")
    step.emit(Op.TANH, hidden)
    v = step.vector("decoder.position.v")
    step.emit(Op.PREDICT_CENTRE, centre, hidden, w=v, n=top.width, m=config.n_locations)
    return centre
