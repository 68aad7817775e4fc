"""ConvS2S as programs of the CPU engine; model.py and encoder.py have the equations."""

from __future__ import annotations

from functools import partial

import numpy as np

from bytenmt.architectures.convs2s.config import ConvS2SConfig
from bytenmt.architectures.model_program import ModelProgram, ModelWriter, RingSize
from bytenmt.program.instructions import Op, Register
from bytenmt.program.writer import Array, WeightArray, Writer, parameter
from bytenmt.utf8 import N_IDS


def write_program(config: ConvS2SConfig, writer: ModelWriter) -> ModelProgram:
    """Write the programs of the encoder, if there is a source, and of the decode step."""
    f = config.d_embedding
    items: tuple[int, ...] = ()
    if config.source:
        e = _write_input(config, writer, writer.encode, "encoder.positions.weight")
        ENCODER_WRITERS[config.encoder](config, writer.encode, e)
        items = (f, f)

    step = writer.begin_step()
    g = _write_input(config, writer, step, "target_positions.weight")
    first = step.register(config.decoder_layers[0][0])
    x = _write_map(config, step, first, g, "decoder.input")
    rings = []
    for index, (width, k, dilation) in enumerate(config.decoder_stack):
        name = f"decoder.layers.{index}"
        rings.append(RingSize((k - 1) * dilation + 1, x.width, dilation))
        taps = step.shared(k * x.width)
        step.emit(Op.RING, taps, x, m=k, k=index)
        h = _write_gated(config, step, taps, k, width, name)
        if config.attends[index]:
            _write_attention(config, step, h, g, name)
        x = _write_residual(config, step, x, h, name)
    last = _write_map(config, step, step.register(f), x, "decoder.last")
    return writer.program(
        _write_map(config, step, step.register(N_IDS), last, "decoder.output"),
        rings=tuple(rings),
        items=items,
        attending=tuple(number for number, attends in enumerate(config.attends, 1) if attends),
    )


def _write_attention(
    config: ConvS2SConfig, step: Writer, h: Register, g: Register, name: str
) -> None:
    """Write h = (h + the context's map) sqrt(1/2)."""
    query = step.shared(g.width, "query")
    context = step.shared(g.width, "context")
    if config.encoder == "gated":
        _write_map(config, step, query, h, f"{name}.query")
        step.emit(Op.MEAN, query, query, g)
    else:
        step.emit(Op.COPY, query, g)
        _write_map(config, step, query, h, f"{name}.query", add=True)
    step.emit(Op.ATTEND_DOT, context, query, m=0, v=1, k=int(config.attention_scaling == "sqrt"))
    attended = step.shared(h.width, "attended")
    _write_map(config, step, attended, context, f"{name}.context")
    step.emit(Op.MEAN, h, h, attended)


def _write_gated_encoder(config: ConvS2SConfig, encode: Writer, e: Register) -> None:
    """Write keys z_j and values (z_j + e_j) sqrt(1/2), from the embeddings e."""
    first = encode.register(config.encoder_layers[0][0])
    x = _write_map(config, encode, first, e, "encoder.input")
    for index, (width, k, dilation) in enumerate(config.encoder_stack):
        taps = encode.shared(k * x.width)
        encode.emit(Op.WINDOW, taps, x, m=k, k=dilation)
        h = _write_gated(config, encode, taps, k, width, f"encoder.layers.{index}")
        x = _write_residual(config, encode, x, h, f"encoder.layers.{index}")
    z = _write_map(config, encode, encode.register(config.d_embedding), x, "encoder.output")
    encode.emit(Op.KEEP, a=z, k=0)
    encode.emit(Op.MEAN, z, z, e)
    encode.emit(Op.KEEP, a=z, k=1)


def _write_pooling_encoder(config: ConvS2SConfig, encode: Writer, e: Register) -> None:
    """Write the keys (means of neighbours) and values of the pooling encoder."""
    k = config.pooling_width
    f = config.d_embedding
    z = encode.register(f)
    taps = encode.shared(k * f, "pooled")
    encode.emit(Op.WINDOW, taps, e, m=k, k=1)
    encode.linear(z, taps, WeightArray("mean", (f, k * f), {}, partial(_mean, k, f)))
    encode.emit(Op.KEEP, a=z, k=0)
    encode.emit(Op.KEEP, a=e, k=1)


def _mean(k: int, width: int) -> Array:
    """Return the matrix (width, k * width) that takes the mean of k neighbours."""
    return np.tile(np.eye(width, dtype=np.float32) / np.float32(k), (1, k))


def _write_two_stacks(config: ConvS2SConfig, encode: Writer, e: Register) -> None:
    """Write keys CNN-a(e) and values CNN-c(e)."""
    keys = _write_tanh_stack(config, encode, e, config.encoder_stack, "encoder.keys")
    encode.emit(Op.KEEP, a=keys, k=0)
    values = _write_tanh_stack(config, encode, e, config.value_stack, "encoder.values")
    encode.emit(Op.KEEP, a=values, k=1)


ENCODER_WRITERS = {
    "gated": _write_gated_encoder,
    "pooling": _write_pooling_encoder,
    "conv": _write_two_stacks,
}


def _write_tanh_stack(
    config: ConvS2SConfig,
    encode: Writer,
    e: Register,
    layers: tuple[tuple[int, int, int], ...],
    name: str,
) -> Register:
    """Write a stack of tanh convolutions over e; return the register of its output."""
    x = e
    if layers[0][0] != e.width:
        x = _write_map(config, encode, encode.register(layers[0][0]), x, f"{name}.input")
    for index, (width, k, dilation) in enumerate(layers):
        layer = f"{name}.layers.{index}"
        taps = encode.shared(k * x.width)
        encode.emit(Op.WINDOW, taps, x, m=k, k=dilation)
        y = encode.register(width)
        if x.width == width:
            encode.emit(Op.COPY, y, x)
        else:
            _write_map(config, encode, y, x, f"{layer}.residual")
        _write_convolution(config, encode, y, taps, k, layer, add=True)
        encode.emit(Op.TANH, y)
        x = y
    if x.width != e.width:
        x = _write_map(config, encode, encode.register(e.width), x, f"{name}.output")
    return x


def _write_map(
    config: ConvS2SConfig, writer: Writer, y: Register, x: Register, name: str, add: bool = False
) -> Register:
    """Write y = a linear map of x, or y += it with `add`; return y."""
    weight = _normed_values(config, f"{name}.weight", f"{name}.weight", (y.width, x.width))
    writer.linear(y, x, weight, f"{name}.bias", add=add)
    return y


def _write_convolution(
    config: ConvS2SConfig,
    writer: Writer,
    y: Register,
    taps: Register,
    k: int,
    layer: str,
    add: bool = False,
) -> None:
    """Write y = the convolution of a layer, whose k inputs are `taps`, or y += it with `add`."""
    name = f"{layer}.convolution"
    shape = (y.width, k, taps.width // k)
    kernel = _normed_values(config, f"{name}.normed", f"{name}.plain", shape)
    writer.linear(y, taps, kernel, f"{name}.bias", add=add)


def _write_input(
    config: ConvS2SConfig, model_writer: ModelWriter, writer: Writer, positions: str
) -> Register:
    """Write the byte's embedding plus the position's. positions: the parameter of learned ones."""
    n_positions = config.n_positions
    f = config.d_embedding
    e = writer.register(f)
    model_writer.embed(writer, e)
    if config.position_kind == "learned":
        writer.emit(Op.POSITION, e, w=writer.vector(positions, n_positions, f), m=n_positions)
    elif config.position_kind == "sinusoidal":
        waves = WeightArray("positions", (n_positions, f), {}, partial(_waves, n_positions, f))
        writer.emit(Op.POSITION, e, w=writer.weights.vector(waves), m=n_positions)
    return e


def _waves(n_positions: int, f: int) -> Array:
    """Return the positions of layers/embedding.py's SinusoidalPositions, (n_positions, f)."""
    angles = np.arange(n_positions)[:, None] * 10_000.0 ** -(np.arange(0, f, 2) / f)
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(n_positions, -1)
    return (waves[:, :f] * (0.1 * 2**0.5)).astype(np.float32)


def _write_gated(
    config: ConvS2SConfig, writer: Writer, taps: Register, k: int, width: int, name: str
) -> Register:
    """Write GLU(conv(taps))."""
    both = writer.shared(2 * width, "both")
    h = writer.shared(width, "gated")
    _write_convolution(config, writer, both, taps, k, name)
    writer.emit(Op.GLU, h, both)
    return h


def _write_residual(
    config: ConvS2SConfig, writer: Writer, x: Register, h: Register, name: str
) -> Register:
    """Write (h + the residual branch of x) sqrt(1/2), in x where the width stays."""
    if x.width == h.width:
        writer.emit(Op.MEAN, x, h, x)
        return x
    wider = _write_map(config, writer, writer.register(h.width), x, f"{name}.residual")
    writer.emit(Op.MEAN, wider, h, wider)
    return wider


def _normed_values(
    config: ConvS2SConfig, normed: str, plain: str, shape: tuple[int, ...]
) -> WeightArray:
    """Return the weight `plain`, or with weight normalisation g v / |v| of the weight `normed`."""
    if not config.weight_norm:
        return parameter(plain, *shape)
    return WeightArray(normed, shape, {f"{normed}.v": shape, f"{normed}.g": shape[:1]}, _fold_norm)


def _fold_norm(v: Array, g: Array) -> Array:
    """Compute g v / |v|, as layers/weight_norm.py does."""
    flat = v.reshape(len(v), -1)
    # A direction of zeros, or a huge one, gives results that are not numbers.
    with np.errstate(all="ignore"):
        length = (flat * flat).sum(axis=1) ** 0.5
        folded: Array = flat * (g / length)[:, None]
    return folded
