"""Global and local attention with input feeding: Luong et al. 2015 (1508.04025).

    h-_s: top-layer states of a stacked LSTM over the source; its last h and c start the decoder's
        layers, the two stacks top to top; a decoder's layer below the encoder's lowest starts from
        that one
    h_t = LSTM([e(y_{t-1}) ; h~_{t-1}])        input feeding, h~_0 = 0; without it e(y_{t-1}) alone
    a_t = softmax_s(score(h_t, h-_s)),  c_t = sum_s a_t(s) h-_s
    h~_t = tanh(W_c [c_t ; h_t]),  p(y_t) = softmax(W_s h~_t)          no biases in these two
    score: dot h_t . h-_s | general h_t . (W_a h-_s) | concat v^T tanh(W_a [h_t ; h-_s])
        | location (W_a h_t)_s, where bytes of the source for which W_a has no row are not seen
          (footnote 6); location_softmax = "twice": softmax_s(W_a h_t), once more in that of a_t
    attention: global, over all S bytes; or local (section 3.2), over s with |s - p_t| <= D:
        local-m p_t = min(t, S - 1) | local-p p_t = S sigma(v_p . tanh(W_p h_t)), not a whole number
    gaussian: a_t(s) or the score times exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D / 2; after the
        softmax the weights are not normalised again. Only through it is p_t learnt.

t and s count from 0, s in the order of the text even where the encoder reads it backwards. Without
a source, or with attention = "off", h~_t = h_t; without a source the layers start at zero, too.
init = "paper" (section 4.1): uniform in [-0.1, 0.1], biases 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.architectures.base import AttentiveModel, byte_embedding
from bytenmt.architectures.cells import recurrent_layers
from bytenmt.architectures.luong.config import LuongConfig
from bytenmt.layers.attention import (
    AdditiveScore,
    PredictedPosition,
    attend,
    gaussian,
    masked_softmax,
    source_mask,
)
from bytenmt.layers.deferred_matmul import Product, deferred_product
from bytenmt.layers.embedding import OutputLayer
from bytenmt.layers.ngram_tables import RecentBytes
from bytenmt.layers.recurrent import State, initialise, read_layers, reverse


class LuongMemory(NamedTuple):
    """The memory of n sources: encoder outputs that the decoder attends to and starts from."""

    states: Tensor  # (n, s, d_hidden): the encoder's top layer h-_s; s may be 0
    keys: Tensor  # (n, s, d_hidden): h-_s; W_a h-_s with score = "general" or "concat"
    source_len: Tensor  # (n,) int64, EOS included
    # initial h (n, d_hidden) of each decoder layer, then c; zero without a source
    final: tuple[Tensor, ...]


class LuongState(NamedTuple):
    """State of the decoder between two target bytes; rows are hypotheses, n * beam."""

    hidden: tuple[Tensor, ...]  # h (rows, d_hidden) of every layer, then c of every layer
    attentional: Tensor  # (rows, d_hidden): h~ of the step before; (rows, 0) without input feeding
    position: Tensor  # (rows, 1) int64: t, the bytes read; (rows, 0) unless attention = "local-m"
    recent: RecentBytes = ()  # the last bytes read, for n-gram embeddings; else ()


class LuongDecoder(nn.Module):
    """Holds the decoder's parameters; it has no forward, Luong.forward_aligned uses its parts."""

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        d = config.d_hidden
        d_first = config.d_embedding + d * config.feeds_back
        self.layers = recurrent_layers(config.recurrent_cell, config.decoder_depth, d_first, d)
        is_additive = config.has_attention and config.score == "concat"
        self.score = AdditiveScore(d, d) if is_additive else None
        n_locations = config.n_locations
        self.location = nn.Linear(d, n_locations, bias=False) if config.by_location else None  # W_a
        predicts = config.is_local and config.attention == "local-p"
        self.position = PredictedPosition(d) if predicts else None
        self.combine = nn.Linear(2 * d, d, bias=False) if config.has_attention else None  # W_c
        self.output = OutputLayer(d, bias=False)  # W_s


class Luong(AttentiveModel[LuongMemory, LuongState]):
    """Stacked LSTMs with global or local attention and input feeding: Luong et al. 2015."""

    config: LuongConfig

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        self.config = config
        d = config.d_hidden
        self.embedding = byte_embedding(config, 1.0)
        cell = config.recurrent_cell
        self.encoder = recurrent_layers(cell, config.encoder_depth, config.d_embedding, d)
        # W_a (general) or its half that meets h-_s (concat): the same for every step, so the
        # encoder's.
        has_keys = config.has_attention and config.score in ("general", "concat")
        self.keys = nn.Linear(d, d, bias=False) if has_keys else None
        self.decoder: LuongDecoder = LuongDecoder(config)
        if config.init == "scaled":
            initialise(self)
        else:
            initialise(self, partial(nn.init.uniform_, a=-0.1, b=0.1))
        for part in (self.decoder.score, self.decoder.position):
            if part is not None:
                nn.init.uniform_(part.v, -0.1, 0.1)

    def encode(self, src: Tensor, src_len: Tensor) -> LuongMemory:
        """Encode sources src (n, s) uint8, of src_len (n,) bytes with EOS; return their memory."""
        config = self.config
        zero = self.embedding.weight.new_zeros(len(src), config.d_hidden)
        if not src.shape[1]:
            nothing = zero.new_zeros(len(src), 0, config.d_hidden)
            return LuongMemory(nothing, nothing, src_len, (zero,) * config.n_states)
        if config.reverse_source:
            src = reverse(src, src_len - 1)  # EOS stays at the end
        before = (zero,) * config.n_encoder_states
        x, final = read_layers(self.encoder, self.embedding(src), before, self.drop, src_len)
        if not config.has_attention:
            x = x[:, :0]
        elif config.reverse_source and config.by_place:
            x = reverse(x, src_len - 1)
        keys = x if self.keys is None else self.keys(x)
        return LuongMemory(x, keys, src_len, config.first_states(final))

    def start(self, memory: LuongMemory, beam: int = 1) -> LuongState:
        """Return the state before the first byte, with `beam` adjacent rows for each source."""
        hidden = tuple(part.repeat_interleave(beam, dim=0) for part in memory.final)
        rows = len(hidden[0])
        device = hidden[0].device
        attentional = hidden[0].new_zeros(rows, self.config.d_hidden * self.config.feeds_back)
        by_step = int(self.config.is_local and self.config.attention == "local-m")
        position = torch.zeros(rows, by_step, dtype=torch.int64, device=device)
        return LuongState(hidden, attentional, position, self.embedding.start(rows, device))

    def forward_aligned(
        self, tgt: Tensor, memory: LuongMemory, state: LuongState
    ) -> tuple[Tensor, LuongState, dict[int, Tensor]]:
        """Read tgt (rows, t) uint8; return logits (rows, t, 256), new state and attention weights.

        The weights are {1: (rows, t, s)}: how much the prediction after each byte of tgt attends to
        each source byte; s is 0 in a model without attention.
        """
        x = self.embedding(tgt, state.recent)
        if self.config.feeds_back:
            attentional, weights, hidden = self._read_with_feeding(x, memory, state)
            fed = attentional[:, -1]
        else:
            attentional, weights, hidden = self._read_at_once(x, memory, state)
            fed = state.attentional
        logits: Tensor = self.decoder.output(self.drop(attentional))
        recent = self.embedding.advance(state.recent, tgt)
        after = LuongState(hidden, fed, state.position + tgt.shape[1], recent)
        if self.config.reverse_source and not self.config.by_place:
            beam = len(weights) // len(memory.source_len)
            lengths = memory.source_len.repeat_interleave(beam) - 1
            weights = reverse(weights.mT, lengths).mT
        return logits, after, {1: weights}

    def _read_with_feeding(
        self, x: Tensor, memory: LuongMemory, state: LuongState
    ) -> tuple[Tensor, Tensor, State]:
        """Read e(y) (rows, t, d_embedding) byte by byte, since h~_{t-1} is a part of each input.

        Returns h~ (rows, t, d_hidden), a (rows, t, s) over the source as the memory has it, and the
        last states of the layers.
        """
        x = self.drop(x)
        first = self.decoder.layers[0]
        upper = self.decoder.layers[1:]
        w_e, w_fed = torch.split(first.input.weight, [x.shape[2], self.config.d_hidden], dim=1)
        embedding_share = F.linear(x.transpose(0, 1), w_e, first.input.bias)
        feed = deferred_product(w_fed)
        steps = [layer.stepper() for layer in self.decoder.layers]
        inputs = [deferred_product(layer.input.weight) for layer in upper]
        attend_to = self._attention(memory)
        depth = len(steps)
        hidden = list(state.hidden[:depth])
        cell = list(state.hidden[depth:])
        attentional = state.attentional
        position = state.position
        outputs = []
        weights = []
        for e_t in embedding_share:
            hidden[0], cell[0] = steps[0](e_t + feed(attentional), hidden[0], cell[0])
            for i, layer in enumerate(upper, start=1):
                share = inputs[i - 1](self.drop(hidden[i - 1])) + layer.input.bias
                hidden[i], cell[i] = steps[i](share, hidden[i], cell[i])
            attentional, a_t = attend_to(self.drop(hidden[-1]), position)
            position = position + 1
            outputs.append(attentional)
            weights.append(a_t)
        return torch.stack(outputs, dim=1), torch.stack(weights, dim=1), (*hidden, *cell)

    def _read_at_once(
        self, x: Tensor, memory: LuongMemory, state: LuongState
    ) -> tuple[Tensor, Tensor, State]:
        """Read layer after layer over all columns, then attend from all; see _read_with_feeding."""
        rows, t, _ = x.shape
        x, hidden = read_layers(self.decoder.layers, x, state.hidden, self.drop)
        weights = x.new_zeros(rows, t, 0)
        if self.config.has_attention:
            position = state.position
            if position.shape[1]:
                position = position + torch.arange(t, device=x.device)
            x, weights = self._attention(memory)(self.drop(x).flatten(0, 1), position)
            x = x.view(rows, t, -1)
            weights = weights.view(rows, t, -1)
        return x, weights, hidden

    def _attention(self, memory: LuongMemory) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return the attention as a function of h_t and t, for one run of a loop.

        It takes h_t of q queries a sentence (n * q, d_hidden), and t of each (empty where
        LuongState has none); it returns h~_t (n * q, d_hidden) and the weights a_t (n * q, s).
        """
        config = self.config
        n_columns = memory.keys.shape[1]
        source_len = memory.source_len
        if config.by_location:
            source_len = source_len.clamp(max=config.n_locations)
        mask = source_mask(source_len, n_columns)
        scores_of = self._scores(memory.keys)
        centre_of = self._centres(source_len)
        assert self.decoder.combine is not None
        values = deferred_product(memory.states.mT)
        combine = deferred_product(self.decoder.combine.weight)

        def attend_to(top: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
            query = top.view(len(mask), -1, config.d_hidden)
            scores = scores_of(query)
            seen = mask
            factors: list[Tensor] = []
            columns = torch.arange(n_columns, device=top.device)
            if config.is_local:
                centres = centre_of(query, position)
                distance = columns - centres[:, :, None]
                seen = mask[:, None] & (distance.detach().abs() <= config.window)
                if config.gaussian_use != "none":
                    factors.append(gaussian(distance, config.window))
            if config.by_location and config.location_softmax == "twice":
                scores = masked_softmax(scores, seen)
            if config.gaussian_use == "inside":
                scores = scores * factors.pop().to(scores.dtype)
            context, weights = attend(scores, values, seen, *factors)
            combined = torch.cat([context.reshape(top.shape), top], dim=-1)
            return torch.tanh(combine(combined)), weights.flatten(0, 1)

        return attend_to

    def _scores(self, keys: Tensor) -> Product:
        """Return the score of keys (n, s, d_hidden) as a function of h_t (n, q, d_hidden)."""
        if self.decoder.score is not None:  # concat (equation 7): v . tanh(W_a [h_t ; h-_s])
            return self.decoder.score.stepper(keys)
        if self.decoder.location is None:
            # dot (equation 7): h_t . h-_s; general (equation 7): h_t . (W_a h-_s), by the keys
            return deferred_product(keys)
        # location (equation 8): (W_a h_t)_s, which no h-_s changes
        product = deferred_product(self.decoder.location.weight[: keys.shape[1]])
        behind = max(0, keys.shape[1] - self.config.n_locations)

        def by_location(query: Tensor) -> Tensor:
            padded = F.pad(product(query.flatten(0, 1)), (0, behind))
            return padded.view(*query.shape[:2], keys.shape[1])

        return by_location

    def _centres(self, source_len: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """Return local attention's p_t as a function h_t (n, q, d_hidden), t -> (n, q)."""
        if self.decoder.position is not None:
            predict = self.decoder.position.stepper(source_len)
            return lambda query, position: predict(query)

        def monotonic(query: Tensor, position: Tensor) -> Tensor:
            centres = torch.minimum(position.view(query.shape[:2]), source_len[:, None] - 1)
            return centres.to(torch.promote_types(query.dtype, torch.float32))

        return monotonic
