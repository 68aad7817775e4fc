"""Products with one matrix at every step of a loop, whose gradient by the matrix is one product at the end.

Autograd gives a matrix that is used at t steps t small gradients and t additions of its own size; most of a
recurrence's backward pass is that. Here each step's backward only notes its input and its output's gradient,
and one large product over all steps follows. Values and gradients are those of the plain product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from bytenmt.layers.matrix_rows import product

Product = Callable[[Tensor], Tensor]
Notes = list[tuple[Tensor, Tensor]]


def plain(matrix: Tensor) -> Product:
    """The reference: x -> x matrix^T, left to autograd."""
    return lambda x: x @ matrix.mT


def deferred(matrix: Tensor) -> Product:
    """matrix (..., d_output, d_input) -> the function of x (..., rows, d_input) that is x matrix^T.

    Make one for each run of the loop. Under autocast it computes in autocast's type, as plain products do.
    Without gradients, or for a matrix that needs none, it is `plain`.
    """
    return Deferred(matrix) if torch.is_grad_enabled() and matrix.requires_grad else plain(matrix)


class Deferred:
    """See `deferred`."""

    def __init__(self, matrix: Tensor) -> None:
        matrix = compute_type(matrix)
        self._notes: Notes = []
        self.fixed = matrix.detach()
        self.token: Tensor = _Gather.apply(matrix, self._notes)  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = _Step.apply(x, self.token, self)  # type: ignore[no-untyped-call]
        return y

    def back(self, x: Tensor, gradient: Tensor) -> Tensor:
        """Note a step whose autograd function took the token: what was read, and the product's gradient ->
        the gradient by x. All three are of the matrix' type."""
        self._notes.append((x, gradient))
        return product(gradient, self.fixed)


def compute_type(x: Tensor) -> Tensor:
    """x in the type in which autocast would multiply it; x itself where autocast is off."""
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:
        return x.to(torch.get_autocast_dtype(device))
    return x


class _Gather(Function):
    """matrix -> a token that every step takes, so that this backward runs after all of theirs."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, notes: Notes) -> Tensor:
        ctx.notes = notes
        return matrix.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        inputs, gradients = zip(*ctx.notes, strict=True)
        ctx.notes.clear()
        return torch.cat(gradients, dim=-2).mT @ torch.cat(inputs, dim=-2), None


class _Step(Function):
    """x matrix^T of one step; its backward notes what the matrix's gradient needs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, token: Tensor, deferred: Deferred) -> Tensor:
        ctx.deferred, ctx.kind = deferred, x.dtype
        x = compute_type(x)
        ctx.save_for_backward(x)
        return product(x, deferred.fixed.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (x,) = ctx.saved_tensors
        return ctx.deferred.back(x, gradient).to(ctx.kind), gradient.new_zeros(()), None
