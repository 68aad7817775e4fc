"""ByteNet as a program, as its module in models/ defines it.

Parameters have the names that the module gives them.
"""

from __future__ import annotations

from bytenmt.config.schema import ByteNetConfig
from bytenmt.decoding.cpu.program.instructions import Op, Register, Tensors, Writer
from bytenmt.decoding.cpu.program.layers import gru_scan, gru_step, output
from bytenmt.decoding.cpu.program.packed_model import PackedModel, Packing, Ring, Source


def bytenet(tensors: Tensors, config: ByteNetConfig, precision: str) -> PackedModel:
    """See models/bytenet.py."""
    d, k = config.d_channels, config.kernel_width
    packing = Packing(tensors, config, precision)
    encode = packing.encode
    make = _Units if config.block == "multiplicative" else _Blocks
    if config.source:
        blocks = make(encode, "encoder", d, k)
        embedded = encode.register(config.d_embedding)
        packing.embed(encode, embedded)
        encode.linear(blocks.x, embedded, "encoder.input.weight", "encoder.input.bias")
        x = blocks.x
        for index, dilation in enumerate(config.encoder_schedule):
            blocks.reduce(index)
            encode.emit(Op.WINDOW, blocks.taps, blocks.narrow, m=k, k=dilation)
            blocks.expand(index)
        for layer in range(config.encoder_recurrence):
            x, _ = gru_scan(encode, x, f"encoder.layers.{layer}", 2 * d, flags=0)
        column = blocks.wide.part(0, config.d_column)
        encode.linear(column, x, "encoder.output.weight", "encoder.output.bias")
        encode.emit(Op.KEEP, a=column, k=0)

    step = packing.begin_step()
    blocks = make(step, "decoder", d, k)
    embedded = step.register(config.d_embedding)
    packing.embed(step, embedded)
    adds = config.stacking == "add"
    if adds:
        step.emit(Op.COLUMN, blocks.x, k=0)
    read = blocks.x.part(0, config.d_read)
    step.linear(read, embedded, "decoder.input.weight", "decoder.input.bias", add=adds)
    if config.source and not adds:  # after the product, which fills whole panels
        step.emit(Op.COLUMN, blocks.x.part(d, d), k=0)
    for index in range(len(config.decoder_schedule)):
        blocks.reduce(index)
        step.emit(Op.RING, blocks.taps, blocks.narrow, m=k, k=index)
        blocks.expand(index)
    x = blocks.x
    for layer in range(config.decoder_recurrence):
        hidden = step.register(2 * d)
        step.emit(Op.READ_STATE, hidden, k=layer)
        gru_step(step, hidden, hidden, x, f"decoder.layers.{layer}", flags=0)
        step.emit(Op.WRITE_STATE, a=hidden, k=layer)
        x = hidden
    head = step.register(2 * d)
    step.linear(head, x, "decoder.head.weight", "decoder.head.bias")
    step.emit(Op.RELU, head)
    logits = output(step, head, "decoder.output", table_bias="decoder.output.bias")
    return packing.packed(
        logits,
        states=(2 * d,) * config.decoder_recurrence,
        rings=tuple(Ring((k - 1) * r + 1, d, r) for r in config.decoder_schedule),
        items=(config.d_column,) if config.source else (),
        source=Source(unfolding=(config.unfolding_factor, config.unfolding_offset)),
    )


class _Blocks:
    """ByteNet's residual blocks: what is left and right of the convolution's taps."""

    def __init__(self, writer: Writer, side: str, d: int, kernel_width: int) -> None:
        self._writer, self._side = writer, side
        self.x = writer.register(2 * d)
        self.wide, self.narrow = writer.register(2 * d), writer.register(d)
        self.taps = writer.register(kernel_width * d)

    def reduce(self, index: int) -> None:
        """narrow = relu(norm(W_1 relu(norm(x))))."""
        name = f"{self._side}.blocks.{index}"
        self._norm(self.wide, self.x, f"{name}.norm_in")
        self._writer.linear(self.narrow, self.wide, f"{name}.reduce.weight", f"{name}.reduce.bias")
        self._norm(self.narrow, self.narrow, f"{name}.norm_mid")

    def expand(self, index: int) -> None:
        """x += W_3 relu(norm(W taps))."""
        name = f"{self._side}.blocks.{index}"
        kernel = f"{name}.convolution"
        self._writer.linear(self.narrow, self.taps, f"{kernel}.plain", f"{kernel}.bias")
        self._norm(self.narrow, self.narrow, f"{name}.norm_out")
        self._writer.linear(self.x, self.narrow, f"{name}.expand.weight", f"{name}.expand.bias", add=True)

    def _norm(self, d: Register, a: Register, name: str, op: Op = Op.NORM_RELU) -> None:
        gamma, beta = (self._writer.vector(f"{name}.{part}") for part in ("weight", "bias"))
        self._writer.emit(op, d, a, w=gamma, v=beta)


class _Units(_Blocks):
    """ByteNet's residual blocks with multiplicative units."""

    def __init__(self, writer: Writer, side: str, d: int, kernel_width: int) -> None:
        super().__init__(writer, side, d, kernel_width)
        self._maps = writer.register(4 * d)

    def reduce(self, index: int) -> None:
        """narrow = norm(W_1 relu(norm(x)))."""
        name = f"{self._side}.blocks.{index}"
        self._norm(self.wide, self.x, f"{name}.norm_in")
        self._writer.linear(self.narrow, self.wide, f"{name}.reduce.weight", f"{name}.reduce.bias")
        self._norm(self.narrow, self.narrow, f"{name}.norm_mid", Op.NORM)

    def expand(self, index: int) -> None:
        """x += W_3 MU(norm(MU(taps)))."""
        name = f"{self._side}.blocks.{index}"
        kernel, write = f"{name}.convolution", self._writer
        write.linear(self._maps, self.taps, f"{kernel}.plain", f"{kernel}.bias")
        write.emit(Op.MULTIPLICATIVE, self.narrow, self._maps, self.narrow)
        self._norm(self.narrow, self.narrow, f"{name}.norm_out", Op.NORM)
        write.linear(self._maps, self.narrow, f"{name}.unit.weight", f"{name}.unit.bias")
        write.emit(Op.MULTIPLICATIVE, self.narrow, self._maps, self.narrow)
        write.linear(self.x, self.narrow, f"{name}.expand.weight", f"{name}.expand.bias", add=True)
