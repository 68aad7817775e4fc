"""The three encoders of a ConvS2S: gated convolutions (Gehring et al. 2017, section 3.1), a pooling one and
two stacks of convolutions, one for keys and one for values (Gehring et al. 2016, section 3).

    gated:    z^0 = Lin(e);  z^l = (GLU(conv(z^{l-1})) + z^{l-1}) sqrt(1/2);  z = Lin(z^L);  keys z,
              values (z + e) sqrt(1/2)
    pooling:  z_j = (1/k) sum_{|t| <= k/2} e_{j+t};  keys z, values e
    conv:     y^l = tanh(conv(y^{l-1}) + y^{l-1}), y^0 = e;  keys CNN-a(e), values CNN-c(e)

e comes with its position. Of "conv" a width that is not the embedding's is reached and left by a linear map.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.architectures.base import module_list
from bytenmt.architectures.convs2s.config import ConvS2SConfig
from bytenmt.layers.convolution import Convolution, RingTaps, scaled_linear
from bytenmt.layers.dropout import drop
from bytenmt.layers.embedding import PositionEmbedding, SinusoidalPositions

ROOT_HALF = math.sqrt(0.5)
LayerSize = tuple[int, int, int]  # channels, kernel width, dilation
L = TypeVar("L", bound="ResidualConvolution")


class ResidualConvolution(nn.Module):
    """A convolution beside a residual branch, which is a linear map where the width changes.

    Initialised as in Gehring et al. 2017, section 3.5: N(0, sqrt(GAIN p/n)), where n is the fan-in and p the
    probability that dropout keeps an input. N_MAPS: of the layer's width, stacked in the convolution.
    """

    N_MAPS: ClassVar = 1
    GAIN: ClassVar = 1.0

    def __init__(self, config: ConvS2SConfig, d_input: int, size: LayerSize) -> None:
        super().__init__()
        (width, k, dilation), norm = size, config.weight_norm
        std = math.sqrt(self.GAIN * (1 - config.dropout) / (k * d_input))
        self.convolution = Convolution(d_input, self.N_MAPS * width, k, dilation, std, norm)
        self.residual = None
        if d_input != width:
            self.residual = scaled_linear(d_input, width, math.sqrt(1 / d_input), norm)
        self.dropout = config.dropout

    def carried(self, x: Tensor) -> Tensor:
        """Compute the residual branch: (rows, t, d_input) to (rows, t, width)."""
        return x if self.residual is None else self.residual(x)

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)


class GatedLayer(ResidualConvolution):
    """(GLU(conv(x)) + x) sqrt(1/2) (Gehring et al. 2017)."""

    N_MAPS: ClassVar = 2
    GAIN: ClassVar = 4.0
    STACKED: ClassVar = {"convolution": 2}  # maps that stand on one another in a weight

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (n, s, d_input), mask (n, s) bool, true on real columns -> (n, s, width)."""
        return (F.glu(self.convolution.centred(self._drop(x), mask)) + self.carried(x)) * ROOT_HALF

    def causal(self, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        """Return the GLU without the residual, (rows, t, width), and the ring after it."""
        h, ring = self.convolution.causal(self._drop(x), ring, taps)
        return F.glu(h), ring


class TanhLayer(ResidualConvolution):
    """tanh(conv(x) + x) (Gehring et al. 2016, section 3.2, whose initial range goes with its gradients)."""

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (n, s, d_input), mask (n, s) bool, true on real columns -> (n, s, width)."""
        return torch.tanh(self.convolution.centred(self._drop(x), mask) + self.carried(x))


def stack(kind: type[L], config: ConvS2SConfig, sizes: Sequence[LayerSize]) -> Sequence[L]:
    """Build layers on top of each other; the first one reads as many channels as it has."""
    widths = [sizes[0][0], *(width for width, _, _ in sizes)]
    return module_list(kind(config, width, size) for width, size in zip(widths, sizes, strict=False))


def pooled(x: Tensor, mask: Tensor, width: int) -> Tensor:
    """Average `width` columns around each column of x (n, s, d), counting zeros outside of the sentence.

    mask (n, s) bool: true on real columns. An even width has one more column to the right.
    """
    padded = F.pad(x * mask[:, :, None], (0, 0, (width - 1) // 2, width // 2))
    return F.avg_pool1d(padded.transpose(1, 2), width, stride=1).transpose(1, 2)


class GatedEncoder(nn.Module):
    """The encoder's weights."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        f, keep, norm = config.d_embedding, 1 - config.dropout, config.weight_norm
        self.positions = position_table(config)
        first, last = config.encoder_stack[0][0], config.encoder_stack[-1][0]
        self.input = scaled_linear(f, first, math.sqrt(keep / f), norm)
        self.layers = stack(GatedLayer, config, config.encoder_stack)
        self.output = scaled_linear(last, f, math.sqrt(1 / last), norm)

    def forward(self, e: Tensor, mask: Tensor, gradient: float) -> tuple[Tensor, Tensor]:
        """e (n, s, d_embedding), mask (n, s) bool, true on real columns -> keys and values, each as e.
        gradient: the factor of that into the stack."""
        z = self.input(e)
        for layer in self.layers:
            z = layer.centred(z, mask)
        z = scale_gradient(self.output(z), gradient)
        return z, (z + e) * ROOT_HALF


class PoolingEncoder(nn.Module):
    """The mean of the neighbours: no weights but positions."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.positions = position_table(config)
        self.width = config.pooling_width

    def forward(self, e: Tensor, mask: Tensor, gradient: float) -> tuple[Tensor, Tensor]:
        """See GatedEncoder; there is no stack whose gradient would be scaled."""
        return pooled(e, mask, self.width), e


class TanhStack(nn.Module):
    """CNN-a or CNN-c."""

    def __init__(self, config: ConvS2SConfig, layers: Sequence[LayerSize]) -> None:
        super().__init__()
        f, keep, norm = config.d_embedding, 1 - config.dropout, config.weight_norm
        first, last = layers[0][0], layers[-1][0]
        self.input = None if first == f else scaled_linear(f, first, math.sqrt(keep / f), norm)
        self.layers = stack(TanhLayer, config, layers)
        self.output = None if last == f else scaled_linear(last, f, math.sqrt(1 / last), norm)

    def forward(self, e: Tensor, mask: Tensor) -> Tensor:
        """e (n, s, d_embedding), mask (n, s) bool -> as e."""
        y = e if self.input is None else self.input(e)
        for layer in self.layers:
            y = layer.centred(y, mask)
        return y if self.output is None else self.output(y)


class TwoStackEncoder(nn.Module):
    """A stack for the keys and one for the values."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.positions = position_table(config)
        self.keys = TanhStack(config, config.encoder_stack)
        self.values = TanhStack(config, config.value_stack)

    def forward(self, e: Tensor, mask: Tensor, gradient: float) -> tuple[Tensor, Tensor]:
        """See GatedEncoder; the gradients into both stacks are scaled."""
        return scale_gradient(self.keys(e, mask), gradient), scale_gradient(self.values(e, mask), gradient)


Encoder = GatedEncoder | PoolingEncoder | TwoStackEncoder
ENCODERS: dict[str, type[Encoder]] = {
    "gated": GatedEncoder,
    "pooling": PoolingEncoder,
    "conv": TwoStackEncoder,
}


def position_table(config: ConvS2SConfig) -> PositionEmbedding | None:
    """Build the table of positions that is added to a side's embeddings; None where there is none."""
    if config.position_kind == "off":
        return None
    kind = PositionEmbedding if config.position_kind == "learned" else SinusoidalPositions
    return kind(config.n_positions, config.d_embedding)


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """x itself, its gradient multiplied by factor."""
    return x.detach() + (x - x.detach()) * factor
