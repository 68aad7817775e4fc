"""Load stored weights into an engine, a reader that scores fixed texts, and the attention of each model.

PyTorch is imported only for the engines that need it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bytenmt.architectures.section import ModelSection
from bytenmt.checkpoints.weights import StoredWeights, restored
from bytenmt.decoding.engine_selection import n_cores, precision_of
from bytenmt.decoding.interface import AUTO, Engine, EngineSpec, Options
from bytenmt.decoding.reading import Attention, Reader
from bytenmt.reporter import Reporter

if TYPE_CHECKING:
    from bytenmt.architectures.base import Model
    from bytenmt.decoding.cpu.packing import PackedModel

MAX_THREADS = 2  # of the numba engine by default: more than that wait for the memory


@dataclass(frozen=True)
class EngineModels:
    """Models that are ready to decode, to score fixed texts and to be asked for their attention."""

    # Returns an engine for at most so many sentences side by side.
    make_engine: Callable[[Options, int], Engine]
    # Returns a reader, which scores in fp32 unless another precision was asked for.
    reader: Callable[[], Reader]
    # Returns the attention of each model that has some.
    attention: Callable[[], list[Attention]]


def n_threads(spec: EngineSpec) -> int:
    """Return the number of CPU threads that decode, once runs are loaded."""
    if spec.engine == "numba":
        return spec.threads or min(MAX_THREADS, n_cores())
    import torch

    return torch.get_num_threads()


def load_numba(
    stored: Sequence[tuple[Path, StoredWeights]], spec: EngineSpec, reporter: Reporter
) -> EngineModels:
    """Load models for the numba engine, each in its file's precision unless spec has another.

    stored: file and contents of each model. The kernels are compiled first if this machine has not done it.
    """
    from bytenmt.decoding.cpu.compilation import compile_kernels
    from bytenmt.decoding.cpu.engine import NumbaEngine
    from bytenmt.decoding.cpu.packing import pack_model
    from bytenmt.decoding.cpu.reader import CpuAttention, CpuReader

    def packed_in(precision: str, one: StoredWeights) -> PackedModel:
        return pack_model(restored(one.arrays), one.config.model, precision)

    if "torch" in sys.modules:
        _check_programs(stored)
    packed = [packed_in(precision_of(one.precision, spec), one) for _, one in stored]
    exact, threads = "fp32" if spec.precision == AUTO else spec.precision, n_threads(spec)

    def pack_exactly() -> list[PackedModel]:
        pairs = zip(packed, stored, strict=True)
        return [model if model.precision == exact else packed_in(exact, one) for model, (_, one) in pairs]

    def attention() -> list[Attention]:
        models = zip(pack_exactly(), stored, strict=True)
        return [CpuAttention(model, threads) for model, (_, one) in models if one.config.model.has_attention]

    compile_kernels(reporter)
    return EngineModels(
        partial(NumbaEngine, packed, threads=threads),
        lambda: CpuReader(pack_exactly(), threads),
        attention,
    )


_CHECKED = set[ModelSection]()  # the models that _check_programs has compared in this process


def _check_programs(stored: Sequence[tuple[Path, StoredWeights]]) -> None:
    """Compare each model's program with its module, once a process. Raises BytenmtError if they differ.

    Where PyTorch would have to be imported for it, nothing is compared: the training has done it.
    """
    from bytenmt.checkpoints.checkpoint import build
    from bytenmt.decoding.program_check import check_program

    for file, one in stored:
        if one.config.model not in _CHECKED:
            check_program(build(one, file), one.config.model)
            _CHECKED.add(one.config.model)


def load_pytorch(
    stored: Sequence[tuple[Path, StoredWeights]], spec: EngineSpec, reporter: Reporter
) -> EngineModels:
    """Load models on their device: for a CUDA graph in bf16 by default, for plain PyTorch in fp32.

    stored: file and contents of each model.
    """
    import torch

    from bytenmt.checkpoints.checkpoint import build
    from bytenmt.decoding.cpu.compiled_search import compiled_search_step
    from bytenmt.decoding.pytorch.reader import TorchAttention, TorchReader
    from bytenmt.distributed import local_device

    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    device = local_device(torch.device(spec.device))

    def build_models(precisions: Sequence[str]) -> list[Model[Any, Any]]:
        dtypes = [torch.bfloat16 if precision == "bf16" else torch.float32 for precision in precisions]
        pairs = zip(dtypes, stored, strict=True)
        return [build(one, file).to(device, dtype).eval() for dtype, (file, one) in pairs]

    precisions = [precision_of(one.precision, spec) for _, one in stored]
    exact = ["fp32" if spec.precision == AUTO else spec.precision] * len(stored)
    models = build_models(precisions)

    def exact_models() -> list[Model[Any, Any]]:
        return models if precisions == exact else build_models(exact)

    def attention() -> list[Attention]:
        pairs = zip(exact_models(), stored, strict=True)
        attentive: Any = [model for model, (_, one) in pairs if one.config.model.has_attention]
        return [TorchAttention(model, device) for model in attentive]

    search = cache(lambda: compiled_search_step(reporter))

    def make_engine(options: Options, capacity: int) -> Engine:
        if spec.engine == "torch":
            from bytenmt.decoding.pytorch.engine import TorchEngine

            return TorchEngine(models, options, capacity, device, search=search())
        from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine

        return CudaGraphEngine(models, options, capacity, device, search=search())

    return EngineModels(make_engine, lambda: TorchReader(exact_models(), device), attention)
