"""The interpreter without Numba: its own Python, above kernels in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bytenmt.decoding.cpu.interpreter import run
from bytenmt.decoding.cpu.kernels.in_numpy import STAND_INS
from bytenmt.jit import as_python


@cache
def run_in_numpy() -> Callable[..., None]:
    """interpreter.run for one thread and models in fp32, to the rounding of sums. From here on NumPy's
    products in this process stay in their thread: on more, each would wait for a core that compiles."""
    threadpool_limits(1, "blas")
    made = as_python(run, STAND_INS)

    def quietly(*given: Any) -> None:
        with np.errstate(all="ignore"):  # as compiled code is
            made(*given)

    return quietly
