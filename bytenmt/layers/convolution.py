"""Convolutions over bytes: centred ones for a source, and causal ones for a target.

A causal convolution of width k and dilation r needs the last (k-1)r columns of its input, which
ring buffers (layers/rings.py) hold.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.layers.rings import RingTaps
from bytenmt.layers.weight_norm import WeightNorm


class Convolution(nn.Module):
    """A convolution of width k over the t columns (bytes) of an input (rows, t, d_input).

    Call `centred` for a source, `causal` for a target; it has no forward. The weight is (d_output,
    k, d_input), the newest column last, normalised if weight_norm is true. std: of the
    initialisation; None: that of He et al. 2015.
    """

    def __init__(
        self,
        d_input: int,
        d_output: int,
        kernel_width: int,
        dilation: int = 1,
        std: float | None = None,
        weight_norm: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_width = kernel_width
        self.dilation = dilation
        std = (2 / (kernel_width * d_input)) ** 0.5 if std is None else std
        weight = torch.randn(d_output, kernel_width, d_input) * std
        self.normed = WeightNorm(weight) if weight_norm else None
        self.plain = None if weight_norm else nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(d_output))

    def weight(self) -> Tensor:
        """Return the weight (d_output, k, d_input), with weight normalisation if it is used."""
        weight: Tensor | None = self.plain if self.normed is None else self.normed()
        assert weight is not None
        return weight

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """Convolve x (n, s, d_input) around each column; return (n, s, d_output).

        mask (n, s) bool: true on real columns; padding is zeroed, because earlier biases make it
        non-zero. If (k - 1) * dilation is odd, the window has one more column to the right.
        """
        reach = (self.kernel_width - 1) * self.dilation
        x = F.pad(x * mask[:, :, None], (0, 0, reach // 2, reach - reach // 2))
        return self._convolve(x, self.dilation)

    def causal(self, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        """Convolve new columns x (rows, t, d_input) after old ones, which a ring buffer holds.

        ring (rows, capacity, d_input): the last inputs. taps: where it holds those that these t
        columns need, from RingTaps.from_clock. Returns (rows, t, d_output) and the ring with x:
        the same tensor, changed in place, or a new one if gradients are enabled.
        """
        columns, ring = taps.append(x, ring)
        return self._convolve(columns, taps.dilation), ring

    def _convolve(self, x: Tensor, dilation: int) -> Tensor:
        """Convolve x (rows, m, d_input) without padding: (rows, m - (k-1) dilation, d_output)."""
        if x.shape[1] == self.kernel_width and dilation == 1 or self.kernel_width == 1:
            columns = x if self.kernel_width == 1 else x.flatten(1)[:, None]
            return F.linear(columns, self.weight().flatten(1), self.bias)
        weight = self.weight().transpose(1, 2)
        return F.conv1d(x.transpose(1, 2), weight, self.bias, dilation=dilation).transpose(1, 2)
