"""Layers of a convolution and a residual branch around it: gated ones, and those with a tanh."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.layers.convolution import Convolution, Taps, scaled_linear
from bytenmt.layers.dropout import drop

HALF = math.sqrt(0.5)


class ResidualConvolution(nn.Module):
    """The base of both layers: a convolution, and the residual's map where the width changes.

    n_maps: of the convolution, each d_output wide; gain: its weights are N(0, sqrt(gain p/n)), the map's
    N(0, sqrt(1/n)), with n the fan-in and p the share of the input that dropout keeps.
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
        """The residual branch: (rows, t, d_input) -> (rows, t, d_output)."""
        if self.residual is None:
            return x
        carried: Tensor = self.residual(x)
        return carried

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)


class GatedLayer(ResidualConvolution):
    """A convolution with a gated linear unit, and the residual's map where the width changes.

    Initialised as section 3.5 of Gehring et al. 2017 has it: maps into a GLU N(0, sqrt(4p/n)), others
    N(0, sqrt(p/n)), with n the fan-in and p the share of the input that dropout keeps.
    """

    STACKED: ClassVar = {"convolution": 2}  # maps that stand on one another in its weight

    def __init__(
        self,
        d_input: int,
        d_output: int,
        kernel_width: int,
        dropout: float,
        dilation: int = 1,
        weight_norm: bool = True,
    ) -> None:
        given = d_input, d_output, kernel_width, dropout, dilation, weight_norm
        super().__init__(*given, n_maps=2, gain=4.0)

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (n, s, d_input), mask (n, s) bool -> (n, s, d_output)."""
        return (F.glu(self.convolution.centred(self._drop(x), mask)) + self.carried(x)) * HALF

    def causal(self, x: Tensor, ring: Tensor, taps: Taps) -> tuple[Tensor, Tensor]:
        """The GLU's output alone, (rows, t, d_output), and the ring after."""
        h, ring = self.convolution.causal(self._drop(x), ring, taps)
        return F.glu(h), ring


class TanhLayer(ResidualConvolution):
    """tanh(conv(x) + x), for a source (Gehring et al. 2016, section 3.2); a map of x where the width changes.

    Initialised as what does not lead into a GLU, see GatedLayer: the range of the paper is for its own
    scaling of the gradients.
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
        given = d_input, d_output, kernel_width, dropout, dilation, weight_norm
        super().__init__(*given, n_maps=1, gain=1.0)

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (n, s, d_input), mask (n, s) bool -> (n, s, d_output)."""
        return torch.tanh(self.convolution.centred(self._drop(x), mask) + self.carried(x))


def residual_map(d_input: int, d_output: int, weight_norm: bool) -> nn.Module | None:
    """The map of a residual branch; None where the width stays."""
    if d_input == d_output:
        return None
    return scaled_linear(d_input, d_output, math.sqrt(1 / d_input), weight_norm)


def pooled(x: Tensor, mask: Tensor, width: int) -> Tensor:
    """The mean of `width` columns around each, zero outside of the sentence, which counts too.

    x (n, s, d), mask (n, s) bool, true on real columns -> (n, s, d). An even width looks one column further
    to the right.
    """
    padded = F.pad(x * mask[:, :, None], (0, 0, (width - 1) // 2, width // 2))
    return F.avg_pool1d(padded.transpose(1, 2), width, stride=1).transpose(1, 2)
