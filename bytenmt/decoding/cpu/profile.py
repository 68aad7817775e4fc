"""Where a step's time goes: each instruction of a packed model's program timed in its place.

Knows the engine and its programs; prints nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np

from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.program.instructions import Column, Op, RowKind
from bytenmt.decoding.cpu.program.listing import instruction_lines
from bytenmt.decoding.cpu.program.packed_model import PackedModel
from bytenmt.decoding.interface import Options, Request

SOURCE = b"Where is the nearest station, and when does the next train leave?"
WARM, STEPS = 3, 16  # of real decoding: before anything is timed, and timed as wholes
PASSES = 40  # over the instructions one by one


class StepProfile(NamedTuple):
    """Seconds of one step of so many sentences on one thread, greedy, medians: each instruction's, in order,
    and what is left of the whole step: the search, the way into compiled code, and what a step as a whole has
    less in its caches than an instruction that is called by itself."""

    n_sentences: int
    instructions: list[float]
    rest: float


def profile(packed: PackedModel, n_sentences: int, source: bool) -> StepProfile:
    """Time a step over n sentences of 65 bytes each, or without a source, whose outputs are forced. Weights,
    registers and what is kept of the sources are in the caches that they would be in."""
    engine = NumbaEngine([packed], Options(), n_sentences, 1)
    text, n = SOURCE if source else None, WARM + STEPS
    forced = SOURCE[:n]  # so that no text ends while it is measured
    engine.admit([Request(text, n, forced, number) for number in range(n_sentences)])
    engine.advance(WARM)
    step = median(_seconds(engine.advance, 1) for _ in range(STEPS))
    model, inputs = engine.working()
    table = packed.step.instructions
    parts = [table[i : i + 1] for i in range(-1, len(table))]  # the first one is empty: the call itself
    times = [[_seconds(model.carry_out, part, inputs) for part in parts] for _ in range(PASSES)]
    call, *each = np.median(times, axis=0)
    seconds = np.maximum(np.array(each) - call, 0.0).tolist()
    return StepProfile(n_sentences, seconds, max(step - sum(seconds), 0.0))


def _seconds(act: Callable[..., object], *arguments: object) -> float:
    started = perf_counter()
    act(*arguments)
    return perf_counter() - started


def told_profile(packed: PackedModel, found: StepProfile) -> Iterator[str]:
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
    sums["search and calls"] = found.rest
    for name, seconds in sorted(sums.items(), key=lambda one: -one[1]):
        yield f"{1e6 * seconds:8.1f} us {100 * seconds / whole:5.1f} %  {name}"
