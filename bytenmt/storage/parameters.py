"""The parameters of every architecture, by name and shape, told from the configuration alone.

It is what a weights file is held against before anybody computes with it, and what a model's size is counted
from before it is built. Knows the names that the modules in models/ give; imports neither them nor PyTorch,
but for an architecture that was registered, which is asked itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bytenmt.config.schema import (
    BahdanauConfig,
    ByteNetConfig,
    ConvLayer,
    ConvS2SConfig,
    LuongConfig,
    ModelConfig,
    Seq2SeqConfig,
    architecture,
)
from bytenmt.utf8 import N_IDS

if TYPE_CHECKING:  # it imports PyTorch
    from bytenmt.models.base import Model

Shapes = dict[str, tuple[int, ...]]
TABLE = "embedding.weight"  # of the bytes, which all architectures have
TABLES = (TABLE, "positions.weight")  # how the names of look-up tables end that are stored as they are
NGRAM_TABLES = "embedding.ngrams.weight"  # of n-grams, one under the other


def parameter_shapes(config: ModelConfig) -> Shapes:
    """Name -> shape of each parameter of a model; a shared one once, under its first name."""
    arch = architecture(config)
    if arch not in _OF:
        return {name: tuple(p.shape) for name, p in unbuilt(config).named_parameters()}
    d = config.d_embedding
    ngrams = {NGRAM_TABLES: (len(config.ngrams) * config.n_ngram_rows, d)} if config.ngrams else {}
    return {TABLE: (N_IDS, d)} | ngrams | _OF[arch](config)


def unbuilt(config: ModelConfig) -> Model[Any, Any]:
    """A model without its numbers, which takes no memory."""
    import torch

    from bytenmt.models import build_model

    with torch.device("meta"):
        return build_model(config)


def n_parameters(config: ModelConfig) -> int:
    """Numbers in all of them."""
    return sum(map(math.prod, parameter_shapes(config).values()))


def is_matrix(name: str, shape: tuple[int, ...]) -> bool:
    """Does `convert` store it in fewer bytes? Matrices and n-gram tables, not vectors and other tables."""
    return len(shape) > 1 and not name.endswith(TABLES)


def _seq2seq(config: Seq2SeqConfig) -> Shapes:
    """See models/seq2seq.py."""
    d = config.d_hidden
    every_step = config.context == "every_step"
    recurrent = _lstm if config.cell == "lstm" else _gru
    shapes: Shapes = {}
    for layer in range(config.encoder_depth):
        shapes |= recurrent(f"encoder.{layer}", d if layer else config.d_embedding, d)
    seen = config.d_embedding + (d if every_step else 0)
    for layer in range(config.decoder_depth):
        shapes |= recurrent(f"decoder.layers.{layer}", d if layer else seen, d)
    if every_step:
        shapes |= _linear("decoder.context", d, d, bias=False)
        shapes |= _linear("decoder.start", d, config.n_states * d, bias=False)
    if config.has_maxout:
        shapes |= _linear("decoder.maxout", d + seen, d // 2 * 2)
    return shapes | _output(config, d // 2 if config.has_maxout else d)


def _bahdanau(config: BahdanauConfig) -> Shapes:
    """See models/bahdanau.py."""
    d, d_embedding = config.d_hidden, config.d_embedding
    d_context = 2 * d if config.source else 0
    shapes: Shapes = {}
    if config.source:
        for layer in range(config.n_encoder_layers):
            name, n_in = (f"encoder.above.{layer - 1}", 2 * d) if layer else ("encoder", d_embedding)
            shapes |= _gru(f"{name}.forwards", n_in, d) | _gru(f"{name}.backwards", n_in, d)
        shapes |= _linear("encoder.keys", 2 * d, config.d_attention, bias=False)
        shapes |= _linear("decoder.start", d, d) | _score(d, config.d_attention)
    shapes |= _gru("decoder.cell", d_embedding + d_context, d)
    shapes |= _linear("decoder.maxout", d + d_embedding + d_context, 2 * config.d_maxout)
    return shapes | _output(config, config.d_maxout)


def _luong(config: LuongConfig) -> Shapes:
    """See models/luong.py."""
    d = config.d_hidden
    first = config.d_embedding + (d if config.input_feeding else 0)
    shapes: Shapes = {}
    for layer in range(config.encoder_depth):
        shapes |= _lstm(f"encoder.{layer}", d if layer else config.d_embedding, d)
    for layer in range(config.decoder_depth):
        shapes |= _lstm(f"decoder.layers.{layer}", d if layer else first, d)
    if config.attends:
        shapes |= _linear("decoder.combine", 2 * d, d, bias=False)
        shapes |= _linear("keys", d, d, bias=False) if config.score in ("general", "concat") else {}
        shapes |= _score(d, d) if config.score == "concat" else {}
        by_location = config.score == "location"
        shapes |= _linear("decoder.location", d, config.n_locations, bias=False) if by_location else {}
    if config.attention == "local-p":
        shapes |= _linear("decoder.position.hidden", d, d, bias=False) | {"decoder.position.v": (d,)}
    return shapes | _output(config, d, bias=False)


def _bytenet(config: ByteNetConfig) -> Shapes:
    """See models/bytenet.py."""
    d = config.d_channels
    shapes: Shapes = {}
    for side, schedule in (("encoder", config.encoder_schedule), ("decoder", config.decoder_schedule)):
        for index in range(len(schedule)):
            shapes |= _bytenet_block(f"{side}.blocks.{index}", config)
    for side, n in (("encoder", config.encoder_recurrence), ("decoder", config.decoder_recurrence)):
        for index in range(n):
            shapes |= _gru(f"{side}.layers.{index}", 2 * d, 2 * d)
    if config.source:
        shapes |= _linear("encoder.input", config.d_embedding, 2 * d)
        shapes |= _linear("encoder.output", 2 * d, config.d_column)
    shapes |= _linear("decoder.input", config.d_embedding, config.d_read)
    return shapes | _linear("decoder.head", 2 * d, 2 * d) | _output(config, 2 * d)


def _bytenet_block(name: str, config: ByteNetConfig) -> Shapes:
    d, multiplicative = config.d_channels, config.block == "multiplicative"
    shapes: Shapes = {}
    for norm, width in (("norm_in", 2 * d), ("norm_mid", d), ("norm_out", d)):
        shapes |= {f"{name}.{norm}.weight": (width,), f"{name}.{norm}.bias": (width,)}
    d_maps = 4 * d if multiplicative else d
    shapes[f"{name}.convolution.plain"] = (d_maps, config.kernel_width, d)
    shapes[f"{name}.convolution.bias"] = (d_maps,)
    shapes |= _linear(f"{name}.unit", d, 4 * d) if multiplicative else {}
    return shapes | _linear(f"{name}.reduce", 2 * d, d) | _linear(f"{name}.expand", d, 2 * d)


def _convs2s(config: ConvS2SConfig) -> Shapes:
    """See models/convs2s.py."""
    f, norm = config.d_embedding, config.weight_norm
    n_learned = config.n_positions if config.position_kind == "learned" else 0
    shapes: Shapes = {"target_positions.weight": (n_learned, f)} if n_learned else {}
    if config.source:
        shapes |= {"encoder.positions.weight": (n_learned, f)} if n_learned else {}
        shapes |= _convs2s_encoder(config)
    widths = [width for width, _ in config.decoder_layers]
    shapes |= _scaled("decoder.input", f, widths[0], norm)
    shapes |= _stack("decoder", config.decoder_layers, norm, gated=True)
    for index, width in enumerate(widths):
        if config.attends[index]:
            shapes |= _scaled(f"decoder.layers.{index}.query", width, f, norm)
            shapes |= _scaled(f"decoder.layers.{index}.context", f, width, norm)
    shapes |= _scaled("decoder.last", widths[-1], f, norm)
    return shapes | (
        _output(config, f) if config.tie_embedding else _scaled("decoder.output", f, N_IDS, norm)
    )


def _convs2s_encoder(config: ConvS2SConfig) -> Shapes:
    """See models/convs2s_encoder.py."""
    f, norm = config.d_embedding, config.weight_norm
    if config.encoder == "gated":
        layers = config.encoder_layers
        shapes = _scaled("encoder.input", f, layers[0][0], norm) | _stack("encoder", layers, norm, gated=True)
        return shapes | _scaled("encoder.output", layers[-1][0], f, norm)
    shapes = {}
    if config.encoder == "conv":
        for side, layers in (
            ("encoder.keys", config.encoder_layers),
            ("encoder.values", config.value_layers),
        ):
            first, last = layers[0][0], layers[-1][0]
            shapes |= _scaled(f"{side}.input", f, first, norm) if first != f else {}
            shapes |= _stack(side, layers, norm, gated=False)
            shapes |= _scaled(f"{side}.output", last, f, norm) if last != f else {}
    return shapes


def _stack(side: str, layers: tuple[ConvLayer, ...], norm: bool, gated: bool) -> Shapes:
    """The layers of one side, gated ones or those with a tanh, with weight normalisation or without."""
    shapes: Shapes = {}
    kernels = [kernel_width for _, kernel_width in layers]
    widths = [layers[0][0], *(width for width, _ in layers)]
    for index, (kernel_width, (d_input, d_output)) in enumerate(zip(kernels, pairwise(widths), strict=True)):
        name, d_maps = f"{side}.layers.{index}", d_output * (2 if gated else 1)
        weight = (d_maps, kernel_width, d_input)
        if norm:
            shapes |= {f"{name}.convolution.normed.v": weight, f"{name}.convolution.normed.g": (d_maps,)}
        else:
            shapes[f"{name}.convolution.plain"] = weight
        shapes[f"{name}.convolution.bias"] = (d_maps,)
        shapes |= _scaled(f"{name}.residual", d_input, d_output, norm) if d_input != d_output else {}
    return shapes


def _output(config: ModelConfig, d_input: int, bias: bool = True) -> Shapes:
    """OutputLayer of layers/embedding.py."""
    shapes: Shapes = {"decoder.output.bias": (N_IDS,)} if bias else {}
    if not config.tie_embedding:
        shapes["decoder.output.weight"] = (N_IDS, d_input)
    elif d_input != config.d_embedding:
        shapes |= _linear("decoder.output.projection", d_input, config.d_embedding)
    return shapes


def _linear(name: str, d_input: int, d_output: int, bias: bool = True) -> Shapes:
    weight: Shapes = {f"{name}.weight": (d_output, d_input)}
    return weight | ({f"{name}.bias": (d_output,)} if bias else {})


def _scaled(name: str, d_input: int, d_output: int, norm: bool) -> Shapes:
    """A linear map that may be weight-normed: direction, length and bias."""
    if not norm:
        return _linear(name, d_input, d_output)
    weight = f"{name}.weight"
    return {f"{weight}.v": (d_output, d_input), f"{weight}.g": (d_output,), f"{name}.bias": (d_output,)}


def _score(d_query: int, d_attention: int) -> Shapes:
    """The additive score."""
    query = _linear("decoder.score.query", d_query, d_attention, bias=False)
    return query | {"decoder.score.v": (d_attention,)}


def _gru(name: str, d_input: int, d: int) -> Shapes:
    u = _linear(f"{name}.gates", d, 2 * d, bias=False) | _linear(f"{name}.candidate", d, d, bias=False)
    return _linear(f"{name}.input", d_input, 3 * d) | u


def _lstm(name: str, d_input: int, d: int) -> Shapes:
    return _linear(f"{name}.input", d_input, 4 * d) | _linear(f"{name}.recurrent", d, 4 * d, bias=False)


_OF: Mapping[str, Callable[[Any], Shapes]] = {
    "seq2seq": _seq2seq,
    "bahdanau": _bahdanau,
    "luong": _luong,
    "bytenet": _bytenet,
    "convs2s": _convs2s,
}
