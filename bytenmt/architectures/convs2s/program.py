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
    """Write a model with `writer` as two lists of CPU engine instructions; return them.

    They compute the encoder (an empty list without a source) and one step of the decoder.
    """
    f = config.d_embedding
    items: tuple[int, ...] = ()
    if config.source:
        encode = _LayerWriter(config, writer.encode)
        e = encode.input(writer, "encoder.positions.weight")
        ENCODER_WRITERS[config.encoder](encode, e)
        items = (f, f)

    step = writer.begin_step()
    layers = _LayerWriter(config, step)
    g = layers.input(writer, "target_positions.weight")
    x = layers.map(step.register(config.decoder_layers[0][0]), g, "decoder.input")
    rings = []
    for index, (width, k, dilation) in enumerate(config.decoder_stack):
        name = f"decoder.layers.{index}"
        rings.append(RingSize((k - 1) * dilation + 1, x.width, dilation))
        taps = step.shared(k * x.width)
        step.emit(Op.RING, taps, x, m=k, k=index)
        h = layers.gated(taps, k, width, name)
        if config.attends[index]:
            layers.attention(h, g, name)
        x = layers.residual(x, h, name)
    last = layers.map(step.register(f), x, "decoder.last")
    return writer.program(
        layers.map(step.register(N_IDS), last, "decoder.output"),
        rings=tuple(rings),
        items=items,
        attending=tuple(number for number, attends in enumerate(config.attends, 1) if attends),
    )


class _LayerWriter:
    """Writes layers into the program of the encoder or of a decode step."""

    def __init__(self, config: ConvS2SConfig, writer: Writer) -> None:
        self.config = config
        self.writer = writer

    def input(self, model_writer: ModelWriter, positions: str) -> Register:
        """Write the byte's embedding plus the position's, if learned of parameter `positions`."""
        writer = self.writer
        n_positions = self.config.n_positions
        f = self.config.d_embedding
        e = writer.register(f)
        model_writer.embed(writer, e)
        if self.config.position_kind == "learned":
            writer.emit(Op.POSITION, e, w=writer.vector(positions, n_positions, f), m=n_positions)
        elif self.config.position_kind == "sinusoidal":
            waves = WeightArray("positions", (n_positions, f), {}, partial(_waves, n_positions, f))
            writer.emit(Op.POSITION, e, w=writer.weights.vector(waves), m=n_positions)
        return e

    def map(self, y: Register, x: Register, name: str, add: bool = False) -> Register:
        """Write y = a linear map of x, or y += it with `add`; return y."""
        weight = self._weight(f"{name}.weight", f"{name}.weight", (y.width, x.width))
        self.writer.linear(y, x, weight, f"{name}.bias", add=add)
        return y

    def convolution(
        self, y: Register, taps: Register, k: int, layer: str, add: bool = False
    ) -> None:
        """Write y = the convolution of a layer, of k inputs in `taps`, or y += it with `add`."""
        name = f"{layer}.convolution"
        shape = (y.width, k, taps.width // k)
        kernel = self._weight(f"{name}.normed", f"{name}.plain", shape)
        self.writer.linear(y, taps, kernel, f"{name}.bias", add=add)

    def gated(self, taps: Register, k: int, width: int, layer: str) -> Register:
        """Write GLU(conv(taps))."""
        both = self.writer.shared(2 * width, "both")
        h = self.writer.shared(width, "gated")
        self.convolution(both, taps, k, layer)
        self.writer.emit(Op.GLU, h, both)
        return h

    def residual(self, x: Register, h: Register, layer: str) -> Register:
        """Write (h + the residual branch of x) sqrt(1/2), in x where the width stays."""
        y = x
        if x.width != h.width:
            y = self.map(self.writer.register(h.width), x, f"{layer}.residual")
        self.writer.emit(Op.MEAN, y, h, y)
        return y

    def attention(self, h: Register, g: Register, layer: str) -> None:
        """Write h = (h + the context's map) sqrt(1/2)."""
        step = self.writer
        query = step.shared(g.width, "query")
        context = step.shared(g.width, "context")
        if self.config.encoder == "gated":
            self.map(query, h, f"{layer}.query")
            step.emit(Op.MEAN, query, query, g)
        else:
            step.emit(Op.COPY, query, g)
            self.map(query, h, f"{layer}.query", add=True)
        by_root = int(self.config.attention_scaling == "sqrt")
        step.emit(Op.ATTEND_DOT, context, query, m=0, v=1, k=by_root)
        attended = self.map(step.shared(h.width, "attended"), context, f"{layer}.context")
        step.emit(Op.MEAN, h, h, attended)

    def _weight(self, normed: str, plain: str, shape: tuple[int, ...]) -> WeightArray:
        """Return the weight `plain`, or with weight normalisation g v / |v| of `normed`."""
        if not self.config.weight_norm:
            return parameter(plain, *shape)
        parts = {f"{normed}.v": shape, f"{normed}.g": shape[:1]}
        return WeightArray(normed, shape, parts, _fold_norm)


def _write_gated_encoder(layers: _LayerWriter, e: Register) -> None:
    """Write keys z_j and values (z_j + e_j) sqrt(1/2), from the embeddings e."""
    encode = layers.writer
    stack = layers.config.encoder_stack
    x = layers.map(encode.register(stack[0][0]), e, "encoder.input")
    for index, (width, k, dilation) in enumerate(stack):
        taps = encode.shared(k * x.width)
        encode.emit(Op.WINDOW, taps, x, m=k, k=dilation)
        h = layers.gated(taps, k, width, f"encoder.layers.{index}")
        x = layers.residual(x, h, f"encoder.layers.{index}")
    z = layers.map(encode.register(e.width), x, "encoder.output")
    encode.emit(Op.KEEP, a=z, k=0)
    encode.emit(Op.MEAN, z, z, e)
    encode.emit(Op.KEEP, a=z, k=1)


def _write_pooling_encoder(layers: _LayerWriter, e: Register) -> None:
    """Write the keys (means of neighbours) and values of the pooling encoder."""
    encode = layers.writer
    k = layers.config.pooling_width
    f = e.width
    z = encode.register(f)
    taps = encode.shared(k * f, "pooled")
    encode.emit(Op.WINDOW, taps, e, m=k, k=1)
    encode.linear(z, taps, WeightArray("mean", (f, k * f), {}, partial(_mean, k, f)))
    encode.emit(Op.KEEP, a=z, k=0)
    encode.emit(Op.KEEP, a=e, k=1)


def _write_two_stacks(layers: _LayerWriter, e: Register) -> None:
    """Write keys CNN-a(e) and values CNN-c(e)."""
    stacks = {"keys": layers.config.encoder_stack, "values": layers.config.value_stack}
    for part, (name, stack) in enumerate(stacks.items()):
        output = _write_tanh_stack(layers, e, stack, f"encoder.{name}")
        layers.writer.emit(Op.KEEP, a=output, k=part)


ENCODER_WRITERS = {
    "gated": _write_gated_encoder,
    "pooling": _write_pooling_encoder,
    "conv": _write_two_stacks,
}


def _write_tanh_stack(
    layers: _LayerWriter, e: Register, stack: tuple[tuple[int, int, int], ...], name: str
) -> Register:
    """Write a stack of tanh convolutions over e; return the register of its output."""
    encode = layers.writer
    x = e
    if stack[0][0] != e.width:
        x = layers.map(encode.register(stack[0][0]), x, f"{name}.input")
    for index, (width, k, dilation) in enumerate(stack):
        layer = f"{name}.layers.{index}"
        taps = encode.shared(k * x.width)
        encode.emit(Op.WINDOW, taps, x, m=k, k=dilation)
        y = encode.register(width)
        if x.width == width:
            encode.emit(Op.COPY, y, x)
        else:
            layers.map(y, x, f"{layer}.residual")
        layers.convolution(y, taps, k, layer, add=True)
        encode.emit(Op.TANH, y)
        x = y
    if x.width != e.width:
        x = layers.map(encode.register(e.width), x, f"{name}.output")
    return x


def _mean(k: int, width: int) -> Array:
    """Return the matrix (width, k * width) that takes the mean of k neighbours."""
    return np.tile(np.eye(width, dtype=np.float32) / np.float32(k), (1, k))


def _waves(n_positions: int, f: int) -> Array:
    """Return the positions of layers/embedding.py's SinusoidalPositions, (n_positions, f)."""
    angles = np.arange(n_positions)[:, None] * 10_000.0 ** -(np.arange(0, f, 2) / f)
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(n_positions, -1)
    return (waves[:, :f] * (0.1 * 2**0.5)).astype(np.float32)


def _fold_norm(v: Array, g: Array) -> Array:
    """Compute g v / |v|, as layers/weight_norm.py does."""
    flat = v.reshape(len(v), -1)
    # A direction of zeros, or a huge one, gives results that are not numbers.
    with np.errstate(all="ignore"):
        length = (flat * flat).sum(axis=1) ** 0.5
        folded: Array = flat * (g / length)[:, None]
    return folded
