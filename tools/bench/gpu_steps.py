"""Decode steps on a GPU beside their floor and beside plain PyTorch.

The floor of a step is the largest of three times: of reading the weights, of its FLOP at the best matrix
product in the same precision, and of as many empty nodes of a CUDA graph as the step has kernels, each of
which waits for the one before.
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
    Steps,
    contest,
    endless,
    make_engine,
    requests,
    seconds,
    step_flop,
)
from tools.bench.train import Peak

BATCHES = (1, 4096)
NODES = 1000  # of the graph of empty ones
LIMIT = 20_000  # steps: a place's history stands on the device


class Floor(NamedTuple):
    """Seconds a step needs at least: for its weights, its arithmetic and its chain of kernels."""

    read: float
    multiply: float
    chain: float


def on_gpu(options: Any, device: torch.device) -> Iterator[Record]:
    """Each architecture at one row and at many."""
    for preset in options.preset or ["base"]:
        for batch in options.batch or BATCHES:
            for beam in options.beam or [1]:
                for precision in options.precision or ["bf16"]:
                    for arch in options.arch:
                        cases = [Case(arch, preset, e, precision, batch, beam) for e in options.engine]
                        yield from one_model(cases, options.rounds, device)


def one_model(cases: Sequence[Case], rounds: int, device: torch.device) -> Iterator[Record]:
    """The engines of one model beside the floor, the matrix product's peak and each other."""
    first = cases[0]
    n_bytes = endless(first.arch, first.preset).model.decoder_weights() * DTYPES[first.precision].itemsize
    n_kernels = kernels(make_engine(first._replace(engine="torch"), device), first.batch)
    peak = Peak(device, first.precision)
    chain, sizes = empty_chain(device), (n_bytes, 1 << 30)
    readers = [reader(size, device) for size in sizes]
    actions: dict[str, Callable[[], float]] = {
        "read": lambda: min(seconds(read) / size for read, size in zip(readers, sizes, strict=True)),
        "node": lambda: seconds(chain) / NODES,
        "multiply": partial(multiply, peak),
    }
    for case in cases:
        actions[case.engine] = Steps(make_engine(case, device), case.batch, LIMIT)
    found = {name: outcome.best for name, outcome in contest(actions, rounds).items()}
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


def multiply(peak: Peak) -> float:
    """Seconds a FLOP of the best matrix product so far."""
    peak()
    return 1 / peak.best


def captured(action: Callable[[], object]) -> Callable[[], None]:
    """A CUDA graph of an action that returns when the device has done it."""
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
    """NODES kernels that do next to nothing, one after the other."""
    one = torch.zeros(1, device=device)

    def chain() -> None:
        for _ in range(NODES):
            one.add_(1)

    return captured(chain)


def reader(n_bytes: int, device: torch.device) -> Callable[[], None]:
    """A kernel that reads so many bytes."""
    numbers = torch.zeros(math.ceil(n_bytes / 4), device=device)
    return captured(numbers.max)


def kernels(engine: Engine, batch: int) -> int:
    """Kernels of a step, as plain PyTorch launches them."""
    engine.admit(requests(batch, SOURCE_BYTES))
    engine.advance(2)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as run:
        engine.advance(1)
        torch.cuda.synchronize()
    return sum(event.count for event in run.key_averages() if event.device_type.name == "CUDA")
