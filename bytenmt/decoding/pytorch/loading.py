"""Load models for the engines in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bytenmt.architectures.base import Model
from bytenmt.checkpoints.checkpoint import build_from_weights
from bytenmt.checkpoints.weights import StoredWeights
from bytenmt.decoding.cpu.library import load_search
from bytenmt.decoding.interface import EngineSpec, SearchOptions
from bytenmt.decoding.loading import EngineFunctions, engine_functions
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.engine import PyTorchEngine, TorchEngine
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.reporter import Reporter

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def _load(
    engine: type[TorchEngine] | type[CudaGraphEngine],
    stored: Sequence[tuple[Path, StoredWeights]],
    spec: EngineSpec,
    reporter: Reporter,
) -> EngineFunctions:
    """Load models on their device. stored: file and contents of each model."""
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    device = torch.device(spec.device)

    def build_model(number: int, precision: str) -> Model[Any, Any]:
        file, contents = stored[number]
        return build_from_weights(contents, file).to(device, DTYPES[precision]).eval()

    def make_engine(
        models: Sequence[Model[Any, Any]], options: SearchOptions, capacity: int
    ) -> PyTorchEngine:
        load_search(reporter)
        return engine(models, options, capacity, device)

    make_scorer = partial(TorchScorer, device=device)
    return engine_functions(stored, spec, build_model, make_engine, make_scorer)


load_torch = partial(_load, TorchEngine)
load_cuda_graph = partial(_load, CudaGraphEngine)
