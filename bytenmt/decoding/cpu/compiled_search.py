"""The compiled search for engines that compute log-probabilities elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bytenmt.decoding.cpu.compilation import compile_once
from bytenmt.decoding.interface import Options
from bytenmt.decoding.search.batch import SearchBatch
from bytenmt.decoding.search.beam_search import choose_bytes
from bytenmt.decoding.search.host_search import SearchStep
from bytenmt.decoding.search.state import SearchParams, SearchState
from bytenmt.jit import cache_folder, njit_borrowing
from bytenmt.reporter import SILENT, Reporter


@njit_borrowing
def choose(search: SearchState, params: SearchParams) -> None:
    """Choose the next bytes of all running sentences, see beam_search."""
    choose_bytes(search, params)


def compiled_search_step(reporter: Reporter = SILENT) -> SearchStep:
    """Return a compiled step of the search, from the disk or compiled now."""
    batch = SearchBatch(Options(), 1, 0, np.float32)
    compile_once(lambda: choose(batch.state, batch.params), cache_folder(Path(__file__)), reporter)
    return SearchStep(choose, np.float32)
