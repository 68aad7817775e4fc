"""Measure and plot the time per byte over the output length, for a fixed source.

One sentence is decoded to the greatest length. At every requested length its last bytes are timed in turn
with those of a fresh sentence at 1,024 bytes, so that disturbances affect both alike; medians are compared.
For comparison the non-incremental way: the whole prefix through the model for every byte.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bytenmt.architectures.tensor_tree import tensors
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.pytorch.forward import source_tensors
from bytenmt.utf8 import BOS
from tools.bench.records import Record
from tools.bench.steps import BENCH, Case, StepTimer, endless_model, make_engine, random_requests, seconds

BEGIN = 1024  # the length that the others are compared with
BLOCKS = 64  # blocks timed before each length; fewer at short lengths
BLOCK = 8  # bytes of a block
SLOW = 4096  # maximum length for the slow ways: plain PyTorch, and the whole prefix for every byte


class Point(NamedTuple):
    """Median seconds per byte just before a length, and at BEGIN at the same time."""

    length: int
    seconds: float
    seconds_at_begin: float


class Curve(NamedTuple):
    """The points of one engine with one model, and the bytes of its state before and after decoding."""

    case: Case
    points: list[Point]
    state_bytes: tuple[int, int]


def measure_curve(case: Case, lengths: Sequence[int]) -> Curve:
    """Decode one sentence to the last of the lengths and time it at each of them."""
    engine = make_engine(case, torch.device("cpu"))
    sentence = StepTimer(engine, case.batch, limit=lengths[-1])
    before = state_bytes(engine)
    points = []
    for length in lengths:
        n = min(BLOCKS, length // (2 * BLOCK))
        sentence.time_steps(sentence.n_left - (lengths[-1] - length) - n * BLOCK)
        fresh = StepTimer(make_engine(case, torch.device("cpu")), case.batch, limit=BEGIN)
        fresh.time_steps(fresh.n_left - n * BLOCK)
        pairs = [(sentence.time_steps(BLOCK), fresh.time_steps(BLOCK)) for _ in range(n)]
        own, begin = (statistics.median(times) for times in zip(*pairs, strict=True))
        points.append(Point(length, own, begin))
        print(f"{case.name('')}length {length}: {own * 1e3:.4f} ms a byte,", end=" ", file=sys.stderr)
        print(f"{own / begin:.3f} of what it is at {BEGIN}", file=sys.stderr)
    return Curve(case, points, (before, state_bytes(engine)))


def state_bytes(engine: Any) -> int:
    """Return the bytes of an engine's memories and states between steps, without the text."""
    if type(engine) is TorchEngine:
        return sum(part.nbytes for part in tensors(engine._states))
    assert type(engine) is NumbaEngine
    (model,) = engine._models
    return sum(part.nbytes for part in (model._hidden, model._past, model._ancestors, model._memory))


def full_prefix_seconds(case: Case, length: int) -> float:
    """Return the seconds for one byte at a length by reading the whole prefix again; the best of two."""
    model = endless_model(case.arch, case.preset).model
    src, src_len = source_tensors(random_requests(1, length))
    letters = torch.randint(97, 123, (1, length), generator=torch.Generator().manual_seed(1))
    letters[:, 0] = BOS
    prefix = letters.to(torch.uint8)
    with torch.no_grad():
        memory = model.encode(src, src_len)
        return min(seconds(lambda: model(prefix, memory, model.start(memory))) for _ in range(2))


def length_records(options: Any) -> Iterator[Record]:
    """Measure curves of every engine for the models of the command line, and draw the plot."""
    drawn: dict[str, list[tuple[int, float]]] = {}
    for preset in options.preset or ["small"]:
        for arch in options.arch:
            for engine in options.engine:
                for precision in (options.precision or ["fp32"]) if engine == "numba" else ["fp32"]:
                    case = Case(arch, preset, engine, precision, threads=options.threads)
                    lengths = [n for n in options.lengths if engine == "numba" or n <= SLOW]
                    if lengths:
                        found = measure_curve(case, lengths)
                        yield from curve_records(found)
                        drawn[f"{arch} {engine} {precision}"] = [p[:2] for p in found.points]
            whole = [
                (n, full_prefix_seconds(Case(arch, preset, "torch", "fp32"), n))
                for n in options.lengths
                if n <= SLOW
            ]
            drawn[f"{arch} whole prefix"] = whole
            yield from full_prefix_records(arch, preset, whole, drawn)
    if options.plot:
        draw(options.plot, drawn)


def curve_records(curve: Curve) -> Iterator[Record]:
    """Return each point relative to that at BEGIN, and the state size after decoding relative to before."""
    for length, own, begin in curve.points:
        reference = f"median at {BEGIN:,} in the same minute"
        case = curve.case.name(f"length={length} length={BEGIN}")
        yield Record(BENCH, case, own * 1e3, "ms/byte", reference, begin * 1e3, own / begin)
    before, after = curve.state_bytes
    case = curve.case.name(f"state after {curve.points[-1].length} before")
    yield Record(BENCH, case, after, "bytes", "state before the first byte", before, after / before)


def full_prefix_records(
    arch: str, preset: str, whole: Sequence[tuple[int, float]], drawn: dict[str, list[tuple[int, float]]]
) -> Iterator[Record]:
    """Return the speed-up of a step over reading the whole prefix again, both in plain PyTorch."""
    steps = dict(drawn.get(f"{arch} torch fp32", []))
    for length, again_seconds in whole:
        if length in steps:
            own = steps[length]
            case = Case(arch, preset, "torch", "fp32").name(f"length={length} whole prefix")
            reference = "the whole prefix for every byte"
            yield Record(
                BENCH, case, own * 1e3, "ms/byte", reference, again_seconds * 1e3, again_seconds / own
            )


def draw(path: Path, curves: dict[str, list[tuple[int, float]]]) -> None:
    """Plot milliseconds per byte over the output length on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    colours = {arch: f"C{i}" for i, arch in enumerate(dict.fromkeys(name.split()[0] for name in curves))}
    for name, points in curves.items():
        if points:
            style = ":" if "whole" in name else "--" if "torch" in name else "-"
            x, y = zip(*points, strict=True)
            milliseconds = [1e3 * seconds for seconds in y]
            axes.plot(x, milliseconds, style, color=colours[name.split()[0]], marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(yscale="log", xlabel="output length, bytes", ylabel="milliseconds a byte")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
