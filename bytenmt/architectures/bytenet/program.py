"""ByteNet as programs of the CPU engine: model.py has the equations, and the names of the parameters."""

from __future__ import annotations

from bytenmt.architectures.bytenet.config import ByteNetConfig
from bytenmt.architectures.model_program import ModelProgram, ModelWriter, Ring, Source
from bytenmt.program.instructions import Op, Register
from bytenmt.program.layers import scan_layers, step_layers
from bytenmt.program.writer import Writer, parameter


def write_program(config: ByteNetConfig, writer: ModelWriter) -> ModelProgram:
    """Write the programs of the encoder, if there is a source, and of the decode step; return both."""
    d, k = config.d_channels, config.kernel_width
    encode = writer.encode
    make = _Units if config.block == "multiplicative" else _Blocks
    if config.source:
        blocks = make(encode, "encoder", d, k)
        embedded = encode.register(config.d_embedding)
        writer.embed(encode, embedded)
        encode.linear(blocks.x, embedded, "encoder.input.weight", "encoder.input.bias")
        x = blocks.x
        for index, dilation in enumerate(config.encoder_schedule):
            blocks.reduce(index)
            encode.emit(Op.WINDOW, blocks.taps, blocks.narrow, m=k, k=dilation)
            blocks.expand(index)
        x, _ = scan_layers(encode, x, "encoder.layers", config.encoder_recurrence, 2 * d, flags=0)
        column = blocks.wide.part(0, config.d_column)
        encode.linear(column, x, "encoder.output.weight", "encoder.output.bias")
        encode.emit(Op.KEEP, a=column, k=0)

    step = writer.begin_step()
    blocks = make(step, "decoder", d, k)
    embedded = step.register(config.d_embedding)
    writer.embed(step, embedded)
    if config.adds:
        step.emit(Op.COLUMN, blocks.x, k=0)
    read = blocks.x.part(0, config.d_read)
    step.linear(read, embedded, "decoder.input.weight", "decoder.input.bias", add=config.adds)
    if config.source and not config.adds:  # after the product, which fills whole panels
        step.emit(Op.COLUMN, blocks.x.part(d, d), k=0)
    for index in range(len(config.decoder_schedule)):
        blocks.reduce(index)
        step.emit(Op.RING, blocks.taps, blocks.narrow, m=k, k=index)
        blocks.expand(index)
    x = step_layers(step, blocks.x, "decoder.layers", config.decoder_recurrence, 2 * d, flags=0)
    head = step.register(2 * d)
    step.linear(head, x, "decoder.head.weight", "decoder.head.bias")
    step.emit(Op.RELU, head)
    return writer.program(
        writer.output(head),
        states=(2 * d,) * config.decoder_recurrence,
        rings=tuple(Ring((k - 1) * r + 1, d, r) for r in config.decoder_schedule),
        items=(config.d_column,) if config.source else (),
        source=Source(unfolding=(config.unfolding_factor, config.unfolding_offset)),
    )


class _Blocks:
    """The residual blocks with ReLUs, written in two halves: before and after the taps are read."""

    def __init__(self, writer: Writer, side: str, d: int, kernel_width: int) -> None:
        self._writer, self._side, self._kernel_width = writer, side, kernel_width
        self.x = writer.register(2 * d)
        self.wide, self.narrow = writer.register(2 * d), writer.register(d)
        self.taps = writer.register(kernel_width * d)

    def reduce(self, index: int) -> None:
        """Write narrow = relu(norm(W_1 relu(norm(x))))."""
        name = f"{self._side}.blocks.{index}"
        self._norm(self.wide, self.x, f"{name}.norm_in")
        self._writer.linear(self.narrow, self.wide, f"{name}.reduce.weight", f"{name}.reduce.bias")
        self._norm(self.narrow, self.narrow, f"{name}.norm_mid")

    def expand(self, index: int) -> None:
        """Write x += W_3 relu(norm(W taps))."""
        name = f"{self._side}.blocks.{index}"
        self._convolve(self.narrow, f"{name}.convolution")
        self._norm(self.narrow, self.narrow, f"{name}.norm_out")
        self._writer.linear(self.x, self.narrow, f"{name}.expand.weight", f"{name}.expand.bias", add=True)

    def _convolve(self, d: Register, name: str) -> None:
        k = self._kernel_width
        kernel = parameter(f"{name}.plain", d.width, k, self.taps.width // k)
        self._writer.linear(d, self.taps, kernel, f"{name}.bias")

    def _norm(self, d: Register, a: Register, name: str, op: Op = Op.NORM_RELU) -> None:
        gamma, beta = (self._writer.vector(f"{name}.{part}", a.width) for part in ("weight", "bias"))
        self._writer.emit(op, d, a, w=gamma, v=beta)


class _Units(_Blocks):
    """The residual blocks with multiplicative units."""

    def __init__(self, writer: Writer, side: str, d: int, kernel_width: int) -> None:
        super().__init__(writer, side, d, kernel_width)
        self._maps = writer.register(4 * d)

    def reduce(self, index: int) -> None:
        """Write narrow = norm(W_1 relu(norm(x)))."""
        name = f"{self._side}.blocks.{index}"
        self._norm(self.wide, self.x, f"{name}.norm_in")
        self._writer.linear(self.narrow, self.wide, f"{name}.reduce.weight", f"{name}.reduce.bias")
        self._norm(self.narrow, self.narrow, f"{name}.norm_mid", Op.NORM)

    def expand(self, index: int) -> None:
        """Write x += W_3 MU(norm(MU(taps)))."""
        name, write = f"{self._side}.blocks.{index}", self._writer
        self._convolve(self._maps, f"{name}.convolution")
        write.emit(Op.MULTIPLICATIVE, self.narrow, self._maps, self.narrow)
        self._norm(self.narrow, self.narrow, f"{name}.norm_out", Op.NORM)
        write.linear(self._maps, self.narrow, f"{name}.unit.weight", f"{name}.unit.bias")
        write.emit(Op.MULTIPLICATIVE, self.narrow, self._maps, self.narrow)
        write.linear(self.x, self.narrow, f"{name}.expand.weight", f"{name}.expand.bias", add=True)
