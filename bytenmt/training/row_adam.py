"""Adam for embedding tables of which an update reads few rows: those rows alone are updated.

    m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  c <- c + 1
    w <- w - lr (m / (1 - b1^c)) / (sqrt(v / (1 - b2^c)) + eps)

for each row of the table with a gradient g other than zero, where c counts the updates of that row
("lazy" Adam; torch.optim.SparseAdam has one count for all rows). No decay and no clipping. On a CPU
compiled loops visit those rows alone; a GPU computes all rows and keeps these, so that it need not
ask which they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.jit import njit
from bytenmt.layers.ngram_tables import NgramTables

EPSILON = 1e-8


class RowAdam:
    """The optimizer of the n-gram tables: Adam that updates only the rows read since the last step.

    The tables, embeddings of hashed byte n-grams, collect the gradients of their rows in backward
    themselves. betas: of Adam. The state is on the device of the tables' weight.
    """

    def __init__(self, tables: NgramTables, betas: tuple[float, float]) -> None:
        self.tables = tables
        self.betas = betas
        weight = tables.weight.detach()
        self.exp_avg = torch.zeros_like(weight)  # (rows, d), of the gradient
        self.exp_avg_sq = torch.zeros_like(weight)  # (rows, d), of its square
        # (rows, d), scratch memory for the gradients of an update, zero outside of `step`
        self.sums = torch.zeros_like(weight)
        self.n_updates = torch.zeros(len(weight), dtype=torch.int32, device=weight.device)

    @torch.no_grad()
    def step(self, lr: float, group: Group = SINGLE_PROCESS) -> None:
        """Update the rows that were read since the last step, then clear their gradients.

        lr: the learning rate. The gradients are summed over the processes of the group, which must
        all call this together.
        """
        on_cpu = self.sums.device.type == "cpu"
        for rows, gradient in self.tables.gradients:
            gradient = gradient.to(self.sums.dtype)
            if on_cpu:
                add_gradients(rows.numpy(), gradient.numpy(), self.sums.numpy())
            else:
                for order in range(rows.shape[1]):
                    self.sums.index_add_(0, rows[:, order], gradient)
        self.zero_grad()
        group.all_reduce(self.sums)
        if on_cpu:
            weight = self.tables.weight.detach()
            tensors = weight, self.exp_avg, self.exp_avg_sq, self.n_updates, self.sums
            arguments: Any = (*(tensor.numpy() for tensor in tensors), lr, *self.betas)
            update_rows(*arguments)
        else:
            self.update_on_device(lr)

    def update_on_device(self, lr: float) -> None:
        """Do one step of Adam at the rate lr for the rows with a gradient other than zero.

        The attribute `sums` (rows, d) holds the gradients and is then set to zero. `step` calls
        this on a GPU; on a CPU the compiled update_rows does the same.
        """
        b1, b2 = self.betas
        m = self.exp_avg
        v = self.exp_avg_sq
        sums = self.sums
        is_read = sums.any(dim=1, keepdim=True)
        self.n_updates += is_read[:, 0]
        count = self.n_updates[:, None].clamp(min=1).to(sums.dtype)
        m.copy_(torch.where(is_read, m.lerp(sums, 1 - b1), m))
        v.copy_(torch.where(is_read, v * b2 + (1 - b2) * sums * sums, v))
        step = (m / (1 - b1**count)) / ((v / (1 - b2**count)).sqrt() + EPSILON)
        self.tables.weight.sub_(torch.where(is_read, lr * step, 0.0))
        sums.zero_()

    def zero_grad(self) -> None:
        """Clear the gradients that backward has collected."""
        self.tables.gradients.clear()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state of the rows that were updated at least once.

        rows (k,) int32: their numbers; n_updates (k,) int32; exp_avg, exp_avg_sq (k, d).
        """
        rows = self.n_updates.nonzero()[:, 0]
        parts = {name: part[rows] for name, part in self._parts().items()}
        return {"rows": rows.to(torch.int32), **parts}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load what state_dict returned. Raises LookupError or RuntimeError if it does not fit."""
        rows = state["rows"].to(self.n_updates.device).long()
        for name, part in self._parts().items():
            part.zero_()
            part[rows] = state[name].to(part.device)

    def _parts(self) -> dict[str, Tensor]:
        return {"n_updates": self.n_updates, "exp_avg": self.exp_avg, "exp_avg_sq": self.exp_avg_sq}


@njit
def add_gradients(rows: Any, gradient: Any, sums: Any) -> None:
    """Add the gradient of the embedding at each position to `sums`, at the rows that it summed.

    An embedding is the sum of one row for each n of the n-grams (orders). rows (t, orders) int64:
    the rows that were read at t positions; gradient (t, d): of the embeddings; sums (all rows, d):
    the gradients of the rows, changed in place.
    """
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            row = rows[i, j]
            for k in range(gradient.shape[1]):
                sums[row, k] += gradient[i, k]


@njit
def update_rows(
    weight: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    n_updates: Any,
    sums: Any,
    lr: float,
    b1: float,
    b2: float,
) -> None:
    """Do one step of Adam, in place, for the rows with a gradient, and set `sums` to zero.

    weight, exp_avg, exp_avg_sq (rows, d): the table, and Adam's first and second moments; n_updates
    (rows,) int32: earlier steps of each row; sums (rows, d): gradients, all zero for rows that stay
    as they are; lr: learning rate; b1, b2: Adam's betas.
    """
    kind = weight.dtype.type
    keep1 = kind(b1)
    take1 = kind(1 - b1)
    keep2 = kind(b2)
    take2 = kind(1 - b2)
    for row in range(len(weight)):
        w = weight[row]
        m = exp_avg[row]
        v = exp_avg_sq[row]
        gradient = sums[row]
        first = 0
        while first < len(gradient) and gradient[first] == 0:  # padding reads rows, too
            first += 1
        if first == len(gradient):
            continue
        n_updates[row] += 1
        count = float(n_updates[row])
        step = kind(lr / (1 - b1**count))
        root = kind((1 - b2**count) ** -0.5)
        for k in range(len(w)):
            g = gradient[k]
            gradient[k] = 0
            m[k] = keep1 * m[k] + take1 * g
            v[k] = keep2 * v[k] + take2 * g * g
            # np.true_divide: the operator looks for a zero, which keeps the loop from being
            # vectorised.
            w[k] -= np.true_divide(step * m[k], np.sqrt(v[k]) * root + kind(EPSILON))
