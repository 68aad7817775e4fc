"""The recurrent three as programs: seq2seq, bahdanau and luong, as their modules in models/ define them.

Parameters have the names that the modules give them.
"""

from __future__ import annotations

from bytenmt.config.schema import BahdanauConfig, LuongConfig, Seq2SeqConfig
from bytenmt.decoding.cpu.program.instructions import (
    Gru,
    Op,
    Register,
    RowKind,
    Tensors,
    Writer,
    padded,
)
from bytenmt.decoding.cpu.program.luong_attention import attentional, keep_source
from bytenmt.decoding.cpu.program.packed_model import PackedModel, Packing, Source


def seq2seq(tensors: Tensors, config: Seq2SeqConfig, precision: str) -> PackedModel:
    """See models/seq2seq.py."""
    d, n_layers = config.d_hidden, config.decoder_depth
    every_step = config.context == "every_step"
    flags = Gru.RESET_AFTER if config.gru_reset == "after" else 0
    packing = Packing(tensors, precision)
    table, encode = packing.table, packing.encode
    x = encode.register(config.d_embedding)
    encode.emit(Op.EMBED, x, w=table)
    finals = []
    for layer in range(config.encoder_depth):
        states, last = _gru_scan(encode, x, f"encoder.{layer}", d, flags)
        finals.append(last)
        x = states
    finals = [finals[layer] for layer in config.starts_from]
    if every_step:
        context, hidden = encode.register(d), encode.register(n_layers * d)
        encode.linear(context, finals[-1], "decoder.context.weight", rows=RowKind.SENTENCES)
        encode.emit(Op.TANH, context, rows=RowKind.SENTENCES)
        encode.emit(Op.KEEP_FIXED, a=context, k=0, rows=RowKind.SENTENCES)
        encode.linear(hidden, context, "decoder.start.weight", rows=RowKind.SENTENCES)
        encode.emit(Op.TANH, hidden, rows=RowKind.SENTENCES)
        finals = [hidden.part(layer * d, d) for layer in range(n_layers)]
    for layer, final in enumerate(finals):
        encode.emit(Op.KEEP_STATE, a=final, k=layer, rows=RowKind.SENTENCES)

    step = packing.begin_step()
    d_embedding = config.d_embedding
    seen = step.register(d + d_embedding + (d if every_step else 0))  # h, e(y), c: what the maxout reads
    x = seen.part(d, seen.width - d)  # e(y), c: what the first layer reads
    step.emit(Op.EMBED, x.part(0, d_embedding), w=table)
    if every_step:
        step.emit(Op.FIXED, x.part(d_embedding, d), k=0)
    for layer in range(n_layers):
        hidden = step.register(d)
        step.emit(Op.READ_STATE, hidden, k=layer)
        _gru_step(step, hidden, hidden, x, f"decoder.layers.{layer}", flags)
        step.emit(Op.WRITE_STATE, a=hidden, k=layer)
        x = hidden
    if every_step:
        step.emit(Op.COPY, seen.part(0, d), x)
        x = _maxout(step, seen, "decoder.maxout", d // 2)
    logits = output(step, x, "decoder.output", table_bias="decoder.output.bias")
    return packing.packed(
        logits,
        states=(d,) * n_layers,
        fixed=(d,) if every_step else (),
        source=Source(reverse=config.reverse_source),
    )


def bahdanau(tensors: Tensors, config: BahdanauConfig, precision: str) -> PackedModel:
    """See models/bahdanau.py."""
    d, d_embedding = config.d_hidden, config.d_embedding
    packing = Packing(tensors, precision)
    table, encode = packing.table, packing.encode
    if config.source:
        _bahdanau_encoder(encode, table, config)

    step = packing.begin_step()
    d_context = 2 * d if config.source else 0
    seen = step.register(d + d_embedding + d_context)  # s, e(y), c: what the maxout reads
    before = seen.part(0, d)
    x = seen.part(d, d_embedding + d_context)
    step.emit(Op.READ_STATE, before, k=0)
    step.emit(Op.EMBED, x.part(0, d_embedding), w=table)
    if config.source:
        query = step.register(config.d_attention)
        step.linear(query, before, "decoder.score.query.weight")
        v = step.vector("decoder.score.v")
        step.emit(Op.ATTEND_ADDITIVE, x.part(d_embedding, d_context), query, w=v, m=0, v=1)
    after = step.register(d)
    step.emit(Op.COPY, after, before)
    _gru_step(step, after, before, x, "decoder.cell", Gru.UPDATE_TAKES)
    step.emit(Op.WRITE_STATE, a=after, k=0)
    if config.read_out == "current":
        step.emit(Op.COPY, before, after)
    maxed = _maxout(step, seen, "decoder.maxout", config.d_maxout)
    logits = output(step, maxed, "decoder.output", table_bias="decoder.output.bias")
    return packing.packed(
        logits,
        states=(d,),
        items=(config.d_attention, 2 * d) if config.source else (),
    )


def _bahdanau_encoder(encode: Writer, table: int, config: BahdanauConfig) -> None:
    """From the bytes of a source to keys, annotations and the first state."""
    d = config.d_hidden
    x = encode.register(config.d_embedding)
    encode.emit(Op.EMBED, x, w=table)
    annotations = encode.register(2 * d)
    _gru_scan(encode, x, "encoder.forwards", d, Gru.UPDATE_TAKES, states=annotations.part(0, d))
    backwards = annotations.part(d, d)
    _, first_state = _gru_scan(
        encode, x, "encoder.backwards", d, Gru.UPDATE_TAKES, states=backwards, backwards=True
    )
    keys = encode.register(config.d_attention)
    encode.linear(keys, annotations, "encoder.keys.weight")
    encode.emit(Op.KEEP_EXPONENTIAL, a=keys, k=0)
    encode.emit(Op.KEEP, a=annotations, k=1)
    hidden = encode.register(d)
    encode.linear(hidden, first_state, "decoder.start.weight", "decoder.start.bias", rows=RowKind.SENTENCES)
    encode.emit(Op.TANH, hidden, rows=RowKind.SENTENCES)
    encode.emit(Op.KEEP_STATE, a=hidden, k=0, rows=RowKind.SENTENCES)


def luong(tensors: Tensors, config: LuongConfig, precision: str) -> PackedModel:
    """See models/luong.py. States: h and c of each layer, then h~, which starts at zero as every state."""
    d, d_embedding, n_layers = config.d_hidden, config.d_embedding, config.decoder_depth
    packing = Packing(tensors, precision)
    table, encode = packing.table, packing.encode
    if config.source:
        _luong_encoder(encode, table, config)

    step = packing.begin_step()
    x = step.register(d_embedding + (d if config.input_feeding else 0))
    step.emit(Op.EMBED, x.part(0, d_embedding), w=table)
    if config.input_feeding:
        step.emit(Op.READ_STATE, x.part(d_embedding, d), k=2 * n_layers)
    for layer in range(n_layers):
        h, c, gates = step.register(d), step.register(d), step.register(4 * d)
        name = f"decoder.layers.{layer}"
        step.emit(Op.READ_STATE, h, k=2 * layer)
        step.emit(Op.READ_STATE, c, k=2 * layer + 1)
        step.linear(gates, x, f"{name}.input.weight", f"{name}.input.bias")
        step.linear(gates, h, f"{name}.recurrent.weight", add=True)
        step.emit(Op.LSTM_STEP, h, gates, c)
        step.emit(Op.WRITE_STATE, a=h, k=2 * layer)
        step.emit(Op.WRITE_STATE, a=c, k=2 * layer + 1)
        x = h
    if config.attends:
        x = attentional(step, x, config)
        step.emit(Op.WRITE_STATE, a=x, k=2 * n_layers)
    logits = output(step, x, "decoder.output", table_bias=None)
    return packing.packed(
        logits,
        states=(d,) * (2 * n_layers + int(config.attends)),
        items=((d, d) if config.score in ("general", "concat") else (d,)) if config.attends else (),
        source=Source(reverse=config.reverse_source),
    )


def _luong_encoder(encode: Writer, table: int, config: LuongConfig) -> None:
    """From the bytes of a source to the top states, their keys and the decoder's first states."""
    d = config.d_hidden
    x = encode.register(config.d_embedding)
    encode.emit(Op.EMBED, x, w=table)
    last = []
    for layer in range(config.encoder_depth):
        x, *states = _lstm_scan(encode, x, f"encoder.{layer}", d)
        last.append(states)
    for layer, (h, c) in enumerate(last[first] for first in config.starts_from):
        encode.emit(Op.KEEP_STATE, a=h, k=2 * layer, rows=RowKind.SENTENCES)
        encode.emit(Op.KEEP_STATE, a=c, k=2 * layer + 1, rows=RowKind.SENTENCES)
    if config.attends:
        keep_source(encode, x, config)


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


def _maxout(step: Writer, seen: Register, name: str, width: int) -> Register:
    pairs, maxed = step.register(2 * width), step.register(width)
    step.linear(pairs, seen, f"{name}.weight", f"{name}.bias")
    step.emit(Op.MAXOUT, maxed, pairs)
    return maxed


def _gru_step(step: Writer, new: Register, old: Register, x: Register, name: str, flags: int) -> None:
    """new = GRU(x, old); `new` holds a copy of `old`, or is the same register."""
    d = old.width
    gates, u = step.register(3 * d), step.register(d)
    step.linear(gates, x, f"{name}.input.weight", f"{name}.input.bias")
    step.linear(gates.part(0, 2 * d), old, f"{name}.gates.weight", add=True)
    reset = step.register(d)
    step.emit(Op.GRU_RESET, reset, gates, old)
    step.linear(u, old if flags & Gru.RESET_AFTER else reset, f"{name}.candidate.weight")
    step.emit(Op.GRU_STEP, new, gates, u, k=flags)


def _gru_scan(
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


def _lstm_scan(encode: Writer, x: Register, name: str, d: int) -> tuple[Register, Register, Register]:
    """An LSTM layer over the sources: its states, a row a column, and each sentence's last h and c."""
    share = encode.register(4 * d)
    encode.linear(share, x, f"{name}.input.weight", f"{name}.input.bias")
    scratch = encode.register(2 * padded(d) + 4 * d)
    states = encode.register(d)
    recurrent = f"{name}.recurrent.weight"
    u = encode.weights.matrix(encode.tensors[recurrent], recurrent)
    encode.emit(Op.LSTM_SCAN, states, share, scratch, w=u.place, s=u.scales)
    return states, scratch.part(0, d), scratch.part(padded(d), d)
