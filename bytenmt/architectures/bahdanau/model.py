"""Additive attention: Bahdanau et al. 2015 (1409.0473), equations of the appendix.

    h_j = [h->_j ; h<-_j]                     forward and backward GRU, one shared embedding E
    s_0 = tanh(W_s h<-_1)
    e_ij = v^T tanh(W_a s_{i-1} + U_a h_j),  alpha_i = softmax_j(e_ij),  c_i = sum_j alpha_ij h_j
    s_i = GRU([E y_{i-1} ; c_i], s_{i-1})     z takes the new state
    t_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i, pairs maxed;  p(y_i) = softmax(W_o max(t_i))

Further layers of the encoder (n_encoder_layers), each both ways over the h_j of the one below, are
ours; h_j and h<-_1 are the top one's. The paper reads out of s_{i-1}; read_out = "current" reads
out of s_i. Without a source there is no c_i, and s_0 = 0.
init = "paper" (appendix B.1): recurrent matrices orthogonal, W_a and U_a N(0, 0.001^2), v and
biases 0, the rest N(0, 0.01^2); v starts at 0 either way, so that attention begins as the mean.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.architectures.bahdanau.config import BahdanauConfig
from bytenmt.architectures.base import AttentiveModel, byte_embedding, module_list
from bytenmt.layers.attention import AdditiveScore, attend, source_mask
from bytenmt.layers.deferred_matmul import deferred_product
from bytenmt.layers.embedding import OutputLayer
from bytenmt.layers.ngram_tables import RecentBytes
from bytenmt.layers.recurrent import GRU, initialise, reverse


class BahdanauMemory(NamedTuple):
    """The memory of n sources of s or fewer bytes: encoder outputs to attend to; s may be 0."""

    annotations: Tensor  # (n, s, 2 d_hidden): h_j, outputs of both GRUs; attention's values
    keys: Tensor  # (n, s, d_attention): U_a h_j, the part of the scores from the source
    source_len: Tensor  # (n,) int64, EOS included
    first: Tensor  # (n, d_hidden): backward GRU at the first byte, h<-_1; 0 without source


class BahdanauState(NamedTuple):
    """State of the decoder between two target bytes; rows are hypotheses, n * beam."""

    hidden: Tensor  # (rows, d_hidden): s_{i-1}, h of the GRU
    recent: RecentBytes = ()  # the last bytes read, for n-gram embeddings; else ()


class BothWays(nn.Module):
    """A bidirectional layer of the encoder: two GRUs whose outputs are concatenated.

    n_in: width of the input. d: units of each GRU; the output has 2 d.
    """

    def __init__(self, n_in: int, d: int) -> None:
        super().__init__()
        self.d = d
        self.forwards = GRU(n_in, d, update="take")
        self.backwards = GRU(n_in, d, update="take")

    def forward(self, x: Tensor, src_len: Tensor) -> Tensor:
        """Read x (n, s, n_in) both ways, only src_len (n,) columns of each; return (n, s, 2 d)."""
        zero = (x.new_zeros(len(x), self.d),)
        forwards, _ = self.forwards(x, zero)
        backwards, _ = self.backwards(reverse(x, src_len), zero)
        return torch.cat([forwards, reverse(backwards, src_len)], dim=-1)


class BahdanauEncoder(BothWays):
    """The bidirectional encoder: `forward` runs its lowest layer, `above` has the further layers.

    `keys` maps the outputs of the top layer to the attention's keys.
    """

    def __init__(self, config: BahdanauConfig) -> None:
        d = config.d_hidden
        super().__init__(config.d_embedding, d)
        self.above = module_list(BothWays(2 * d, d) for _ in range(config.n_encoder_layers - 1))
        self.keys = nn.Linear(2 * d, config.d_attention, bias=False)  # U_a


class BahdanauDecoder(nn.Module):
    """Holds the decoder's parameters; Bahdanau.forward_aligned uses them, there is no forward."""

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__()
        d = config.d_hidden
        d_embedding = config.d_embedding
        d_context = 2 * d if config.source else 0
        self.start = nn.Linear(d, d) if config.source else None  # W_s
        self.score = AdditiveScore(d, config.d_attention) if config.source else None
        self.cell = GRU(d_embedding + d_context, d, update="take")
        self.maxout = nn.Linear(d + d_embedding + d_context, 2 * config.d_maxout)  # U_o, V_o, C_o
        self.output = OutputLayer(config.d_maxout)


class Bahdanau(AttentiveModel[BahdanauMemory, BahdanauState]):
    """Bidirectional GRU encoder and GRU decoder, additive attention (Bahdanau et al. 2015)."""

    config: BahdanauConfig

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = byte_embedding(config, 1.0)
        self.encoder = BahdanauEncoder(config) if config.source else None
        self.decoder: BahdanauDecoder = BahdanauDecoder(config)
        if config.init == "scaled":
            initialise(self)
            return
        initialise(self, partial(nn.init.normal_, std=0.01))
        if self.encoder is not None and self.decoder.score is not None:
            nn.init.normal_(self.encoder.keys.weight, std=0.001)
            nn.init.normal_(self.decoder.score.query.weight, std=0.001)

    def encode(self, src: Tensor, src_len: Tensor) -> BahdanauMemory:
        """Encode sources src (n, s) uint8, of src_len (n,) bytes with EOS; return their memory."""
        d = self.config.d_hidden
        if self.encoder is None or not src.shape[1]:
            zero = self.embedding.weight.new_zeros(len(src), d)
            annotations = zero.new_zeros(len(src), 0, 2 * d)
            keys = zero.new_zeros(len(src), 0, self.config.d_attention)
            return BahdanauMemory(annotations, keys, src_len, zero)
        annotations = self.encoder(self.drop(self.embedding(src)), src_len)
        for layer in self.encoder.above:
            annotations = layer(self.drop(annotations), src_len)
        first = annotations[:, 0, d:]
        return BahdanauMemory(annotations, self.encoder.keys(annotations), src_len, first)

    def start(self, memory: BahdanauMemory, beam: int = 1) -> BahdanauState:
        """Return the state before the first byte, with `beam` adjacent rows for each source."""
        hidden = memory.first
        if self.decoder.start is not None:
            hidden = torch.tanh(self.decoder.start(hidden))
        recent = self.embedding.start(len(hidden) * beam, hidden.device)
        return BahdanauState(hidden.repeat_interleave(beam, dim=0), recent)

    def forward_aligned(
        self, tgt: Tensor, memory: BahdanauMemory, state: BahdanauState
    ) -> tuple[Tensor, BahdanauState, dict[int, Tensor]]:
        """Read tgt (rows, t) uint8; return logits (rows, t, 256), new state and attention weights.

        The weights are {1: (rows, t, s)}: how much the prediction after each byte of tgt attends to
        each source byte; {} in a model without a source.
        """
        n = len(memory.keys)
        d = self.config.d_hidden
        mask = source_mask(memory.source_len, memory.keys.shape[1])
        cell = self.decoder.cell
        x = self.drop(self.embedding(tgt, state.recent))
        recent = self.embedding.advance(state.recent, tgt)
        if self.decoder.score is None:
            after, _ = cell(x, (state.hidden,))
            before = torch.cat([state.hidden[:, None], after[:, :-1]], dim=1)
            return self._written(before, after, [x]), BahdanauState(after[:, -1], recent), {}
        weight = cell.input.weight
        input_share = F.linear(x.transpose(0, 1), weight[:, : x.shape[2]], cell.input.bias)
        context_share = deferred_product(weight[:, x.shape[2] :])
        values = deferred_product(memory.annotations.mT)
        step = cell.stepper()
        score = self.decoder.score.stepper(memory.keys)
        h = state.hidden
        states: list[Tensor] = []
        contexts: list[Tensor] = []
        alphas: list[Tensor] = []
        for x_t in input_share:
            context, alpha = attend(score(h.view(n, -1, d)), values, mask)
            context = context.reshape(len(h), -1)
            alphas.append(alpha.flatten(0, 1))
            (h,) = step(x_t + context_share(context), h)
            states.append(h)
            contexts.append(context)
        after = torch.stack(states, dim=1)
        before = torch.cat([state.hidden[:, None], after[:, :-1]], dim=1)
        logits = self._written(before, after, [x, torch.stack(contexts, dim=1)])
        return logits, BahdanauState(h, recent), {1: torch.stack(alphas, dim=1)}

    def _written(self, before: Tensor, after: Tensor, seen: list[Tensor]) -> Tensor:
        """Return logits (rows, t, 256) from s_{i-1}, s_i (rows, t, d_hidden) and other inputs."""
        read = before if self.config.read_out == "previous" else after
        pairs = self.decoder.maxout(torch.cat([read, *seen], dim=-1)).unflatten(-1, (-1, 2))
        logits: Tensor = self.decoder.output(self.drop(pairs.amax(dim=-1)))
        return logits
