"""The convolutional layers of ConvS2S and of the encoders of Gehring et al. 2016."""

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
