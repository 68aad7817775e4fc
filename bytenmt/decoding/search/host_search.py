"""A step of the search for engines that compute log-probabilities elsewhere, such as on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bytenmt.decoding.search.beam_search import choose_bytes
from bytenmt.decoding.search.candidates import NO_SCORE, consider_all, copy_values, insert
from bytenmt.decoding.search.state import SearchParams, SearchState
from bytenmt.jit import as_python


class SearchStep(NamedTuple):
    """One step of the search as a function of Python, compiled by Numba or not.

    run(search, params): chooses the next bytes of all sentences, see beam_search.choose_bytes. dtype: the
    type that SearchState.log_p must have for it.
    """

    run: Callable[[SearchState, SearchParams], None]
    dtype: type[np.floating[Any]]


def python_search_step(dtype: type[np.floating[Any]] = np.float64) -> SearchStep:
    """Return the step of the search that is not compiled: Python, with NumPy for its longest loops."""
    choose = as_python(choose_bytes, STAND_INS)

    def run(search: SearchState, params: SearchParams) -> None:
        with np.errstate(all="ignore"):  # as compiled code does
            choose(search, params)

    return SearchStep(run, dtype)


_insert = as_python(insert)


def _consider_all(
    best: Any, index: Any, n: int, score: float, log_p: Any, allowed: Any, candidate: int
) -> int:
    """Compute candidates.consider_all with NumPy."""
    totals = np.where(allowed, score + log_p.astype(np.float64), NO_SCORE)
    for byte in np.argsort(-totals, kind="stable")[: len(best)].tolist():
        if not totals[byte] > (best[n - 1] if n == len(best) else NO_SCORE):
            break
        n = _insert(best, index, n, totals[byte], candidate + byte)
    return n


STAND_INS: dict[Any, Callable[..., Any]] = {
    copy_values: np.copyto,
    consider_all: _consider_all,
}
