"""ByteNet as programs of the CPU engine; model.py has the equations."""

from __future__ import annotations

from bytenmt.architectures.bytenet.config import ByteNetConfig
from bytenmt.architectures.cells import CELLS, write_recurrent_layers
from bytenmt.architectures.model_program import ModelProgram, ModelWriter, RingSize, SourceOrder
from bytenmt.program.instructions import Op, Register
from bytenmt.program.writer import Writer, parameter


def write_program(config: ByteNetConfig, writer: ModelWriter) -> ModelProgram:
    """Write a model with `writer` as two lists of CPU engine instructions; return them.

    They compute the encoder (an empty list without a source) and one step of the decoder.
    """
    d = config.d_channels
    k = config.kernel_width
    encode = writer.encode
    items: tuple[int, ...] = ()
    if config.source:
        blocks = _Blocks(config, encode, "encoder")
        embedded = encode.register(config.d_embedding)
        writer.embed(encode, embedded)
        encode.linear(blocks.x, embedded, "encoder.input.weight", "encoder.input.bias")
        x = blocks.x
        for index, dilation in enumerate(config.encoder_schedule):
            blocks.reduce(index)
            encode.emit(Op.WINDOW, blocks.taps, blocks.narrow, m=k, k=dilation)
            blocks.expand(index)
        x, _ = write_recurrent_layers(
            CELLS["gru"], encode, x, "encoder.layers", config.encoder_recurrence, 2 * d
        )
        column = blocks.wide.part(0, config.d_column)
        encode.linear(column, x, "encoder.output.weight", "encoder.output.bias")
        encode.emit(Op.KEEP, a=column, k=0)
        items = (config.d_column,)

    step = writer.begin_step()
    blocks = _Blocks(config, step, "decoder")
    embedded = step.register(config.d_embedding)
    writer.embed(step, embedded)
    if config.adds_columns:
        step.emit(Op.COLUMN, blocks.x, k=0)
    read = blocks.x.part(0, config.d_read)
    step.linear(
        read, embedded, "decoder.input.weight", "decoder.input.bias", add=config.adds_columns
    )
    if config.source and not config.adds_columns:  # after the product, which fills whole panels
        step.emit(Op.COLUMN, blocks.x.part(d, d), k=0)
    for index in range(len(config.decoder_schedule)):
        blocks.reduce(index)
        step.emit(Op.RING, blocks.taps, blocks.narrow, m=k, k=index)
        blocks.expand(index)
    x, _ = write_recurrent_layers(
        CELLS["gru"], step, blocks.x, "decoder.layers", config.decoder_recurrence, 2 * d
    )
    head = step.register(2 * d)
    step.linear(head, x, "decoder.head.weight", "decoder.head.bias")
    step.emit(Op.RELU, head)
    return writer.program(
        writer.output(head),
        states=(2 * d,) * config.decoder_recurrence,
        rings=tuple(RingSize((k - 1) * r + 1, d, r) for r in config.decoder_schedule),
        items=items,
        source=SourceOrder(unfolding=(config.unfolding_factor, config.unfolding_offset)),
    )


class _Blocks:
    """The residual blocks of a side, in two halves: before and after the taps are read."""

    def __init__(self, config: ByteNetConfig, writer: Writer, side: str) -> None:
        d = config.d_channels
        self._kernel_width = config.kernel_width
        self._writer = writer
        self._side = side
        self._has_units = config.block == "multiplicative"
        self.x = writer.register(2 * d)
        self.wide = writer.register(2 * d)
        self.narrow = writer.register(d)
        self.taps = writer.register(self._kernel_width * d)
        self._maps = self.narrow
        self._after_norm: Op | None = Op.RELU  # of all norms but the first
        if self._has_units:
            self._maps = writer.register(4 * d)
            self._after_norm = None

    def reduce(self, index: int) -> None:
        """Write narrow = relu(norm(W_1 relu(norm(x)))); with units without the outer ReLU."""
        name = f"{self._side}.blocks.{index}"
        self._norm(self.wide, self.x, f"{name}.norm_in", Op.RELU)
        self._writer.linear(self.narrow, self.wide, f"{name}.reduce.weight", f"{name}.reduce.bias")
        self._norm(self.narrow, self.narrow, f"{name}.norm_mid", self._after_norm)

    def expand(self, index: int) -> None:
        """Write x += W_3 relu(norm(W taps)), or with units x += W_3 MU(norm(MU(taps)))."""
        name = f"{self._side}.blocks.{index}"
        write = self._writer
        kernel = parameter(
            f"{name}.convolution.plain", self._maps.width, self._kernel_width, self.narrow.width
        )
        write.linear(self._maps, self.taps, kernel, f"{name}.convolution.bias")
        if self._has_units:
            write.emit(Op.MULTIPLICATIVE, self.narrow, self._maps, self.narrow)
        self._norm(self.narrow, self.narrow, f"{name}.norm_out", self._after_norm)
        if self._has_units:
            write.linear(self._maps, self.narrow, f"{name}.unit.weight", f"{name}.unit.bias")
            write.emit(Op.MULTIPLICATIVE, self.narrow, self._maps, self.narrow)
        write.linear(self.x, self.narrow, f"{name}.expand.weight", f"{name}.expand.bias", add=True)

    def _norm(self, d: Register, a: Register, name: str, activation: Op | None) -> None:
        gamma = self._writer.vector(f"{name}.weight", a.width)
        beta = self._writer.vector(f"{name}.bias", a.width)
        self._writer.emit(Op.NORM, d, a, w=gamma, v=beta)
        if activation is not None:
            self._writer.emit(activation, d)
