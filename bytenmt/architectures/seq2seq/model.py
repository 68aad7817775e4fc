"""Recurrent sequence-to-sequence: Cho et al. 2014 (1406.1078) and Sutskever et al. 2014
(1409.3215).

The encoder reads x_1 … x_S into a fixed vector, the decoder unrolls it:

    h_t = GRU(e(x_t), h_{t-1}), h_0 = 0          layers/recurrent.py; reset before the product, z
    keeps context = "start":       s_0 = h_S in every layer, p(y_i) = softmax(W_o s_i)
    (Sutskever) context = "every_step":  c = tanh(V h_S), s_0 = tanh(V' c); every gate of the first
    layer also sees
        C c; t_i = O_h s_i + O_y e(y_{i-1}) + O_c c, pairs maxed, p(y_i) = softmax(W_o max(t_i))
        (Cho)

where s_i = GRU(e(y_{i-1}), s_{i-1}); without a source s_0 = 0. Stacks of different depths
stand top to top: layer l starts from the encoder's layer of its height, below the lowest from the
lowest.

Cho's decoder resets after the product, the context with the state (decoder_reset = "after",
reset_context): g = tanh(W e(y_{i-1}) + r * (U s_{i-1} + C c)). Sutskever's layers are LSTMs (cell =
"lstm"): s is then each layer's h, and its c starts from the encoder's last c, or with "every_step"
from tanh(V' c) as h does. init = "paper": N(0, 0.01^2), recurrent matrices orthogonal (Cho); of
LSTMs all parameters, biases too, uniform in [-0.08, 0.08] (Sutskever).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bytenmt.architectures.base import Model, byte_embedding
from bytenmt.architectures.cells import recurrent_layers
from bytenmt.architectures.model_program import NGRAM_TABLES
from bytenmt.architectures.seq2seq.config import Seq2SeqConfig
from bytenmt.layers.embedding import OutputLayer
from bytenmt.layers.ngram_tables import RecentBytes
from bytenmt.layers.recurrent import initialise, read_layers, reverse


class Seq2SeqMemory(NamedTuple):
    """The memory of n sources: the encoder's last states, from which the decoder starts."""

    # the encoder's last h (n, d_hidden) for each decoder layer, then c of LSTMs; zeros where the
    # source is empty
    final: tuple[Tensor, ...]


class Seq2SeqState(NamedTuple):
    """State of the decoder between two target bytes; rows are hypotheses, n * beam."""

    hidden: tuple[Tensor, ...]  # s_i (rows, d_hidden) of every layer, then, with LSTMs, c of each
    recent: RecentBytes = ()  # the last bytes read, for n-gram embeddings; else ()


class Seq2SeqDecoder(nn.Module):
    """Holds the decoder's parameters; it has no forward, Seq2Seq.forward uses its parts."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        d = config.d_hidden
        every_step = config.context == "every_step"
        d_seen = config.d_embedding + d * every_step
        self.layers = recurrent_layers(
            config.recurrent_cell, config.decoder_depth, d_seen, d, config.decoder_options
        )
        self.context: nn.Linear | None = None  # V
        self.start: nn.Linear | None = None  # V'
        self.maxout: nn.Linear | None = None  # O_h, O_y, O_c
        d_output = d
        if every_step:
            self.context = nn.Linear(d, d, bias=False)
            self.start = nn.Linear(d, config.n_states * d, bias=False)
            self.maxout = nn.Linear(d + d_seen, d // 2 * 2)
            d_output = d // 2
        self.output = OutputLayer(d_output)


class Seq2Seq(Model[Seq2SeqMemory, Seq2SeqState]):
    """Recurrent encoder and decoder without attention, which pass the source as one vector.

    Cho et al. 2014: GRUs, the vector is read at every step, maxout. Sutskever et al. 2014: LSTMs,
    the vector is only the decoder's first state, and the source is reversed.
    """

    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        d = config.d_hidden
        self.embedding = byte_embedding(config, 1.0)
        cell = config.recurrent_cell
        depth = config.encoder_depth
        options = config.encoder_options
        self.encoder = recurrent_layers(cell, depth, config.d_embedding, d, options)
        self.decoder: Seq2SeqDecoder = Seq2SeqDecoder(config)
        if config.init == "scaled":
            initialise(self)
        else:
            initialise(self, partial(nn.init.normal_, std=0.01))
        if config.init == "paper" and cell.paper_range:
            for name, parameter in self.named_parameters():
                if name != NGRAM_TABLES:
                    nn.init.uniform_(parameter, -cell.paper_range, cell.paper_range)

    def encode(self, src: Tensor, src_len: Tensor) -> Seq2SeqMemory:
        """Encode sources src (n, s) uint8, of src_len (n,) bytes with EOS; return their memory."""
        zero = (self.embedding.weight.new_zeros(len(src), self.config.d_hidden),)
        if not src.shape[1]:
            return Seq2SeqMemory(zero * self.config.n_states)
        if self.config.reverse_source:
            src = reverse(src, src_len - 1)  # EOS stays at the end
        before = zero * self.config.n_encoder_states
        _, final = read_layers(self.encoder, self.embedding(src), before, self.drop, src_len)
        return Seq2SeqMemory(self.config.first_states(final))

    def start(self, memory: Seq2SeqMemory, beam: int = 1) -> Seq2SeqState:
        """Return the state before the first byte, with `beam` adjacent rows for each source."""
        hidden = memory.final
        if self.decoder.start is not None:
            started = torch.tanh(self.decoder.start(self._context(memory)))
            hidden = started.chunk(len(hidden), dim=-1)
        recent = self.embedding.start(len(hidden[0]) * beam, hidden[0].device)
        return Seq2SeqState(tuple(part.repeat_interleave(beam, dim=0) for part in hidden), recent)

    def forward(
        self, tgt: Tensor, memory: Seq2SeqMemory, state: Seq2SeqState
    ) -> tuple[Tensor, Seq2SeqState]:
        """Read tgt (rows, t) uint8 after state; return logits (rows, t, 256) and the new state."""
        rows, t = tgt.shape
        x = seen = self.embedding(tgt, state.recent)
        if self.decoder.context is not None:
            beam = rows // len(memory.final[0])
            context = self._context(memory).repeat_interleave(beam, dim=0)
            x = seen = torch.cat([seen, context[:, None].expand(-1, t, -1)], dim=-1)
        x, hidden = read_layers(self.decoder.layers, x, state.hidden, self.drop)
        if self.decoder.maxout is not None:
            x = self.decoder.maxout(torch.cat([x, seen], dim=-1))
            x = x.unflatten(-1, (-1, 2)).amax(dim=-1)
        logits: Tensor = self.decoder.output(self.drop(x))
        return logits, Seq2SeqState(hidden, self.embedding.advance(state.recent, tgt))

    def _context(self, memory: Seq2SeqMemory) -> Tensor:
        """c = tanh(V h_S): (n, d_hidden)."""
        assert self.decoder.context is not None
        return torch.tanh(self.decoder.context(memory.final[self.config.decoder_depth - 1]))
