"""Recurrent sequence-to-sequence: Cho et al. 2014 (1406.1078) and Sutskever et al. 2014 (1409.3215).

The encoder reads x_1 … x_S into a fixed vector, the decoder unrolls it:

    h_t = GRU(e(x_t), h_{t-1}), h_0 = 0                       reset before the product, z keeps
    context = "start":       s_0 = h_S in every layer                                    (Sutskever)
    context = "every_step":  c = tanh(V h_S), s_0 = tanh(V' c); every gate of the first layer also sees
        C c                                                                              (Cho)
    read_out_kind = "linear": p(y_i) = softmax(W_o s_i)
    read_out_kind = "maxout": t_i = O_h s_i + O_y e(y_{i-1}) + O_c c (the last with "every_step" alone),
        pairs maxed, p(y_i) = softmax(W_o max(t))

where s_i = GRU(e(y_{i-1}), s_{i-1}); without a source s_0 = 0. Stacks of different depths
stand top to top: layer l starts from the encoder's layer of its height, below the lowest from the lowest.

Cho's decoder resets after the product, the context with the state (decoder_reset = "after",
reset_context): g = tanh(W e(y_{i-1}) + r * (U s_{i-1} + C c)). Sutskever's layers are LSTMs
(cell = "lstm"): s is then each layer's h, and its c starts from the encoder's last c, or with "every_step"
from tanh(V' c) as h does.
init = "paper": N(0, 0.01^2), recurrent matrices orthogonal (Cho); of LSTMs all parameters, biases too,
uniform in [-0.08, 0.08] (Sutskever).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bytenmt.architectures.base import Model, byte_embedding, module_list, no_source
from bytenmt.architectures.seq2seq.config import Seq2SeqConfig
from bytenmt.layers.embedding import ByteEmbedding, OutputLayer
from bytenmt.layers.ngram_tables import RecentBytes
from bytenmt.layers.recurrent import GRU, LSTM, initialise, reverse


class Seq2SeqMemory(NamedTuple):
    """The encoder's last states, from which the decoder starts.

    final (n, states of the decoder, d_hidden): h_S for each decoder layer and for the context; with LSTMs the
    cells behind them; zero without a source.
    """

    final: Tensor


class Seq2SeqState(NamedTuple):
    """State of the decoder between two bytes.

    hidden (rows, states of the decoder, d_hidden): s_i of every layer, then, with LSTMs, their cells; recent:
    the last bytes read, see ByteEmbedding.
    """

    hidden: Tensor
    recent: RecentBytes = ()


class Seq2SeqDecoder(nn.Module):
    """The decoder's weights."""

    def __init__(self, config: Seq2SeqConfig, embedding: ByteEmbedding) -> None:
        super().__init__()
        d = config.d_hidden
        every_step = config.context == "every_step"
        d_seen = config.d_embedding + (d if every_step else 0)
        d_inside = d if config.reset_context else 0
        self.layers = module_list(
            LSTM(d if layer else d_seen, d)
            if config.cell == "lstm"
            else GRU(d if layer else d_seen, d, config.resets[1], d_inside=0 if layer else d_inside)
            for layer in range(config.decoder_depth)
        )
        self.context = nn.Linear(d, d, bias=False) if every_step else None  # V
        self.start = nn.Linear(d, config.n_states * d, bias=False) if every_step else None  # V'
        self.maxout = nn.Linear(d + d_seen, d // 2 * 2) if config.has_maxout else None  # O_h, O_y, O_c
        self.output = OutputLayer(d // 2 if config.has_maxout else d, embedding, config.tie_embedding)


class Seq2Seq(Model[Seq2SeqMemory, Seq2SeqState]):
    """Recurrent encoder and decoder without attention (Sutskever et al. 2014).

    The equations stand in the module's docstring.
    """

    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        d = config.d_hidden
        paper = config.init == "paper"
        self.embedding = byte_embedding(config, 1.0)
        self.encoder = module_list(
            LSTM(d if layer else config.d_embedding, d)
            if config.cell == "lstm"
            else GRU(d if layer else config.d_embedding, d, config.resets[0])
            for layer in range(config.encoder_depth)
        )
        self.decoder: Seq2SeqDecoder = Seq2SeqDecoder(config, self.embedding)
        initialise(self, partial(nn.init.normal_, std=0.01) if paper else None)
        if paper and config.cell == "lstm":
            tables = set(self.embedding.ngrams.parameters() if self.embedding.ngrams else ())
            for parameter in self.parameters():
                if parameter not in tables:
                    nn.init.uniform_(parameter, -0.08, 0.08)

    def encode(self, src: Tensor, src_len: Tensor) -> Seq2SeqMemory:
        n = len(src)
        zero = self.embedding.weight.new_zeros(n, self.config.d_hidden)
        if no_source(self.config.source, src):
            return Seq2SeqMemory(zero[:, None].repeat(1, self.config.n_states, 1))
        if self.config.reverse_source:
            src = reverse(src, src_len - 1)  # EOS stays at the end
        x = self.embedding(src)
        final = []
        for layer in self.encoder:
            x, after = layer.read(self.drop(x), [zero] * layer.PARTS, src_len)
            final.append(after)
        return Seq2SeqMemory(_stacked([final[layer] for layer in self.config.starts_from]))

    def start(self, memory: Seq2SeqMemory, beam: int = 1) -> Seq2SeqState:
        hidden = memory.final
        if self.decoder.start is not None:
            hidden = torch.tanh(self.decoder.start(self._context(memory))).view_as(hidden)
        recent = self.embedding.begin(len(hidden) * beam, hidden.device)
        return Seq2SeqState(hidden.repeat_interleave(beam, dim=0), recent)

    def forward(self, tgt: Tensor, memory: Seq2SeqMemory, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        rows, t = tgt.shape
        x = seen = self.embedding(tgt, state.recent)
        if self.decoder.context is not None:
            beam = rows // len(memory.final)
            context = self._context(memory).repeat_interleave(beam, dim=0)
            x = seen = torch.cat([seen, context[:, None].expand(-1, t, -1)], dim=-1)
        depth = self.config.decoder_depth
        hidden = []
        for index, layer in enumerate(self.decoder.layers):
            before = state.hidden[:, index::depth].unbind(1)
            x, after = layer.read(self.drop(x), before)
            hidden.append(after)
        if self.decoder.maxout is not None:
            x = self.decoder.maxout(torch.cat([x, seen], dim=-1))
            x = x.unflatten(-1, (-1, 2)).amax(dim=-1)
        logits: Tensor = self.decoder.output(self.drop(x))
        return logits, Seq2SeqState(_stacked(hidden), self.embedding.advance(state.recent, tgt))

    def _context(self, memory: Seq2SeqMemory) -> Tensor:
        """c = tanh(V h_S): (n, d_hidden)."""
        assert self.decoder.context is not None
        return torch.tanh(self.decoder.context(memory.final[:, self.config.decoder_depth - 1]))


def _stacked(parts: list[tuple[Tensor, ...]]) -> Tensor:
    """Stack the states of all layers, each (rows, d_hidden), to (rows, states, d_hidden).

    The h of all layers come first, then the c of all.
    """
    return torch.stack([part for of in zip(*parts, strict=True) for part in of], dim=1)
