"""Convolutional sequence-to-sequence: Gehring et al. 2017 (1705.03122), and its authors' code where the
text is silent. Without a source h goes on as it is: the gated language model of Dauphin et al. 2017.

    e_j = w_j + p_j,  g_i the same of the target;  GLU([A ; B]) = A * sigma(B)
    encoder: z^0 = Lin(e);  z^l = (GLU(conv(z^{l-1})) + z^{l-1}) sqrt(1/2);  z = Lin(z^L)
    decoder layer: h = GLU(causal conv(x));  d_i = (W_d h_i + b_d + g_i) sqrt(1/2)
        a_ij = softmax_j(d_i . z_j);  c_i = sqrt(m) sum_j a_ij (z_j + e_j) sqrt(1/2),  m source bytes
        h <- (h + W_c c_i + b_c) sqrt(1/2);  x <- (h + x) sqrt(1/2)
    p(y_i) = softmax(W_o Lin(x_i) + b_o)

Attention looks at the GLU's output before the residual is added (the authors' code, not the text). Weight
normalisation everywhere but in the tables; the gradient into the encoder's stack is divided by twice the
number of attentions, the path through e_j is not.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.config.schema import ConvS2SConfig
from bytenmt.layers.attention import attend, dot_scores, source_mask
from bytenmt.layers.convolution import Clock, Convolution, NormedLinear, Taps, ring_capacity
from bytenmt.layers.dropout import drop
from bytenmt.layers.embedding import ByteEmbedding, OutputLayer, PositionEmbedding
from bytenmt.models.base import Model, matrix_weights, module_list, no_source
from bytenmt.utf8 import N_IDS

HALF = math.sqrt(0.5)


class ConvS2SMemory(NamedTuple):
    """keys (n, s, d_embedding): z_j; values (n, s, d_embedding): (z_j + e_j) sqrt(1/2);
    source_len (n,) int64: m."""

    keys: Tensor
    values: Tensor
    source_len: Tensor


class ConvS2SState(NamedTuple):
    """clock: positions and ancestors; rings: one (rows, capacity, channels) a layer, inputs of its
    convolution."""

    clock: Clock
    rings: tuple[Tensor, ...]


class GatedLayer(nn.Module):
    """A convolution with a gated linear unit, and the residual's map where the width changes.

    Initialised as section 3.5 has it: maps into a GLU N(0, sqrt(4p/n)), others N(0, sqrt(p/n)), with n the
    fan-in and p the share of the input that dropout keeps.
    """

    STACKED: ClassVar = {"convolution": 2}  # maps that stand on one another in its weight

    def __init__(self, d_input: int, d_output: int, kernel_width: int, dropout: float) -> None:
        super().__init__()
        std = math.sqrt(4 * (1 - dropout) / (kernel_width * d_input))
        self.convolution = Convolution(d_input, 2 * d_output, kernel_width, std=std, weight_norm=True)
        same = d_input == d_output
        self.residual = None if same else NormedLinear(d_input, d_output, math.sqrt(1 / d_input))
        self.dropout = dropout

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (n, s, d_input), mask (n, s) bool -> (n, s, d_output)."""
        return (F.glu(self.convolution.centred(self._drop(x), mask)) + self.carried(x)) * HALF

    def causal(self, x: Tensor, ring: Tensor, taps: Taps) -> tuple[Tensor, Tensor]:
        """The GLU's output alone, (rows, t, d_output), and the ring after."""
        h, ring = self.convolution.causal(self._drop(x), ring, taps)
        return F.glu(h), ring

    def carried(self, x: Tensor) -> Tensor:
        """The residual branch: (rows, t, d_input) -> (rows, t, d_output)."""
        if self.residual is None:
            return x
        carried: Tensor = self.residual(x)
        return carried

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)


class DecoderLayer(GatedLayer):
    """A gated layer with its attention's two maps, or without them."""

    def __init__(
        self,
        d_input: int,
        d_output: int,
        kernel_width: int,
        d_embedding: int,
        dropout: float,
        attends: bool = True,
    ) -> None:
        super().__init__(d_input, d_output, kernel_width, dropout)
        self.query = NormedLinear(d_output, d_embedding, math.sqrt(1 / d_output)) if attends else None  # W_d
        context = NormedLinear(d_embedding, d_output, math.sqrt(1 / d_embedding)) if attends else None
        self.context = context  # W_c

    def attend(self, h: Tensor, g: Tensor, memory: ConvS2SMemory, mask: Tensor) -> tuple[Tensor, Tensor]:
        """h (rows, t, d_output), g (rows, t, d_embedding) -> h with the source's context added, and the
        weights (rows, t, s)."""
        if self.query is None or self.context is None:
            return h, h.new_zeros(*h.shape[:2], 0)
        query = (self.query(h) + g) * HALF
        n, rows_t = len(memory.keys), query.shape[:2]
        scores = dot_scores(query.reshape(n, -1, query.shape[-1]), memory.keys)
        context, weights = attend(scores, memory.values, mask)
        context = context * memory.source_len.to(context.dtype).sqrt()[:, None, None]
        projected: Tensor = self.context(context.reshape(*rows_t, -1))
        return (h + projected) * HALF, weights.reshape(*rows_t, weights.shape[2])


class ConvS2SEncoder(nn.Module):
    """The encoder's weights."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        f, keep = config.d_embedding, 1 - config.dropout
        widths = [config.encoder_layers[0][0], *(channels for channels, _ in config.encoder_layers)]
        self.positions = PositionEmbedding(config.n_positions, f) if config.n_positions else None
        self.input = NormedLinear(f, widths[0], math.sqrt(keep / f))
        self.layers = module_list(
            GatedLayer(d_input, d_output, kernel_width, config.dropout)
            for d_input, (d_output, kernel_width) in zip(widths, config.encoder_layers, strict=False)
        )
        self.output = NormedLinear(widths[-1], f, math.sqrt(1 / widths[-1]))


class ConvS2SDecoder(nn.Module):
    """The decoder's weights."""

    def __init__(self, config: ConvS2SConfig, embedding: ByteEmbedding) -> None:
        super().__init__()
        f, keep = config.d_embedding, 1 - config.dropout
        widths = [config.decoder_layers[0][0], *(channels for channels, _ in config.decoder_layers)]
        self.input = NormedLinear(f, widths[0], math.sqrt(keep / f))
        self.layers = module_list(
            DecoderLayer(d_input, d_output, kernel_width, f, config.dropout, attends=config.source)
            for d_input, (d_output, kernel_width) in zip(widths, config.decoder_layers, strict=False)
        )
        self.last = NormedLinear(widths[-1], f, math.sqrt(1 / widths[-1]))
        self.output = (
            OutputLayer(f, embedding, tie=True)
            if config.tie_embedding
            else NormedLinear(f, N_IDS, math.sqrt(keep / f))
        )


class ConvS2S(Model[ConvS2SMemory, ConvS2SState]):
    """See the module's docstring."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.config = config
        f, n_positions = config.d_embedding, config.n_positions
        self.embedding = ByteEmbedding(f)
        self.target_positions = PositionEmbedding(n_positions, f) if n_positions else None
        self.encoder = ConvS2SEncoder(config) if config.source else None
        self.decoder: ConvS2SDecoder = ConvS2SDecoder(config, self.embedding)

    def encode(self, src: Tensor, src_len: Tensor) -> ConvS2SMemory:
        n, s = src.shape
        if no_source(self.config.source, src) or self.encoder is None:
            nothing = self.embedding.weight.new_zeros(n, 0, self.config.d_embedding)
            return ConvS2SMemory(nothing, nothing, src_len)
        e = self.embedding(src)
        if self.encoder.positions is not None:
            e = e + self.encoder.positions(torch.arange(s, device=src.device))
        e = self._drop(e)
        mask = source_mask(src_len, s)
        z = self.encoder.input(e)
        for layer in self.encoder.layers:
            z = layer.centred(z, mask)
        z = _scale_gradient(self.encoder.output(z), 0.5 / len(self.config.decoder_layers))
        return ConvS2SMemory(z, (z + e) * HALF, src_len)

    def start(self, memory: ConvS2SMemory, beam: int = 1, drafted: int = 0) -> ConvS2SState:
        layers, keys = self.config.decoder_layers, memory.keys
        rows = len(keys) * beam
        sizes = [ring_capacity(kernel_width, 1) + drafted for _, kernel_width in layers]
        widths = [layers[0][0], *(channels for channels, _ in layers)]
        rings = tuple(keys.new_zeros(rows, size, width) for size, width in zip(sizes, widths, strict=False))
        return ConvS2SState(Clock.start(rows, max(sizes), keys.device), rings)

    def forward(self, tgt: Tensor, memory: ConvS2SMemory, state: ConvS2SState) -> tuple[Tensor, ConvS2SState]:
        return self._read(tgt, memory, state)[:2]

    def alignment(self, tgt: Tensor, memory: ConvS2SMemory, state: ConvS2SState) -> Tensor:
        return torch.stack([*self.alignments(tgt, memory, state).values()]).mean(dim=0)

    def alignments(self, tgt: Tensor, memory: ConvS2SMemory, state: ConvS2SState) -> dict[int, Tensor]:
        """See evaluation.alignment.Attentive."""
        attending = (number for number, layer in enumerate(self.decoder.layers, 1) if layer.query is not None)
        return dict(zip(attending, self._read(tgt, memory, state)[2], strict=True))

    def _read(
        self, tgt: Tensor, memory: ConvS2SMemory, state: ConvS2SState
    ) -> tuple[Tensor, ConvS2SState, list[Tensor]]:
        """forward, and each layer's attention weights (rows, t, s)."""
        t = tgt.shape[1]
        clock = state.clock
        g = self.embedding(tgt)
        if self.target_positions is not None:
            g = g + self.target_positions(clock.positions(t))
        g = self._drop(g)
        mask = source_mask(memory.source_len, memory.keys.shape[1])
        widths = {kernel_width for _, kernel_width in self.config.decoder_layers}
        drafted = state.rings[0].shape[1] - ring_capacity(self.config.decoder_layers[0][1], 1)
        taps = {kernel_width: Taps.of(clock, t, kernel_width, 1, drafted) for kernel_width in widths}
        x = self.decoder.input(g)
        rings, weights = [], []
        for layer, ring in zip(self.decoder.layers, state.rings, strict=True):
            h, ring = layer.causal(x, ring, taps[layer.convolution.kernel_width])
            h, a = layer.attend(h, g, memory, mask)
            weights.append(a)
            x = (h + layer.carried(x)) * HALF
            rings.append(ring)
        logits: Tensor = self.decoder.output(self._drop(self.decoder.last(x)))
        return logits, ConvS2SState(clock.advance(t), tuple(rings)), weights

    def reorder(self, state: ConvS2SState, parents: Tensor) -> ConvS2SState:
        return state._replace(clock=state.clock.reorder(parents))

    def rewind(self, state: ConvS2SState, columns: Tensor) -> ConvS2SState:
        """See base.Drafting."""
        return state._replace(clock=state.clock.rewind(columns))

    def receptive_field(self) -> int | None:
        return 1 + sum(kernel_width - 1 for _, kernel_width in self.config.decoder_layers)

    def step_cost(self, source_bytes: int) -> int:
        n_attentions = len(self.config.decoder_layers) if self.config.source else 0
        attention = 2 * source_bytes * self.config.d_embedding * n_attentions
        return matrix_weights(self.decoder) + attention

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.config.dropout, self.training)


def _scale_gradient(x: Tensor, factor: float) -> Tensor:
    """x itself, its gradient multiplied by factor."""
    return x.detach() + (x - x.detach()) * factor
