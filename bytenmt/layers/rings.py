"""Ring buffers of past columns, which a step reads and writes in place, and beams never copy.

A ring buffer holds the column of position q at index q mod capacity, so that a step writes one
column and reads k taps, whatever the dilation. Causal convolutions keep their past inputs so, and
the Transformer its keys and values. Reordering beams moves no ring: `Clock.ancestors` tells which
row's ring holds the column of a position, and that small table alone is permuted.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Clock(NamedTuple):
    """The position of each row (hypothesis) in its text, and the ring buffers that hold its past.

    A part of a decoder's state. A ring buffer holds the last columns (vectors, one a byte) of a
    layer; h is the capacity of the largest one.
    """

    position: Tensor  # (rows,) int64: columns read so far, which is the position of the next column
    # (rows, h) int64: [row, q mod h] is the offset from the row to that whose rings hold the column
    # of position q; 0: the row's own rings. Offsets are relative, so that all rows of a sentence
    # can be moved together.
    ancestors: Tensor

    @staticmethod
    def start(rows: int, history: int, device: torch.device) -> Clock:
        """Return the clock of `rows` rows at position 0. history: columns of the largest ring."""
        position = torch.zeros(rows, dtype=torch.int64, device=device)
        return Clock(position, position[:, None].repeat(1, history))

    def positions(self, t: int) -> Tensor:
        """Return the positions of each row's next t columns (bytes), from 0: (rows, t) int64."""
        return self.position[:, None] + torch.arange(t, device=self.position.device)

    def advance(self, t: int) -> Clock:
        """Return the clock after t more columns (bytes), which each row writes to its own rings."""
        history = self.ancestors.shape[1]
        new = self.positions(t)[:, -history:] % history
        return Clock(self.position + t, self.ancestors.scatter(1, new, torch.zeros_like(new)))

    def reorder(self, parents: Tensor) -> Clock:
        """Return the clock in which row i continues row parents[i]; parents (rows,) int64."""
        moved = parents - torch.arange(len(parents), device=parents.device)
        return Clock(self.position[parents], self.ancestors[parents] + moved[:, None])


class Rings(NamedTuple):
    """The ring buffers of a decoder's layers, which hold their last columns; a part of its state.

    This type says that reordering beams leaves these tensors where they are, since a Clock tells
    whose ring holds a column; all other tensors of a state are reordered by rows (Model.reorder).
    """

    buffers: tuple[Tensor, ...]  # of each layer: (rows, capacity, width of a column)


class RingTaps(NamedTuple):
    """Indices by which a convolution over t new columns uses a ring buffer: reads the old columns,
    and writes the new ones.

    They are the same for all rings of one kernel width k and dilation r.
    """

    # m old columns are read: for one new column every r-th, k-1 in all; for more of them the last
    # (k-1)r. Positions before the start read zeros.
    rows: Tensor  # (rows, m) int64: the row whose ring holds each of m old columns, oldest first
    slots: Tensor  # (rows, m) int64: the index of each old column in that ring
    row_numbers: Tensor  # (rows, 1) int64: each row's number
    # (rows, w) int64: the indices in the rings of the last w = min(t, capacity) new columns.
    write: Tensor
    dilation: int  # of the kernel over [old columns, new columns]: 1 for one new column, else r

    @staticmethod
    def from_clock(clock: Clock, t: int, kernel_width: int, dilation: int) -> RingTaps:
        """Return the indices of the next t columns after `clock`, for a convolution of this width
        and dilation."""
        reach = (kernel_width - 1) * dilation
        capacity = ring_capacity(kernel_width, dilation)
        step = dilation if t == 1 else 1
        offsets = torch.arange(-reach, 0, step, device=clock.position.device)
        old = clock.position[:, None] + offsets
        row_numbers = torch.arange(len(old), device=old.device)[:, None]
        rows = row_numbers + clock.ancestors.gather(1, old % clock.ancestors.shape[1])
        write = clock.positions(t)[:, -capacity:] % capacity
        return RingTaps(rows, old % capacity, row_numbers, write, 1 if t == 1 else dilation)

    def append(self, x: Tensor, ring: Tensor) -> tuple[Tensor, Tensor]:
        """Append new columns x (rows, t, d) to a ring (rows, capacity, d).

        Returns the m old columns that the convolution reads, with x behind them (rows, m + t, d),
        and the ring with x: written in place, or a fresh tensor if gradients are enabled.
        """
        old = ring[self.rows, self.slots]
        new = x[:, -ring.shape[1] :].to(ring.dtype)
        if torch.is_grad_enabled():
            ring = ring.index_put((self.row_numbers, self.write), new)
        else:
            ring[self.row_numbers, self.write] = new
        return torch.cat([old.to(x.dtype), x], dim=1), ring


def ring_capacity(kernel_width: int, dilation: int) -> int:
    """Return the number of columns in a convolution's ring buffer: one more than it reaches back.

    So a row may write its new column before another beam has read the old ones.
    """
    return (kernel_width - 1) * dilation + 1
