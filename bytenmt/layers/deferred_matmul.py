"""Products with the same matrix at every step of a loop, with a single product for the gradient of the
matrix.

For a matrix that is used at t steps, autograd computes and adds t gradients of its size; that is most of a
recurrence's backward pass. Here the backward pass of each step only records its input and the gradient of its
output, and one large product over all steps follows. Values and gradients equal those of the plain product.
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
    """Return the function x -> x matrix^T with plain autograd, the reference."""
    return lambda x: x @ matrix.mT


def deferred(matrix: Tensor) -> Product:
    """Return the function x -> x matrix^T whose matrix gradient is deferred, for one run of a loop.

    matrix (..., d_output, d_input), x (..., rows, d_input). Under autocast it computes in autocast's type, as
    plain products do. Without gradients, or for a matrix that needs none, it is `plain`.
    """
    return Deferred(matrix) if torch.is_grad_enabled() and matrix.requires_grad else plain(matrix)


class Deferred:
    """A product with a matrix for one run of a loop, see `deferred`.

    matrix: detached, in the computing type.
    """

    def __init__(self, matrix: Tensor) -> None:
        matrix = compute_type(matrix)
        self._notes: Notes = []
        self.matrix = matrix.detach()
        self.token: Tensor = _Gather.apply(matrix, self._notes)  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = _Step.apply(x, self.token, self)  # type: ignore[no-untyped-call]
        return y

    def record_backward(self, x: Tensor, gradient: Tensor) -> Tensor:
        """Record the input x of a step and the gradient of its product; return the gradient of x.

        For autograd functions that took the token. All three tensors have the matrix' type.
        """
        self._notes.append((x, gradient))
        return product(gradient, self.matrix)


def compute_type(x: Tensor) -> Tensor:
    """Return x in the type in which autocast would multiply it; x itself if autocast is off."""
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:
        return x.to(torch.get_autocast_dtype(device))
    return x


class _Gather(Function):
    """Return a token that every step takes as input, so that this backward pass runs after all of theirs."""

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
    """Compute x matrix^T for one step; the backward pass records what the gradient of the matrix needs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, token: Tensor, deferred: Deferred) -> Tensor:
        ctx.deferred, ctx.kind = deferred, x.dtype
        x = compute_type(x)
        ctx.save_for_backward(x)
        return product(x, deferred.matrix.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (x,) = ctx.saved_tensors
        return ctx.deferred.record_backward(x, gradient).to(ctx.kind), gradient.new_zeros(()), None
