"""What loaded runs become by an engine: something that decodes, that reads, and that tells where it attends.

PyTorch is imported only for the engines that need it. Knows stored weights and engines; does not know where
runs come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bytenmt.architectures.costs import state_bytes
from bytenmt.decoding.choice import n_cores, precision_of
from bytenmt.decoding.interface import AUTO, Engine, EngineSpec, Options
from bytenmt.decoding.reading import Attention, Reader
from bytenmt.reporter import Reporter
from bytenmt.speculative.table import Speculation
from bytenmt.storage.needs import require
from bytenmt.storage.weights import StoredWeights, restored

if TYPE_CHECKING:
    from bytenmt.architectures.base import Model
    from bytenmt.decoding.cpu.compilation import Compilation
    from bytenmt.decoding.cpu.packing import PackedModel
    from bytenmt.decoding.cpu.session import Run
    from bytenmt.decoding.search.host_search import SearchStep

MOST_THREADS = 2  # of the numba engine unless told otherwise: more than that wait for the memory
FEW = 16  # sentences side by side until the engine is compiled

EngineMaker = Callable[[int], Engine]  # for a capacity
Maker = Callable[[Options, Speculation | None], EngineMaker]  # of loaded runs


class Made(NamedTuple):
    """What an engine makes of loaded runs; see Runtime."""

    maker: Maker
    reader: Callable[[], Reader]
    attention: Callable[[], list[Attention]]
    compilation: Compilation | None = None  # of the kernels, where NumPy decodes until they are compiled


def sized(
    kind: Callable[..., Engine], row_bytes: int, models: Any, options: Options, capacity: int, **how: Any
) -> Engine:
    """An engine of models, where this machine's memory holds the states of so many sentences. row_bytes: of a
    row's state, all models together."""
    n_rows = capacity * options.beam
    what = f"decoding {n_rows:,} hypotheses side by side"
    require(n_rows * row_bytes, what, "lower --max-tokens or --beam-size")
    return kind(models, options, capacity, **how)


def n_threads(spec: EngineSpec) -> int:
    """CPU threads that decode, once runs are loaded."""
    if spec.engine == "numba":
        return spec.threads or min(MOST_THREADS, n_cores())
    import torch

    return torch.get_num_threads()


def compiled(
    read: Sequence[tuple[Path, StoredWeights]], spec: EngineSpec, reporter: Reporter, at_once: bool = False
) -> Made:
    """Packed models; each in its file's own precision unless told otherwise. at_once: where the kernels are
    not on the disk yet, NumPy answers while a child compiles them, in fp32, if no other precision was asked
    for."""
    from bytenmt.decoding.cpu.compilation import Compilation, load_or_compile
    from bytenmt.decoding.cpu.interpreter import run
    from bytenmt.decoding.cpu.packing import pack_model
    from bytenmt.decoding.cpu.uncompiled import run_in_numpy

    def packed_in(precision: str, one: StoredWeights) -> PackedModel:
        return pack_model(restored(one.arrays), one.config.model, precision)

    packed = [packed_in(precision_of(one.precision, spec), one) for _, one in read]
    exact = "fp32" if spec.precision == AUTO else spec.precision
    source = read[0][1].config.model.source

    def exactly() -> list[PackedModel]:
        given = zip(packed, read, strict=True)
        return [there if there.precision == exact else packed_in(exact, one) for there, (_, one) in given]

    made = _of_packed(read, lambda: packed, exactly, n_threads(spec), run)
    compilation = Compilation(packed[0], source, reporter=reporter) if at_once and exact == "fp32" else None
    if compilation is None or compilation.done():
        load_or_compile(packed, source, reporter)
        return made
    reporter.say(
        "bytenmt: the decode kernels are compiled for this machine, once, beside this: it takes about a"
        " minute, and NumPy decodes a few lines until then; many lines wait"
    )
    in_numpy = _of_packed(read, exactly, exactly, 1, run_in_numpy())
    return _meanwhile(in_numpy, made, compilation.ready)._replace(compilation=compilation)


def _of_packed(
    read: Sequence[tuple[Path, StoredWeights]],
    packed: Callable[[], Sequence[PackedModel]],
    exactly: Callable[[], Sequence[PackedModel]],
    threads: int,
    run: Run,
) -> Made:
    """What the CPU engine makes of packed models, and of those that read exactly."""
    from bytenmt.decoding.cpu.engine import NumbaEngine
    from bytenmt.decoding.cpu.reader import CpuAttention, CpuReader

    row_bytes = sum(state_bytes(one.config.model) for _, one in read)

    def attention() -> list[Attention]:
        models = zip(exactly(), read, strict=True)
        attend = [model for model, (_, one) in models if one.config.model.has_attention]
        return [CpuAttention(model, threads, run) for model in attend]

    return Made(
        lambda options, speculation: partial(
            sized,
            NumbaEngine,
            row_bytes,
            packed(),
            options,
            threads=threads,
            speculation=speculation,
            run=run,
        ),
        lambda: CpuReader(exactly(), threads, run),
        attention,
    )


def _meanwhile(now: Made, later: Made, ready: Callable[[], bool]) -> Made:
    """What `now` makes until the later is ready; without drafts, whose widths would be measured first."""
    from bytenmt.decoding.cpu import meanwhile

    def maker(options: Options, speculation: Speculation | None) -> EngineMaker:
        first, then = now.maker(options, None), later.maker(options, speculation)

        def make(capacity: int) -> Engine:
            return meanwhile.Meanwhile(first(min(capacity, FEW)), lambda: then(capacity), ready)

        return make

    def attention() -> list[Attention]:
        def then(which: int) -> Callable[[], Attention]:
            return lambda: later.attention()[which]

        given = enumerate(now.attention())
        return [meanwhile.MeanwhileAttention(one, then(which), ready) for which, one in given]

    return Made(maker, lambda: meanwhile.MeanwhileReader(now.reader(), later.reader, ready), attention)


def _search_step(reporter: Reporter) -> SearchStep:
    """Return a step of the search for an engine in PyTorch: compiled, or as Python while a child compiles."""
    from bytenmt.decoding.cpu.compilation import Compilation, smallest_model
    from bytenmt.decoding.cpu.compiled_search import compiled_search_step
    from bytenmt.decoding.search.host_search import SearchStep, python_search_step

    compilation = Compilation(smallest_model(), True, reporter=reporter)
    compiled = compiled_search_step()
    if compilation.done():
        return compiled
    as_python = python_search_step(compiled.dtype)

    def step(*inputs: Any) -> None:
        (compiled if compilation.done() else as_python).run(*inputs)

    return SearchStep(step, compiled.dtype)


def in_pytorch(read: Sequence[tuple[Path, StoredWeights]], spec: EngineSpec, reporter: Reporter) -> Made:
    """Models on their device: a graph computes in bf16 unless told otherwise, plain PyTorch in fp32."""
    import torch

    from bytenmt.decoding.pytorch.reader import TorchAttention, TorchReader
    from bytenmt.distributed import local_device
    from bytenmt.storage.checkpoint import build

    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    device = local_device(torch.device(spec.device))

    def built(wanted: Sequence[str]) -> list[Model[Any, Any]]:
        kinds = [torch.bfloat16 if precision == "bf16" else torch.float32 for precision in wanted]
        given = zip(kinds, read, strict=True)
        return [build(one, file).to(device, kind).eval() for kind, (file, one) in given]

    stored = [precision_of(one.precision, spec) for _, one in read]
    exact = ["fp32" if spec.precision == AUTO else spec.precision] * len(read)
    models = built(stored)

    def read_exactly() -> list[Model[Any, Any]]:
        return models if stored == exact else built(exact)

    def attention() -> list[Attention]:
        given = zip(read_exactly(), read, strict=True)
        attentive: Any = [model for model, (_, one) in given if one.config.model.has_attention]
        return [TorchAttention(model, device) for model in attentive]

    def reader() -> TorchReader:
        return TorchReader(read_exactly(), device)

    search = cache(lambda: _search_step(reporter))
    if spec.engine == "torch":
        from bytenmt.decoding.pytorch.engine import TorchEngine

        on_cpu = device.type == "cpu"
        row_bytes = sum(state_bytes(one.config.model) for _, one in read) if on_cpu else 0
        return Made(
            lambda options, speculation: partial(
                sized,
                TorchEngine,
                row_bytes,
                models,
                options,
                device=device,
                speculation=speculation,
                search=search(),
            ),
            reader,
            attention,
        )
    from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine

    return Made(
        lambda options, speculation: partial(
            CudaGraphEngine, models, options, device=device, speculation=speculation, search=search()
        ),
        reader,
        attention,
    )
