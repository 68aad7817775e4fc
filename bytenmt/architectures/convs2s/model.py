"""Convolutional sequence-to-sequence: Gehring et al. 2017 (1705.03122).

Where the text is silent, it is its authors' code. Without a source h goes on as it is: the gated
language model of Dauphin et al. 2017.

    e_j = w_j + p_j,  g_i the same of the target;  GLU([A ; B]) = A * sigma(B)
    encoder: z_j, see encoder.py
    decoder layer: h = GLU(causal conv(x));  d_i = (W_d h_i + b_d + g_i) sqrt(1/2)
        a_ij = softmax_j(d_i . z_j)
        c_i = sqrt(m) sum_j a_ij (z_j + e_j) sqrt(1/2),  m source bytes
        h <- (h + W_c c_i + b_c) sqrt(1/2);  x <- (h + x) sqrt(1/2)
    p(y_i) = softmax(W_o Lin(x_i) + b_o)

Attention looks at the GLU's output before the residual is added (the authors' code, not the text);
a layer that is not to attend goes on with h. Weight normalisation everywhere but in the tables; the
gradient into the encoder's stack is divided by twice the number of attentions, the path through e_j
is not. With the encoders of Gehring et al. 2016 (1611.02344, section 3.1) the keys and values are
the encoder's own,

        d_i = W_d h_i + b_d + g_i;  c_i = sqrt(m) sum_j a_ij v_j

and what has no stack has no gradient to be scaled. Weight normalisation, sqrt(m) and positions can
be left out, and kernels dilated.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bytenmt.architectures.base import AttentiveModel, byte_embedding, module_list
from bytenmt.architectures.convs2s.config import ConvS2SConfig
from bytenmt.architectures.convs2s.encoder import (
    ENCODERS,
    ROOT_HALF,
    Encoder,
    GatedLayer,
    LayerSize,
    position_table,
)
from bytenmt.layers.attention import attend, source_mask
from bytenmt.layers.ngram_tables import RecentBytes
from bytenmt.layers.rings import Clock, Rings, RingTaps, ring_capacity
from bytenmt.layers.weight_norm import scaled_linear
from bytenmt.utf8 import N_IDS


class ConvS2SMemory(NamedTuple):
    """The memory of n sources of s or fewer bytes: encoder outputs to attend to; s may be 0."""

    keys: Tensor  # (n, s, d_embedding): attention's keys
    # (n, s, d_embedding); with encoder = "gated" (keys + byte embeddings) sqrt(1/2)
    values: Tensor
    source_len: Tensor  # (n,) int64, EOS included


class ConvS2SState(NamedTuple):
    """State of the decoder between two target bytes; rows are hypotheses, n * beam."""

    clock: Clock  # bytes read by each row, and which rows' rings hold its past
    rings: Rings  # for each layer, its convolution's last inputs: (rows, capacity, channels)
    recent: RecentBytes = ()  # the last bytes read, for n-gram embeddings; else ()


class DecoderLayer(GatedLayer):
    """A decoder layer: a gated convolution (`causal`), and attention to the source (`attend`)."""

    def __init__(self, config: ConvS2SConfig, d_input: int, size: LayerSize, attends: bool) -> None:
        super().__init__(config, d_input, size)
        width = size[0]
        f = config.d_embedding
        norm = config.weight_norm
        self.query: nn.Module | None = None
        self.context: nn.Module | None = None
        if attends:
            self.query = scaled_linear(width, f, math.sqrt(1 / width), norm)  # W_d
            self.context = scaled_linear(f, width, math.sqrt(1 / f), norm)  # W_c
        self.halves_query = config.encoder == "gated"
        self.by_root = config.attention_scaling == "sqrt"

    def attend(
        self, h: Tensor, g: Tensor, memory: ConvS2SMemory, mask: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return (h + attention over the source) * sqrt(1/2) and the attention weights.

        h (rows, t, d_output): the output of `causal`; g (rows, t, d_embedding): embeddings of the
        bytes read; mask (n, s) bool: true on real columns of the sources. Weights (rows, t, s). A
        layer without attention returns h itself and None.
        """
        if self.query is None or self.context is None:
            return h, None
        query = self.query(h) + g
        if self.halves_query:
            query = query * ROOT_HALF
        rows_t = query.shape[:2]
        scores = query.reshape(len(memory.keys), -1, query.shape[-1]) @ memory.keys.mT
        context, weights = attend(scores, memory.values, mask)
        if self.by_root:
            context = context * memory.source_len[:, None, None].to(context.dtype).sqrt()
        projected: Tensor = self.context(context.reshape(*rows_t, -1))
        return (h + projected) * ROOT_HALF, weights.reshape(*rows_t, weights.shape[2])


class ConvS2SDecoder(nn.Module):
    """Holds the decoder's parameters; it has no forward, ConvS2S.forward_aligned uses its parts."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        f = config.d_embedding
        keep = 1 - config.dropout
        norm = config.weight_norm
        width = config.decoder_stack[0][0]
        self.input = scaled_linear(f, width, math.sqrt(keep / f), norm)
        layers = []
        for size, attends in zip(config.decoder_stack, config.attends, strict=True):
            layers.append(DecoderLayer(config, width, size, attends))
            width = size[0]
        self.layers = module_list(layers)
        self.last = scaled_linear(width, f, math.sqrt(1 / width), norm)
        self.output = scaled_linear(f, N_IDS, math.sqrt(keep / f), norm)


class ConvS2S(AttentiveModel[ConvS2SMemory, ConvS2SState]):
    """ConvS2S (Gehring et al. 2017): gated convolutions, with attention in the decoder's layers."""

    config: ConvS2SConfig

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = byte_embedding(config)
        self.target_positions = position_table(config)
        self.encoder: Encoder | None = ENCODERS[config.encoder](config) if config.source else None
        self.decoder: ConvS2SDecoder = ConvS2SDecoder(config)

    def encode(self, src: Tensor, src_len: Tensor) -> ConvS2SMemory:
        """Encode sources src (n, s) uint8, of src_len (n,) bytes with EOS; return their memory."""
        n, s = src.shape
        if self.encoder is None or not src.shape[1]:
            nothing = self.embedding.weight.new_zeros(n, 0, self.config.d_embedding)
            return ConvS2SMemory(nothing, nothing, src_len)
        e = self.embedding(src)
        if self.encoder.positions is not None:
            e = e + self.encoder.positions(torch.arange(s, device=src.device)).to(e.dtype)
        gradient = 0.5 / sum(self.config.attends)
        keys, values = self.encoder(self.drop(e), source_mask(src_len, s), gradient)
        return ConvS2SMemory(keys, values, src_len)

    def start(self, memory: ConvS2SMemory, beam: int = 1) -> ConvS2SState:
        """Return the state before the first byte, with `beam` adjacent rows for each source."""
        layers = self.config.decoder_stack
        keys = memory.keys
        rows = len(keys) * beam
        rings = []
        width = layers[0][0]
        for channels, kernel_width, dilation in layers:
            rings.append(keys.new_zeros(rows, ring_capacity(kernel_width, dilation), width))
            width = channels
        history = max(ring.shape[1] for ring in rings)
        recent = self.embedding.start(rows, keys.device)
        return ConvS2SState(Clock.start(rows, history, keys.device), Rings(tuple(rings)), recent)

    def forward_aligned(
        self, tgt: Tensor, memory: ConvS2SMemory, state: ConvS2SState
    ) -> tuple[Tensor, ConvS2SState, dict[int, Tensor]]:
        """Read tgt (rows, t) uint8; return logits (rows, t, 256), new state and attention weights.

        The weights are {layer number from 1: (rows, t, s)}, of layers with attention: how much the
        prediction after each byte of tgt attends to each source byte.
        """
        t = tgt.shape[1]
        clock = state.clock
        g = self.embedding(tgt, state.recent)
        if self.target_positions is not None:
            g = g + self.target_positions(clock.positions(t)).to(g.dtype)
        g = self.drop(g)
        mask = source_mask(memory.source_len, memory.keys.shape[1])
        shapes = [size[1:] for size in self.config.decoder_stack]  # kernel width and dilation
        taps = {shape: RingTaps.from_clock(clock, t, *shape) for shape in dict.fromkeys(shapes)}
        x = self.decoder.input(g)
        rings = []
        weights: dict[int, Tensor] = {}
        stack = zip(self.decoder.layers, state.rings.buffers, shapes, strict=True)
        for number, (layer, ring, shape) in enumerate(stack, start=1):
            h, ring = layer.causal(x, ring, taps[shape])
            h, a = layer.attend(h, g, memory, mask)
            if a is not None:
                weights[number] = a
            x = (h + layer.residual(x)) * ROOT_HALF
            rings.append(ring)
        logits: Tensor = self.decoder.output(self.drop(self.decoder.last(x)))
        recent = self.embedding.advance(state.recent, tgt)
        return logits, ConvS2SState(clock.advance(t), Rings(tuple(rings)), recent), weights
