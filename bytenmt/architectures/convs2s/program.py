"""ConvS2S as programs of the CPU engine.

model.py and encoder.py have the equations, and the names of the parameters.
"""

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
    x = _write_map(config, step, g, config.decoder_layers[0][0], "decoder.input")
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
    last = _write_map(config, step, x, f, "decoder.last")
    return writer.program(
        _write_map(config, step, last, N_IDS, "decoder.output"),
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
    weight = _map_values(config, f"{name}.query", query.width, h.width)
    if config.encoder == "gated":
        step.linear(query, h, weight, f"{name}.query.bias")
        step.emit(Op.MEAN, query, query, g)
    else:
        step.emit(Op.COPY, query, g)
        step.linear(query, h, weight, f"{name}.query.bias", add=True)
    step.emit(Op.ATTEND_DOT, context, query, m=0, v=1, k=int(config.attention_scaling == "sqrt"))
    attended = step.shared(h.width, "attended")
    weight = _map_values(config, f"{name}.context", h.width, context.width)
    step.linear(attended, context, weight, f"{name}.context.bias")
    step.emit(Op.MEAN, h, h, attended)


def _write_gated_encoder(config: ConvS2SConfig, encode: Writer, e: Register) -> None:
    """Write keys z_j and values (z_j + e_j) sqrt(1/2), from the embeddings e."""
    x = _write_map(config, encode, e, config.encoder_layers[0][0], "encoder.input")
    for index, (width, k, dilation) in enumerate(config.encoder_stack):
        taps = encode.shared(k * x.width)
        encode.emit(Op.WINDOW, taps, x, m=k, k=dilation)
        h = _write_gated(config, encode, taps, k, width, f"encoder.layers.{index}")
        x = _write_residual(config, encode, x, h, f"encoder.layers.{index}")
    z = _write_map(config, encode, x, config.d_embedding, "encoder.output")
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
        x = _write_map(config, encode, x, layers[0][0], f"{name}.input")
    for index, (width, k, dilation) in enumerate(layers):
        taps = encode.shared(k * x.width)
        encode.emit(Op.WINDOW, taps, x, m=k, k=dilation)
        x = _write_tanh(config, encode, taps, k, x, width, f"{name}.layers.{index}")
    if x.width != e.width:
        x = _write_map(config, encode, x, e.width, f"{name}.output")
    return x


def _write_tanh(
    config: ConvS2SConfig,
    writer: Writer,
    taps: Register,
    k: int,
    x: Register,
    width: int,
    name: str,
) -> Register:
    """Write tanh(conv(taps) + the residual branch of x)."""
    if x.width == width:
        y = writer.register(width)
        writer.emit(Op.COPY, y, x)
    else:
        y = _write_map(config, writer, x, width, f"{name}.residual")
    kernel = _kernel_values(config, name, width, k, x.width)
    writer.linear(y, taps, kernel, f"{name}.convolution.bias", add=True)
    writer.emit(Op.TANH, y)
    return y


def _write_map(
    config: ConvS2SConfig, writer: Writer, x: Register, width: int, name: str
) -> Register:
    """Write a linear map of x into a new register."""
    y = writer.register(width)
    writer.linear(y, x, _map_values(config, name, width, x.width), f"{name}.bias")
    return y


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
    kernel = _kernel_values(config, name, 2 * width, k, taps.width // k)
    writer.linear(both, taps, kernel, f"{name}.convolution.bias")
    writer.emit(Op.GLU, h, both)
    return h


def _write_residual(
    config: ConvS2SConfig, writer: Writer, x: Register, h: Register, name: str
) -> Register:
    """Write (h + the residual branch of x) sqrt(1/2), in x where the width stays."""
    if x.width == h.width:
        writer.emit(Op.MEAN, x, h, x)
        return x
    wider = _write_map(config, writer, x, h.width, f"{name}.residual")
    writer.emit(Op.MEAN, wider, h, wider)
    return wider


def _map_values(config: ConvS2SConfig, name: str, d_output: int, d_input: int) -> WeightArray:
    """Return the matrix of a linear map, weight-normed or not."""
    return _normed_values(config, f"{name}.weight", f"{name}.weight", (d_output, d_input))


def _kernel_values(
    config: ConvS2SConfig, name: str, d_output: int, k: int, d_input: int
) -> WeightArray:
    """Return the kernel of a layer's convolution, weight-normed or not."""
    kernel = f"{name}.convolution"
    return _normed_values(config, f"{kernel}.normed", f"{kernel}.plain", (d_output, k, d_input))


def _normed_values(
    config: ConvS2SConfig, normed: str, plain: str, shape: tuple[int, ...]
) -> WeightArray:
    """Return a weight, which is g v / |v| with weight normalisation.

    normed, plain: its name with weight normalisation and without.
    """
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
