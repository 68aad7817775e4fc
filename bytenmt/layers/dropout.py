"""Dropout whose mask is cheap on a CPU.

PyTorch draws its mask one number at a time there, which takes up to a fifth of a training step.
Here 64 random bits decide four elements, each with a probability exact to 1/65536. The bits are a
hash of their index and of a seed from PyTorch's generator, so the mask does not depend on the
number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from bytenmt.compiled_hashes import INCREMENT, mix_bits
from bytenmt.jit import njit
from bytenmt.layers.kernel_helpers import parallel_for

N_PARTS = 1 << 16  # a probability is a multiple of 1 / N_PARTS
BLOCK_NUMBERS = 2048  # numbers of a block: 512 words of random bits
MIN_NUMBERS = 1 << 12  # from which on this mask is faster than PyTorch's
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # integers by their bytes
Numbers = npt.NDArray[Any]


def drop(x: Tensor, probability: float, training: bool) -> Tensor:
    """Apply dropout to x of any shape; return x itself unless `training`.

    Elements become 0 with this probability, the others are multiplied by 1 / (1 - probability).
    """
    if not training or not probability:
        return x
    if x.device.type != "cpu" or x.numel() < MIN_NUMBERS:
        return F.dropout(x, probability, training)
    return x * dropout_mask(x, min(round(probability * N_PARTS), N_PARTS - 1))


def dropout_mask(x: Tensor, parts: int) -> Tensor:
    """Return a dropout mask of x's shape and dtype; x must be on the CPU.

    Elements are 0 with probability p = parts / 65536, otherwise 1 / (1 - p).
    """
    mask = torch.empty(x.numel(), dtype=x.dtype)
    bits = mask.view(INTEGERS[x.element_size()])
    scale = torch.tensor([N_PARTS / (N_PARTS - parts)], dtype=x.dtype).view(bits.dtype)
    seed = torch.empty(1, dtype=torch.int64).random_().numpy()
    arrays = (bits.numpy(), scale.numpy(), seed)
    n_blocks = -(-len(bits) // BLOCK_NUMBERS)
    parallel_for(lambda _, first, last: fill_mask(*arrays, parts, first, last), n_blocks)
    return mask.view(x.shape)


@njit
def fill_mask(
    bits: Numbers, scale: Numbers, seed: Numbers, parts: int, first: int, last: int
) -> None:
    """Overwrite each element of a dropout mask with 0 or, if it is to be kept, the scale.

    bits (n,): the mask's memory as integers of the same size. scale (1,): the scale's bits as such
    an integer. seed (1,) int64: of the random numbers. parts: an element is 0 with a probability of
    parts / 65536. first, last: blocks first to last - 1, of 2,048 elements each, are written.
    """
    words = np.empty(512, np.uint64)
    draws = words.view(np.uint16)
    zero = bits.dtype.type(0)
    least = np.uint16(parts)
    kept = scale[0]
    for block in range(first, last):
        start = np.uint64(seed[0]) + np.uint64(block) * np.uint64(512) * INCREMENT
        for i in range(512):
            words[i] = mix_bits(start + np.uint64(i) * INCREMENT)
        piece = bits[block * 2048 : (block + 1) * 2048]
        for i in range(len(piece)):
            piece[i] = kept if draws[i] >= least else zero
