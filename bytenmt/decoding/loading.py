"""Runs, loaded and made ready to decode by an engine.

PyTorch is imported only for the engines that need it: nothing here imports it for the numba engine. Knows
runs, models and engines; knows no lines, and not what suits the machine, which choice.py does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, NamedTuple

from bytenmt.config.facts import Facts, SearchDefaults
from bytenmt.config.schema import Config, architecture, is_serial
from bytenmt.decoding.choice import choose, precision_of
from bytenmt.decoding.interface import AUTO, OFF, Engine, EngineSpec, Options
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.speculative.table import FILE, Speculation, check_serial
from bytenmt.speculative.table import read as read_drafts
from bytenmt.storage.memory import require, state_bytes
from bytenmt.storage.weights import StoredWeights, is_weights_file, read_run, restored
from bytenmt.utf8 import LONGEST_CHARACTER

if TYPE_CHECKING:
    import torch

    from bytenmt.models.base import Model

MOST_THREADS = 2  # of the numba engine unless told otherwise: more than that wait for the memory
PATIENCE = 2.0  # seconds until a user is told why nothing happens yet

EngineMaker = Callable[[int], Engine]  # for a capacity
Maker = Callable[[Options, Speculation | None], EngineMaker]  # of loaded runs


class Run(NamedTuple):
    """A run that was loaded. file: of its weights; precision: of the matrices in it."""

    file: Path
    config: Config
    facts: Facts
    precision: str


@dataclass(frozen=True)
class Runtime:
    """Runs, loaded and ready to decode. maker: Options -> a function that makes an engine for a capacity;
    source: whether they were trained with one; max_source_bytes: of the lines that all of them know;
    runs: what they are, empty for models in memory; spec: of their engine, without AUTO but for precision and
    draft."""

    maker: Callable[[Options], EngineMaker]
    source: bool
    max_source_bytes: int
    runs: Sequence[Run] = ()
    spec: EngineSpec = EngineSpec("torch", "cpu")

    @property
    def search(self) -> SearchDefaults | None:
        """The defaults of a search of the first run that has some."""
        return next((run.facts.search for run in self.runs if run.facts.search is not None), None)


def load_runs(paths: Sequence[str | Path], spec: EngineSpec, reporter: Reporter = SILENT) -> Runtime:
    """Load run folders or weights files, of any architectures, that decide together by the mean of their
    probabilities. reporter: is told what a user may not expect. Raises CheckpointError for a file,
    BytenmtError where they cannot be joined or the engine cannot be had."""
    if not paths:
        raise ValueError("no run: give a run folder or a weights file")
    read = [read_run(Path(path)) for path in paths]
    runs = [Run(file, one.config, one.facts, one.precision) for file, one in read]
    source = runs[0].config.model.source
    for path, run in zip(paths, runs, strict=True):
        if run.config.model.source != source:
            raise BytenmtError(
                f"{paths[0]} was trained {'with' if source else 'without'} a source and {path}"
                f" {'without' if source else 'with'}: they cannot be asked together"
            )
    limit = max(LONGEST_CHARACTER, min(run.config.data.max_source_bytes for run in runs))
    chosen = _able(spec, runs, reporter)
    speculation = _speculation([Path(path) for path in paths], runs, chosen, reporter)
    make = _numba(read, chosen, reporter) if chosen.engine == "numba" else _torch(read, chosen)
    return Runtime(_drafting(make, speculation, reporter), source, limit, runs, chosen)


def _able(spec: EngineSpec, runs: Sequence[Run], reporter: Reporter) -> EngineSpec:
    """The engine that decodes the runs: what is wanted or suits the machine; plain PyTorch in place of the
    numba engine where that was not asked for and has no program for one of them."""
    chosen = choose(spec)
    if chosen.engine != "numba":
        return chosen
    from bytenmt.decoding.cpu.program.programs import has_program

    unknown = sorted({architecture(run.config.model) for run in runs if not has_program(run.config.model)})
    if not unknown:
        return chosen
    why = f"the numba engine has no program for {' and '.join(unknown)}"
    if spec.engine != AUTO:
        raise BytenmtError(f"--engine {spec.engine}: {why}: use --engine torch, or auto")
    instead = choose(replace(spec, engine="torch"))
    reporter.say(f"bytenmt: decoding by --engine torch: {why}")
    return instead


def _sized(
    kind: Callable[..., Engine], row_bytes: int, models: Any, options: Options, capacity: int, **how: Any
) -> Engine:
    """An engine of models, where this machine's memory holds the states of so many sentences. row_bytes: of a
    row's state, all models together."""
    n_rows = capacity * options.beam
    what = f"decoding {n_rows:,} hypotheses side by side"
    require(n_rows * row_bytes, what, "lower --max-tokens or --beam-size")
    return kind(models, options, capacity, **how)


def _speculation(
    paths: Sequence[Path], runs: Sequence[Run], spec: EngineSpec, reporter: Reporter
) -> Speculation | None:
    """The drafts of the first run that has some; None where there are none, or none are wanted. Raises
    BytenmtError where they are insisted on and cannot be had."""
    if spec.draft == OFF:
        return None
    most = None if isinstance(spec.draft, str) else spec.draft
    if most is not None:
        for path, run in zip(paths, runs, strict=True):
            check_serial(run.config.model, f"--draft {most}: {path}")
    elif any(is_serial(run.config.model) for run in runs):
        return None
    folders = [path.resolve().parent.parent if is_weights_file(path) else path for path in paths]
    damaged = False
    for folder, run in zip(folders, runs, strict=True):
        if (folder / FILE).is_file():
            try:
                return Speculation(read_drafts(folder, run.config, run.facts), most)
            except CheckpointError as error:
                reporter.warn(f"decoding without drafts: {error}")
                damaged = True
    if most is not None and not damaged:
        raise BytenmtError(
            f"--draft {most}: {folders[0]} has no {FILE}: make it by `bytenmt draft {folders[0]}`"
        )
    return None


def _drafting(
    make: Maker, speculation: Speculation | None, reporter: Reporter
) -> Callable[[Options], EngineMaker]:
    """Engines with drafts where one text is followed and nothing is forbidden for the whole of it."""

    def maker(options: Options) -> EngineMaker:
        if speculation is None or (options.beam == 1 and not options.no_repeat_ngram_size):
            return make(options, speculation)
        if speculation.most is not None:
            option = f"--beam-size {options.beam}" if options.beam > 1 else "--no-repeat-ngram-size"
            reporter.warn(f"--draft {speculation.most} has no effect: {option} takes one byte a step")
        return make(options, None)

    return maker


def n_threads(spec: EngineSpec) -> int:
    """CPU threads that decode, once runs are loaded."""
    if spec.engine == "numba":
        return spec.threads or min(MOST_THREADS, cores())
    import torch

    return torch.get_num_threads()


def of_models(models: Sequence[Model[Any, Any]], device: torch.device, source: bool = True) -> Runtime:
    """Models in evaluation mode on their device, for the torch engine; source: trained with one."""
    from bytenmt.decoding.pytorch.engine import TorchEngine

    if any(model.training for model in models):
        raise ValueError("a model is in training mode: call its eval() first")
    spec = EngineSpec("torch", device.type)
    return Runtime(
        lambda options: partial(TorchEngine, models, options, device=device), source, 1000, spec=spec
    )


def _numba(read: Sequence[tuple[Path, StoredWeights]], spec: EngineSpec, reporter: Reporter) -> Maker:
    """Packed models; each in its file's own precision unless told otherwise."""
    from bytenmt.decoding.cpu.compilation import call_all
    from bytenmt.decoding.cpu.engine import NumbaEngine
    from bytenmt.decoding.cpu.program.programs import pack_model

    packed = [
        pack_model(restored(one.arrays), one.config.model, precision_of(one.precision, spec))
        for _, one in read
    ]
    threads = n_threads(spec)
    with _told_of_compiling(reporter):
        call_all(packed, read[0][1].config.model.source)
    row_bytes = sum(state_bytes(one.config.model) for _, one in read)
    return lambda options, speculation: partial(
        _sized, NumbaEngine, row_bytes, packed, options, threads=threads, speculation=speculation
    )


def cores() -> int:
    """Those that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


@contextmanager
def _told_of_compiling(reporter: Reporter) -> Iterator[None]:
    """Report where kernels are compiled, because they are not on the disk yet."""
    from bytenmt.decoding.cpu.interpreter import run

    def tell() -> None:
        if run.stats.cache_misses:  # type: ignore[attr-defined]
            reporter.say(
                "bytenmt: compiling the decode kernels for this machine, once: it takes about half a minute"
            )

    timer = Timer(PATIENCE, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _torch(read: Sequence[tuple[Path, StoredWeights]], spec: EngineSpec) -> Maker:
    """Models on their device: a graph computes in bf16 unless told otherwise, plain PyTorch in fp32."""
    import torch

    from bytenmt.distributed import local_device
    from bytenmt.storage.checkpoint import build

    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    device = local_device(torch.device(spec.device))
    models = []
    for file, contents in read:
        kind = torch.bfloat16 if precision_of(contents.precision, spec) == "bf16" else torch.float32
        models.append(build(contents, file).to(device, kind).eval())
    if spec.engine == "torch":
        from bytenmt.decoding.pytorch.engine import TorchEngine

        on_cpu = device.type == "cpu"
        row_bytes = sum(state_bytes(one.config.model) for _, one in read) if on_cpu else 0
        return lambda options, speculation: partial(
            _sized, TorchEngine, row_bytes, models, options, device=device, speculation=speculation
        )
    from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine

    return lambda options, speculation: partial(
        CudaGraphEngine, models, options, device=device, speculation=speculation
    )
