"""Time decode steps on every engine, with presets of random weights whose sentences never end."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import nn

from bytenmt.architectures.base import Model
from bytenmt.architectures.parameters import step_cost
from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import Config, load_config
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import PackedModel, pack_model
from bytenmt.decoding.engine import Engine
from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.program.instructions import Field, Op
from bytenmt.utf8 import EOS

BENCH = "bench/decode"
AnyModel = Model[Any, Any]
NEVER_BIAS = -1e9  # output bias of EOS, so that it is never the best byte
SOURCE_BYTES = 100
MAX_STEPS = 100_000  # maximum steps of a sentence
# approximate seconds of one try, short enough to fit between time slices of other programs
STINT_SECONDS = 0.005
N_TRIES = 30  # tries per measurement, of which the best counts
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Case(NamedTuple):
    """A configuration to time."""

    arch: str
    preset: str
    engine: str
    precision: str
    batch: int = 1
    beam: int = 1
    threads: int = 1
    settings: tuple[str, ...] = ()  # of the configuration, beside the preset's

    def name(self, against: str) -> str:
        """Return the name of a record: the configuration, and what its ratio is relative to."""
        threads = f" threads={self.threads}" if self.threads > 1 else ""
        size = f"batch={self.batch} beam={self.beam}{threads}"
        return f"{self.arch} {self.preset} {self.engine} {self.precision} {size} {against}"


class EndlessModel(NamedTuple):
    """A model with random weights that practically never emits EOS."""

    config: Config
    model: AnyModel

    def pack_weights(self, precision: str) -> PackedModel:
        """Pack the weights for the numba engine."""
        arrays = {name: p.detach().numpy() for name, p in self.model.named_parameters()}
        return pack_model(arrays, self.config.model, precision)


@lru_cache(maxsize=1)
def endless_model(arch: str, preset: str, *settings: str) -> EndlessModel:
    """Build a preset's model, with further settings, whose sentences never end.

    Where the output layer has no bias, the logit of EOS is 0, which about half of the other 255
    bytes exceed.
    """
    config = load_config(arch, preset, list(settings))
    torch.manual_seed(1)
    model: AnyModel = build_model(config.model).eval()
    parameters: Mapping[str, nn.Parameter] = dict(model.named_parameters())
    with torch.no_grad():
        if "decoder.output.bias" in parameters:
            parameters["decoder.output.bias"][EOS] = NEVER_BIAS
        else:
            parameters["decoder.output.weight"][EOS] = 0.0
    return EndlessModel(config, model)


def make_engine(case: Case, device: torch.device) -> Engine:
    """Build the engine of a case. Raises ValueError for a precision that it does not support."""
    options = SearchOptions(beam=case.beam)
    one = endless_model(case.arch, case.preset, *case.settings)
    if case.engine == "numba":
        return NumbaEngine([one.pack_weights(case.precision)], options, case.batch, case.threads)
    if case.precision not in DTYPES:
        raise ValueError(f"the {case.engine} engine has no {case.precision}")
    model = build_model(one.config.model).to(device, DTYPES[case.precision]).eval()
    model.load_state_dict(one.model.state_dict())
    kind = CudaGraphEngine if case.engine == "cuda-graph" else TorchEngine
    return kind([model], options, case.batch, device)


def random_requests(n: int, limit: int) -> list[Request]:
    """Return n requests whose sources are SOURCE_BYTES random letters."""
    draw = random.Random(1)
    texts = [bytes(draw.choices(range(97, 123), k=SOURCE_BYTES)) for _ in range(n)]
    return [Request(text, limit, number=i) for i, text in enumerate(texts)]


class StepTimer:
    """Times the decode steps of an engine with a full batch of sentences that never end.

    Called, it returns the seconds per step of the fastest of several stints. A stint includes the
    stop test, which synchronises with the device, as the decode loop does.
    """

    def __init__(self, engine: Engine, batch: int, limit: int = MAX_STEPS) -> None:
        self._engine = engine
        self.n_left = limit
        engine.admit(random_requests(batch, limit))
        self.time_steps(8)  # warm-up: compiles, allocates, and fills the beams
        took = min(self.time_steps(2) for _ in range(2))
        self._n_steps = max(1, min(round(STINT_SECONDS / took), limit // 1000))

    def __call__(self) -> float:
        """Return the least seconds of a step in several stints."""
        return min(self.time_steps(self._n_steps) for _ in range(N_TRIES))

    def time_steps(self, n: int) -> float:
        """Take n steps and return the seconds per step."""
        self.n_left -= n
        if self.n_left < 0:
            raise ValueError("more steps than the sentences can run")
        started = time.perf_counter()
        self._engine.advance(n)
        finished = self._engine.finished()
        took = time.perf_counter() - started
        if finished:
            raise RuntimeError("a sentence has ended in the middle of a measurement")
        return took / n


def step_bytes(packed: PackedModel, n_rows: int = 1) -> int:
    """Return the bytes of packed weights that a step of n_rows rows reads.

    These are all bytes from first_step_byte on, but only one row of each position table; in
    addition one row of each n-gram table, which is stored before first_step_byte, per order and row
    of the step.
    """
    place = {column.name.lower(): int(column) for column in Field}
    n_bytes = len(packed.weights) - packed.program.first_step_byte
    for one in packed.program.step.instructions:
        row_bytes = 4 * int(one[place["n"]])
        m = int(one[place["m"]])
        if one[place["op"]] == Op.POSITION and one[place["w"]] >= packed.program.first_step_byte:
            n_bytes -= row_bytes * (m - 1)
        elif one[place["op"]] == Op.NGRAMS:
            n_bytes += n_rows * row_bytes * m.bit_count()
    return n_bytes


def step_flop(case: Case) -> float:
    """Return the FLOP of a step's matrix products and attention, for all rows."""
    config = endless_model(case.arch, case.preset, *case.settings).model.config
    return 2.0 * case.batch * case.beam * step_cost(config, SOURCE_BYTES + 1)


def multiply_rate(precision: str) -> float:
    """Return the FLOP/s of torch's matrix product on the CPU, the best of several sizes and tries.

    For int8 it is twice the larger of those of bf16 and fp32.
    """
    if precision not in DTYPES:
        return 2 * max(multiply_rate("bf16"), multiply_rate("fp32"))
    best = 0.0
    for n in (512, 768, 1024):
        a, b = torch.randn(2, n, n, dtype=DTYPES[precision])
        for _ in range(5):
            best = max(best, 2 * n**3 / seconds(lambda a=a, b=b: a @ b))  # type: ignore[misc]
    return best


def seconds(action: Callable[[], object], device: torch.device | None = None) -> float:
    """Return the seconds that an action takes; with a device, including its queued work."""
    queue = device if device and device.type == "cuda" else None
    if queue:
        torch.cuda.synchronize(queue)
    started = time.perf_counter()
    action()
    if queue:
        torch.cuda.synchronize(queue)
    return time.perf_counter() - started


class Timing(NamedTuple):
    """Minimum and median of several measurements.

    The median shows the influence of other programs.
    """

    best: float
    median: float


def measure_in_turn(actions: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Timing]:
    """Call each action once per round, in turn, so that load from other programs affects all alike.

    Each action returns its own measurement. The best round is what the machine can do; ratios are
    formed from figures of the same rounds.
    """
    found: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            found[name].append(action())
    return {name: Timing(min(times), statistics.median(times)) for name, times in found.items()}


def machine_load() -> str:
    """Describe other work on the machine: the load average and the stolen processor time."""
    load = os.getloadavg()[0]
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(part) for part in file.readline().split()[1:]]
        stolen = f", {100 * ticks[7] / sum(ticks):.2f} % of processor time stolen since the start"
    except (OSError, IndexError, ValueError):
        stolen = ""
    return f"load average {load:.2f}{stolen}"
