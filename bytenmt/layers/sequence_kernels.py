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

MARK = 1e4  # drives a sigmoid to exactly 0 or 1
# columns that are added to the inputs; cuDNN is slower with widths that are no multiples of 8
N_MARKS = 8

# The weights come from different tensors by design; cuDNN copies them together, which takes
# microseconds.
warnings.filterwarnings(
    "ignore", message="RNN module weights are not part of single contiguous chunk"
)


def has_sequence_kernels(x: Tensor) -> bool:
    """Return whether `gru` and `lstm` should read x (rows, t, d): if it is on CUDA and t > 1."""
    return x.device.type == "cuda" and x.shape[1] > 1


def gru(x: Tensor, h: Tensor, parameters: Sequence[Tensor], take: bool) -> Tensor:
    """Run a GRU with reset "after" (see recurrent.GRU) over a sequence; return its states (rows, t,
    d).

    x (rows, t, d_input), h (rows, d). parameters: W (3 d, d_input), U (3 d, d) and the bias (3 d,)
    of r, z, g. take: update "take", which is "keep" with the weights of z negated.
    """
    weights = [compute_type(part) for part in parameters]
    if take:
        d = h.shape[1]
        signs = weights[0].new_ones(3, d)
        signs[1] = -1
        weights = [
            part * (signs.view(-1, 1) if part.dim() > 1 else signs.view(-1)) for part in weights
        ]
    states, _ = _run(torch._VF.gru, x, (h,), weights)
    return states.to(h.dtype)


def lstm(
    x: Tensor, before: Sequence[Tensor], parameters: Sequence[Tensor], padding: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Run an LSTM over a sequence; return all h (rows, t, d), and c (rows, d) after each row's last
    byte.

    x (rows, t, d_input); before: h and c, (rows, d). parameters: W (4 d, d_input), U (4 d, d) and
    the bias (4 d,) of i, f, g, o. padding (rows, t) bool: bytes behind the end of their rows; None:
    there are none.

    The kernels return the cells of the last column alone. Padding is therefore marked in an input
    of its own, which shuts the input gate and opens the forget gate, so that the cells stay what
    they are.
    """
    (h, c), weights = before, [compute_type(part) for part in parameters]
    if padding is not None:
        d = h.shape[1]
        marks = weights[0].new_zeros(4, d, N_MARKS)
        marks[0, :, 0], marks[1, :, 0] = -MARK, MARK
        weights[0] = torch.cat([weights[0], marks.flatten(0, 1)], dim=1)
        x = torch.cat([x, F.pad(padding[:, :, None].to(x.dtype), (0, N_MARKS - 1))], dim=-1)
    states, _, cells = _run(torch._VF.lstm, x, (h, c), weights)
    return states.to(h.dtype), cells[0].to(c.dtype)


Kernel = Callable[..., tuple[Tensor, ...]]


def _run(
    kernel: Kernel, x: Tensor, before: tuple[Tensor, ...], weights: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Call a kernel of PyTorch's for one layer, outside of autocast, which would make it compute in
    fp16."""
    w, u, bias = weights
    x, before = x.to(w.dtype), tuple(part.to(w.dtype)[None].contiguous() for part in before)
    flat = [w, u, bias, torch.zeros_like(bias)]
    has_biases, n_layers, dropout, bidirectional, batch_first = True, 1, 0.0, False, True
    options = has_biases, n_layers, dropout, torch.is_grad_enabled(), bidirectional, batch_first
    with torch.autocast(x.device.type, enabled=False):
        return kernel(x, before if len(before) > 1 else before[0], flat, *options)
