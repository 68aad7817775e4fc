"""Recurrent layers: the GRU in its three conventions, and the LSTM.

The products of the inputs are one matrix product for the whole chunk; the loop over time does the
rest. On CUDA, PyTorch's kernels (sequence_kernels.py) read a chunk at once, where they have the
equations. Padding needs no mask: a unidirectional layer reads it after the sentence only, and
`reverse` reverses each sentence within its own length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.layers.attention import source_mask
from bytenmt.layers.deferred_matmul import deferred_product
from bytenmt.layers.embedding import ByteEmbedding, OutputLayer
from bytenmt.layers.fused_cells import GRUProducts, fused_gru, fused_lstm, fusible
from bytenmt.layers.sequence_kernels import gru, has_sequence_kernels, lstm

GRUReset = Literal["before", "after"]
GRUUpdate = Literal["keep", "take"]
State = tuple[Tensor, ...]  # h, and in an LSTM c, each (rows, d_hidden)
# (x (t, rows, …), state before) -> the state after each step, (t, rows, d_hidden)
Run = Callable[..., State]


def looped(step: Callable[..., State]) -> Run:
    """Return a function that loops over inputs (t, rows, …) and returns the state after each step.

    Its arguments are the inputs and the first state; step: (input (rows, …), *state) -> new state.
    """

    def run(x: Tensor, *state: Tensor) -> State:
        states = list[State]()
        for x_t in x:
            state = step(x_t, *state)
            states.append(state)
        return tuple(
            torch.stack(part) if len(part) > 1 else part[0][None]
            for part in zip(*states, strict=True)
        )

    return run


class RecurrentLayer(nn.Module, ABC):
    """Base class of recurrent layers, which define `runner` and `initialise_recurrent`.

    A state is a tuple of tensors (rows, d_hidden): h, and in an LSTM c. `input` is the linear map
    of the inputs, the maps of all gates stacked in one weight.
    """

    input: nn.Linear
    # The number of maps stacked in the weight of each submodule that has several: Muon makes each
    # map orthogonal by itself.
    STACKED: ClassVar[Mapping[str, int]]
    has_kernel = False  # whether `read_by_kernel` calls a kernel of sequence_kernels.py

    @abstractmethod
    def runner(self) -> Run:
        """Return the function (products (t, rows, …), *state) -> the states after each of t steps.

        It returns h, and in an LSTM c, each (t, rows, d_hidden), and is to be called once, or at
        each step of one loop. products: what the method `products` returns for the inputs.
        """

    @abstractmethod
    def initialise_recurrent(self, is_scaled: bool) -> None:
        """Initialise the recurrent matrices, after the linear maps; called by `initialise`.

        is_scaled: whether the initial range depends on the width, instead of on a paper.
        """

    def stepper(self) -> Callable[..., State]:
        """Return the function (products (rows, …), *state) -> new state, for one loop over time.

        products: what the method `products` returns for the inputs of one step.
        """
        run = self.runner()
        return lambda x, *state: tuple(part[0] for part in run(x[None], *state))

    def forward(
        self, x: Tensor, before: Sequence[Tensor], lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Read inputs x (rows, t, d_input); return h after each, (rows, t, d_hidden), and the state
        after the last.

        before: the state before the first input, tensors (rows, d_hidden), h first. lengths (rows,)
        int64: number of inputs of each row after which its last state is taken; None: all t. h is
        returned for all t inputs in any case.
        """
        if has_sequence_kernels(x) and self.has_kernel:
            return self.read_by_kernel(x, before, lengths)
        return self.read(self.products(x.transpose(0, 1)), before, lengths)

    def read_by_kernel(
        self, x: Tensor, before: Sequence[Tensor], lengths: Tensor | None
    ) -> tuple[Tensor, State]:
        """Read inputs x (rows, t, d_input) by PyTorch's kernel; return all h and the last state.

        before: the state before x. lengths (rows,) int64: inputs of a row after which its last
        state is taken; None: all t. `forward` calls this on CUDA, only if has_kernel.
        """
        raise NotImplementedError

    def products(self, x: Tensor) -> Tensor:
        """Return the products (t, rows, …) of inputs x (t, rows, d_input) with their weights."""
        products: Tensor = self.input(x)
        return products

    def read(
        self, products: Tensor, before: Sequence[Tensor], lengths: Tensor | None
    ) -> tuple[Tensor, State]:
        """Read inputs by a loop over their products (t, rows, …); return all h and the last state.

        products: from the method `products`. before: the state before them. lengths (rows,) int64:
        inputs of a row after which its last state is taken; None: all t. h is (rows, t, d_hidden).
        """
        parts = [part.transpose(0, 1) for part in self.runner()(products, *before)]
        return parts[0], tuple(last_states(part, lengths) for part in parts)


class GRU(RecurrentLayer):
    """One layer of gated recurrent units, x (rows, t, d_input) -> h (rows, t, d_hidden).

    r = sigma(W_r x + U_r h), z = sigma(W_z x + U_z h), where each W has a bias, and
    reset "before" the product: g = tanh(W_g x + U_g (r * h))      (Cho et al. 2014, eq. 5-8)
    reset "after" it:           g = tanh(W_g x + r * (U_g h))      (cuDNN's and torch.nn.GRU's form)
    update "keep":              h <- z * h + (1 - z) * g           (Cho et al. 2014, torch.nn.GRU)
    update "take":              h <- (1 - z) * h + z * g           (Bahdanau et al. 2015)

    With d_inside, reset "after" also resets the share of g of the last d_inside inputs, c, as Cho's
    decoder does: g = tanh(W_g x + r * (U_g h + C_g c)). A c that is always 1 is torch.nn.GRU's
    second bias of g.
    """

    STACKED: ClassVar[Mapping[str, int]] = {"input": 3, "gates": 2}

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
        self.has_kernel = reset == "after" and not d_inside
        self.input = nn.Linear(d_input, 3 * d_hidden)  # W and biases of r, z, g
        self.gates = nn.Linear(d_hidden, 2 * d_hidden, bias=False)  # U of r, z
        self.candidate = nn.Linear(d_hidden, d_hidden, bias=False)  # U of g

    def runner(self) -> Run:
        """Return the function (x, h) -> (h after each step,), to be called once, or in a loop.

        h (rows, d_hidden); x (t, rows, 3 d_hidden): the input's products for r, z, g, biases
        included; with d_inside followed by C_g c (t, rows, d_hidden).
        """
        gates = deferred_product(self.gates.weight)
        candidate = deferred_product(self.candidate.weight)
        if fusible(gates) and fusible(candidate) and not self.d_inside:
            is_after = self.reset == "after"
            return fused_gru(GRUProducts(gates, candidate, is_after, self.update == "take"))

        def step(x: Tensor, h: Tensor) -> State:
            d = h.shape[-1]
            r, z = torch.sigmoid(x[..., : 2 * d] + gates(h)).chunk(2, dim=-1)
            if self.reset == "before":
                u = candidate(r * h)
            elif self.d_inside:
                u = r * (candidate(h) + x[..., 3 * d :])
            else:
                u = r * candidate(h)
            g = torch.tanh(x[..., 2 * d : 3 * d] + u)
            if self.update == "keep":
                return (g + z * (h - g),)
            return (h + z * (g - h),)

        return looped(step)

    def read_by_kernel(
        self, x: Tensor, before: Sequence[Tensor], lengths: Tensor | None
    ) -> tuple[Tensor, State]:
        """Read inputs x (rows, t, d_input) by PyTorch's GRU kernel; return all h and the last one.

        before: h before x. lengths (rows,): inputs after which the last h is taken; None: all t.
        """
        recurrent = torch.cat([self.gates.weight, self.candidate.weight])
        parameters = (self.input.weight, recurrent, self.input.bias)
        states = gru(x, before[0], parameters, self.update == "take")
        return states, (last_states(states, lengths),)

    def products(self, x: Tensor) -> Tensor:
        """Return the products of inputs x (t, rows, d_input) with weights: (t, rows, 3 d_hidden).

        They are those of r, z and g, with biases; with d_inside C_g c is appended.
        """
        if not self.d_inside:
            return super().products(x)
        d = self.candidate.weight.shape[0]
        widths = [x.shape[-1] - self.d_inside, self.d_inside]
        outer, inner = torch.split(x, widths, dim=-1)
        w, c = torch.split(self.input.weight, widths, dim=1)
        gates, inside = torch.split(F.linear(inner, c), [2 * d, d], dim=-1)
        outside = F.linear(outer, w, self.input.bias) + F.pad(gates, (0, d))
        return torch.cat([outside, inside], dim=-1)

    def initialise_recurrent(self, is_scaled: bool) -> None:
        """Make the recurrent matrices orthogonal, whether is_scaled or not."""
        for block in (*self.gates.weight.chunk(2), self.candidate.weight):
            nn.init.orthogonal_(block)


class LSTM(RecurrentLayer):
    """One layer of long short-term memory; weights are those of i, f, g, o, with one bias a gate.

    c <- sigma(f) * c + sigma(i) * tanh(g),  h <- sigma(o) * tanh(c)
    """

    STACKED: ClassVar[Mapping[str, int]] = {"input": 4, "recurrent": 4}
    has_kernel = True

    def __init__(self, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.input = nn.Linear(d_input, 4 * d_hidden)
        self.recurrent = nn.Linear(d_hidden, 4 * d_hidden, bias=False)

    def runner(self) -> Run:
        """Return the function (x, h, c) -> (h, c after each step), to be called once, or in a loop.

        x (t, rows, 4 d_hidden): the input's product for the gates, with biases; h, c (rows,
        d_hidden).
        """
        recurrent = deferred_product(self.recurrent.weight)
        if fusible(recurrent):
            return fused_lstm(recurrent)

        def step(x: Tensor, h: Tensor, c: Tensor) -> State:
            i, f, g, o = (x + recurrent(h)).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            return torch.sigmoid(o) * torch.tanh(c), c

        return looped(step)

    def read_by_kernel(
        self, x: Tensor, before: Sequence[Tensor], lengths: Tensor | None
    ) -> tuple[Tensor, State]:
        """Read inputs x (rows, t, d_input) by PyTorch's LSTM kernel; return all h, the last (h, c).

        before: h, c before x. lengths (rows,): inputs after which these are taken; None: all t.
        """
        padding = None if lengths is None else ~source_mask(lengths, x.shape[1])
        parameters = (self.input.weight, self.recurrent.weight, self.input.bias)
        states, cell = lstm(x, before, parameters, padding)
        return states, (last_states(states, lengths), cell)

    def initialise_recurrent(self, is_scaled: bool) -> None:
        """Make recurrent matrices orthogonal and biases of forget gates 1, if is_scaled."""
        if is_scaled:
            for block in self.recurrent.weight.chunk(4):
                nn.init.orthogonal_(block)
            nn.init.ones_(self.input.bias.view(4, -1)[1])


def read_layers(
    layers: Sequence[RecurrentLayer],
    x: Tensor,
    before: Sequence[Tensor],
    drop: Callable[[Tensor], Tensor],
    lengths: Tensor | None = None,
) -> tuple[Tensor, State]:
    """Read inputs x (rows, t, d_input) by a stack of layers; `drop` is applied to each one's input.

    Return h of the top layer, (rows, t, d_hidden), and the last states: h of each layer, then, of
    LSTMs, c of each, (rows, d_hidden). before: these states before the first input. lengths (rows,)
    int64: number of inputs after which a row's last state is taken; None: all t.
    """
    after = []
    for number, layer in enumerate(layers):
        x, state = layer(drop(x), before[number :: len(layers)], lengths)
        after.append(state)
    return x, tuple(part for parts in zip(*after, strict=True) for part in parts)


def reverse(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first lengths[i] columns of each row i of x (rows, t, ...); others stay.

    lengths (rows,) int64.
    """
    columns = torch.arange(x.shape[1], device=x.device)
    turned = lengths[:, None] - 1 - columns
    index = torch.where(turned >= 0, turned, columns)
    return x[torch.arange(len(x), device=x.device)[:, None], index]


def last_states(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return the last column (rows, d) of each row of x (rows, t, d).

    lengths (rows,) int64: columns of each row, at least 1; None: all t.
    """
    if lengths is None:
        return x[:, -1]
    return x[torch.arange(len(x), device=x.device), lengths - 1]


def initialise(model: nn.Module, fill: Callable[[Tensor], object] | None = None) -> None:
    """Initialise the linear maps of `model`, its embedding and its output layer with `fill`.

    `fill` works in place. Biases become 0, and the recurrent matrices of GRUs orthogonal. With fill
    None the range depends on the width: linear maps get the uniform distribution of Glorot and
    Bengio 2010, LSTMs also orthogonal recurrent matrices and biases 1 of the forget gates
    (Jozefowicz et al. 2015); embedding and output layer stay as they are. The fixed ranges of the
    papers are for 1,000 units: with a few hundred the signal almost vanishes within two layers.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            (fill or nn.init.xavier_uniform_)(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif fill is not None and isinstance(module, ByteEmbedding | OutputLayer):
            fill(module.weight)
    for module in model.modules():
        if isinstance(module, RecurrentLayer):
            module.initialise_recurrent(is_scaled=fill is None)
