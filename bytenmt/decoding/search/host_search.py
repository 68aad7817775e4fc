"""The search for engines that compute log-probabilities elsewhere, such as on a GPU.

The engine asks which bytes to read, computes the log-probabilities of the next bytes, hands them over, and
asks which rows to continue. A search step runs on the host and costs the engine one synchronisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.drafts.table import Speculation
from bytenmt.decoding.interface import Options
from bytenmt.decoding.search.batch import SearchBatch
from bytenmt.decoding.search.beam_search import choose_bytes
from bytenmt.decoding.search.candidates import NO_SCORE, consider_all, copy_values
from bytenmt.decoding.search.drafting import DraftParams, draft_all
from bytenmt.decoding.search.sampling import draw_byte
from bytenmt.decoding.search.state import RUNNING, SearchParams, SearchState
from bytenmt.jit import as_python
from bytenmt.kernel_constants import MOST_DRAFTED
from bytenmt.utf8 import N_IDS

Ints = npt.NDArray[np.int64]


class SearchStep(NamedTuple):
    """A step of the search, compiled or as Python.

    run(search, params, drafts, chooses): choose the next bytes of all sentences, or draft bytes.
    dtype: type of the log-probabilities that it reads.
    """

    run: Callable[[SearchState, SearchParams, DraftParams, bool], None]
    dtype: type[np.floating[Any]]


def python_search_step(dtype: type[np.floating[Any]] = np.float64) -> SearchStep:
    """Return a step of the search as Python, with NumPy in place of its longest loops."""
    choose, draft = as_python(choose_bytes, STAND_INS), as_python(draft_all)

    def run(search: SearchState, params: SearchParams, drafts: DraftParams, chooses: bool) -> None:
        with np.errstate(all="ignore"):  # as compiled code does
            if chooses:
                choose(search, params, drafts)
            else:
                draft(search, drafts)

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

    def __init__(
        self,
        options: Options,
        capacity: int,
        speculation: Speculation | None = None,
        step: SearchStep | None = None,
        attends: bool = False,
    ) -> None:
        """speculation: how bytes are drafted, see set_draft_width; None for no drafts.

        step: a step of the search; None for Python. attends: see SearchBatch.
        """
        n_rows = capacity * (1 + MOST_DRAFTED) if speculation else 0
        step = step or python_search_step()
        super().__init__(options, capacity, 0, n_rows, speculation, step.dtype, attends)
        self._step = step.run
        self._width = 0

    def is_running(self, slots: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Return for each slot whether its sentence is not done yet: (n,) bool."""
        running: npt.NDArray[np.bool_] = self.state.state[list(slots)] == RUNNING
        return running

    def set_draft_width(self, width: int) -> None:
        """Set the number of drafted bytes per pass, 0 for none.

        Call it before the first sentence is admitted.
        """
        self._width, self._has_drafts = width, width > 0
        self.most_drafted = width

    def draft_bytes(self) -> None:
        """Draft the bytes that the next pass reads after the last chosen ones."""
        self._step(self.state, self.params, self.drafts, False)

    def bytes_to_read(self, slots: Sequence[int]) -> npt.NDArray[np.uint8]:
        """Return the bytes that the next pass reads: one per beam (n, b), or one and the drafted bytes
        (n, 1 + width)."""
        last = self.state.last[list(slots)]
        if not self._width:
            return last
        return np.concatenate([last, self.state.drafted[list(slots), : self._width]], axis=1)

    def parents(self, slots: Sequence[int]) -> Ints:
        """Return for each beam which beam of the previous pass it continues: (n, b)."""
        parents: Ints = self.state.parent[list(slots)]
        return parents

    def choose(
        self, slots: Sequence[int], log_p: npt.NDArray[Any], attention: npt.NDArray[np.float32] | None = None
    ) -> Ints:
        """Choose the next bytes of the running sentences; return for each slot how many columns of the pass
        were rejected drafts, (n,).

        log_p (n, b or 1 + width, 256): log-probabilities of the byte after each one of bytes_to_read; those
        of sentences that are done are ignored. attention (n, b or 1 + width, s): the sum of the attention
        weights of all layers and models, where `attends`.
        """
        state, slot_array = self.state, np.array(slots, np.int64)
        running = np.flatnonzero(self.is_running(slots))
        which = slot_array[running]
        n_columns = log_p.shape[1]
        is_read = np.ones((len(running), n_columns), np.bool_)
        if self._width:
            is_read = np.arange(n_columns) <= state.n_drafted[which, None]
        sentence, column = is_read.nonzero()
        n_rows = len(sentence)
        state.rows[:n_rows, 0] = which[sentence]
        state.rows[:n_rows, 1:] = 0
        state.rows[:n_rows, 2 if self._width else 1] = column
        state.n_rows[0] = n_rows
        state.log_p[:n_rows] = log_p[running[sentence], column]
        if attention is not None and self.attends:
            n = min(attention.shape[2], state.attention.shape[1])
            state.attention[:n_rows, :n] = attention[running[sentence], column, :n]
            state.attention[:n_rows, n:] = 0
        before = state.step[which].copy()
        self._step(state, self.params, self.drafts, True)
        n_rejected = np.zeros(len(slot_array), np.int64)
        n_rejected[running] = n_columns - (state.step[which] - before) if self._width else 0
        return n_rejected
