"""Dropout whose mask is cheap on a CPU.

PyTorch draws its mask there one number at a time, up to a fifth of a training step. Here 64 random bits, a
hash of the word's index under one seed from PyTorch's generator, decide four elements, each with a
probability exact to 1/65536; the same seed gives the same mask with any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from bytenmt.jit import njit
from bytenmt.layers.parallel import spread
from bytenmt.splitmix import INCREMENT, scrambled

PARTS = 1 << 16  # a probability is a whole number of these
BLOCK = 2048  # elements a block: 512 words of random bits
ENOUGH = 1 << 12  # elements that are worth a mask of our own
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # bytes an element: an integer of that size


def drop(x: Tensor, probability: float, training: bool) -> Tensor:
    """x of any shape -> in training each element 0 with this probability, else over (1 - probability)."""
    if not training or not probability:
        return x
    if x.device.type != "cpu" or x.numel() < ENOUGH or torch.compiler.is_compiling():
        return F.dropout(x, probability, training)
    return x * noise(x, min(round(probability * PARTS), PARTS - 1))


def noise(x: Tensor, parts: int) -> Tensor:
    """Return a mask of x's shape and type: 0 in `parts` of 65536 elements, elsewhere the scale that keeps the
    mean."""
    found = torch.empty(x.numel(), dtype=x.dtype)
    bits = found.view(BITS[x.element_size()])
    kept = torch.tensor([PARTS / (PARTS - parts)], dtype=x.dtype).view(bits.dtype)
    seed = torch.empty(1, dtype=torch.int64).random_().numpy()
    arrays = bits.numpy(), kept.numpy(), seed
    spread(lambda _, first, last: fill_noise(*arrays, parts, first, last), -(-len(bits) // BLOCK))
    return found.view(x.shape)


@njit
def fill_noise(
    bits: npt.NDArray[Any],
    kept: npt.NDArray[Any],
    seed: npt.NDArray[np.int64],
    parts: int,
    first: int,
    last: int,
) -> None:
    """Blocks first ... last - 1 of bits (n,), of BLOCK elements each: kept[0] or 0, drawn by splitmix64."""
    words = np.empty(512, np.uint64)
    draws = words.view(np.uint16)
    zero = bits.dtype.type(0)
    least, one = np.uint16(parts), kept[0]
    for block in range(first, last):
        start = np.uint64(seed[0]) + np.uint64(block) * np.uint64(512) * INCREMENT
        for i in range(512):
            words[i] = scrambled(start + np.uint64(i) * INCREMENT)
        piece = bits[block * 2048 : (block + 1) * 2048]
        for i in range(len(piece)):
            piece[i] = one if draws[i] >= least else zero
