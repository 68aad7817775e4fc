"""Convolutions over bytes: centred ones for a source, and causal ones with ring buffers of past
inputs.

A causal convolution of width k and dilation r needs the last (k-1)r columns of its input. Its ring
buffer holds the column of position q at index q mod capacity, so that a step writes one column and
reads k taps, whatever the dilation. Beams never copy a ring: `Clock.ancestors` tells which row's
ring holds the column of a position, and reordering beams permutes that small table alone.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Clock(NamedTuple):
    """The position of each row (hypothesis) in its text, and the rows whose ring buffers hold its
    past.

    A part of a decoder's state. A column is the vector of one byte; h is the capacity of the
    largest ring.
    """

    position: Tensor  # (rows,) int64: columns read so far, which is the position of the next column
    # [row, q mod h] is that of the column of position q; 0: the row's own rings. Offsets are
    # relative, so that all rows of a sentence can be moved together.
    ancestors: (
        Tensor  # (rows, h) int64: offset from a row to the row whose rings hold each past column
    )

    @staticmethod
    def start(rows: int, history: int, device: torch.device) -> Clock:
        """Return the clock of rows at position 0, each its own ancestor. history: h, columns of a
        ring."""
        position = torch.zeros(rows, dtype=torch.int64, device=device)
        return Clock(position, position[:, None].repeat(1, history))

    def positions(self, t: int) -> Tensor:
        """Return the positions of the next t columns: (rows, t) int64."""
        return self.position[:, None] + torch.arange(t, device=self.position.device)

    def advance(self, t: int) -> Clock:
        """Return the clock after t more columns, which each row has written into its own rings."""
        history = self.ancestors.shape[1]
        new = self.positions(t)[:, -history:] % history
        return Clock(self.position + t, self.ancestors.scatter(1, new, torch.zeros_like(new)))

    def reorder(self, parents: Tensor) -> Clock:
        """Return the clock in which row i continues row parents[i]; parents (rows,) int64."""
        moved = parents - torch.arange(len(parents), device=parents.device)
        return Clock(self.position[parents], self.ancestors[parents] + moved[:, None])


class RingTaps(NamedTuple):
    """Indices by which a chunk of t columns reads old columns from a ring buffer and writes new
    ones.

    They are the same for all rings of one kernel width k and dilation r.
    """

    # m is k-1 for one new column, (k-1)r for more. Positions before the start read zeros.
    rows: Tensor  # (rows, m) int64: the row whose ring holds each of m old columns, oldest first
    slots: Tensor  # (rows, m) int64: the index of each old column in that ring
    row_numbers: Tensor  # (rows, 1) int64: each row's number
    write: (
        Tensor  # (rows, w) int64: indices in the rings of the last w = min(t, capacity) new columns
    )
    dilation: int  # of the kernel over [old columns, new columns]: 1 for one new column, else r

    @staticmethod
    def from_clock(clock: Clock, t: int, kernel_width: int, dilation: int) -> RingTaps:
        """Return the indices for the next t columns after `clock`."""
        reach, capacity = (kernel_width - 1) * dilation, ring_capacity(kernel_width, dilation)
        step = dilation if t == 1 else 1
        offsets = torch.arange(-reach, 0, step, device=clock.position.device)
        old = clock.position[:, None] + offsets
        row_numbers = torch.arange(len(old), device=old.device)[:, None]
        rows = row_numbers + clock.ancestors.gather(1, old % clock.ancestors.shape[1])
        write = clock.positions(t)[:, -capacity:] % capacity
        return RingTaps(rows, old % capacity, row_numbers, write, 1 if t == 1 else dilation)

    def append(self, x: Tensor, ring: Tensor) -> tuple[Tensor, Tensor]:
        """Append new columns x (rows, t, d) to a ring (rows, capacity, d).

        Returns the m old columns followed by x, (rows, m + t, d), and the ring with the new
        columns: the same tensor, written in place, without gradients, a fresh one with them.
        """
        old = ring[self.rows, self.slots]
        new = x[:, -ring.shape[1] :].to(ring.dtype)
        if torch.is_grad_enabled():
            ring = ring.index_put((self.row_numbers, self.write), new)
        else:
            ring[self.row_numbers, self.write] = new
        return torch.cat([old.to(x.dtype), x], dim=1), ring


def ring_capacity(kernel_width: int, dilation: int) -> int:
    """Return the number of columns in a ring buffer: one more than the convolution reaches back.

    So a row may write its new column before another beam has read the old ones, and the new one is
    a tap too.
    """
    return (kernel_width - 1) * dilation + 1


class WeightNorm(nn.Module):
    """Weight normalisation (Salimans and Kingma 2016): w = g v / |v| for each output channel of
    (d_out, ...).

    g is initialised to |v|, so that w is v at first. In evaluation w is computed once for each
    version of v and g. A training pass discards it, because fused optimisers change weights without
    raising their version.
    """

    def __init__(self, v: Tensor) -> None:
        super().__init__()
        self.v = nn.Parameter(v)
        self.g = nn.Parameter(v.flatten(1).norm(dim=1))
        self._folded: tuple[object, Tensor] | None = None

    def forward(self) -> Tensor:
        """Return the weight (d_out, ...)."""
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
    """A linear map with weight normalisation, initialised to N(0, std) with bias 0."""

    def __init__(self, d_input: int, d_output: int, std: float) -> None:
        super().__init__()
        self.weight = WeightNorm(torch.randn(d_output, d_input) * std)
        self.bias = nn.Parameter(torch.zeros(d_output))

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., d_input) to (..., d_output)."""
        return F.linear(x, self.weight(), self.bias)


def scaled_linear(d_input: int, d_output: int, std: float, weight_norm: bool) -> nn.Module:
    """Return a linear map, initialised to N(0, std) with bias 0, with or without weight
    normalisation."""
    if weight_norm:
        return NormedLinear(d_input, d_output, std)
    linear = nn.Linear(d_input, d_output)
    nn.init.normal_(linear.weight, std=std)
    nn.init.zeros_(linear.bias)
    return linear


class Convolution(nn.Module):
    """A convolution of width k over (rows, t, d_input); call `centred` for a source, `causal` for a
    target.

    It has no forward. The weight is (d_output, k, d_input), the newest column last. std: of the
    initialisation; None for that of He et al. 2015. weight_norm: whether the weight is normalised,
    see WeightNorm.
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
        """Return the weight (d_output, k, d_input)."""
        if self.normed is not None:
            weight: Tensor = self.normed()
            return weight
        assert self.plain is not None
        return self.plain

    def centred(self, x: Tensor, mask: Tensor) -> Tensor:
        """Convolve x (n, s, d_input) around each column; return (n, s, d_output).

        mask (n, s) bool: true on real columns; padding is zeroed, because earlier biases make it
        non-zero. If (k - 1) * dilation is odd, the window has one more column to the right.
        """
        reach = (self.kernel_width - 1) * self.dilation
        x = F.pad(x * mask[:, :, None], (0, 0, reach // 2, reach - reach // 2))
        return self._convolve(x, self.dilation)

    def causal(self, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        """Convolve new columns x (rows, t, d_input) after the old ones in ring (rows, capacity,
        d_input).

        Returns (rows, t, d_output) and the ring with the new columns: updated in place without
        gradients, a new tensor with them.
        """
        columns, ring = taps.append(x, ring)
        return self._convolve(columns, taps.dilation), ring

    def _convolve(self, x: Tensor, dilation: int) -> Tensor:
        """Convolve x (rows, m, d_input) without padding; return (rows, m - (k-1) dilation,
        d_output)."""
        if x.shape[1] == self.kernel_width and dilation == 1 or self.kernel_width == 1:
            columns = x if self.kernel_width == 1 else x.flatten(1)[:, None]
            return F.linear(columns, self.weight().flatten(1), self.bias)
        weight = self.weight().transpose(1, 2)
        return F.conv1d(x.transpose(1, 2), weight, self.bias, dilation=dilation).transpose(1, 2)
