"""Adam for embedding tables of which an update reads few rows: those rows alone are updated.

    m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  c <- c + 1
    w <- w - lr (m / (1 - b1^c)) / (sqrt(v / (1 - b2^c)) + eps)

for each row of the table with a gradient g other than zero, where c counts the updates of that row ("lazy"
Adam; torch.optim.SparseAdam has one count for all rows). No decay, no clipping, and no pass over the table:
the cost of an update depends on the rows that were read, not on how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.jit import njit
from bytenmt.layers.ngram_tables import NgramTables, RowGradients

EPSILON = 1e-8


class RowAdam:
    """The state of Adam for the rows of `tables`, of dtype and device of their weight.

    exp_avg, exp_avg_sq (rows, d): m and v; n_updates (rows,) int32: c.
    """

    def __init__(self, tables: NgramTables, betas: tuple[float, float]) -> None:
        self.tables, self.betas = tables, betas
        weight = tables.weight
        self.exp_avg, self.exp_avg_sq = torch.zeros_like(weight), torch.zeros_like(weight)
        self.n_updates = torch.zeros(len(weight), dtype=torch.int32, device=weight.device)
        # For coalesce_on_cpu: where in the sums each row stands, -1 for nowhere.
        self._slots = np.full(len(weight), -1, np.int32)

    @torch.no_grad()
    def step(self, lr: float, group: Group = SINGLE_PROCESS) -> None:
        """Update the rows that were read since the last step, then forget their gradients.

        Gradients are summed over all processes of the group, in the order of their ranks.
        """
        rows, sums = self._coalesce(self.tables.gradients)
        self.zero_grad()
        if group.size > 1:
            rows, sums = self._merge(group.gather_all((rows.cpu(), sums.cpu())))
        weight = self.tables.weight
        if weight.device.type == "cpu":
            update_rows(
                weight.detach().numpy(),
                self.exp_avg.numpy(),
                self.exp_avg_sq.numpy(),
                self.n_updates.numpy(),
                rows.numpy(),
                sums.numpy(),
                lr,
                *self.betas,
            )
        else:
            self._update(rows, sums, lr)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self.tables.gradients.clear()

    def state_dict(self) -> dict[str, Tensor]:
        """The state of the rows that were updated at least once.

        rows (k,) int32: their numbers; n_updates (k,) int32; exp_avg, exp_avg_sq (k, d).
        """
        rows = self.n_updates.nonzero()[:, 0]
        parts = {"n_updates": self.n_updates, "exp_avg": self.exp_avg, "exp_avg_sq": self.exp_avg_sq}
        return {"rows": rows.to(torch.int32)} | {name: part[rows] for name, part in parts.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up what state_dict returned. Raises LookupError or RuntimeError where it does not fit."""
        rows = state["rows"].to(self.n_updates.device).long()
        parts = {"n_updates": self.n_updates, "exp_avg": self.exp_avg, "exp_avg_sq": self.exp_avg_sq}
        for name, part in parts.items():
            part.zero_()
            part[rows] = state[name].to(part.device)

    def _coalesce(self, gradients: Sequence[RowGradients]) -> tuple[Tensor, Tensor]:
        """The rows with a gradient, each once, and the sums of their gradients: (k,) int64, (k, d)."""
        weight = self.tables.weight
        if not gradients:
            return torch.zeros(0, dtype=torch.int64, device=weight.device), weight.new_zeros(
                0, weight.shape[1]
            )
        if weight.device.type != "cpu":
            return _coalesced(
                torch.cat([one.rows.flatten() for one in gradients]),
                torch.cat([_each(one).to(weight.dtype) for one in gradients]),
            )
        n_reads = sum(one.rows.numel() for one in gradients)
        n_most = min(n_reads, len(weight))
        kind = weight.detach().numpy().dtype
        rows, sums = np.empty(n_most, np.int64), np.zeros((n_most, weight.shape[1]), kind)
        n_rows = 0
        for one in gradients:
            factors = one.rows.new_ones(0, 0).to(weight.dtype) if one.factors is None else one.factors
            read = (one.rows.numpy(), factors.numpy(), one.gradient.to(weight.dtype).numpy())
            n_rows = coalesce_on_cpu(*read, self._slots, rows, sums, n_rows)
        n_rows = forget_slots(self._slots, rows, sums, n_rows)
        return torch.from_numpy(rows[:n_rows]), torch.from_numpy(sums[:n_rows])

    def _merge(self, all_parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Rows and sums of several processes as one."""
        rows, sums = _coalesced(*(torch.cat(parts) for parts in zip(*all_parts, strict=True)))
        device = self.tables.weight.device
        return rows.to(device), sums.to(device)

    def _update(self, rows: Tensor, sums: Tensor, lr: float) -> None:
        """update_rows, by PyTorch on any device."""
        b1, b2 = self.betas
        m = self.exp_avg[rows].lerp(sums, 1 - b1)
        v = self.exp_avg_sq[rows] * b2 + (1 - b2) * sums * sums
        count = self.n_updates[rows] + 1
        steps = count.to(sums.dtype)[:, None]
        self.exp_avg[rows], self.exp_avg_sq[rows], self.n_updates[rows] = m, v, count
        self.tables.weight[rows] -= lr * (m / (1 - b1**steps)) / ((v / (1 - b2**steps)).sqrt() + EPSILON)


def _each(one: RowGradients) -> Tensor:
    """The gradient of every single look-up, (t * orders, d)."""
    each = one.gradient[:, None].expand(-1, one.rows.shape[1], -1)
    return (each if one.factors is None else each * one.factors[:, :, None]).flatten(0, 1)


def _coalesced(rows: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the gradients (k, d) of equal rows (k,); rows with a sum of zeros are left out."""
    found, index = torch.unique(rows, return_inverse=True)
    sums = gradients.new_zeros(len(found), gradients.shape[1]).index_add_(0, index, gradients)
    there = sums.any(dim=1)
    return found[there], sums[there]


@njit
def coalesce_on_cpu(
    read: Any, factors: Any, gradient: Any, slots: Any, rows: Any, sums: Any, n_rows: int
) -> int:
    """Add the gradients of one look-up to the sums of its rows; returns how many rows there are now.

    read (t, orders) int64, factors as read or (0, 0), gradient (t, d): see RowGradients; slots (all,) int32:
    where in rows (k,) and sums (k, d) each row stands, -1 for nowhere.
    """
    d = gradient.shape[1]
    for i in range(read.shape[0]):
        for j in range(read.shape[1]):
            factor = factors[i, j] if len(factors) > 0 else gradient.dtype.type(1)
            if factor == 0:
                continue
            row = read[i, j]
            at = slots[row]
            if at < 0:
                at = np.int32(n_rows)
                slots[row], rows[at] = at, row
                n_rows += 1
            for k in range(d):
                sums[at, k] += factor * gradient[i, k]
    return n_rows


@njit
def forget_slots(slots: Any, rows: Any, sums: Any, n_rows: int) -> int:
    """Set the slots of all rows to -1, and drop rows whose sum is zero; return how many are left.

    Padding reads such rows. The rows that are left stand at the beginning of rows and sums.
    """
    left = 0
    for at in range(n_rows):
        slots[rows[at]] = -1
        total = sums.dtype.type(0)
        for k in range(sums.shape[1]):
            total += abs(sums[at, k])
        if total != 0:  # true of NaN, too
            if left < at:
                rows[left] = rows[at]
                sums[left, :] = sums[at, :]
            left += 1
    return left


@njit
def update_rows(
    weight: Any, exp_avg: Any, exp_avg_sq: Any, n_updates: Any, rows: Any, sums: Any, lr: float, b1: float,
    b2: float,
) -> None:  # fmt: skip
    """One step of Adam for some rows (k,) of a weight (all, d); sums (k, d): their gradients."""
    kind = weight.dtype.type
    keep1, take1, keep2, take2 = kind(b1), kind(1 - b1), kind(b2), kind(1 - b2)
    for at in range(len(rows)):
        row = rows[at]
        n_updates[row] += 1
        count = float(n_updates[row])
        step, root = kind(lr / (1 - b1**count)), kind((1 - b2**count) ** -0.5)
        w, m, v, gradient = weight[row], exp_avg[row], exp_avg_sq[row], sums[at]
        for k in range(len(w)):
            g = gradient[k]
            m[k] = keep1 * m[k] + take1 * g
            v[k] = keep2 * v[k] + take2 * g * g
            # np.true_divide: the operator looks for a zero, which keeps the loop from being vectorised.
            w[k] -= np.true_divide(step * m[k], np.sqrt(v[k]) * root + kind(EPSILON))
