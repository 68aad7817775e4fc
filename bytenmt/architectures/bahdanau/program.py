"""Additive attention as programs of the CPU engine; model.py has the equations."""

from __future__ import annotations

from bytenmt.architectures.bahdanau.config import BahdanauConfig
from bytenmt.architectures.model_program import ModelProgram, ModelWriter
from bytenmt.program.instructions import Op, RowKind
from bytenmt.program.layers import write_gru_step, write_maxout


def write_program(config: BahdanauConfig, writer: ModelWriter) -> ModelProgram:
    """Write a model with `writer` as two lists of CPU engine instructions; return them.

    They compute the encoder (an empty list without a source) and one step of the decoder.
    """
    d = config.d_hidden
    d_embedding = config.d_embedding
    d_context = 0
    items: tuple[int, ...] = ()
    if config.source:
        _write_encoder(config, writer)
        d_context = 2 * d
        items = (config.d_attention, 2 * d)

    step = writer.begin_step()
    seen = step.register(d + d_embedding + d_context)  # s, e(y), c: what the maxout reads
    before = seen.part(0, d)
    x = seen.part(d, d_embedding + d_context)
    writer.embed(step, x.part(0, d_embedding))
    if config.source:
        step.emit(Op.READ_STATE, before, k=0)
        query = step.register(config.d_attention)
        step.linear(query, before, "decoder.score.query.weight")
        v = step.vector("decoder.score.v", config.d_attention)
        step.emit(Op.ATTEND_ADDITIVE, x.part(d_embedding, d_context), query, w=v, m=0, v=1)
    after = step.register(d)
    state = None if config.source else 0
    write_gru_step(step, after, before, x, "decoder.cell", update="take", state=state)
    if config.source:
        step.emit(Op.WRITE_STATE, a=after, k=0)
    if config.read_out == "current":
        step.emit(Op.COPY, before, after)
    maxed = write_maxout(step, seen, "decoder.maxout", config.d_maxout)
    return writer.program(writer.output(maxed), states=(d,), items=items)


def _write_encoder(config: BahdanauConfig, writer: ModelWriter) -> None:
    """Write the encoder, up to keys, annotations and the decoder's first state."""
    encode = writer.encode
    d = config.d_hidden
    x = encode.register(config.d_embedding)
    writer.embed(encode, x)
    for layer in range(config.n_encoder_layers):
        name = f"encoder.above.{layer - 1}" if layer else "encoder"
        annotations = encode.register(2 * d)
        turned = encode.register(x.width)
        backwards = encode.register(d)
        forwards = annotations.part(0, d)
        write_gru_step(encode, forwards, forwards, x, f"{name}.forwards", update="take", state=0)
        encode.emit(Op.TURN, turned, x)
        write_gru_step(
            encode, backwards, backwards, turned, f"{name}.backwards", update="take", state=0
        )
        encode.emit(Op.TURN, annotations.part(d, d), backwards)
        x = annotations
    keys = encode.register(config.d_attention)
    encode.linear(keys, x, "encoder.keys.weight")
    encode.emit(Op.KEEP_EXPONENTIAL, a=keys, k=0)
    encode.emit(Op.KEEP, a=x, k=1)
    hidden = encode.register(d)
    last = encode.last_column(backwards)
    rows = RowKind.SENTENCES
    encode.linear(hidden, last, "decoder.start.weight", "decoder.start.bias", rows=rows)
    encode.emit(Op.TANH, hidden, rows=rows)
    encode.emit(Op.KEEP_STATE, a=hidden, k=0, rows=rows)
