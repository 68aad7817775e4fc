"""GRUs and LSTMs over whole sequences by PyTorch's own kernels, which are cuDNN's on a GPU.

A loop over bytes launches a dozen small kernels a byte; on a GPU the launches take longer than the
work. Our parameters are rearranged to PyTorch's in every call: two matrices, and two biases of
which the second is zero. On the CPU, where the kernels have the same interface, our loop with fused
cells is faster.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from bytenmt.layers.deferred_matmul import compute_type

SATURATING_INPUT = 1e4  # drives a sigmoid to exactly 0 or 1
# Columns that are added to the inputs: cuDNN is slower with widths that are not multiples of 8.
N_MARK_COLUMNS = 8

# The weights come from different tensors by design; cuDNN copies them together, which takes
# microseconds.
warnings.filterwarnings(
    "ignore", message="RNN module weights are not part of single contiguous chunk"
)


def has_sequence_kernels(x: Tensor) -> bool:
    """Return whether `gru` and `lstm` are to read x (rows, t, d): it is on CUDA, and t > 1."""
    return x.device.type == "cuda" and x.shape[1] > 1


def gru(x: Tensor, h: Tensor, parameters: Sequence[Tensor], take: bool) -> Tensor:
    """Run a GRU with g = tanh(W_g x + r * (U_g h)) over a sequence; return states (rows, t, d).

    x (rows, t, d_input); h (rows, d): the state before it. parameters: W (3 d, d_input), U (3 d, d)
    and the bias (3 d,) of r, z, g. take: whether a step sets h to (1 - z) * h + z * g instead of
    z * h + (1 - z) * g; the weights of z are then negated.
    """
    weights = [compute_type(part) for part in parameters]
    if take:
        signs = weights[0].new_ones(3, h.shape[1])
        signs[1] = -1
        signs = signs.view(-1)
        w, u, bias = weights
        weights = [w * signs[:, None], u * signs[:, None], bias * signs]
    states, _ = _run(torch._VF.gru, x, (h,), weights)
    return states.to(h.dtype)


def lstm(
    x: Tensor, before: Sequence[Tensor], parameters: Sequence[Tensor], padding: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Run an LSTM over a sequence; return all h (rows, t, d), and the last c (rows, d) of each row.

    x (rows, t, d_input); before: first h and c, (rows, d). parameters: W (4 d, d_input), U (4 d, d)
    and the bias (4 d,) of i, f, g, o. padding (rows, t) bool: true for bytes behind the end of
    their rows; None: there are none.

    The kernels return the cells of the last column alone. Padding is therefore marked in an input
    of its own, which shuts the input gate and opens the forget gate, so that the cells stay what
    they are.
    """
    h, c = before
    weights = [compute_type(part) for part in parameters]
    if padding is not None:
        marks = weights[0].new_zeros(4, h.shape[1], N_MARK_COLUMNS)
        marks[0, :, 0] = -SATURATING_INPUT
        marks[1, :, 0] = SATURATING_INPUT
        weights[0] = torch.cat([weights[0], marks.flatten(0, 1)], dim=1)
        mark = F.pad(padding[:, :, None].to(x.dtype), (0, N_MARK_COLUMNS - 1))
        x = torch.cat([x, mark], dim=-1)
    states, _, cells = _run(torch._VF.lstm, x, (h, c), weights)
    return states.to(h.dtype), cells[0].to(c.dtype)


Kernel = Callable[..., tuple[Tensor, ...]]


def _run(
    kernel: Kernel, x: Tensor, before: tuple[Tensor, ...], weights: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Call a kernel of PyTorch's for one layer, without autocast, which would compute in fp16."""
    w, u, bias = weights
    states: Tensor | list[Tensor] = [part.to(w.dtype)[None].contiguous() for part in before]
    if len(before) == 1:
        states = states[0]
    with torch.autocast(x.device.type, enabled=False):
        # The kernels take their arguments by position alone.
        return kernel(
            x.to(w.dtype),
            states,
            [w, u, bias, torch.zeros_like(bias)],
            True,  # has_biases
            1,  # num_layers
            0.0,  # dropout
            torch.is_grad_enabled(),  # train
            False,  # bidirectional
            True,  # batch_first
        )
