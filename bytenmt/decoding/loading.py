"""Which engine decodes on which device in which precision, and the way to make it of runs.

PyTorch is imported only for the engines that need it: on a machine without a GPU's driver nothing here
imports it for the numba engine. Knows runs, models and engines; knows no lines.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, NamedTuple

from bytenmt.config.bounds import THREADS
from bytenmt.config.facts import Facts
from bytenmt.config.schema import CONVOLUTIONAL, Config, architecture
from bytenmt.decoding.interface import Engine, Options, Request
from bytenmt.decoding.scheduler import decode
from bytenmt.errors import BytenmtError, CheckpointError, DeviceError, printable
from bytenmt.speculative.table import CHAIN, FILE, Speculation, check_serial
from bytenmt.speculative.table import read as read_drafts
from bytenmt.storage.memory import require, state_bytes
from bytenmt.storage.weights import StoredWeights, is_weights_file, read_run, restored
from bytenmt.utf8 import LONGEST_CHARACTER

if TYPE_CHECKING:
    import torch

    from bytenmt.distributed import Group
    from bytenmt.models.base import Model

ENGINES = ("auto", "torch", "cuda-graph", "numba")
PRECISIONS = ("auto", "fp32", "bf16", "int8", "w8a8")
ON_THE_CPU = "numba"  # the engine that auto takes where there is no GPU
MOST_THREADS = 2  # of the numba engine unless told otherwise: more than that wait for the memory
PATIENCE = 2.0  # seconds until a user is told why nothing happens yet
DRIVERS = ("/dev/nvidiactl", "/dev/dxg")  # devices of which one is there where a GPU is (dxg: under Windows)


EngineMaker = Callable[[int], Engine]  # for a capacity
Maker = Callable[[Options, Speculation | None], EngineMaker]  # of loaded runs


class EngineSpec(NamedTuple):
    """engine: torch, cuda-graph or numba; device: cpu or cuda; precision: of the matrices, auto where the
    weights files decide; threads: of the CPU, None where the engine decides; draft: bytes that are guessed a
    step where a run has a draft table, "auto" where the engine decides, or "off"."""

    engine: str
    device: str
    precision: str = "auto"
    threads: int | None = None
    draft: str | int = "auto"


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
    runs: what they are, empty for models in memory."""

    maker: Callable[[Options], EngineMaker]
    source: bool
    max_source_bytes: int
    runs: Sequence[Run] = ()


def choose(
    engine: str,
    device: str,
    precision: str = "auto",
    threads: int | None = None,
    draft: str | int = "auto",
) -> EngineSpec:
    """What auto stands for on this machine, and whether the rest can be had. Raises DeviceError for a
    device that is not there, BytenmtError for what does not go together."""
    for value, known in ((engine, ENGINES), (device, ("auto", "cpu", "cuda")), (precision, PRECISIONS)):
        if value not in known:
            raise ValueError(f"{value!r} is none of {', '.join(known)}")
    if draft not in ("auto", "off", *range(1, CHAIN + 1)):
        raise ValueError(f"draft is {draft!r}, expected auto, off or 1 to {CHAIN}")
    if threads is not None and not THREADS.hold(threads):
        raise ValueError(f"threads is {threads!r}, expected {THREADS}")
    if engine == "numba" and device == "cuda":
        raise BytenmtError("--engine numba runs on the CPU: drop --device cuda, or use --engine cuda-graph")
    if engine == "cuda-graph" and device == "cpu":
        raise BytenmtError("--engine cuda-graph runs on a GPU: drop --device cpu, or use --engine numba")
    on_cpu = device == "cpu" or engine == "numba"
    has_gpu = not on_cpu and gpu_is_there()
    if device == "cuda" and not has_gpu:
        raise DeviceError("--device cuda: no GPU is available here; use --device cpu or auto")
    if engine == "cuda-graph" and not has_gpu:
        raise DeviceError("--engine cuda-graph: no GPU is available here; use --engine numba or auto")
    if engine == "auto":
        engine = "cuda-graph" if has_gpu else ON_THE_CPU
    if precision in ("int8", "w8a8") and engine != "numba":
        raise BytenmtError(f"--precision {precision} is for --engine numba: {engine} has fp32 and bf16")
    return EngineSpec(engine, "cuda" if has_gpu else "cpu", precision, threads, draft)


def gpu_is_there() -> bool:
    """Whether PyTorch finds a GPU; it is not asked where there is no driver."""
    if not any(os.path.exists(name) for name in DRIVERS):
        return False
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    import torch

    return torch.cuda.is_available()


@contextmanager
def processes(device: str) -> Iterator[Group | None]:
    """The processes of a job under torchrun; None for one alone, for which PyTorch is not imported."""
    if not os.environ.get("RANK") or not os.environ.get("WORLD_SIZE"):
        yield None
        return
    import torch

    from bytenmt.distributed import local_device, process_group

    with process_group(local_device(torch.device(device))) as group:
        yield group if group.size > 1 else None


def load_runs(paths: Sequence[str | Path], choice: EngineSpec) -> Runtime:
    """Load run folders or weights files, of any architectures, that decide together by the mean of their
    probabilities. Raises CheckpointError for a file, BytenmtError where they cannot be joined."""
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
    load = _numba if choice.engine == "numba" else _torch
    speculation = _speculation([Path(path) for path in paths], runs, choice)
    return Runtime(_drafting(load(read, choice), speculation), source, limit, runs)


def _sized(
    kind: Callable[..., Engine], row_bytes: int, models: Any, options: Options, capacity: int, **how: Any
) -> Engine:
    """An engine of models, where this machine's memory holds the states of so many sentences. row_bytes: of a
    row's state, all models together."""
    n_rows = capacity * options.beam
    what = f"decoding {n_rows:,} hypotheses side by side"
    require(n_rows * row_bytes, what, "lower --max-tokens or --beam-size")
    return kind(models, options, capacity, **how)


def _speculation(paths: Sequence[Path], runs: Sequence[Run], choice: EngineSpec) -> Speculation | None:
    """The drafts of the first run that has some; None where there are none, or none are wanted. Raises
    BytenmtError where they are insisted on and cannot be had."""
    if choice.draft == "off":
        return None
    most = None if isinstance(choice.draft, str) else choice.draft
    if most is not None:
        for path, run in zip(paths, runs, strict=True):
            check_serial(run.config.model, f"--draft {most}: {path}")
    elif any(architecture(run.config.model) not in CONVOLUTIONAL for run in runs):
        return None
    folders = [path.resolve().parent.parent if is_weights_file(path) else path for path in paths]
    damaged = False
    for folder, run in zip(folders, runs, strict=True):
        if (folder / FILE).is_file():
            try:
                return Speculation(read_drafts(folder, run.config, run.facts), most)
            except CheckpointError as error:
                _say(f"decoding without drafts: {error}")
                damaged = True
    if most is not None and not damaged:
        raise BytenmtError(
            f"--draft {most}: {folders[0]} has no {FILE}: make it by `bytenmt draft {folders[0]}`"
        )
    return None


def _drafting(make: Maker, speculation: Speculation | None) -> Callable[[Options], EngineMaker]:
    """Engines with drafts where one text is followed and nothing is forbidden for the whole of it."""

    def maker(options: Options) -> EngineMaker:
        if speculation is None or (options.beam == 1 and not options.no_repeat_ngram_size):
            return make(options, speculation)
        if speculation.most is not None:
            option = f"--beam-size {options.beam}" if options.beam > 1 else "--no-repeat-ngram-size"
            _say(f"--draft {speculation.most} has no effect: {option} takes one byte a step")
        return make(options, None)

    return maker


def _say(text: str) -> None:
    """A line on stderr, once in a job."""
    if os.environ.get("RANK", "0") == "0":
        print(f"bytenmt: {printable(text)}", file=sys.stderr, flush=True)


def precision_of(stored: str, choice: EngineSpec) -> str:
    """In which a run computes whose file holds its matrices in `stored`."""
    if choice.precision != "auto":
        return choice.precision
    return {"numba": stored, "cuda-graph": "bf16", "torch": "fp32"}[choice.engine]


def n_threads(choice: EngineSpec) -> int:
    """CPU threads that decode, once runs are loaded."""
    if choice.engine == "numba":
        return choice.threads or min(MOST_THREADS, _cores())
    import torch

    return torch.get_num_threads()


def of_models(models: Sequence[Model[Any, Any]], device: torch.device, source: bool = True) -> Runtime:
    """Models in evaluation mode on their device, for the torch engine; source: trained with one."""
    from bytenmt.decoding.pytorch.engine import TorchEngine

    if any(model.training for model in models):
        raise ValueError("a model is in training mode: call its eval() first")
    return Runtime(lambda options: partial(TorchEngine, models, options, device=device), source, 1000)


def _numba(read: Sequence[tuple[Path, StoredWeights]], choice: EngineSpec) -> Maker:
    """Packed models; each in its file's own precision unless told otherwise."""
    from bytenmt.decoding.cpu.engine import NumbaEngine
    from bytenmt.decoding.cpu.session import pack

    packed = [
        pack(restored(one.arrays), one.config.model, precision_of(one.precision, choice)) for _, one in read
    ]
    threads = n_threads(choice)
    source = b"a" if read[0][1].config.model.source else None
    with _told_of_compiling():
        for _ in decode(NumbaEngine(packed, Options(), 1, 1), [Request(source, 0)]):
            pass
    row_bytes = sum(state_bytes(one.config.model) for _, one in read)
    return lambda options, speculation: partial(
        _sized, NumbaEngine, row_bytes, packed, options, threads=threads, speculation=speculation
    )


def _cores() -> int:
    """Those that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


@contextmanager
def _told_of_compiling() -> Iterator[None]:
    """A line on stderr where kernels are compiled, because they are not on the disk yet."""
    from bytenmt.decoding.cpu.interpreter import run

    def tell() -> None:
        if run.stats.cache_misses:  # type: ignore[attr-defined]
            what = "compiling the decode kernels for this machine, once: it takes about half a minute"
            print(f"bytenmt: {what}", file=sys.stderr, flush=True)

    timer = Timer(PATIENCE, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _torch(read: Sequence[tuple[Path, StoredWeights]], choice: EngineSpec) -> Maker:
    """Models on their device: a graph computes in bf16 unless told otherwise, plain PyTorch in fp32."""
    import torch

    from bytenmt.distributed import local_device
    from bytenmt.storage.checkpoint import build

    if choice.threads is not None:
        torch.set_num_threads(choice.threads)
    device = local_device(torch.device(choice.device))
    models = []
    for file, contents in read:
        kind = torch.bfloat16 if precision_of(contents.precision, choice) == "bf16" else torch.float32
        models.append(build(contents, file).to(device, kind).eval())
    if choice.engine == "torch":
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
