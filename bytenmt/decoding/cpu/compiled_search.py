"""The compiled search for engines that compute log-probabilities elsewhere.

It is a part of the interpreter, so that nothing is compiled for it alone.
"""

from __future__ import annotations

import numpy as np

from bytenmt.decoding.cpu.interpreter import CHOOSE, run
from bytenmt.decoding.cpu.kernels.instructions import ModelBuffers, Rows, ThreadContext
from bytenmt.decoding.search.host_search import SearchStep
from bytenmt.decoding.search.state import SearchParams, SearchState


def compiled_search_step() -> SearchStep:
    """Return a compiled step of the search. Call compilation.load_or_compile before it is used."""
    ints, table = np.zeros(0, np.int64), np.zeros((0, 0), np.int64)
    model = ModelBuffers(
        *(0, 0, 0, 0, 0, 0, 0, table, table, table, table, ints, ints, ints),
        np.zeros((2, 0, 0), np.uint8),
        False,
    )
    rows = Rows(0, 0, np.zeros(0, np.uint8), np.zeros((0, 2), np.uint64), ints, ints, ints, ints, ints)
    ctx = ThreadContext(0, 1, 0, 0, 0)

    def step(search: SearchState, params: SearchParams) -> None:
        run(table, ints, model, rows, search, params, CHOOSE, 0, ctx)

    return SearchStep(step, np.float32)
