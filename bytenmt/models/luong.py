"""Global attention with input feeding: Luong et al. 2015 (1508.04025).

    h-_s: top-layer states of a stacked LSTM over the source; its last h and c start the decoder's layers,
        the two stacks top to top; a decoder's layer below the encoder's lowest starts from that one
    h_t = LSTM([e(y_{t-1}) ; h~_{t-1}])        input feeding, h~_0 = 0; without it e(y_{t-1}) alone
    a_t = softmax_s(score(h_t, h-_s)),  c_t = sum_s a_t(s) h-_s
    h~_t = tanh(W_c [c_t ; h_t]),  p(y_t) = softmax(W_s h~_t)          no biases in these two
    score: dot h_t . h-_s | general h_t . (W_a h-_s) | concat v^T tanh(W_a [h_t ; h-_s])

Without a source h~_t = h_t, and the layers start at zero.
init = "paper" (section 4.1): uniform in [-0.1, 0.1], biases 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.config.schema import LuongConfig
from bytenmt.layers.attention import AdditiveScore, attend, source_mask
from bytenmt.layers.deferred_matmul import deferred
from bytenmt.layers.dropout import drop
from bytenmt.layers.embedding import ByteEmbedding, OutputLayer
from bytenmt.layers.recurrent import LSTM, initialise, last, reverse
from bytenmt.models.base import Model, matrix_weights, module_list, no_source


class LuongMemory(NamedTuple):
    """states (n, s, d_hidden): h-_s; keys (n, s, d_hidden): the source's share of the score;
    source_len (n,) int64; hidden, cell (n, layers of the decoder, d_hidden): the encoder's last that each
    starts from, zero without a source."""

    states: Tensor
    keys: Tensor
    source_len: Tensor
    hidden: Tensor
    cell: Tensor


class LuongState(NamedTuple):
    """hidden, cell (rows, layers of the decoder, d_hidden); attentional (rows, d_hidden): h~ of the step
    before, no columns without a source."""

    hidden: Tensor
    cell: Tensor
    attentional: Tensor


class LuongDecoder(nn.Module):
    """The decoder's weights."""

    def __init__(self, config: LuongConfig, embedding: ByteEmbedding) -> None:
        super().__init__()
        d = config.d_hidden
        d_first = config.d_embedding + (d if config.input_feeding else 0)
        self.layers = module_list(LSTM(d if layer else d_first, d) for layer in range(config.decoder_depth))
        self.score = AdditiveScore(d, d) if config.source and config.score == "concat" else None
        self.combine = nn.Linear(2 * d, d, bias=False) if config.source else None  # W_c
        self.output = OutputLayer(d, embedding, config.tie_embedding, bias=False)  # W_s


class Luong(Model[LuongMemory, LuongState]):
    """See the module's docstring."""

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        self.config = config
        d = config.d_hidden
        paper = config.init == "paper"
        self.embedding = ByteEmbedding(config.d_embedding, 1.0)
        self.encoder = module_list(
            LSTM(d if layer else config.d_embedding, d) for layer in range(config.encoder_depth)
        )
        # W_a (general) or its half that meets h-_s (concat): the same for every step, so the encoder's.
        keys = config.source and config.score != "dot"
        self.keys = nn.Linear(d, d, bias=False) if keys else None
        self.decoder: LuongDecoder = LuongDecoder(config, self.embedding)
        initialise(self, partial(nn.init.uniform_, a=-0.1, b=0.1) if paper else None)
        if self.decoder.score is not None:
            nn.init.uniform_(self.decoder.score.v, -0.1, 0.1)

    def encode(self, src: Tensor, src_len: Tensor) -> LuongMemory:
        n = len(src)
        zero = self.embedding.weight.new_zeros(n, self.config.d_hidden)
        if no_source(self.config.source, src):
            nothing = zero.new_zeros(n, 0, self.config.d_hidden)
            start = zero[:, None].repeat(1, self.config.decoder_depth, 1)
            return LuongMemory(nothing, nothing, src_len, start, start)
        if self.config.reverse_source:
            src = reverse(src, src_len - 1)  # EOS stays at the end
        x = self.embedding(src)
        hidden, cell = [], []
        for layer in self.encoder:
            x, cells = layer(self._drop(x), zero, zero)
            hidden.append(last(x, src_len))
            cell.append(last(cells, src_len))
        keys = x if self.keys is None else self.keys(x)
        first = (
            torch.stack([part[layer] for layer in self.config.starts_from], dim=1) for part in (hidden, cell)
        )
        return LuongMemory(x, keys, src_len, *first)

    def start(self, memory: LuongMemory, beam: int = 1) -> LuongState:
        hidden, cell = (part.repeat_interleave(beam, dim=0) for part in (memory.hidden, memory.cell))
        attentional = hidden.new_zeros(len(hidden), self.config.d_hidden if self.config.source else 0)
        return LuongState(hidden, cell, attentional)

    def forward(self, tgt: Tensor, memory: LuongMemory, state: LuongState) -> tuple[Tensor, LuongState]:
        return self._read(tgt, memory, state)[:2]

    def alignment(self, tgt: Tensor, memory: LuongMemory, state: LuongState) -> Tensor:
        weights = torch.stack(self._read(tgt, memory, state)[2], dim=1)
        if not self.config.reverse_source:
            return weights
        lengths = memory.source_len.repeat_interleave(len(weights) // len(memory.source_len)) - 1
        return reverse(weights.mT, lengths).mT

    def alignments(self, tgt: Tensor, memory: LuongMemory, state: LuongState) -> dict[int, Tensor]:
        """See evaluation.alignment.Attentive."""
        return {1: self.alignment(tgt, memory, state)}

    def _read(
        self, tgt: Tensor, memory: LuongMemory, state: LuongState
    ) -> tuple[Tensor, LuongState, list[Tensor]]:
        """forward, and each column's attention weights (rows, s), over the source as the encoder read it."""
        first, upper = self.decoder.layers[0], self.decoder.layers[1:]
        d_embedding = self.config.d_embedding
        x = self._drop(self.embedding(tgt))
        if self.decoder.combine is None:
            return *self._read_alone(x, state), []
        input_share = F.linear(x.transpose(0, 1), first.input.weight[:, :d_embedding], first.input.bias)
        feeding_share = deferred(first.input.weight[:, d_embedding:])
        steps = [layer.stepper() for layer in self.decoder.layers]
        shares = [deferred(layer.input.weight) for layer in upper]
        attend_to = self._attention(memory)
        hidden, cell = list(state.hidden.unbind(1)), list(state.cell.unbind(1))
        attentional = state.attentional
        outputs, weights = [], []
        for x_t in input_share:
            if self.config.input_feeding:
                x_t = x_t + feeding_share(attentional)
            hidden[0], cell[0] = steps[0](x_t, hidden[0], cell[0])
            for i, layer in enumerate(upper, start=1):
                share = shares[i - 1](self._drop(hidden[i - 1])) + layer.input.bias
                hidden[i], cell[i] = steps[i](share, hidden[i], cell[i])
            attentional, a_t = attend_to(self._drop(hidden[-1]))
            outputs.append(attentional)
            weights.append(a_t)
        logits: Tensor = self.decoder.output(self._drop(torch.stack(outputs, dim=1)))
        after = LuongState(torch.stack(hidden, dim=1), torch.stack(cell, dim=1), attentional)
        return logits, after, weights

    def _read_alone(self, x: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        """forward without a source, from the embedded bytes x (rows, t, d_embedding) on: layer after layer,
        h_t takes the place of h~_t."""
        hidden, cell = [], []
        for layer, h, c in zip(
            self.decoder.layers, state.hidden.unbind(1), state.cell.unbind(1), strict=True
        ):
            x, cells = layer(x if layer is self.decoder.layers[0] else self._drop(x), h, c)
            hidden.append(x[:, -1])
            cell.append(cells[:, -1])
        logits: Tensor = self.decoder.output(self._drop(x))
        after = LuongState(torch.stack(hidden, dim=1), torch.stack(cell, dim=1), state.attentional)
        return logits, after

    def reorder(self, state: LuongState, parents: Tensor) -> LuongState:
        return LuongState(*(part[parents] for part in state))

    def receptive_field(self) -> int | None:
        return None

    def step_cost(self, source_bytes: int) -> int:
        attention = 2 * source_bytes * self.config.d_hidden if self.config.source else 0
        return matrix_weights(self.decoder) + attention

    def _attention(self, memory: LuongMemory) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """The attention as a function, for one run of a loop: h_t (rows, d_hidden) -> h~_t of that shape and
        its weights a_t (rows, s)."""
        mask = source_mask(memory.source_len, memory.keys.shape[1])
        score = self.decoder.score
        scores = deferred(memory.keys) if score is None else score.stepper(memory.keys)
        assert self.decoder.combine is not None
        values, combine = deferred(memory.states.mT), deferred(self.decoder.combine.weight)

        def attend_to(top: Tensor) -> tuple[Tensor, Tensor]:
            query = top.view(len(memory.keys), -1, self.config.d_hidden)
            context, weights = attend(scores(query), values, mask)
            combined = torch.cat([context.reshape(top.shape), top], dim=-1)
            return torch.tanh(combine(combined)), weights.flatten(0, 1)

        return attend_to

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.config.dropout, self.training)
