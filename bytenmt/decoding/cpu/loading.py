"""Load models for the numba engine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bytenmt.architectures.section import ModelSection
from bytenmt.checkpoints.weights import StoredWeights, restore_weights
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.library import load_engine
from bytenmt.decoding.cpu.packing import PackedModel, pack_model
from bytenmt.decoding.cpu.scorer import CpuScorer
from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.loading import EngineFunctions, engine_functions, n_threads
from bytenmt.reporter import Reporter

_CHECKED = set[ModelSection]()  # the models that _check_programs has compared in this process


def load_numba(
    stored: Sequence[tuple[Path, StoredWeights]], spec: EngineSpec, reporter: Reporter
) -> EngineFunctions:
    """Load models for the numba engine; return functions that make engines and scorers of them.

    stored: file and contents of each model. spec: threads, and the precision of the matrices (that
    of each file if AUTO). reporter: gets the progress where kernels are compiled. Raises
    BytenmtError where there are no kernels, or a program differs from its PyTorch module.
    """

    def pack(number: int, precision: str) -> PackedModel:
        contents = stored[number][1]
        return pack_model(restore_weights(contents.arrays), contents.config.model, precision)

    load_engine(reporter)
    if "torch" in sys.modules:
        _check_programs(stored)
    threads = n_threads(spec)
    make_engine = partial(NumbaEngine, threads=threads)
    make_scorer = partial(CpuScorer, threads=threads)
    return engine_functions(stored, spec, pack, make_engine, make_scorer)


def _check_programs(stored: Sequence[tuple[Path, StoredWeights]]) -> None:
    """Compare each model's program with its module, once a process. Raises BytenmtError if they
    differ.

    Where PyTorch would have to be imported for it, nothing is compared: the training has done it.
    """
    from bytenmt.checkpoints.checkpoint import build_from_weights
    from bytenmt.decoding.program_check import check_program

    for file, contents in stored:
        if contents.config.model not in _CHECKED:
            check_program(build_from_weights(contents, file), contents.config.model)
            _CHECKED.add(contents.config.model)
