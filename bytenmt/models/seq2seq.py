"""GRU sequence-to-sequence: Cho et al. 2014 (1406.1078) and Sutskever et al. 2014 (1409.3215).

The encoder reads x_1 … x_S into a fixed vector, the decoder unrolls it:

    h_t = GRU(e(x_t), h_{t-1}), h_0 = 0                       reset before the product, z keeps
    context = "start":       s_0 = h_S in every layer; p(y_i) = softmax(W_o s_i)         (Sutskever)
    context = "every_step":  c = tanh(V h_S), s_0 = tanh(V' c); every gate of the first layer also sees
        C c, and t_i = O_h s_i + O_y e(y_{i-1}) + O_c c, pairs maxed, p(y_i) = softmax(W_o max(t))  (Cho)

where s_i = GRU(e(y_{i-1}), s_{i-1}); without a source s_0 = 0. Stacks of different depths
stand top to top: layer l starts from the encoder's layer of its height, below the lowest from the lowest.
init = "paper": N(0, 0.01^2), recurrent matrices orthogonal (Cho).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bytenmt.config.schema import Seq2SeqConfig
from bytenmt.layers.dropout import drop
from bytenmt.layers.embedding import ByteEmbedding, OutputLayer
from bytenmt.layers.recurrent import GRU, initialise, last, reverse
from bytenmt.models.base import Model, matrix_weights, module_list, no_source


class Seq2SeqMemory(NamedTuple):
    """final (n, layers of the decoder, d_hidden): the h_S that each starts from, c's the last; zero without a
    source."""

    final: Tensor


class Seq2SeqState(NamedTuple):
    """hidden (rows, layers of the decoder, d_hidden): s_i of every layer."""

    hidden: Tensor


class Seq2SeqDecoder(nn.Module):
    """The decoder's weights."""

    def __init__(self, config: Seq2SeqConfig, embedding: ByteEmbedding) -> None:
        super().__init__()
        d, d_embedding = config.d_hidden, config.d_embedding
        every_step = config.context == "every_step"
        d_first = d_embedding + d if every_step else d_embedding
        self.layers = module_list(
            GRU(d if layer else d_first, d, config.gru_reset) for layer in range(config.decoder_depth)
        )
        self.context = nn.Linear(d, d, bias=False) if every_step else None  # V
        self.start = nn.Linear(d, config.decoder_depth * d, bias=False) if every_step else None  # V'
        self.maxout = nn.Linear(2 * d + d_embedding, d // 2 * 2) if every_step else None  # O_h, O_y, O_c
        self.output = OutputLayer(d // 2 if every_step else d, embedding, config.tie_embedding)


class Seq2Seq(Model[Seq2SeqMemory, Seq2SeqState]):
    """See the module's docstring."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        paper = config.init == "paper"
        self.embedding = ByteEmbedding(config.d_embedding, 1.0)
        self.encoder = module_list(
            GRU(config.d_hidden if layer else config.d_embedding, config.d_hidden, config.gru_reset)
            for layer in range(config.encoder_depth)
        )
        self.decoder: Seq2SeqDecoder = Seq2SeqDecoder(config, self.embedding)
        initialise(self, partial(nn.init.normal_, std=0.01) if paper else None)

    def encode(self, src: Tensor, src_len: Tensor) -> Seq2SeqMemory:
        n = len(src)
        weight = self.embedding.weight
        if no_source(self.config.source, src):
            return Seq2SeqMemory(weight.new_zeros(n, self.config.decoder_depth, self.config.d_hidden))
        if self.config.reverse_source:
            src = reverse(src, src_len - 1)  # EOS stays at the end
        x = self.embedding(src)
        final = []
        for layer in self.encoder:
            x = layer(self._drop(x), x.new_zeros(n, self.config.d_hidden))
            final.append(last(x, src_len))
        return Seq2SeqMemory(torch.stack([final[layer] for layer in self.config.starts_from], dim=1))

    def start(self, memory: Seq2SeqMemory, beam: int = 1) -> Seq2SeqState:
        hidden = memory.final
        if self.decoder.start is not None:
            hidden = torch.tanh(self.decoder.start(self._context(memory))).view_as(hidden)
        return Seq2SeqState(hidden.repeat_interleave(beam, dim=0))

    def forward(self, tgt: Tensor, memory: Seq2SeqMemory, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        rows, t = tgt.shape
        embedded = self.embedding(tgt)
        x = embedded
        context = None
        if self.decoder.context is not None:
            beam = rows // len(memory.final)
            context = self._context(memory).repeat_interleave(beam, dim=0)
            context = context[:, None].expand(-1, t, -1)
            x = torch.cat([x, context], dim=-1)
        hidden = []
        for layer, h in zip(self.decoder.layers, state.hidden.unbind(1), strict=True):
            x = layer(self._drop(x), h)
            hidden.append(x[:, -1])
        if self.decoder.maxout is not None and context is not None:
            x = self.decoder.maxout(torch.cat([x, embedded, context], dim=-1))
            x = x.unflatten(-1, (-1, 2)).amax(dim=-1)
        logits: Tensor = self.decoder.output(self._drop(x))
        return logits, Seq2SeqState(torch.stack(hidden, dim=1))

    def reorder(self, state: Seq2SeqState, parents: Tensor) -> Seq2SeqState:
        return Seq2SeqState(state.hidden[parents])

    def receptive_field(self) -> int | None:
        return None

    def step_cost(self, source_bytes: int) -> int:
        return matrix_weights(self.decoder)

    def _context(self, memory: Seq2SeqMemory) -> Tensor:
        """c = tanh(V h_S): (n, d_hidden)."""
        assert self.decoder.context is not None
        return torch.tanh(self.decoder.context(memory.final[:, -1]))

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.config.dropout, self.training)
