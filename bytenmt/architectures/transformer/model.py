"""A Transformer on bytes: Vaswani et al. 2017.

It is normalised before each sub-layer (Xiong et al. 2020), with rotary positions (Su et al. 2021)
and a decoder that attends to a sliding window (Beltagy et al. 2020).

    sub-layer f:   x <- x + f(LayerNorm(x))
    attention:     softmax_j((R_i q_i) . (R_j k_j) / sqrt(e)) v_j, in heads of e channels
    encoder:       self-attention over the source, feed-forward W_2 gelu(W_1 x)
    decoder:       self-attention over i - window < j <= i, attention to the source, feed-forward

R_i turns pairs of channels by angles that grow with i, so that scores depend on distances alone. A
state keeps turned keys and values of the last `window` bytes in rings: a step costs the same after
any number of bytes. Angles are computed in double precision, so that they are exact in streams of
any practical length.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.architectures.base import AttentiveModel, byte_embedding, module_list
from bytenmt.architectures.transformer.config import TransformerConfig
from bytenmt.layers.attention import source_mask
from bytenmt.layers.embedding import OutputLayer
from bytenmt.layers.ngram_tables import RecentBytes
from bytenmt.layers.rings import Clock, Rings, RingTaps
from bytenmt.layers.weight_norm import scaled_linear

BASE = 10_000.0  # of the rotary angles: the slowest pair of channels turns once in 2 pi BASE bytes
SCALE = 10.0  # of the first map: byte embeddings start at a deviation of 0.1
Rotation = tuple[Tensor, Tensor]  # cosines and sines, each (rows or 1, t, 1, e / 2)


class TransformerMemory(NamedTuple):
    """The memory of n sources of s or fewer bytes: the decoder's keys and values; s may be 0."""

    keys: tuple[Tensor, ...]  # (n, s, d_model) for each layer of the decoder
    values: tuple[Tensor, ...]  # the same shapes
    source_len: Tensor  # (n,) int64, EOS included


class TransformerState(NamedTuple):
    """State of the decoder between two target bytes; rows are hypotheses, n * beam."""

    clock: Clock  # bytes read by each row, and which rows' rings hold its past
    # of each layer (rows, window, 2 d_model): keys and values of the last bytes
    rings: Rings
    recent: RecentBytes = ()  # the last bytes read, for n-gram embeddings; else ()


class QueryBlock(NamedTuple):
    """A block of consecutive queries in self-attention, and the keys that they may attend to."""

    begin: int  # index of the first query among the t new columns (bytes)
    end: int  # index after the last query
    low: int  # index of the first key among the cached columns and, after them, the new ones
    high: int  # index after the last key
    mask: Tensor  # (rows or 1, 1, queries, keys) bool: true where a query may attend to a key


class SelfAttention(nn.Module):
    """Self-attention with rotary positions: call `project`, then forward with cached and new keys.

    residual_scale: factor of the initial output, so that many layers add up to unit variance.
    """

    STACKED: ClassVar = {"qkv": 3}  # number of maps stacked in a weight

    def __init__(self, d_model: int, n_heads: int, residual_scale: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm = nn.LayerNorm(d_model)
        self.qkv = _linear(d_model, 3 * d_model)
        self.output = _linear(d_model, d_model, residual_scale)

    def project(self, x: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
        """Return rotated queries (rows, t, d_model), and rotated keys with values concatenated.

        The keys and values are (rows, t, 2 d_model). x (rows, t, d_model), not yet normalised;
        rotation: cosines and sines of the positions of x.
        """
        query, key, value = self.qkv(self.norm(x)).chunk(3, dim=2)
        query, key = (_rotate(part, rotation, self.n_heads) for part in (query, key))
        return query, torch.cat([key, value], dim=2)

    def forward(self, query: Tensor, keys_values: Tensor, blocks: list[QueryBlock]) -> Tensor:
        """Attend from t queries to m cached and t new columns; return (rows, t, d_model).

        query (rows, t, d_model); keys_values (rows, m + t, 2 d_model), cached first; blocks:
        a partition of the queries, each block with the keys that it may attend to.
        """
        q, k, v = (_heads(part, self.n_heads) for part in (query, *keys_values.chunk(2, dim=2)))
        parts = []
        for begin, end, low, high, mask in blocks:
            seen = k[:, :, low:high], v[:, :, low:high]
            parts.append(_attend(q[:, :, begin:end], *seen, mask))
        attended: Tensor = self.output(torch.cat(parts, dim=2).transpose(1, 2).flatten(2))
        return attended


class CrossAttention(nn.Module):
    """Attention to the source, whose keys and values the encoder has projected.

    residual_scale: factor of the initial output, so that many layers add up to unit variance.
    """

    def __init__(self, d_model: int, n_heads: int, residual_scale: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm = nn.LayerNorm(d_model)
        self.query = _linear(d_model, d_model)
        self.output = _linear(d_model, d_model, residual_scale)

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor, needs_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from x (rows, t, d_model) to n sources; return what is added to x, and weights.

        The weights (rows, t, s) are the mean over heads; None unless needs_weights. x is normalised
        here. Its rows are n * beam, those of one source side by side. keys, values (n, s, d_model):
        as the encoder has projected them. mask (n, s) bool: true on real columns.
        """
        # the queries of all rows of a sentence, one after another
        query = self.query(self.norm(x)).reshape(len(keys), -1, x.shape[2])
        q, k, v = (_heads(part.to(query.dtype), self.n_heads) for part in (query, keys, values))
        mask = mask[:, None, None]
        context = _attend(q, k, v, mask)
        weights = None
        if needs_weights:
            scores = (q @ k.mT * q.shape[3] ** -0.5).masked_fill(~mask, -torch.inf)
            weights = scores.softmax(dim=3).mean(dim=1).reshape(*x.shape[:2], -1)
        return self.output(context.transpose(1, 2).reshape(x.shape)), weights


class Layer(nn.Module):
    """The sub-layers of a layer: self-attention, attention to the source, feed-forward.

    It has no forward: Transformer calls them and adds their outputs to x. n_layers: layers of its
    stack, for the initial scale. attends: whether it has attention to the source, which the encoder
    and models without a source lack (`cross_attention` is None).
    """

    def __init__(self, config: TransformerConfig, n_layers: int, attends: bool) -> None:
        super().__init__()
        d = config.d_model
        d_ff = config.d_ff or 4 * d
        # With this scale the sum of all sub-layers has unit variance.
        residual_scale = ((2 + attends) * n_layers) ** -0.5
        self.self_attention = SelfAttention(d, config.n_heads, residual_scale)
        self.cross_attention = (
            CrossAttention(d, config.n_heads, residual_scale) if attends else None
        )
        self.norm = nn.LayerNorm(d)
        self.hidden = _linear(d, d_ff)
        self.output = _linear(d_ff, d, math.sqrt(2) * residual_scale)

    def feed_forward(self, x: Tensor) -> Tensor:
        """Return what the feed-forward sub-layer adds to x (..., d_model), in the shape of x."""
        fed: Tensor = self.output(F.gelu(self.hidden(self.norm(x))))
        return fed


class Stack(nn.Module):
    """The parameters of the encoder or of the decoder: input map, layers, norm and output map.

    It has no forward; Transformer uses its parts. attends: whether layers attend to the source.
    output: the output map; the encoder's gives each decoder layer's keys and values, the decoder's
    gives logits.
    """

    def __init__(
        self, config: TransformerConfig, n_layers: int, attends: bool, output: nn.Module
    ) -> None:
        super().__init__()
        self.input = _linear(config.d_embedding, config.d_model, SCALE)
        self.layers = module_list(Layer(config, n_layers, attends) for _ in range(n_layers))
        self.norm = nn.LayerNorm(config.d_model)
        self.output = output
        self.STACKED = {"output": 1 if attends else 2 * config.decoder_depth}


class Transformer(AttentiveModel[TransformerMemory, TransformerState]):
    """A pre-norm Transformer on bytes, with rotary positions; its decoder sees a sliding window."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = byte_embedding(config)
        d = config.d_model
        depth = config.decoder_depth
        self.encoder: Stack | None = None
        if config.source:
            self.encoder = Stack(config, config.encoder_depth, False, _linear(d, 2 * depth * d))
        self.decoder: Stack = Stack(config, depth, config.source, OutputLayer(d))

    def encode(self, src: Tensor, src_len: Tensor) -> TransformerMemory:
        """Encode sources src (n, s) uint8, of src_len (n,) bytes with EOS; return their memory."""
        n, s = src.shape
        depth = self.config.decoder_depth
        if self.encoder is None or not src.shape[1]:
            nothing = (self.embedding.weight.new_zeros(n, 0, self.config.d_model),) * depth
            return TransformerMemory(nothing, nothing, src_len)
        x = self.drop(self.encoder.input(self.embedding(src)))
        whole = [QueryBlock(0, s, 0, s, source_mask(src_len, s)[:, None, None])]
        rotation = _rotation(torch.arange(s, device=x.device)[None], x, self.config)
        for layer in self.encoder.layers:
            query, kept = layer.self_attention.project(x, rotation)
            x = x + self.drop(layer.self_attention(query, kept, whole))
            x = x + self.drop(layer.feed_forward(x))
        parts = self.encoder.output(self.encoder.norm(x)).chunk(2 * depth, dim=2)
        return TransformerMemory(parts[:depth], parts[depth:], src_len)

    def start(self, memory: TransformerMemory, beam: int = 1) -> TransformerState:
        """Return the state before the first byte, with `beam` adjacent rows for each source."""
        rows = len(memory.source_len) * beam
        device = memory.source_len.device
        shape = (rows, self.config.window, 2 * self.config.d_model)
        buffers = tuple(self.embedding.weight.new_zeros(shape) for _ in self.decoder.layers)
        clock = Clock.start(rows, self.config.window, device)
        return TransformerState(clock, Rings(buffers), self.embedding.start(rows, device))

    def forward(
        self, tgt: Tensor, memory: TransformerMemory, state: TransformerState
    ) -> tuple[Tensor, TransformerState]:
        """Read tgt (rows, t) uint8 after state; return logits (rows, t, 256) and the new state."""
        return self._read(tgt, memory, state)[:2]

    def forward_aligned(
        self, tgt: Tensor, memory: TransformerMemory, state: TransformerState
    ) -> tuple[Tensor, TransformerState, dict[int, Tensor]]:
        """Read tgt (rows, t) uint8; return logits (rows, t, 256), new state and attention weights.

        The weights are {layer number from 1: (rows, t, s)}, the mean over heads: how much the
        prediction after each byte of tgt attends to each source byte.
        """
        logits, after, weights = self._read(tgt, memory, state, needs_weights=True)
        return logits, after, dict(enumerate(weights, 1))

    def _read(
        self,
        tgt: Tensor,
        memory: TransformerMemory,
        state: TransformerState,
        needs_weights: bool = False,
    ) -> tuple[Tensor, TransformerState, list[Tensor]]:
        """Do what forward does; return each layer's attention weights (rows, t, s) if needed."""
        t = tgt.shape[1]
        window = self.config.window
        clock = state.clock
        x = self.drop(self.decoder.input(self.embedding(tgt, state.recent)))
        taps = RingTaps.from_clock(clock, t, window, 1)
        n_old = window - 1
        # Skip what lies before the start, but not in steps on a GPU, which would wait for the
        # position.
        if t > 1 or torch.is_grad_enabled() or x.device.type == "cpu":
            n_old = min(n_old, int(clock.position.max()))
            first = window - 1 - n_old
            taps = taps._replace(rows=taps.rows[:, first:], slots=taps.slots[:, first:])
        blocks = self._blocks(clock.position, t, n_old)
        rotation = _rotation(clock.positions(t), x, self.config)
        has_memory = memory.keys[0].shape[1] > 0
        mask = source_mask(memory.source_len, memory.keys[0].shape[1])
        rings = []
        weights: list[Tensor] = []
        stack = zip(self.decoder.layers, state.rings.buffers, strict=True)
        for number, (layer, ring) in enumerate(stack):
            query, new = layer.self_attention.project(x, rotation)
            kept, ring = taps.append(new, ring)
            rings.append(ring)
            x = x + self.drop(layer.self_attention(query, kept, blocks))
            if layer.cross_attention is not None and has_memory:
                attended, a = layer.cross_attention(
                    x, memory.keys[number], memory.values[number], mask, needs_weights
                )
                x = x + self.drop(attended)
                if a is not None:
                    weights.append(a)
            x = x + self.drop(layer.feed_forward(x))
        logits: Tensor = self.decoder.output(self.decoder.norm(x))
        recent = self.embedding.advance(state.recent, tgt)
        return logits, TransformerState(clock.advance(t), Rings(tuple(rings)), recent), weights

    def _blocks(self, position: Tensor, t: int, n_old: int) -> list[QueryBlock]:
        """Split a chunk of t bytes into blocks of queries, which see n_old columns before it.

        position (rows,) int64: that of the first byte of the chunk. A block has so few queries that
        long texts cost time and memory in proportion to t.
        """
        blocks = []
        window = self.config.window
        for begin in range(0, t, window):
            end = min(t, begin + window)
            low, high = max(0, n_old + begin - window + 1), n_old + end
            columns = torch.arange(low, high, device=position.device)
            distance = torch.arange(n_old + begin, high, device=position.device)[:, None] - columns
            is_seen = (distance >= 0) & (distance < window)
            is_read = position[:, None] + columns >= n_old  # not before the text begins
            blocks.append(QueryBlock(begin, end, low, high, (is_seen & is_read[:, None])[:, None]))
        return blocks


def _heads(x: Tensor, n_heads: int) -> Tensor:
    """Split x (n, t, d) into heads, (n, heads, t, d / heads)."""
    return x.view(*x.shape[:2], n_heads, -1).transpose(1, 2)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attend from q (n, heads, t, e) to k and v (n, heads, s, e); return (n, heads, t, e).

    mask (n or 1, 1, t or 1, s) bool: true where a query may attend to a key.

    On a CPU the backward pass of PyTorch 2.13's fused attention takes half of an update in
    bfloat16, so that gradients are taken through separate products.
    """
    if q.device.type != "cpu" or not torch.is_grad_enabled():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = q * q.shape[3] ** -0.5 @ k.mT
    precise = torch.promote_types(scores.dtype, torch.float32)
    bias = torch.zeros_like(mask, dtype=precise).masked_fill(~mask, -torch.inf)
    attended: Tensor = (scores + bias).softmax(dim=3).to(v.dtype) @ v
    return attended


def _rotation(positions: Tensor, like: Tensor, config: TransformerConfig) -> Rotation:
    """Return cosines and sines of positions (rows or 1, t), in single precision or better."""
    e = config.d_model // config.n_heads
    exponents = torch.arange(0, e, 2, dtype=torch.float64, device=like.device) / e
    angles = positions[:, :, None, None] * BASE**-exponents
    precise = torch.promote_types(like.dtype, torch.float32)
    return angles.cos().to(precise), angles.sin().to(precise)


def _rotate(x: Tensor, rotation: Rotation, n_heads: int) -> Tensor:
    """Turn x (rows, t, d_model), pair by pair of the channels of a head."""
    cos, sin = rotation
    a, b = x.view(*x.shape[:2], n_heads, -1).chunk(2, dim=3)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=3).flatten(2).to(x.dtype)


def _linear(d_input: int, d_output: int, scale: float = 1.0) -> nn.Module:
    """Build a linear map; its outputs have `scale` times the deviation of its inputs at first."""
    return scaled_linear(d_input, d_output, scale * d_input**-0.5, weight_norm=False)
