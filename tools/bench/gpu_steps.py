"""Time decode steps on a GPU, relative to their floor and to plain PyTorch.

The floor of a step is the largest of three times: reading the weights, its FLOP at the best rate of a matrix
product in the same precision, and as many dependent empty nodes of a CUDA graph as the step has kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from bytenmt.decoding.interface import Engine
from tools.bench.records import Record
from tools.bench.steps import (
    BENCH,
    DTYPES,
    SOURCE_BYTES,
    Case,
    StepTimer,
    endless_model,
    make_engine,
    measure_in_turn,
    random_requests,
    seconds,
    step_flop,
)
from tools.bench.train import Peak

BATCHES = (1, 4096)
NODES = 1000  # kernels of the empty chain
LIMIT = 20_000  # maximum steps; the history of every sentence is kept in device memory


class Floor(NamedTuple):
    """Lower bounds of a step's seconds: reading the weights, arithmetic, and the chain of kernels."""

    read: float
    multiply: float
    chain: float


def gpu_records(options: Any, device: torch.device) -> Iterator[Record]:
    """Measure each architecture with one row and with many."""
    for preset in options.preset or ["base"]:
        for batch in options.batch or BATCHES:
            for beam in options.beam or [1]:
                for precision in options.precision or ["bf16"]:
                    for arch in options.arch:
                        cases = [Case(arch, preset, e, precision, batch, beam) for e in options.engine]
                        yield from model_records(cases, options.rounds, device)


def model_records(cases: Sequence[Case], rounds: int, device: torch.device) -> Iterator[Record]:
    """Measure the engines of one model, relative to the floor, the matrix-product peak and each other."""
    first = cases[0]
    n_bytes = (
        endless_model(first.arch, first.preset).model.decoder_weights() * DTYPES[first.precision].itemsize
    )
    n_kernels = count_kernels(make_engine(first._replace(engine="torch"), device), first.batch)
    peak = Peak(device, first.precision)
    chain, sizes = empty_chain(device), (n_bytes, 1 << 30)
    readers = [make_read_kernel(size, device) for size in sizes]
    actions: dict[str, Callable[[], float]] = {
        "read": lambda: min(seconds(read) / size for read, size in zip(readers, sizes, strict=True)),
        "node": lambda: seconds(chain) / NODES,
        "multiply": partial(seconds_per_flop, peak),
    }
    for case in cases:
        actions[case.engine] = StepTimer(make_engine(case, device), case.batch, LIMIT)
    found = {name: outcome.best for name, outcome in measure_in_turn(actions, rounds).items()}
    flop = step_flop(first)
    floor = Floor(n_bytes * found["read"], flop * found["multiply"], n_kernels * found["node"])
    for case in cases:
        took = found[case.engine]
        part = max(zip(floor, floor._fields, strict=True))
        reference = f"{part[1]}: {n_bytes / 1e6:.0f} MB, {flop / 1e9:.2f} GFLOP, {n_kernels} kernels"
        if took < 0.9 * part[0]:
            reference += " (THE FLOOR IS WRONG)"
        yield Record(
            BENCH, case.name("floor"), took * 1e3, "ms/step", reference, part[0] * 1e3, took / part[0]
        )
        achieved, best = flop / took / 1e12, 1e-12 / found["multiply"]
        yield Record(
            BENCH, case.name("matmul peak"), achieved, "TFLOP/s", "matrix product", best, achieved / best
        )
        if case.engine != "torch" and "torch" in found:
            own, theirs = case.batch / took, case.batch / found["torch"]
            yield Record(BENCH, case.name("torch"), own, "bytes/s", "torch engine", theirs, own / theirs)


def seconds_per_flop(peak: Peak) -> float:
    """Return the seconds per FLOP of the best matrix product so far."""
    peak()
    return 1 / peak.best


def capture_graph(action: Callable[[], object]) -> Callable[[], None]:
    """Capture an action in a CUDA graph; return a function that replays it and synchronises."""
    action()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        action()

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    replay()
    return replay


def empty_chain(device: torch.device) -> Callable[[], None]:
    """Return a replay of NODES dependent kernels that do almost nothing."""
    one = torch.zeros(1, device=device)

    def chain() -> None:
        for _ in range(NODES):
            one.add_(1)

    return capture_graph(chain)


def make_read_kernel(n_bytes: int, device: torch.device) -> Callable[[], None]:
    """Return a replay of a kernel that reads n_bytes bytes."""
    numbers = torch.zeros(math.ceil(n_bytes / 4), device=device)
    return capture_graph(numbers.max)


def count_kernels(engine: Engine, batch: int) -> int:
    """Count the kernels of a step as plain PyTorch launches them."""
    engine.admit(random_requests(batch, SOURCE_BYTES))
    engine.advance(2)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as run:
        engine.advance(1)
        torch.cuda.synchronize()
    return sum(event.count for event in run.key_averages() if event.device_type.name == "CUDA")
