"""ConvS2S as a program, as its modules in models/ define it.

Parameters have the names that the modules give them.
"""

from __future__ import annotations

import numpy as np

from bytenmt.config.schema import ConvS2SConfig
from bytenmt.decoding.cpu.kernels.panels import PANEL
from bytenmt.decoding.cpu.program.instructions import Array, Base, Matrix, Op, Register, Tensors, Writer
from bytenmt.decoding.cpu.program.layers import output
from bytenmt.decoding.cpu.program.packed_model import PackedModel, Packing, Ring


def convs2s(tensors: Tensors, config: ConvS2SConfig, precision: str) -> PackedModel:
    """See models/convs2s.py."""
    f = config.d_embedding
    packing = Packing(tensors, config, precision)
    encode = packing.encode
    if config.source:
        e = _input(packing, encode, "encoder.positions.weight", config)
        {"gated": _gated_encoder, "pooling": _pooling_encoder, "conv": _two_stacks}[config.encoder](
            encode, e, config
        )

    step = packing.begin_step()
    g = _input(packing, step, "target_positions.weight", config)
    x = step.register(config.decoder_layers[0][0])
    step.linear(x, g, _folded(tensors, "decoder.input"), "decoder.input.bias")
    rings = []
    for index, (width, k, dilation) in enumerate(config.decoder_stack):
        name = f"decoder.layers.{index}"
        rings.append(Ring((k - 1) * dilation + 1, x.width, dilation))
        taps = _once(step, k * x.width)
        step.emit(Op.RING, taps, x, m=k, k=index)
        h = _gated(step, taps, width, name)
        if config.attends[index]:
            _attend(step, h, g, name, config)
        x = _carried(step, x, h, name)
    last = step.register(f)
    step.linear(last, x, _folded(tensors, "decoder.last"), "decoder.last.bias")
    if config.tie_embedding:
        logits = output(step, last, "decoder.output", table_bias="decoder.output.bias")
    else:
        logits = step.register(256)
        step.linear(logits, last, _folded(tensors, "decoder.output"), "decoder.output.bias")
    return packing.packed(
        logits,
        rings=tuple(rings),
        items=(f, f) if config.source else (),
        attending=tuple(number for number, attends in enumerate(config.attends, 1) if attends),
    )


def _attend(step: Writer, h: Register, g: Register, name: str, config: ConvS2SConfig) -> None:
    """h = (h + the context's map) sqrt(1/2)."""
    query, context = _once(step, g.width, "query"), _once(step, g.width, "context")
    weight = _folded(step.tensors, f"{name}.query")
    if config.encoder == "gated":
        step.linear(query, h, weight, f"{name}.query.bias")
        step.emit(Op.MEAN, query, query, g)
    else:
        step.emit(Op.COPY, query, g)
        step.linear(query, h, weight, f"{name}.query.bias", add=True)
    step.emit(Op.ATTEND_DOT, context, query, m=0, v=1, k=int(config.attention_scaling == "sqrt"))
    attended = _once(step, h.width, "attended")
    weight = _folded(step.tensors, f"{name}.context")
    step.linear(attended, context, weight, f"{name}.context.bias")
    step.emit(Op.MEAN, h, h, attended)


def _gated_encoder(encode: Writer, e: Register, config: ConvS2SConfig) -> None:
    """From e to keys z_j and values (z_j + e_j) sqrt(1/2)."""
    x = encode.register(config.encoder_layers[0][0])
    encode.linear(x, e, _folded(encode.tensors, "encoder.input"), "encoder.input.bias")
    for index, (width, k, dilation) in enumerate(config.encoder_stack):
        taps = _once(encode, k * x.width)
        encode.emit(Op.WINDOW, taps, x, m=k, k=dilation)
        h = _gated(encode, taps, width, f"encoder.layers.{index}")
        x = _carried(encode, x, h, f"encoder.layers.{index}")
    z = encode.register(config.d_embedding)
    encode.linear(z, x, _folded(encode.tensors, "encoder.output"), "encoder.output.bias")
    encode.emit(Op.KEEP, a=z, k=0)
    encode.emit(Op.MEAN, z, z, e)
    encode.emit(Op.KEEP, a=z, k=1)


def _pooling_encoder(encode: Writer, e: Register, config: ConvS2SConfig) -> None:
    """From e to keys, the means of neighbours, and values e: a panel of channels at a time, so that the
    matrix which takes the mean is small."""
    k, f = config.pooling_width, config.d_embedding
    z = encode.register(f)
    packed: dict[int, Matrix] = {}
    for column in range(0, f, PANEL):
        width = min(PANEL, f - column)
        taps = _once(encode, k * width, "pooled")
        encode.emit(Op.WINDOW, taps, e.part(column, width), m=k, k=1)
        if width not in packed:
            mean = np.tile(np.eye(width, dtype=np.float32) / np.float32(k), (1, k))
            packed[width] = encode.weights.matrix(mean, f"mean_of_{k}.{width}_channels")
        one = packed[width]
        part = z.part(column, width)
        encode.emit(Op.LINEAR, part, taps, w=one.place, s=one.scales, k=Base.ZERO, m=one.n_input)
    encode.emit(Op.KEEP, a=z, k=0)
    encode.emit(Op.KEEP, a=e, k=1)


def _two_stacks(encode: Writer, e: Register, config: ConvS2SConfig) -> None:
    """From e to keys CNN-a(e) and values CNN-c(e)."""
    for item, side, layers in ((0, "keys", config.encoder_stack), (1, "values", config.value_stack)):
        x, name = e, f"encoder.{side}"
        if layers[0][0] != e.width:
            x = _mapped(encode, x, layers[0][0], f"{name}.input")
        for index, (width, k, dilation) in enumerate(layers):
            taps = _once(encode, k * x.width)
            encode.emit(Op.WINDOW, taps, x, m=k, k=dilation)
            x = _tanh(encode, taps, x, width, f"{name}.layers.{index}")
        if x.width != e.width:
            x = _mapped(encode, x, e.width, f"{name}.output")
        encode.emit(Op.KEEP, a=x, k=item)


def _tanh(writer: Writer, taps: Register, x: Register, width: int, name: str) -> Register:
    """tanh(conv(taps) + the residual branch of x)."""
    if x.width == width:
        y = writer.register(width)
        writer.emit(Op.COPY, y, x)
    else:
        y = _mapped(writer, x, width, f"{name}.residual")
    kernel = f"{name}.convolution"
    writer.linear(y, taps, _folded(writer.tensors, kernel, "normed", "plain"), f"{kernel}.bias", add=True)
    writer.emit(Op.TANH, y)
    return y


def _mapped(writer: Writer, x: Register, width: int, name: str) -> Register:
    """A linear map of x in a register of its own."""
    y = writer.register(width)
    writer.linear(y, x, _folded(writer.tensors, f"{name}"), f"{name}.bias")
    return y


def _input(packing: Packing, writer: Writer, positions: str, config: ConvS2SConfig) -> Register:
    """The byte's embedding and the position's."""
    e = writer.register(config.d_embedding)
    packing.embed(writer, e)
    if config.position_kind == "learned":
        writer.emit(Op.POSITION, e, w=writer.vector(positions), m=config.n_positions)
    elif config.position_kind == "sinusoidal":
        waves = _waves(config.n_positions, config.d_embedding)
        writer.emit(Op.POSITION, e, w=writer.weights.vector(waves, "positions"), m=config.n_positions)
    return e


def _waves(n_positions: int, f: int) -> Array:
    """The positions of layers/embedding.py's SinusoidalPositions, (n_positions, f)."""
    angles = np.arange(n_positions)[:, None] * 10_000.0 ** -(np.arange(0, f, 2) / f)
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(n_positions, -1)
    return (waves[:, :f] * (0.1 * 2**0.5)).astype(np.float32)


def _gated(writer: Writer, taps: Register, width: int, name: str) -> Register:
    """GLU(conv(taps))."""
    both, h = _once(writer, 2 * width, "both"), _once(writer, width, "gated")
    kernel = f"{name}.convolution"
    writer.linear(both, taps, _folded(writer.tensors, kernel, "normed", "plain"), f"{kernel}.bias")
    writer.emit(Op.GLU, h, both)
    return h


def _carried(writer: Writer, x: Register, h: Register, name: str) -> Register:
    """(h + the residual branch of x) sqrt(1/2), in x where the width stays."""
    if x.width == h.width:
        writer.emit(Op.MEAN, x, h, x)
        return x
    wider = _mapped(writer, x, h.width, f"{name}.residual")
    writer.emit(Op.MEAN, wider, h, wider)
    return wider


def _once(writer: Writer, width: int, use: str = "taps") -> Register:
    """A register that all layers of this width share, for one use."""
    return writer.shared(f"{use} {width}", width)


def _folded(tensors: Tensors, at: str, normed: str = "weight", plain: str = "weight") -> tuple[str, Array]:
    """A map's matrix, of which `at` is the name without the last part: a weight-normed one as g v / |v|,
    computed as layers/convolution.py does."""
    name, plain = f"{at}.{normed}", f"{at}.{plain}"
    if plain in tensors:
        return plain, tensors[plain].reshape(len(tensors[plain]), -1)
    v, g = tensors[f"{name}.v"], tensors[f"{name}.g"]
    flat = v.reshape(len(v), -1)
    with np.errstate(all="ignore"):  # a direction of zeros or a huge one: its outcomes will be no numbers
        length = (flat * flat).sum(axis=1) ** 0.5
        return name, flat * (g / length)[:, None]
