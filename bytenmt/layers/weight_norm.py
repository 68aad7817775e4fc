"""Weight normalisation, and linear maps with and without it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class WeightNorm(nn.Module):
    """Weight normalisation (Salimans and Kingma 2016): w = g v / |v| for each output channel.

    Call it without arguments to get w. v (d_out, ...): the initial weight. g (d_out,) is
    initialised to |v|, so that w is v at first. In evaluation w is computed once for each version
    of v and g. A training pass discards it, because fused optimisers change weights without raising
    their version.
    """

    def __init__(self, v: Tensor) -> None:
        super().__init__()
        self.v = nn.Parameter(v)
        self.g = nn.Parameter(v.flatten(1).norm(dim=1))
        self._folded: tuple[object, Tensor] | None = None

    def forward(self) -> Tensor:
        """Return the normalised weight w (d_out, ...)."""
        if self.training or torch.is_grad_enabled():
            self._folded = None
            return self._weight()
        version = (self.v._version, self.g._version, self.v.data_ptr(), self.g.data_ptr())
        if self._folded is None or self._folded[0] != version:
            self._folded = (version, self._weight())
        return self._folded[1]

    def _weight(self) -> Tensor:
        length: Tensor = self.v.flatten(1).norm(dim=1)
        return self.v * (self.g / length).view(-1, *[1] * (self.v.dim() - 1))


class NormedLinear(nn.Module):
    """A linear map with weight normalisation, its weight drawn from N(0, std^2), its bias 0."""

    def __init__(self, d_input: int, d_output: int, std: float) -> None:
        super().__init__()
        self.weight = WeightNorm(torch.randn(d_output, d_input) * std)
        self.bias = nn.Parameter(torch.zeros(d_output))

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., d_input) to (..., d_output)."""
        return F.linear(x, self.weight(), self.bias)


def scaled_linear(d_input: int, d_output: int, std: float, weight_norm: bool) -> nn.Module:
    """Return a linear map, a NormedLinear if weight_norm, with weights of N(0, std^2), bias 0."""
    if weight_norm:
        return NormedLinear(d_input, d_output, std)
    linear = nn.Linear(d_input, d_output)
    nn.init.normal_(linear.weight, std=std)
    nn.init.zeros_(linear.bias)
    return linear
