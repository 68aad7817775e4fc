"""The recurrent two with attention as programs: bahdanau and luong, as their modules in models/ define them.

Parameters have the names that the modules give them.
"""

from __future__ import annotations

from bytenmt.config.schema import BahdanauConfig, LuongConfig
from bytenmt.decoding.cpu.program.instructions import Gru, Op, RowKind, Tensors
from bytenmt.decoding.cpu.program.layers import gru_scan, gru_step, lstm_scan, lstm_step, maxout, output
from bytenmt.decoding.cpu.program.luong_attention import attentional, keep_source
from bytenmt.decoding.cpu.program.packed_model import PackedModel, Packing, Source


def bahdanau(tensors: Tensors, config: BahdanauConfig, precision: str) -> PackedModel:
    """See models/bahdanau.py."""
    d, d_embedding = config.d_hidden, config.d_embedding
    packing = Packing(tensors, config, precision)
    if config.source:
        _bahdanau_encoder(packing, config)

    step = packing.begin_step()
    d_context = 2 * d if config.source else 0
    seen = step.register(d + d_embedding + d_context)  # s, e(y), c: what the maxout reads
    before = seen.part(0, d)
    x = seen.part(d, d_embedding + d_context)
    packing.embed(step, x.part(0, d_embedding))
    if config.source:
        step.emit(Op.READ_STATE, before, k=0)
        query = step.register(config.d_attention)
        step.linear(query, before, "decoder.score.query.weight")
        v = step.vector("decoder.score.v")
        step.emit(Op.ATTEND_ADDITIVE, x.part(d_embedding, d_context), query, w=v, m=0, v=1)
    after = step.register(d)
    gru_step(step, after, before, x, "decoder.cell", Gru.UPDATE_TAKES, None if config.source else 0)
    step.emit(Op.WRITE_STATE, a=after, k=0)
    if config.read_out == "current":
        step.emit(Op.COPY, before, after)
    maxed = maxout(step, seen, "decoder.maxout", config.d_maxout)
    logits = output(step, maxed, "decoder.output", table_bias="decoder.output.bias")
    return packing.packed(
        logits,
        states=(d,),
        items=(config.d_attention, 2 * d) if config.source else (),
    )


def _bahdanau_encoder(packing: Packing, config: BahdanauConfig) -> None:
    """From the bytes of a source to keys, annotations and the first state."""
    encode, d = packing.encode, config.d_hidden
    x = encode.register(config.d_embedding)
    packing.embed(encode, x)
    for layer in range(config.n_encoder_layers):
        name = f"encoder.above.{layer - 1}" if layer else "encoder"
        annotations = encode.register(2 * d)
        forwards, backwards = annotations.part(0, d), annotations.part(d, d)
        gru_scan(encode, x, f"{name}.forwards", d, Gru.UPDATE_TAKES, states=forwards)
        _, first_state = gru_scan(
            encode, x, f"{name}.backwards", d, Gru.UPDATE_TAKES, states=backwards, backwards=True
        )
        x = annotations
    keys = encode.register(config.d_attention)
    encode.linear(keys, annotations, "encoder.keys.weight")
    encode.emit(Op.KEEP_EXPONENTIAL, a=keys, k=0)
    encode.emit(Op.KEEP, a=annotations, k=1)
    hidden = encode.register(d)
    encode.linear(hidden, first_state, "decoder.start.weight", "decoder.start.bias", rows=RowKind.SENTENCES)
    encode.emit(Op.TANH, hidden, rows=RowKind.SENTENCES)
    encode.emit(Op.KEEP_STATE, a=hidden, k=0, rows=RowKind.SENTENCES)


def luong(tensors: Tensors, config: LuongConfig, precision: str) -> PackedModel:
    """See models/luong.py. States: h and c of each layer, then with input feeding h~; all start at zero."""
    d, d_embedding, n_layers = config.d_hidden, config.d_embedding, config.decoder_depth
    packing = Packing(tensors, config, precision)
    if config.source:
        _luong_encoder(packing, config)

    step = packing.begin_step()
    x = step.register(d_embedding + (d if config.input_feeding else 0))
    packing.embed(step, x.part(0, d_embedding))
    if config.input_feeding:
        step.emit(Op.READ_STATE, x.part(d_embedding, d), k=2 * n_layers)
    for layer in range(n_layers):
        h, c = step.register(d), step.register(d)
        lstm_step(step, h, c, x, f"decoder.layers.{layer}", (2 * layer, 2 * layer + 1))
        x = h
    if config.attends:
        x = attentional(step, x, config)
    if config.input_feeding:
        step.emit(Op.WRITE_STATE, a=x, k=2 * n_layers)
    logits = output(step, x, "decoder.output", table_bias=None)
    return packing.packed(
        logits,
        states=(d,) * (2 * n_layers + int(config.input_feeding)),
        items=((d, d) if config.score in ("general", "concat") else (d,)) if config.attends else (),
        source=Source(reverse=config.reverse_source),
    )


def _luong_encoder(packing: Packing, config: LuongConfig) -> None:
    """From the bytes of a source to the top states, their keys and the decoder's first states."""
    encode, d = packing.encode, config.d_hidden
    x = encode.register(config.d_embedding)
    packing.embed(encode, x)
    last = []
    for layer in range(config.encoder_depth):
        x, *states = lstm_scan(encode, x, f"encoder.{layer}", d)
        last.append(states)
    for layer, (h, c) in enumerate(last[first] for first in config.starts_from):
        encode.emit(Op.KEEP_STATE, a=h, k=2 * layer, rows=RowKind.SENTENCES)
        encode.emit(Op.KEEP_STATE, a=c, k=2 * layer + 1, rows=RowKind.SENTENCES)
    if config.attends:
        keep_source(encode, x, config)
