"""ByteNet: Kalchbrenner et al. 2016 (1610.10099).

Blocks of 2d channels, LN over the channels of one position:

    block = "relu":            x + W_3 ReLU(LN(conv(ReLU(LN(W_1 ReLU(LN(x)))))))
        W_1 1x1 2d->d, conv 1xk with dilation r d->d, W_3 1x1 d->2d
    block = "multiplicative":  x + W_3 MU(LN(MU_r(LN(W_1 ReLU(LN(x))))))     the language model's
        MU(h) = g_1 tanh(g_2 h + g_3 u),  g_i = sigma(W_i * h),  u = tanh(W_4 * h)
        MU_r: the same with 1xk maps of dilation r

centred in the encoder, causal in the decoder, dilations repeated in sets. What is certain of the
paper's multiplicative block is the order of its maps; the places of its second and third LN are
ours.

The decoder is stacked on the encoder: position i reads [e(y_{i-1}) ; encoder column i], d channels
each, or their sum in 2d channels (stacking = "add"); the paper leaves open which. Dynamic unfolding
(section 3.2): the encoder emits |t^| = ceil(a |s| + b) columns for a source of |s| bytes, EOS
counted, and reads EOS where the source has ended; past |t^| the decoder reads zero. Two-layer head:
W_o ReLU(W x). Without a source position i reads e(y_{i-1}) alone, mapped to all 2d channels.

LN is layer normalisation, as in the paper's last version, and not the batch normalisation of its
first, which summaries of it quote: statistics over time and over a batch would show a decoder bytes
that follow, and would make a sentence depend on its padding and on its batch.

Recurrent ByteNets (the paper's first version): in the decoder, or in both nets, layers of 2d gated
recurrent units from a state of zero take the place of the blocks; column i still stands over
position i.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.architectures.base import Model, byte_embedding, module_list
from bytenmt.architectures.bytenet.config import ByteNetConfig
from bytenmt.architectures.cells import CELLS, recurrent_layers
from bytenmt.layers.attention import source_mask
from bytenmt.layers.convolution import Convolution
from bytenmt.layers.dropout import drop
from bytenmt.layers.embedding import OutputLayer
from bytenmt.layers.fused_norm import norm_relu
from bytenmt.layers.ngram_tables import RecentBytes
from bytenmt.layers.recurrent import RecurrentLayer, initialise
from bytenmt.layers.rings import Clock, Rings, RingTaps, ring_capacity
from bytenmt.utf8 import EOS


class ByteNetMemory(NamedTuple):
    """The memory of n sources: encoder outputs, of which target position i reads column i."""

    # u: the largest unfolded_len; (n, 0, d_channels) in a model without a source.
    columns: Tensor  # (n, u + 1, d_column): encoder outputs, zero from unfolded_len on
    unfolded_len: Tensor  # (n,) int64: the number of columns of each source


class ByteNetState(NamedTuple):
    """State of the decoder between two target bytes; rows are hypotheses, n * beam."""

    clock: Clock  # bytes read by each row, and which rows' rings hold its past
    # cyclic caches of the last inputs of each block's convolution: (rows, capacity, d)
    rings: Rings
    hidden: tuple[Tensor, ...]  # h of each recurrent layer: (rows, 2d)
    recent: RecentBytes = ()  # the last bytes read, for n-gram embeddings; else ()


class Block(nn.Module):
    """Base class of the residual blocks, from 2d to 2d channels; it has no forward.

    Call `centred` in the encoder, `causal` in the decoder. d: channels of the convolution inside;
    N_MAPS: maps of d channels that it computes, stacked in its weight.
    """

    N_MAPS: ClassVar = 1

    def __init__(self, d: int, kernel_width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        std = (1 / (kernel_width * d)) ** 0.5 if self.N_MAPS > 1 else None
        self.norm_in = nn.LayerNorm(2 * d)
        self.reduce = nn.Linear(2 * d, d)
        self.norm_mid = nn.LayerNorm(d)
        self.convolution = Convolution(d, self.N_MAPS * d, kernel_width, dilation, std=std)
        self.norm_out = nn.LayerNorm(d)
        if self.N_MAPS > 1:
            self.unit = nn.Linear(d, self.N_MAPS * d)
        self.expand = nn.Linear(d, 2 * d)
        self.dropout = dropout

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """Apply the block to source columns x (n, s, 2d); mask (n, s): true on real ones."""
        h = self._before(x)
        mixed = self.convolution.centred(h, mask)
        return x + drop(self._after(h, mixed), self.dropout, self.training)

    def causal(self, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        """Apply the block to the next t target columns x (rows, t, 2d).

        ring (rows, capacity, d): a cyclic cache of the convolution's last inputs; taps: where each
        row's last inputs are in it. Returns the output (rows, t, 2d) and the updated ring.
        """
        h = self._before(x)
        mixed, ring = self.convolution.causal(h, ring, taps)
        return x + drop(self._after(h, mixed), self.dropout, self.training), ring

    def _before(self, x: Tensor) -> Tensor:
        """Compute what the convolution reads: (rows, t, 2d) -> (rows, t, d)."""
        raise NotImplementedError

    def _after(self, h: Tensor, mixed: Tensor) -> Tensor:
        """Compute what is added to x, (rows, t, 2d), from the convolution's input and output."""
        raise NotImplementedError


class ResidualBlock(Block):
    """The residual block of ByteNet with ReLUs (section 3.5 of the paper, figure 3 left)."""

    def _before(self, x: Tensor) -> Tensor:
        return norm_relu(self.norm_mid, self.reduce(norm_relu(self.norm_in, x)))

    def _after(self, h: Tensor, mixed: Tensor) -> Tensor:
        added: Tensor = self.expand(norm_relu(self.norm_out, mixed))
        return added


class MultiplicativeBlock(Block):
    """The residual block of ByteNet with multiplicative units (figure 3 right of the paper)."""

    N_MAPS: ClassVar = 4
    STACKED: ClassVar = {"convolution": 4, "unit": 4}  # number of maps stacked in a weight

    def _before(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm_mid(self.reduce(norm_relu(self.norm_in, x)))
        return normed

    def _after(self, h: Tensor, mixed: Tensor) -> Tensor:
        h = self.norm_out(multiplicative(h, mixed))
        added: Tensor = self.expand(multiplicative(h, self.unit(h)))
        return added


def multiplicative(h: Tensor, gates: Tensor) -> Tensor:
    """Return ByteNet's multiplicative unit g_1 tanh(g_2 h + g_3 u) of h (..., d): (..., d).

    gates (..., 4d): g_1, g_2, g_3 and u, concatenated, before their sigmoids and tanh.
    """
    d = h.shape[-1]
    g_1, g_2, g_3 = torch.sigmoid(gates[..., : 3 * d]).chunk(3, dim=-1)
    return g_1 * torch.tanh(g_2 * h + g_3 * torch.tanh(gates[..., 3 * d :]))


BLOCKS: dict[str, type[Block]] = {"relu": ResidualBlock, "multiplicative": MultiplicativeBlock}


def _blocks(config: ByteNetConfig, dilations: Sequence[int]) -> Sequence[Block]:
    return module_list(
        BLOCKS[config.block](config.d_channels, config.kernel_width, r, config.dropout)
        for r in dilations
    )


def _recurrent(config: ByteNetConfig, n_layers: int) -> Sequence[RecurrentLayer]:
    """Build recurrent layers, which take the place of the blocks."""
    layers = recurrent_layers(CELLS["gru"], n_layers, 2 * config.d_channels, 2 * config.d_channels)
    for layer in layers:
        initialise(layer)
    return layers


class ByteNetEncoder(nn.Module):
    """Holds the encoder's parameters; it has no forward, ByteNet.encode uses its parts."""

    def __init__(self, config: ByteNetConfig) -> None:
        super().__init__()
        self.input = nn.Linear(config.d_embedding, 2 * config.d_channels)
        self.blocks = _blocks(config, config.encoder_schedule)
        self.layers = _recurrent(config, config.encoder_recurrence)
        self.output = nn.Linear(2 * config.d_channels, config.d_column)
        with torch.no_grad():
            for part in self.output.parameters():
                part.mul_(config.encoder_scale)


class ByteNetDecoder(nn.Module):
    """Holds the decoder's parameters; it has no forward, ByteNet.forward uses its parts."""

    def __init__(self, config: ByteNetConfig) -> None:
        super().__init__()
        self.input = nn.Linear(config.d_embedding, config.d_read)
        self.blocks = _blocks(config, config.decoder_schedule)
        self.layers = _recurrent(config, config.decoder_recurrence)
        self.head = nn.Linear(2 * config.d_channels, 2 * config.d_channels)
        self.output = OutputLayer(2 * config.d_channels)


class ByteNet(Model[ByteNetMemory, ByteNetState]):
    """ByteNet (Kalchbrenner et al. 2016): dilated convolutions, without attention.

    In a short training it learns poorly to copy new strings, such as numbers, to another position.
    """

    config: ByteNetConfig

    def __init__(self, config: ByteNetConfig) -> None:
        super().__init__()
        self.config = config
        self.dilations = config.decoder_schedule
        # The deviation is that of the encoder columns: a smaller embedding would drown beside them
        # in the first layer norm.
        self.embedding = byte_embedding(config, std=1.0)
        self.encoder = ByteNetEncoder(config) if config.source else None
        self.decoder: ByteNetDecoder = ByteNetDecoder(config)

    def unfolded_len(self, src_len: Tensor) -> Tensor:
        """Return the number of encoder columns for sources of src_len bytes with EOS: (n,) int64.

        It is unfolding_factor * src_len + unfolding_offset, rounded up; 0 for an empty source.
        """
        config = self.config
        columns = config.unfolding_factor * src_len.double() + config.unfolding_offset
        # A hair less, so that 1.2 * 15 in binary is 18 columns, not 19.
        return torch.where(src_len > 0, (columns - 1e-9).ceil().long(), 0)

    def encode(self, src: Tensor, src_len: Tensor) -> ByteNetMemory:
        """Encode sources src (n, s) uint8, of src_len (n,) bytes with EOS; return their memory."""
        n, s = src.shape
        unfolded_len = self.unfolded_len(src_len)
        if self.encoder is None:
            nothing = self.embedding.weight.new_zeros(n, 0, self.config.d_channels)
            return ByteNetMemory(nothing, unfolded_len)
        if s == 0:
            zero = self.embedding.weight.new_zeros(n, 1, self.config.d_column)
            return ByteNetMemory(zero, unfolded_len)
        read_len = torch.maximum(src_len, unfolded_len)  # past the source's end EOS is read
        width = max(s, int(read_len.max()))
        src = F.pad(src, (0, width - s), value=EOS)
        x = self.encoder.input(self.embedding(torch.where(source_mask(src_len, width), src, EOS)))
        mask = source_mask(read_len, width)
        for block in self.encoder.blocks:
            x = block.centred(x, mask)
        for layer in self.encoder.layers:
            x = self.drop(layer(x, (x.new_zeros(n, x.shape[2]),))[0])
        columns = self.encoder.output(x) * source_mask(unfolded_len, width)[:, :, None]
        return ByteNetMemory(F.pad(columns, (0, 0, 0, 1)), unfolded_len)

    def start(self, memory: ByteNetMemory, beam: int = 1) -> ByteNetState:
        """Return the state before the first byte, with `beam` adjacent rows for each source."""
        config = self.config
        columns = memory.columns
        rows = len(columns) * beam
        d = config.d_channels
        sizes = [ring_capacity(config.kernel_width, r) for r in self.dilations]
        clock = Clock.start(rows, max(sizes, default=1), columns.device)
        rings = Rings(tuple(columns.new_zeros(rows, size, d) for size in sizes))
        hidden = tuple(columns.new_zeros(rows, 2 * d) for _ in range(config.decoder_recurrence))
        recent = self.embedding.start(rows, columns.device)
        return ByteNetState(clock, rings, hidden, recent)

    def forward(
        self, tgt: Tensor, memory: ByteNetMemory, state: ByteNetState
    ) -> tuple[Tensor, ByteNetState]:
        """Read tgt (rows, t) uint8 after state; return logits (rows, t, 256) and the new state."""
        rows, t = tgt.shape
        clock = state.clock
        x = self.decoder.input(self.embedding(tgt, state.recent))
        if self.config.source:
            columns = self._columns(memory, clock.positions(t)).to(x.dtype)
            x = x + columns if self.config.adds_columns else torch.cat([x, columns], dim=-1)
        k = self.config.kernel_width
        rings = []
        hidden = []
        taps = {r: RingTaps.from_clock(clock, t, k, r) for r in dict.fromkeys(self.dilations)}
        for block, ring in zip(self.decoder.blocks, state.rings.buffers, strict=True):
            x, ring = block.causal(x, ring, taps[block.convolution.dilation])
            rings.append(ring)
        for layer, h in zip(self.decoder.layers, state.hidden, strict=True):
            x, (last,) = layer(x, (h,))
            hidden.append(last)
            x = self.drop(x)
        logits: Tensor = self.decoder.output(torch.relu(self.decoder.head(x)))
        recent = self.embedding.advance(state.recent, tgt)
        return logits, ByteNetState(clock.advance(t), Rings(tuple(rings)), tuple(hidden), recent)

    def _columns(self, memory: ByteNetMemory, positions: Tensor) -> Tensor:
        """Return the encoder column of each position (rows, t) int64: (rows, t, d or 2d)."""
        n = len(memory.columns)
        rows, t = positions.shape
        index = torch.minimum(positions.view(n, -1), memory.unfolded_len[:, None])
        sentence = torch.arange(n, device=index.device)[:, None]
        return memory.columns[sentence, index].view(rows, t, -1)
