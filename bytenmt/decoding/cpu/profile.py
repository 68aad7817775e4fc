"""Where a step's time goes: each instruction of a packed model's program timed in its place.

Knows the engine and its programs; prints nothing.
"""

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
TOGETHER = 8  # steps of a call
CALLS = 24  # that are timed


class StepProfile(NamedTuple):
    """Seconds of one step of so many sentences on one thread, greedy, medians: each instruction's, in order,
    and the rest, which is the search's."""

    n_sentences: int
    instructions: list[float]
    rest: float


def profile(packed: PackedModel, n_sentences: int, source: bool) -> StepProfile:
    """Time steps over n sentences of 65 bytes each, or without a source, whose outputs are forced."""
    engine = NumbaEngine([packed], Options(), n_sentences, 1)
    text, n = SOURCE if source else None, TOGETHER * (1 + CALLS)
    forced = (SOURCE * n)[:n]  # so that no text ends while it is measured
    engine.admit([Request(text, n, forced, number) for number in range(n_sentences)])
    engine.advance(TOGETHER)
    model = engine.first_model()
    found = []
    for _ in range(CALLS):
        model.ticks = np.zeros(len(packed.step.instructions) + 1, np.int64)
        started = perf_counter()
        engine.advance(TOGETHER)
        seconds = perf_counter() - started
        found.append(model.ticks * (seconds / TOGETHER / model.ticks[-1]))
    *each, whole = np.median(found, axis=0).tolist()
    return StepProfile(n_sentences, each, whole - sum(each))


def format_profile(packed: PackedModel, found: StepProfile) -> Iterator[str]:
    """Lines of text: a step's instructions with their times, shares and rates of products, and the sums by
    operation, the greatest first."""
    whole = sum(found.instructions) + found.rest
    n = found.n_sentences
    yield f"a step of {n} sentence{'s' * (n != 1)} in {packed.precision}: {1e6 * whole:,.0f} us"
    sums: dict[str, float] = defaultdict(float)
    lines = instruction_lines(packed.step, packed)
    for line, row, seconds in zip(lines, packed.step.instructions, found.instructions, strict=True):
        op = Op(row[Column.OP])
        sums[op.name] += seconds
        rate = ""
        if op == Op.LINEAR and seconds > 0 and row[Column.ROWS] != RowKind.SENTENCES:
            rate = f"{2e-9 * n * int(row[Column.N]) * int(row[Column.M]) / seconds:,.0f} GFLOP/s"
        yield f"{1e6 * seconds:8.1f} us {100 * seconds / whole:5.1f} % {rate:>13}  {line}"
    yield ""
    sums["search"] = found.rest
    for name, seconds in sorted(sums.items(), key=lambda one: -one[1]):
        yield f"{1e6 * seconds:8.1f} us {100 * seconds / whole:5.1f} %  {name}"
