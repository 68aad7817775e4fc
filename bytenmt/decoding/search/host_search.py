"""The search for engines that compute log-probabilities elsewhere, such as on a GPU.

The engine asks which bytes to read, computes the log-probabilities of the next bytes, hands them over, and
asks which rows to continue. A search step runs on the host and costs the engine one synchronisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.interface import Options
from bytenmt.decoding.search.batch import SearchBatch
from bytenmt.decoding.search.beam_search import choose_bytes
from bytenmt.decoding.search.candidates import NO_SCORE, consider_all, copy_values
from bytenmt.decoding.search.state import RUNNING, SearchParams, SearchState
from bytenmt.jit import as_python
from bytenmt.utf8 import N_IDS


class SearchStep(NamedTuple):
    """A step of the search, compiled or as Python.

    run(search, params): choose the next bytes of all sentences. dtype: type of the log-probabilities that it
    reads.
    """

    run: Callable[[SearchState, SearchParams], None]
    dtype: type[np.floating[Any]]


def python_search_step(dtype: type[np.floating[Any]] = np.float64) -> SearchStep:
    """Return a step of the search as Python, with NumPy in place of its longest loops."""
    choose = as_python(choose_bytes, STAND_INS)

    def run(search: SearchState, params: SearchParams) -> None:
        with np.errstate(all="ignore"):  # as compiled code does
            choose(search, params)

    return SearchStep(run, dtype)


def _consider_all(
    best: Any, index: Any, n: int, score: float, log_p: Any, allowed: Any, candidate: int
) -> int:
    """Compute candidates.consider_all with NumPy."""
    totals = np.where(allowed, score + log_p.astype(np.float64), NO_SCORE)
    for byte in np.argsort(-totals, kind="stable")[: len(best)].tolist():
        if not totals[byte] > (best[n - 1] if n == len(best) else NO_SCORE):
            break
        at = min(n, len(best) - 1)
        n = at + 1
        while at > 0 and totals[byte] > best[at - 1]:
            best[at], index[at] = best[at - 1], index[at - 1]
            at -= 1
        best[at], index[at] = totals[byte], candidate + byte
    return n


STAND_INS: dict[Any, Callable[..., Any]] = {
    copy_values: np.copyto,
    consider_all: _consider_all,
}


class HostSearch(SearchBatch):
    """A SearchBatch for engines in PyTorch, which hand over log-probabilities, sentence by sentence."""

    def __init__(self, options: Options, capacity: int, step: SearchStep | None = None) -> None:
        """step: a step of the search; None for Python."""
        step = step or python_search_step()
        super().__init__(options, capacity, 0, step.dtype)
        self._run_search = step.run

    def is_running(self, slots: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Return for each slot whether its sentence is not done yet: (n,) bool."""
        running: npt.NDArray[np.bool_] = self.state.state[list(slots)] == RUNNING
        return running

    def choose(self, slots: Sequence[int], log_p: npt.NDArray[Any]) -> None:
        """Choose the next bytes of the running sentences.

        log_p (n, b, 256): log-probabilities of the byte after each one of state.last; those of
        sentences that are done are ignored.
        """
        state, beam = self.state, log_p.shape[1]
        running = np.flatnonzero(self.is_running(slots))
        state.n_rows[0] = n_rows = len(running) * beam
        state.row_slot[:n_rows] = np.repeat(np.array(slots, np.int64)[running], beam)
        state.log_p[:n_rows] = log_p[running].reshape(n_rows, N_IDS)
        self._run_search(state, self.params)
