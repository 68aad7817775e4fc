"""Convolutional layers with a residual branch: with a gated linear unit, or with a tanh."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.layers.convolution import Convolution, RingTaps, scaled_linear
from bytenmt.layers.dropout import drop

HALF = math.sqrt(0.5)


class ResidualConvolution(nn.Module):
    """Base class: a convolution, and a linear map on the residual branch if the width changes.

    n_maps: how many maps of width d_output the convolution has. gain: the convolution is initialised to
    N(0, sqrt(gain p/n)), and the linear map to N(0, sqrt(1/n)), where n is the fan-in and p the probability
    that dropout keeps an input.
    """

    def __init__(
        self,
        d_input: int,
        d_output: int,
        kernel_width: int,
        dropout: float,
        dilation: int,
        weight_norm: bool,
        *,
        n_maps: int,
        gain: float,
    ) -> None:
        super().__init__()
        std = math.sqrt(gain * (1 - dropout) / (kernel_width * d_input))
        self.convolution = Convolution(
            d_input, n_maps * d_output, kernel_width, dilation, std=std, weight_norm=weight_norm
        )
        self.residual = residual_map(d_input, d_output, weight_norm)
        self.dropout = dropout

    def carried(self, x: Tensor) -> Tensor:
        """Compute the residual branch: (rows, t, d_input) to (rows, t, d_output)."""
        if self.residual is None:
            return x
        carried: Tensor = self.residual(x)
        return carried

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)


class GatedLayer(ResidualConvolution):
    """A convolution with a gated linear unit (GLU) and a residual branch.

    Initialised as in Gehring et al. 2017, section 3.5: N(0, sqrt(4p/n)) for maps before a GLU, and
    N(0, sqrt(p/n)) for others, where n is the fan-in and p the probability that dropout keeps an input.
    """

    STACKED: ClassVar = {"convolution": 2}  # maps that are stacked in its weight

    def __init__(
        self,
        d_input: int,
        d_output: int,
        kernel_width: int,
        dropout: float,
        dilation: int = 1,
        weight_norm: bool = True,
    ) -> None:
        sizes = d_input, d_output, kernel_width, dropout, dilation, weight_norm
        super().__init__(*sizes, n_maps=2, gain=4.0)

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """Apply the layer to x (n, s, d_input); return (n, s, d_output).

        mask (n, s) bool: true on real columns.
        """
        return (F.glu(self.convolution.centred(self._drop(x), mask)) + self.carried(x)) * HALF

    def causal(self, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        """Return the output of the GLU without the residual, (rows, t, d_output), and the ring after it."""
        h, ring = self.convolution.causal(self._drop(x), ring, taps)
        return F.glu(h), ring


class TanhLayer(ResidualConvolution):
    """tanh(conv(x) + x) for a source (Gehring et al. 2016, section 3.2); x is mapped if the width changes.

    Initialised as maps that are not before a GLU, see GatedLayer; the range of the paper is meant for its own
    scaling of gradients.
    """

    def __init__(
        self,
        d_input: int,
        d_output: int,
        kernel_width: int,
        dropout: float,
        dilation: int = 1,
        weight_norm: bool = True,
    ) -> None:
        sizes = d_input, d_output, kernel_width, dropout, dilation, weight_norm
        super().__init__(*sizes, n_maps=1, gain=1.0)

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """Apply the layer to x (n, s, d_input); return (n, s, d_output).

        mask (n, s) bool: true on real columns.
        """
        return torch.tanh(self.convolution.centred(self._drop(x), mask) + self.carried(x))


def residual_map(d_input: int, d_output: int, weight_norm: bool) -> nn.Module | None:
    """Return the linear map of a residual branch; None if the width does not change."""
    if d_input == d_output:
        return None
    return scaled_linear(d_input, d_output, math.sqrt(1 / d_input), weight_norm)


def pooled(x: Tensor, mask: Tensor, width: int) -> Tensor:
    """Average `width` columns around each column of x (n, s, d), counting zeros outside of the sentence.

    mask (n, s) bool: true on real columns. An even width has one more column to the right.
    """
    padded = F.pad(x * mask[:, :, None], (0, 0, (width - 1) // 2, width // 2))
    return F.avg_pool1d(padded.transpose(1, 2), width, stride=1).transpose(1, 2)
