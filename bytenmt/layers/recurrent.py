"""Recurrent layers: the GRU in its three conventions, and the LSTM.

The products of the inputs are one matrix product for the whole chunk; the loop over time does the rest. On
CUDA, PyTorch's kernels (sequence_kernels.py) read a chunk at once, where they have the equations.
Padding needs no mask: a unidirectional layer reads it after the sentence only, and `reverse` reverses each
sentence within its own length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.layers.deferred_matmul import deferred
from bytenmt.layers.embedding import ByteEmbedding, OutputLayer
from bytenmt.layers.fused_cells import FusedGRU, FusedLSTM, fusible
from bytenmt.layers.sequence_kernels import gru, has_sequence_kernels, lstm

GRUReset = Literal["before", "after"]
GRUUpdate = Literal["keep", "take"]


class GRU(nn.Module):
    """One layer of gated recurrent units.

    r = sigma(W_r x + U_r h), z = sigma(W_z x + U_z h), one bias a gate in W's share, and
    reset "before" the product: g = tanh(W_g x + U_g (r * h))      (Cho et al. 2014, eq. 5-8)
    reset "after" it:           g = tanh(W_g x + r * (U_g h))      (cuDNN's and torch.nn.GRU's form)
    update "keep":              h <- z * h + (1 - z) * g           (Cho et al. 2014, torch.nn.GRU)
    update "take":              h <- (1 - z) * h + z * g           (Bahdanau et al. 2015)

    Of the last d_inside of its inputs, c, reset "after" resets g's share too, as Cho's decoder does:
    g = tanh(W_g x + r * (U_g h + C_g c)). An input that is always 1 is so torch.nn.GRU's second bias of g.
    """

    STACKED: ClassVar = {"input": 3, "gates": 2}  # maps that are stacked in a weight
    PARTS: ClassVar = 1  # of the state: h

    def __init__(
        self,
        d_input: int,
        d_hidden: int,
        reset: GRUReset = "before",
        update: GRUUpdate = "keep",
        d_inside: int = 0,
    ) -> None:
        super().__init__()
        self.reset = reset
        self.update = update
        self.d_inside = d_inside
        self.input = nn.Linear(d_input, 3 * d_hidden)  # W and biases of r, z, g
        self.gates = nn.Linear(d_hidden, 2 * d_hidden, bias=False)  # U of r, z
        self.candidate = nn.Linear(d_hidden, d_hidden, bias=False)  # U of g

    def stepper(self) -> Callable[..., Tensor]:
        """Return the function (x, h) -> new h, for one run of a loop.

        x (rows, 3 d_hidden): the input's product for r, z, g. h (rows, d_hidden). With d_inside, C_g c
        (rows, d_hidden) is the third argument.
        """
        gates, candidate = deferred(self.gates.weight), deferred(self.candidate.weight)
        if fusible(gates) and fusible(candidate) and not self.d_inside:
            return FusedGRU(gates, candidate, self.reset == "after", self.update == "take")

        def step(x: Tensor, h: Tensor, inside: Tensor | None = None) -> Tensor:
            d = h.shape[-1]
            x_rz, x_g = torch.split(x, [2 * d, d], dim=-1)
            r, z = torch.sigmoid(x_rz + gates(h)).chunk(2, dim=-1)
            if self.reset == "before":
                g = torch.tanh(x_g + candidate(r * h))
            else:
                u = candidate(h)
                g = torch.tanh(x_g + r * (u if inside is None else u + inside))
            return g + z * (h - g) if self.update == "keep" else h + z * (g - h)

        return step

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """Return the states (rows, t, d_hidden) after inputs x (rows, t, d_input). h (rows, d_hidden):
        initial state."""
        if self.reset == "after" and not self.d_inside and has_sequence_kernels(x):
            recurrent = torch.cat([self.gates.weight, self.candidate.weight])
            return gru(x, h, (self.input.weight, recurrent, self.input.bias), self.update == "take")
        step, states = self.stepper(), []
        for shares in zip(*self._shares(x.transpose(0, 1)), strict=True):
            h = step(shares[0], h, *shares[1:])
            states.append(h)
        return torch.stack(states, dim=1)

    def read(
        self, x: Tensor, before: Sequence[Tensor], lengths: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the states as forward does, and the parts of the state after each row's last input.

        before: the parts of the initial state. lengths (rows,) int64: inputs of each row; None: all t.
        """
        states = self(x, *before)
        return states, (last(states, lengths),)

    def _shares(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the arguments of the stepper for inputs x (t, rows, d_input): the products (t, rows,
        3 d_hidden), and with d_inside C_g c (t, rows, d_hidden)."""
        if not self.d_inside:
            return (self.input(x),)
        widths, d = [x.shape[-1] - self.d_inside, self.d_inside], self.candidate.weight.shape[0]
        own, inner = torch.split(x, widths, dim=-1)
        w, c = torch.split(self.input.weight, widths, dim=1)
        gates, inside = torch.split(F.linear(inner, c), [2 * d, d], dim=-1)
        return F.linear(own, w, self.input.bias) + F.pad(gates, (0, d)), inside


class LSTM(nn.Module):
    """One layer of long short-term memory, gates in the order i, f, g, o, one bias a gate.

    c <- sigma(f) * c + sigma(i) * tanh(g),  h <- sigma(o) * tanh(c)
    """

    STACKED: ClassVar = {"input": 4, "recurrent": 4}
    PARTS: ClassVar = 2  # h, c

    def __init__(self, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.input = nn.Linear(d_input, 4 * d_hidden)
        self.recurrent = nn.Linear(d_hidden, 4 * d_hidden, bias=False)

    def stepper(self) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return the function (x, h, c) -> (new h, new c), for one run of a loop.

        x (rows, 4 d_hidden): the input's product for the gates. h, c (rows, d_hidden).
        """
        recurrent = deferred(self.recurrent.weight)
        if fusible(recurrent):
            return FusedLSTM(recurrent)

        def step(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
            i, f, g, o = (x + recurrent(h)).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            return torch.sigmoid(o) * torch.tanh(c), c

        return step

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return states and cells, each (rows, t, d_hidden), after inputs x (rows, t, d_input)."""
        step, states, cells = self.stepper(), [], []
        for x_t in self.input(x.transpose(0, 1)):
            h, c = step(x_t, h, c)
            states.append(h)
            cells.append(c)
        return torch.stack(states, dim=1), torch.stack(cells, dim=1)

    def read(
        self, x: Tensor, before: Sequence[Tensor], lengths: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the states, and the parts of the state after each row's last input; see GRU.read."""
        if has_sequence_kernels(x):
            padding = None
            if lengths is not None:
                padding = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
            parameters = self.input.weight, self.recurrent.weight, self.input.bias
            states, cell = lstm(x, before, parameters, padding)
            return states, (last(states, lengths), cell)
        states, cells = self(x, *before)
        return states, (last(states, lengths), last(cells, lengths))


def reverse(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first lengths[i] columns of each row i of x (rows, t, ...); the other columns stay.

    lengths (rows,) int64.
    """
    columns = torch.arange(x.shape[1], device=x.device)
    turned = lengths[:, None] - 1 - columns
    index = torch.where(turned >= 0, turned, columns)
    return x[torch.arange(len(x), device=x.device)[:, None], index]


def last(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return the last column (rows, d) of each row of x (rows, t, d).

    lengths (rows,) int64 >= 1; None: all t.
    """
    if lengths is None:
        return x[:, -1]
    return x[torch.arange(len(x), device=x.device), lengths - 1]


def initialise(model: nn.Module, fill: Callable[[Tensor], object] | None = None) -> None:
    """Initialise the linear maps of `model`, its embedding and its output layer with `fill`.

    Biases become 0, and the recurrent matrices of GRUs orthogonal. If fill is None, the range depends on the
    width: Glorot and Bengio 2010's uniform distribution, orthogonal recurrent matrices in LSTMs, too, open
    forget gates (Jozefowicz et al. 2015), and embedding and output layer unchanged. The fixed ranges of the
    papers are meant for 1,000 units; with a few hundred the signal almost vanishes on its way through two
    layers.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            (fill or nn.init.xavier_uniform_)(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif fill is not None and isinstance(module, ByteEmbedding | OutputLayer):
            fill(module.weight)
    for module in model.modules():
        if isinstance(module, GRU):
            for block in (*module.gates.weight.chunk(2), module.candidate.weight):
                nn.init.orthogonal_(block)
        elif isinstance(module, LSTM) and fill is None:
            for block in module.recurrent.weight.chunk(4):
                nn.init.orthogonal_(block)
            with torch.no_grad():
                module.input.bias.view(4, -1)[1].fill_(1.0)
