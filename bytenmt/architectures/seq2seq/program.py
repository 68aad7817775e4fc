"""The recurrent encoder-decoder as programs of the CPU engine; model.py has the equations."""

from __future__ import annotations

from bytenmt.architectures.cells import write_recurrent_layers
from bytenmt.architectures.model_program import ModelProgram, ModelWriter, SourceOrder
from bytenmt.architectures.seq2seq.config import Seq2SeqConfig
from bytenmt.program.instructions import Op, RowKind
from bytenmt.program.layers import write_maxout

CONTEXT = 0  # the memory's fixed part: c


def write_program(config: Seq2SeqConfig, writer: ModelWriter) -> ModelProgram:
    """Write a model with `writer` as two lists of CPU engine instructions; return them.

    They compute the encoder (an empty list without a source) and one step of the decoder, with
    states h of each layer, then, with LSTMs, c of each.
    """
    d = config.d_hidden
    every_step = config.context == "every_step"
    if config.source:
        _write_encoder(config, writer)

    step = writer.begin_step()
    d_embedding = config.d_embedding
    seen = step.register(d + d_embedding + d * every_step)  # h, e(y), c: what the maxout reads
    x = seen.part(d, seen.width - d)  # e(y), c: what the first layer reads
    writer.embed(step, x.part(0, d_embedding))
    if every_step:
        step.emit(Op.FIXED, x.part(d_embedding, d), k=CONTEXT)
    cell = config.recurrent_cell
    depth = config.decoder_depth
    options = config.decoder_options
    x, _ = write_recurrent_layers(cell, step, x, "decoder.layers", depth, d, options)
    if every_step:
        step.emit(Op.COPY, seen.part(0, d), x)
        x = write_maxout(step, seen, "decoder.maxout", d // 2)
    return writer.program(
        writer.output(x),
        states=(d,) * config.n_states,
        fixed=(d,) * every_step,
        source=SourceOrder(reverse=config.reverse_source),
    )


def _write_encoder(config: Seq2SeqConfig, writer: ModelWriter) -> None:
    """Write the encoder, up to the decoder's first states and the context."""
    encode = writer.encode
    d = config.d_hidden
    x = encode.register(config.d_embedding)
    writer.embed(encode, x)
    cell = config.recurrent_cell
    depth = config.encoder_depth
    options = config.encoder_options
    _, states = write_recurrent_layers(cell, encode, x, "encoder", depth, d, options)
    finals = config.first_states([encode.last_column(state) for state in states])
    rows = RowKind.SENTENCES
    if config.context == "every_step":
        context = encode.register(d)
        hidden = encode.register(config.n_states * d)
        top = finals[config.decoder_depth - 1]
        encode.linear(context, top, "decoder.context.weight", rows=rows)
        encode.emit(Op.TANH, context, rows=rows)
        encode.emit(Op.KEEP_FIXED, a=context, k=CONTEXT, rows=rows)
        encode.linear(hidden, context, "decoder.start.weight", rows=rows)
        encode.emit(Op.TANH, hidden, rows=rows)
        finals = tuple(hidden.part(state * d, d) for state in range(config.n_states))
    for state, final in enumerate(finals):
        encode.emit(Op.KEEP_STATE, a=final, k=state, rows=rows)
