"""The three encoders of a ConvS2S: gated convolutions, a pooling one, and two stacks.

The gated one is of Gehring et al. 2017, section 3.1, the others of Gehring et al. 2016, section 3;
of the two stacks of convolutions one makes keys and one values.

    gated:    z^0 = Lin(e);  z^l = (GLU(conv(z^{l-1})) + z^{l-1}) sqrt(1/2);  z = Lin(z^L);  keys z,
              values (z + e) sqrt(1/2)
    pooling:  z_j = (1/k) sum_{|t| <= k/2} e_{j+t};  keys z, values e
    conv:     y^l = tanh(conv(y^{l-1}) + y^{l-1}), y^0 = e;  keys CNN-a(e), values CNN-c(e)

e comes with its position. In "conv" linear maps lead to a width that is not the embedding's, and
back from it.
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
from bytenmt.layers.convolution import Convolution
from bytenmt.layers.dropout import drop
from bytenmt.layers.embedding import PositionEmbedding, SinusoidalPositions
from bytenmt.layers.rings import RingTaps
from bytenmt.layers.weight_norm import scaled_linear

ROOT_HALF = math.sqrt(0.5)
LayerSize = tuple[int, int, int]  # channels, kernel width, dilation
L = TypeVar("L", bound="ResidualConvolution")


class ResidualConvolution(nn.Module):
    """Base class of convolutions with a residual branch, a linear map if the width changes.

    Initialised as in Gehring et al. 2017, section 3.5: N(0, sqrt(GAIN p/n)), where n is the fan-in
    and p the probability that dropout keeps an input. d_input: channels of the input; size:
    channels of the output (d_output), kernel width and dilation. N_MAPS: the convolution has
    N_MAPS * d_output channels.
    """

    N_MAPS: ClassVar = 1
    GAIN: ClassVar = 1.0

    def __init__(self, config: ConvS2SConfig, d_input: int, size: LayerSize) -> None:
        super().__init__()
        width, k, dilation = size
        norm = config.weight_norm
        std = math.sqrt(self.GAIN * (1 - config.dropout) / (k * d_input))
        self.convolution = Convolution(d_input, self.N_MAPS * width, k, dilation, std, norm)
        self.residual: nn.Module = nn.Identity()
        if d_input != width:
            self.residual = scaled_linear(d_input, width, math.sqrt(1 / d_input), norm)
        self.dropout = config.dropout

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)


class GatedLayer(ResidualConvolution):
    """A gated convolution, (GLU(conv(x)) + x) sqrt(1/2) (Gehring et al. 2017).

    It has no forward: call `centred` in the encoder, `causal` in the decoder.
    """

    N_MAPS: ClassVar = 2
    GAIN: ClassVar = 4.0
    STACKED: ClassVar = {"convolution": 2}  # number of maps stacked in a weight

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map x (n, s, d_input) to (n, s, d_output); mask (n, s) bool: true on real columns."""
        h = F.glu(self.convolution.centred(self._drop(x), mask))
        added: Tensor = h + self.residual(x)
        return added * ROOT_HALF

    def causal(self, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        """Return GLU(conv(x)), without the residual, for the next t columns x (rows, t, d_input).

        ring (rows, capacity, d_input): a cyclic cache of the last inputs; taps: where each row's
        last inputs are in it. Returns (rows, t, d_output) and the updated ring.
        """
        h, ring = self.convolution.causal(self._drop(x), ring, taps)
        return F.glu(h), ring


class TanhLayer(ResidualConvolution):
    """A convolution with a residual, tanh(conv(x) + x) (Gehring et al. 2016, section 3.2)."""

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map x (n, s, d_input) to (n, s, d_output); mask (n, s) bool: true on real columns."""
        return torch.tanh(self.convolution.centred(self._drop(x), mask) + self.residual(x))


def build_stack(kind: type[L], config: ConvS2SConfig, sizes: Sequence[LayerSize]) -> Sequence[L]:
    """Build a stack of layers of class `kind`; the first one's input is as wide as its output.

    sizes: channels, kernel width and dilation of each layer, the lowest first.
    """
    widths = [sizes[0][0], *(width for width, _, _ in sizes)]
    return module_list(kind(config, d, size) for d, size in zip(widths, sizes, strict=False))


def mean_pool(x: Tensor, mask: Tensor, width: int) -> Tensor:
    """Average `width` columns around each column of x (n, s, d); return (n, s, d).

    mask (n, s) bool: true on real columns. Columns outside of the sentence count as zeros. An even
    width has one more column to the right.
    """
    padded = F.pad(x * mask[:, :, None], (0, 0, (width - 1) // 2, width // 2))
    return F.avg_pool1d(padded.transpose(1, 2), width, stride=1).transpose(1, 2)


class GatedEncoder(nn.Module):
    """The encoder of gated convolutions (Gehring et al. 2017)."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        f = config.d_embedding
        keep = 1 - config.dropout
        norm = config.weight_norm
        self.positions = position_table(config)
        first = config.encoder_stack[0][0]
        last = config.encoder_stack[-1][0]
        self.input = scaled_linear(f, first, math.sqrt(keep / f), norm)
        self.layers = build_stack(GatedLayer, config, config.encoder_stack)
        self.output = scaled_linear(last, f, math.sqrt(1 / last), norm)

    def forward(self, e: Tensor, mask: Tensor, gradient: float) -> tuple[Tensor, Tensor]:
        """Return keys and values, (n, s, d_embedding) each, of embeddings e of the same shape.

        mask (n, s) bool: true on real columns; gradient: factor that scales the gradient on its way
        back into the stack.
        """
        z = self.input(e)
        for layer in self.layers:
            z = layer.centred(z, mask)
        z = scale_gradient(self.output(z), gradient)
        return z, (z + e) * ROOT_HALF


class PoolingEncoder(nn.Module):
    """The pooling encoder: keys are means of neighbouring embeddings, values the embeddings.

    Its only weights are those of learned positions.
    """

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.positions = position_table(config)
        self.width = config.pooling_width

    def forward(self, e: Tensor, mask: Tensor, gradient: float) -> tuple[Tensor, Tensor]:
        """Return keys and values, (n, s, d_embedding) each, of embeddings e of the same shape.

        mask (n, s) bool: true on real columns; gradient is ignored, since there is no stack.
        """
        return mean_pool(e, mask, self.width), e


class TanhStack(nn.Module):
    """A stack of tanh convolutions: (n, s, d_embedding) embeddings to outputs of the same shape.

    The encoder "conv" has one for the keys of attention and one for its values.
    """

    def __init__(self, config: ConvS2SConfig, layers: Sequence[LayerSize]) -> None:
        super().__init__()
        f = config.d_embedding
        keep = 1 - config.dropout
        norm = config.weight_norm
        first = layers[0][0]
        last = layers[-1][0]
        self.input: nn.Module = nn.Identity()
        if first != f:
            self.input = scaled_linear(f, first, math.sqrt(keep / f), norm)
        self.layers = build_stack(TanhLayer, config, layers)
        self.output: nn.Module = nn.Identity()
        if last != f:
            self.output = scaled_linear(last, f, math.sqrt(1 / last), norm)

    def forward(self, e: Tensor, mask: Tensor) -> Tensor:
        """Map embeddings e (n, s, d_embedding) to the same shape; mask (n, s): real columns."""
        y: Tensor = self.input(e)
        for layer in self.layers:
            y = layer.centred(y, mask)
        mapped: Tensor = self.output(y)
        return mapped


class TwoStackEncoder(nn.Module):
    """The "conv" encoder: a stack of convolutions for the keys and one for the values."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.positions = position_table(config)
        self.keys = TanhStack(config, config.encoder_stack)
        self.values = TanhStack(config, config.value_stack)

    def forward(self, e: Tensor, mask: Tensor, gradient: float) -> tuple[Tensor, Tensor]:
        """Return keys and values, (n, s, d_embedding) each, of embeddings e of the same shape.

        mask (n, s) bool: true on real columns; gradient: factor that scales the gradient on its way
        back into both stacks.
        """
        keys = scale_gradient(self.keys(e, mask), gradient)
        values = scale_gradient(self.values(e, mask), gradient)
        return keys, values


Encoder = GatedEncoder | PoolingEncoder | TwoStackEncoder
ENCODERS: dict[str, type[Encoder]] = {
    "gated": GatedEncoder,
    "pooling": PoolingEncoder,
    "conv": TwoStackEncoder,
}


def position_table(config: ConvS2SConfig) -> PositionEmbedding | None:
    """Build the configured position embeddings of encoder or decoder; None if they are off."""
    if config.position_kind == "off":
        return None
    if config.position_kind == "sinusoidal":
        return SinusoidalPositions(config.n_positions, config.d_embedding)
    return PositionEmbedding(config.n_positions, config.d_embedding)


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """Return x unchanged; the backward pass multiplies its gradient by `factor`."""
    return x.detach() + (x - x.detach()) * factor
