"""Products with one matrix at every step of a loop, whose gradient by the matrix is one product at the end.

Autograd gives a matrix that is used at t steps t small gradients and t additions of its own size; most of a
recurrence's backward pass is that. Here each step's backward only notes its input and its output's gradient,
and one large product over all steps follows. Values and gradients are those of the plain product. Knows no
model; gradients of gradients are not offered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

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
    if not (torch.is_grad_enabled() and matrix.requires_grad):
        return plain(matrix)
    matrix = compute_type(matrix)
    notes: Notes = []
    token = _Gather.apply(matrix, notes)  # type: ignore[no-untyped-call]
    fixed = matrix.detach()

    def product(x: Tensor) -> Tensor:
        y: Tensor = _Step.apply(x, fixed, token, notes)  # type: ignore[no-untyped-call]
        return y

    return product


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
    def forward(ctx: Any, x: Tensor, matrix: Tensor, token: Tensor, notes: Notes) -> Tensor:
        ctx.notes, ctx.kind = notes, x.dtype
        x = compute_type(x)
        ctx.save_for_backward(x, matrix)
        return x @ matrix.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor, None]:
        x, matrix = ctx.saved_tensors
        ctx.notes.append((x, gradient))
        return (gradient @ matrix).to(ctx.kind), None, gradient.new_zeros(()), None
