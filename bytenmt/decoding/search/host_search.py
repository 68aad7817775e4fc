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
from bytenmt.decoding.search.sampling import draw_byte
from bytenmt.decoding.search.state import RUNNING, SearchParams, SearchState
from bytenmt.jit import as_python
from bytenmt.utf8 import N_IDS

Ints = npt.NDArray[np.int64]


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


def _draw_byte(log_p: Any, allowed: Any, params: SearchParams, share: float) -> int:
    """Compute sampling.draw_byte with NumPy."""
    may = np.flatnonzero(allowed)
    order = may[np.argsort(-log_p[may], kind="stable")]
    if params.top_k > 0:
        order = order[: params.top_k]
    kept = np.exp((log_p[order] - log_p[order[0]]) / params.temperature)
    if params.top_p < 1.0:
        before = np.concatenate([[0.0], np.cumsum(kept)[:-1]])
        kept[before >= params.top_p * np.cumsum(kept)[-1]] = 0.0
    weights = np.zeros(N_IDS)
    weights[order] = kept
    running = np.cumsum(weights)
    total = running[-1] if params.top_p < 1.0 else np.cumsum(kept)[-1]
    drawn = np.flatnonzero((running > share * total) & (weights > 0.0))
    return int(drawn[0]) if len(drawn) else int(np.flatnonzero(weights)[-1])


STAND_INS: dict[Any, Callable[..., Any]] = {
    copy_values: np.copyto,
    consider_all: _consider_all,
    draw_byte: _draw_byte,
}


class HostSearch(SearchBatch):
    """A SearchBatch whose log-probabilities an engine hands over, sentence by sentence."""

    def __init__(self, options: Options, capacity: int, step: SearchStep | None = None) -> None:
        """step: a step of the search; None for Python."""
        step = step or python_search_step()
        super().__init__(options, capacity, 0, step.dtype)
        self._step = step.run

    def is_running(self, slots: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Return for each slot whether its sentence is not done yet: (n,) bool."""
        running: npt.NDArray[np.bool_] = self.state.state[list(slots)] == RUNNING
        return running

    def bytes_to_read(self, slots: Sequence[int]) -> npt.NDArray[np.uint8]:
        """Return the bytes that the next pass reads, one per beam: (n, b)."""
        return self.state.last[list(slots)]

    def parents(self, slots: Sequence[int]) -> Ints:
        """Return for each beam which beam of the previous pass it continues: (n, b)."""
        parents: Ints = self.state.parent[list(slots)]
        return parents

    def choose(self, slots: Sequence[int], log_p: npt.NDArray[Any]) -> None:
        """Choose the next bytes of the running sentences.

        log_p (n, b, 256): log-probabilities of the byte after each one of bytes_to_read; those of sentences
        that are done are ignored.
        """
        state, beam = self.state, log_p.shape[1]
        running = np.flatnonzero(self.is_running(slots))
        state.n_rows[0] = n_rows = len(running) * beam
        state.row_slot[:n_rows] = np.repeat(np.array(slots, np.int64)[running], beam)
        state.log_p[:n_rows] = log_p[running].reshape(n_rows, N_IDS)
        self._step(state, self.params)
