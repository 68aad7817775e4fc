"""The convolutional two as programs: bytenet and convs2s, as their modules in models/ define them.

Parameters have the names that the modules give them.
"""

from __future__ import annotations

import numpy as np

from bytenmt.config.schema import ByteNetConfig, ConvS2SConfig
from bytenmt.decoding.cpu.program.instructions import Array, Op, Register, Tensors, Writer
from bytenmt.decoding.cpu.program.layers import output
from bytenmt.decoding.cpu.program.packed_model import PackedModel, Packing, Ring, Source


def bytenet(tensors: Tensors, config: ByteNetConfig, precision: str) -> PackedModel:
    """See models/bytenet.py."""
    d, k = config.d_channels, config.kernel_width
    packing = Packing(tensors, precision)
    table, encode = packing.table, packing.encode
    make = _Units if config.block == "multiplicative" else _Blocks
    if config.source:
        blocks = make(encode, "encoder", d, k)
        embedded = encode.register(config.d_embedding)
        encode.emit(Op.EMBED, embedded, w=table)
        encode.linear(blocks.x, embedded, "encoder.input.weight", "encoder.input.bias")
        for index, dilation in enumerate(config.encoder_schedule):
            blocks.reduce(index)
            encode.emit(Op.WINDOW, blocks.taps, blocks.narrow, m=k, k=dilation)
            blocks.expand(index)
        column = blocks.wide.part(0, config.d_column)
        encode.linear(column, blocks.x, "encoder.output.weight", "encoder.output.bias")
        encode.emit(Op.KEEP, a=column, k=0)

    step = packing.begin_step()
    blocks = make(step, "decoder", d, k)
    embedded = step.register(config.d_embedding)
    step.emit(Op.EMBED, embedded, w=table)
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
    head = step.register(2 * d)
    step.linear(head, blocks.x, "decoder.head.weight", "decoder.head.bias")
    step.emit(Op.RELU, head)
    logits = output(step, head, "decoder.output", table_bias="decoder.output.bias")
    return packing.packed(
        logits,
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


def convs2s(tensors: Tensors, config: ConvS2SConfig, precision: str) -> PackedModel:
    """See models/convs2s.py."""
    f, n_positions = config.d_embedding, config.n_positions
    packing = Packing(tensors, precision)
    table, encode = packing.table, packing.encode
    if config.source:
        _convs2s_encoder(encode, table, config)

    step = packing.begin_step()
    g = _input(step, table, "target_positions.weight", n_positions, f)
    x = step.register(config.decoder_layers[0][0])
    step.linear(x, g, _folded(tensors, "decoder.input.weight"), "decoder.input.bias")
    query, context, rings = step.register(f), step.register(f), []
    for index, (width, k) in enumerate(config.decoder_layers):
        name = f"decoder.layers.{index}"
        rings.append(Ring(k, x.width, 1))
        taps = _once(step, k * x.width)
        step.emit(Op.RING, taps, x, m=k, k=index)
        h = _gated(step, taps, width, name)
        if config.source:
            step.linear(query, h, _folded(tensors, f"{name}.query.weight"), f"{name}.query.bias")
            step.emit(Op.MEAN, query, query, g)
            step.emit(Op.ATTEND_DOT, context, query, m=0, v=1, k=1)
            attended = _once(step, width, "attended")
            step.linear(attended, context, _folded(tensors, f"{name}.context.weight"), f"{name}.context.bias")
            step.emit(Op.MEAN, h, h, attended)
        x = _carried(step, x, h, name)
    last = step.register(f)
    step.linear(last, x, _folded(tensors, "decoder.last.weight"), "decoder.last.bias")
    if config.tie_embedding:
        logits = output(step, last, "decoder.output", table_bias="decoder.output.bias")
    else:
        logits = step.register(256)
        step.linear(logits, last, _folded(tensors, "decoder.output.weight"), "decoder.output.bias")
    return packing.packed(
        logits,
        rings=tuple(rings),
        items=(f, f) if config.source else (),
    )


def _convs2s_encoder(encode: Writer, table: int, config: ConvS2SConfig) -> None:
    """From the bytes of a source to keys z_j and values (z_j + e_j) sqrt(1/2)."""
    f, tensors = config.d_embedding, encode.tensors
    e = _input(encode, table, "encoder.positions.weight", config.n_positions, f)
    x = encode.register(config.encoder_layers[0][0])
    encode.linear(x, e, _folded(tensors, "encoder.input.weight"), "encoder.input.bias")
    for index, (width, k) in enumerate(config.encoder_layers):
        taps = _once(encode, k * x.width)
        encode.emit(Op.WINDOW, taps, x, m=k, k=1)
        h = _gated(encode, taps, width, f"encoder.layers.{index}")
        x = _carried(encode, x, h, f"encoder.layers.{index}")
    z = encode.register(f)
    encode.linear(z, x, _folded(tensors, "encoder.output.weight"), "encoder.output.bias")
    encode.emit(Op.KEEP, a=z, k=0)
    encode.emit(Op.MEAN, z, z, e)
    encode.emit(Op.KEEP, a=z, k=1)


def _input(writer: Writer, table: int, positions: str, n_positions: int, f: int) -> Register:
    """The byte's embedding and the position's."""
    e = writer.register(f)
    writer.emit(Op.EMBED, e, w=table)
    if n_positions:
        at = writer.vector(positions)
        writer.emit(Op.POSITION, e, w=at, m=n_positions)
    return e


def _gated(writer: Writer, taps: Register, width: int, name: str) -> Register:
    """GLU(conv(taps))."""
    both, h = _once(writer, 2 * width, "both"), _once(writer, width, "gated")
    kernel = f"{name}.convolution"
    writer.linear(both, taps, _folded(writer.tensors, f"{kernel}.normed"), f"{kernel}.bias")
    writer.emit(Op.GLU, h, both)
    return h


def _carried(writer: Writer, x: Register, h: Register, name: str) -> Register:
    """(h + the residual branch of x) sqrt(1/2), in x where the width stays."""
    if x.width == h.width:
        writer.emit(Op.MEAN, x, h, x)
        return x
    residual = f"{name}.residual"
    wider = writer.register(h.width)
    writer.linear(wider, x, _folded(writer.tensors, f"{residual}.weight"), f"{residual}.bias")
    writer.emit(Op.MEAN, wider, h, wider)
    return wider


def _once(writer: Writer, width: int, use: str = "taps") -> Register:
    """A register that all layers of this width share, for one use."""
    return writer.shared(f"{use} {width}", width)


def _folded(tensors: Tensors, name: str) -> tuple[str, Array]:
    """A weight-normed matrix: g v / |v|, computed as layers/convolution.py does."""
    v, g = tensors[f"{name}.v"], tensors[f"{name}.g"]
    flat = v.reshape(len(v), -1)
    with np.errstate(all="ignore"):  # a direction of zeros or a huge one: its outcomes will be no numbers
        length = (flat * flat).sum(axis=1) ** 0.5
        return name, flat * (g / length)[:, None]
