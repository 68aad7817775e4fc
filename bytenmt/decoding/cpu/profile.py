"""Profile a decoder step of the CPU engine: the time of each instruction of a packed model's program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np

from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.listing import instruction_lines
from bytenmt.decoding.cpu.packing import PackedModel
from bytenmt.decoding.interface import Options, Request
from bytenmt.program.instructions import Column, Op, RowKind

SOURCE = b"Where is the nearest station, and when does the next train leave?"
STEPS_PER_CALL = 8
CALLS = 24  # that are timed


class StepProfile(NamedTuple):
    """Median seconds of one greedy step on one thread: of each instruction, in order, and of the rest, which
    is the search."""

    n_sentences: int
    instructions: list[float]
    rest: float


def profile(packed: PackedModel, n_sentences: int, source: bool) -> StepProfile:
    """Time decoder steps over n_sentences.

    source: whether the model has one, of 65 bytes. Outputs are forced.
    """
    engine = NumbaEngine([packed], Options(), n_sentences, 1)
    text, n = SOURCE if source else None, STEPS_PER_CALL * (1 + CALLS)
    forced = (SOURCE * n)[:n]  # so that no text ends while it is measured
    engine.admit([Request(text, n, forced, number) for number in range(n_sentences)])
    engine.advance(STEPS_PER_CALL)
    model = engine.first_model()
    samples = []
    for _ in range(CALLS):
        model.ticks = np.zeros(len(packed.program.step.instructions) + 1, np.int64)
        started = perf_counter()
        engine.advance(STEPS_PER_CALL)
        seconds = perf_counter() - started
        samples.append(model.ticks * (seconds / STEPS_PER_CALL / model.ticks[-1]))
    *each, whole = np.median(samples, axis=0).tolist()
    return StepProfile(n_sentences, each, whole - sum(each))


def format_profile(packed: PackedModel, profile: StepProfile) -> Iterator[str]:
    """Yield lines of text: the instructions with their times, shares and GFLOP/s, and the sums by
    operation."""
    whole = sum(profile.instructions) + profile.rest
    n = profile.n_sentences
    yield f"a step of {n} sentence{'s' * (n != 1)} in {packed.precision}: {1e6 * whole:,.0f} us"
    sums: dict[str, float] = defaultdict(float)
    lines = instruction_lines(packed.program.step, packed)
    for line, row, seconds in zip(lines, packed.program.step.instructions, profile.instructions, strict=True):
        op = Op(row[Column.OP])
        sums[op.name] += seconds
        rate = ""
        if op == Op.LINEAR and seconds > 0 and row[Column.ROWS] != RowKind.SENTENCES:
            rate = f"{2e-9 * n * int(row[Column.N]) * int(row[Column.M]) / seconds:,.0f} GFLOP/s"
        yield f"{1e6 * seconds:8.1f} us {100 * seconds / whole:5.1f} % {rate:>13}  {line}"
    yield ""
    sums["search"] = profile.rest
    for name, seconds in sorted(sums.items(), key=lambda item: -item[1]):
        yield f"{1e6 * seconds:8.1f} us {100 * seconds / whole:5.1f} %  {name}"
