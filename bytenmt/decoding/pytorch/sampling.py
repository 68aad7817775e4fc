"""Sampling: which byte is drawn, by a hash of whose byte it is.

The hash is that of splitmix.py, in int64, which wraps as unsigned words do. Knows no search.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from bytenmt.decoding.interface import Options
from bytenmt.splitmix import FIRST, GOLDEN, SECOND, signed


def uniform(key: Tensor, step: Tensor) -> Tensor:
    """key, step int64 of one shape -> float64 in [0, 1), multiples of 2^-24: mixed(key + step) >> 40, see
    splitmix."""

    def shifted(x: Tensor, by: int) -> Tensor:
        return (x >> by) & ((1 << (64 - by)) - 1)  # int64 shifts its sign in

    x = key + step + signed(GOLDEN)
    x = (x ^ shifted(x, 30)) * signed(FIRST)
    x = (x ^ shifted(x, 27)) * signed(SECOND)
    return shifted(x ^ shifted(x, 31), 40).double() / (1 << 24)


def draw(log_p: Tensor, key: Tensor, step: Tensor, options: Options) -> Tensor:
    """log_p (n, b, 256), -inf where not allowed; key (n, b), step (n,) int64 -> bytes (n, b) int64.

    The first byte in the order of their values at which the running sum of the kept probabilities exceeds
    the uniform number's share of their total.
    """
    scaled = log_p.double() / options.temperature
    if options.top_k or options.top_p < 1:
        scaled = scaled.masked_fill(~kept(scaled, options.top_k, options.top_p), -torch.inf)
    weights = (scaled - scaled.amax(dim=2, keepdim=True)).exp()
    running = weights.cumsum(dim=2)
    share = uniform(key, step[:, None].expand_as(key)) * running[:, :, -1]
    return (running <= share[:, :, None]).sum(dim=2)


def kept(scaled: Tensor, top_k: int, top_p: float) -> Tensor:
    """The likeliest bytes: scaled (n, b, 256) float64 -> bool. Of equal ones the lower byte comes first."""
    ordered, order = scaled.sort(dim=2, descending=True, stable=True)
    if top_k:
        ordered[:, :, top_k:].fill_(-torch.inf)
    before = F.pad(ordered.softmax(dim=2).cumsum(dim=2)[:, :, :-1], (1, 0))
    keep = (ordered > -torch.inf) & (before < top_p)
    return torch.zeros_like(keep).scatter(2, order, keep)
