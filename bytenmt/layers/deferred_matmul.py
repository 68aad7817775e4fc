"""Functions of one run of a loop whose parameters get their gradients once, after all steps.

For a matrix that is used at t steps, autograd computes and adds t gradients of its size; that is
most of a recurrence's backward pass. Here the backward pass of each step only records its input and
the gradient of its output, and one large product over all steps follows. Values and gradients equal
those of the plain product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# x -> x matrix^T, or any function that a loop calls at each step
Product = Callable[[Tensor], Tensor]


def plain_product(matrix: Tensor) -> Product:
    """Return the function x -> x matrix^T, with autograd's usual gradient at every call."""
    return lambda x: x @ matrix.mT


def deferred_product(matrix: Tensor) -> Product:
    """Return the function x -> x matrix^T, to be called at each step of one loop over time.

    The gradient of the matrix is computed once, after the backward passes of all steps. matrix
    (..., d_output, d_input), x (..., rows, d_input) -> (..., rows, d_output). Under autocast it
    computes in autocast's type, as plain products do, and where the matrix needs no gradients it is
    a plain_product.
    """
    is_trained = torch.is_grad_enabled() and matrix.requires_grad
    return DeferredProduct(matrix) if is_trained else plain_product(matrix)


def compute_type(x: Tensor) -> Tensor:
    """Return x in autocast's dtype of matrix products; x itself if autocast is off."""
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype != torch.float64:
        return x.to(torch.get_autocast_dtype(device))
    return x


class Deferred(ABC):
    """Base class of functions x -> y with parameters that a loop over time calls at every step.

    Call an instance with x; make one for each run of the loop. The backward pass of each step
    appends a pair of tensors to the list `notes`, and after all steps `gather` computes the
    gradients of the parameters from it, once. Autograd does not see what `forward`, `backward` and
    `gather` do. The attribute `token` is a scalar input of every step, by which autograd calls
    `gather` last.
    """

    def __init__(self, *parameters: Tensor) -> None:
        self.notes: list[tuple[Tensor, Tensor]] = []
        self.token: Tensor = _Gather.apply(self, *parameters)  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        """Return y of the input x of a step, with autograd."""
        y: Tensor = _Step.apply(x, self.token, self)  # type: ignore[no-untyped-call]
        return y

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return y, and the tensor that the backward pass of this step needs."""

    @abstractmethod
    def backward(self, saved: Tensor, d_y: Tensor) -> Tensor:
        """Return the gradient of x, and append to `notes` what `gather` needs.

        saved: the second tensor that `forward` returned; d_y: the gradient of y.
        """

    @abstractmethod
    def gather(self) -> tuple[Tensor, ...]:
        """Return the gradient of each parameter, summed over all steps, from `notes`."""


class DeferredProduct(Deferred):
    """The function x -> x matrix^T; the matrix gets its gradient once, after a loop's last step."""

    def __init__(self, matrix: Tensor) -> None:
        matrix = compute_type(matrix)
        self.matrix = matrix.detach()
        super().__init__(matrix)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x matrix^T, and x for the backward pass, both in the matrix' dtype."""
        x = compute_type(x)
        return x @ self.matrix.mT, x

    def backward(self, saved: Tensor, d_y: Tensor) -> Tensor:
        """Return d_y @ matrix, the gradient of x, and record x (`saved`) and d_y for `gather`."""
        self.note(saved, d_y)
        return d_y @ self.matrix

    def note(self, x: Tensor, d_y: Tensor) -> None:
        """Record an input x (..., d_input) and the gradient d_y (..., d_output) of its product.

        Functions that compute products with the matrix by themselves (fused_cells.py) call it, too.
        """
        self.notes.append((x, d_y))

    def gather(self) -> tuple[Tensor, ...]:
        """Return the gradient of the matrix, summed over all steps, as a tuple of one tensor."""
        inputs, gradients = (
            parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)  # one: it need not be copied
            for parts in zip(*self.notes, strict=True)
        )
        return (gradients.mT @ inputs,)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, function: Deferred, *parameters: Tensor) -> Tensor:
        ctx.function = function
        ctx.kinds = [parameter.dtype for parameter in parameters]
        return parameters[0].new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.function.gather()
        ctx.function.notes.clear()
        return None, *(part.to(kind) for part, kind in zip(gradients, ctx.kinds, strict=True))


class _Step(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, token: Tensor, function: Deferred) -> Tensor:
        ctx.function = function
        ctx.kind = x.dtype
        y, saved = function.forward(x)
        ctx.save_for_backward(saved)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor, Tensor, None]:
        (saved,) = ctx.saved_tensors
        return ctx.function.backward(saved, d_y).to(ctx.kind), d_y.new_zeros(()), None
