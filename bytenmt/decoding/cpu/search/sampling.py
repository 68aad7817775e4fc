"""Where the draws of a text come from. Compiled without a cache of its own, as part of interpreter.py."""

from __future__ import annotations

import numpy as np

from bytenmt.decoding.cpu.kernels.simd import compiled
from bytenmt.splitmix import INCREMENT, scrambled

HIGHEST_24 = np.uint64(40)  # bits that are left out


@compiled
def uniform(key: np.uint64, step: int) -> float:
    """The draw of a text's byte, from 0 to under 1: splitmix.mixed(key + step)."""
    return float(scrambled(key + np.uint64(step) + INCREMENT) >> HIGHEST_24) / float(1 << 24)
