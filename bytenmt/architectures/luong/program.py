"""Stacked LSTMs with Luong's attention as programs of the CPU engine; see model.py."""

from __future__ import annotations

from typing import Any

from bytenmt.architectures.cells import write_recurrent_layers
from bytenmt.architectures.luong.config import LuongConfig
from bytenmt.architectures.model_program import ModelProgram, ModelWriter, SourceOrder
from bytenmt.program.instructions import GaussianUse, Op, Register, RowKind
from bytenmt.program.writer import Writer


def write_program(config: LuongConfig, writer: ModelWriter) -> ModelProgram:
    """Write a model with `writer` as two lists of CPU engine instructions; return them.

    They compute the encoder (an empty list without a source) and one step of the decoder, with
    states h of each layer, c of each, and the attentional vector if there is input feeding.
    """
    d = config.d_hidden
    d_embedding = config.d_embedding
    n_layers = config.decoder_depth
    if config.source:
        _write_encoder(config, writer)

    step = writer.begin_step()
    x = step.register(d_embedding + d * config.feeds_back)
    writer.embed(step, x.part(0, d_embedding))
    if config.feeds_back:
        step.emit(Op.READ_STATE, x.part(d_embedding, d), k=2 * n_layers)
    x, _ = write_recurrent_layers(config.recurrent_cell, step, x, "decoder.layers", n_layers, d)
    items: tuple[int, ...] = ()
    if config.has_attention:
        x = _write_attentional(step, x, config)
        items = (d, d) if config.score in ("general", "concat") else (d,)
    if config.feeds_back:
        step.emit(Op.WRITE_STATE, a=x, k=2 * n_layers)
    return writer.program(
        writer.output(x, bias=False),
        states=(d,) * (2 * n_layers + int(config.feeds_back)),
        items=items,
        source=SourceOrder(config.reverse_source),
    )


def _write_encoder(config: LuongConfig, writer: ModelWriter) -> None:
    """Write the encoder, up to the top states, their keys and the decoder's first states."""
    encode = writer.encode
    d = config.d_hidden
    x = encode.register(config.d_embedding)
    writer.embed(encode, x)
    cell = config.recurrent_cell
    x, states = write_recurrent_layers(cell, encode, x, "encoder", config.encoder_depth, d)
    finals = config.first_states([encode.last_column(state) for state in states])
    for state, register in enumerate(finals):
        encode.emit(Op.KEEP_STATE, a=register, k=state, rows=RowKind.SENTENCES)
    if config.has_attention:
        _keep_source(encode, x, config)


def _keep_source(encode: Writer, x: Register, config: LuongConfig) -> None:
    """Keep the top states x, in the order of the text where that matters, and their keys."""
    turned = int(config.reverse_source and config.by_place)
    encode.emit(Op.KEEP, a=x, k=0, m=turned)
    if config.score in ("general", "concat"):
        keys = encode.register(x.width)
        encode.linear(keys, x, "keys.weight")
        keep = Op.KEEP_EXPONENTIAL if config.score == "concat" else Op.KEEP
        encode.emit(keep, a=keys, k=1, m=turned)


def _write_attentional(step: Writer, top: Register, config: LuongConfig) -> Register:
    """Write h~ = tanh(W_c [c ; h]), where `top` is h; return its register."""
    d = top.width
    combined = step.register(2 * d)  # c_t, h_t
    _write_context(step, combined.part(0, d), top, config)
    step.emit(Op.COPY, combined.part(d, d), top)
    attentional = step.register(d)
    step.linear(attentional, combined, "decoder.combine.weight")
    step.emit(Op.TANH, attentional)
    return attentional


def _write_context(step: Writer, context: Register, top: Register, config: LuongConfig) -> None:
    """Write the attention: its scores, softmax and context."""
    centre = _write_centre(step, top, config) if config.is_local else None
    where: dict[str, Any] = {"s": config.window, "t": int(GaussianUse[config.gaussian_use.upper()])}
    if config.score == "location":
        scores = step.register(config.n_locations)
        step.linear(scores, top, "decoder.location.weight")
        where |= {"m": config.n_locations, "k": int(config.location_softmax == "twice")}
        step.emit(Op.ATTEND_LOCATION, context, scores, centre, **where)
    elif config.score == "concat":
        query = step.register(top.width)
        step.linear(query, top, "decoder.score.query.weight")
        v = step.vector("decoder.score.v", top.width)
        step.emit(Op.ATTEND_ADDITIVE, context, query, centre, w=v, m=1, v=0, **where)
    else:
        item = int(config.score == "general")  # of the keys, which are the values with "dot"
        step.emit(Op.ATTEND_DOT, context, top, centre, m=item, v=0, **where)


def _write_centre(step: Writer, top: Register, config: LuongConfig) -> Register:
    """Write p_t, the centre of the window; return its register."""
    centre = step.register(1)
    n_seen = config.n_locations * config.by_location  # of the source's first bytes; 0: all
    if config.attention == "local-m":
        step.emit(Op.CENTRE, centre, m=n_seen)
        return centre
    hidden = step.register(top.width)
    step.linear(hidden, top, "decoder.position.hidden.weight")
    step.emit(Op.TANH, hidden)
    v = step.vector("decoder.position.v", top.width)
    step.emit(Op.PREDICT_CENTRE, centre, hidden, w=v, n=top.width, m=n_seen)
    return centre
