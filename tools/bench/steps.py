"""Time decode steps: presets with random weights whose sentences never end, on every engine."""

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
from bytenmt.architectures.costs import step_cost
from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import Config, load_config
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import PackedModel, pack_model
from bytenmt.decoding.interface import Engine, Options, Request
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.program.instructions import Column, Op
from bytenmt.utf8 import EOS

BENCH = "bench/decode"
AnyModel = Model[Any, Any]
NEVER = -1e9  # the bias of EOS
SOURCE_BYTES = 100
LIMIT = 100_000  # steps that a sentence can run
STINT = 0.005  # seconds that one try takes about, short enough to come through between others' work
TRIES = 30  # a measurement, of which the best counts, as many as the floor has
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Case(NamedTuple):
    """A configuration to be timed."""

    arch: str
    preset: str
    engine: str
    precision: str
    batch: int = 1
    beam: int = 1
    threads: int = 1

    def name(self, against: str) -> str:
        """For a Record: the case, and what its ratio is to."""
        threads = f" threads={self.threads}" if self.threads > 1 else ""
        size = f"batch={self.batch} beam={self.beam}{threads}"
        return f"{self.arch} {self.preset} {self.engine} {self.precision} {size} {against}"


class Endless(NamedTuple):
    """A model with random weights that gives EOS no chance."""

    config: Config
    model: AnyModel

    def packed(self, precision: str) -> PackedModel:
        """For the numba engine."""
        arrays = {name: p.detach().numpy() for name, p in self.model.named_parameters()}
        return pack_model(arrays, self.config.model, precision)


@lru_cache(maxsize=1)
def endless(arch: str, preset: str) -> Endless:
    """The preset. Where the output layer has no bias, EOS gets the logit 0, which about half of the other
    255 exceed."""
    config = load_config(arch, preset, "", [])
    torch.manual_seed(1)
    model: AnyModel = build_model(config.model).eval()
    parameters: Mapping[str, nn.Parameter] = dict(model.named_parameters())
    with torch.no_grad():
        if "decoder.output.bias" in parameters:
            parameters["decoder.output.bias"][EOS] = NEVER
        else:
            parameters["decoder.output.weight"][EOS] = 0.0
    return Endless(config, model)


def make_engine(case: Case, device: torch.device) -> Engine:
    """The engine of a case, for its sentences."""
    options = Options(beam=case.beam)
    one = endless(case.arch, case.preset)
    if case.engine == "numba":
        return NumbaEngine([one.packed(case.precision)], options, case.batch, case.threads)
    if case.precision not in DTYPES:
        raise ValueError(f"the {case.engine} engine has no {case.precision}")
    model = build_model(one.config.model).to(device, DTYPES[case.precision]).eval()
    model.load_state_dict(one.model.state_dict())
    kind = CudaGraphEngine if case.engine == "cuda-graph" else TorchEngine
    return kind([model], options, case.batch, device)


def requests(n: int, limit: int) -> list[Request]:
    """Sources of SOURCE_BYTES random letters."""
    draw = random.Random(1)
    letters = range(97, 123)
    return [Request(bytes(draw.choices(letters, k=SOURCE_BYTES)), limit, number=i) for i in range(n)]


class Steps:
    """The steps of an engine's sentences, all of which keep running.

    Called it returns the seconds a step took in the best of a few stints; the stop test, which waits for the
    device, is part of a stint, as of the decode loop.
    """

    def __init__(self, engine: Engine, batch: int, limit: int = LIMIT) -> None:
        self._engine = engine
        self.left = limit  # steps that can still be taken
        engine.admit(requests(batch, limit))
        self.take(8)  # compiles, allocates, and fills the beams
        took = min(self.take(2) for _ in range(2))
        self._n_steps = max(1, min(round(STINT / took), limit // 1000))

    def __call__(self) -> float:
        return min(self.take(self._n_steps) for _ in range(TRIES))

    def take(self, n: int) -> float:
        """Seconds a step over n steps."""
        self.left -= n
        if self.left < 0:
            raise ValueError("more steps than the sentences can run")
        started = time.perf_counter()
        self._engine.advance(n)
        finished = self._engine.finished()
        took = time.perf_counter() - started
        if finished:
            raise RuntimeError("a sentence has ended in the middle of a measurement")
        return took / n


def step_bytes(packed: PackedModel, n_rows: int = 1) -> int:
    """Bytes of packed weights that a step of n rows reads.

    They are all behind first_step_byte, of position tables one row; and of the n-gram tables, which stand
    before it, one row for each order and each row of the step.
    """
    place = {column.name.lower(): int(column) for column in Column}
    n_bytes = len(packed.weights) - packed.first_step_byte
    for one in packed.step.instructions:
        row_bytes, m = 4 * int(one[place["n"]]), int(one[place["m"]])
        if one[place["op"]] == Op.POSITION and one[place["w"]] >= packed.first_step_byte:
            n_bytes -= row_bytes * (m - 1)
        elif one[place["op"]] == Op.NGRAMS:
            n_bytes += n_rows * row_bytes * m.bit_count()
    return n_bytes


def step_flop(case: Case) -> float:
    """FLOP of the matrix products and the attention of a step of all rows."""
    config = endless(case.arch, case.preset).model.config
    return 2.0 * case.batch * case.beam * step_cost(config, SOURCE_BYTES + 1)


def multiply_rate(precision: str) -> float:
    """FLOP a second of torch's matrix product on the CPU, the best of a few sizes and tries."""
    best = 0.0
    for n in (512, 768, 1024):
        a, b = torch.randn(2, n, n, dtype=DTYPES[precision])
        for _ in range(5):
            best = max(best, 2 * n**3 / seconds(lambda a=a, b=b: a @ b))  # type: ignore[misc]
    return best


def seconds(action: Callable[[], object], device: torch.device | None = None) -> float:
    """Return the seconds an action takes; with a device, including its queued work."""
    queue = device if device and device.type == "cuda" else None
    if queue:
        torch.cuda.synchronize(queue)
    started = time.perf_counter()
    action()
    if queue:
        torch.cuda.synchronize(queue)
    return time.perf_counter() - started


class Outcome(NamedTuple):
    """The least and the median of several measurements; the median tells how much other programs
    disturbed.
    """

    best: float
    median: float


def contest(actions: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Outcome]:
    """Each action measures itself once a round, in turn, so that all meet the same weather.

    Others use these machines too: the best of the rounds is what the machine can do, and ratios are taken
    of figures of the same rounds.
    """
    found: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            found[name].append(action())
    return {name: Outcome(min(times), statistics.median(times)) for name, times in found.items()}


def neighbours() -> str:
    """Describe other work on the machine: the load average, and the stolen share of processor time."""
    load = os.getloadavg()[0]
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(part) for part in file.readline().split()[1:]]
        stolen = f", {100 * ticks[7] / sum(ticks):.2f} % of processor time stolen since the start"
    except (OSError, IndexError, ValueError):
        stolen = ""
    return f"load average {load:.2f}{stolen}"
