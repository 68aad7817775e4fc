"""Print the program of the CPU engine for a model, or the time of each instruction of a decode step.

    python tools/engine_program.py MODEL
    python tools/engine_program.py MODEL --profile --batch-size 32 --precision int8

A line is an instruction:

  12 LINEAR   d=r2 a=r1+64   w=decoder.input.weight v=decoder.input.bias n=192 m=64 base=bias

Registers are numbered in the order of their addresses; r1+64 is register 1 from column 64 on. Weights have
the names of their parameters. The meaning of n, m and k is documented at each Op in program/instructions.py.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from bytenmt.architectures.registry import has_program
from bytenmt.checkpoints.weights import read_run, restored
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import PackedModel, pack_model
from bytenmt.decoding.interface import Options, Request
from bytenmt.errors import BytenmtError
from bytenmt.program.instructions import ATTENTIONS, Base, Bell, Column, Op, Program, RowKind, Table

SOURCE = b"Where is the nearest station, and when does the next train leave?"
STEPS_PER_CALL = 8
CALLS = 24  # that are timed
# Operations that read weights, and the columns that hold their offsets.
WEIGHTS: Mapping[Op, str] = {
    Op.EMBED: "w",
    Op.NGRAMS: "w",
    Op.POSITION: "w",
    Op.LINEAR: "w",  # and v, if Base.BIAS
    Op.ADD_VECTOR: "v",
    Op.NORM_RELU: "wv",
    Op.NORM: "wv",
    Op.ATTEND_ADDITIVE: "w",
    Op.PREDICT_CENTRE: "w",
    Op.GRU_SCAN: "wv",
    Op.LSTM_SCAN: "w",
}
SCALES = {"w": Column.S, "v": Column.T}  # of the matrices of LINEAR and of the recurrences
MATRICES = (Op.LINEAR, Op.GRU_SCAN, Op.LSTM_SCAN)


def listing(model: PackedModel) -> str:
    """Return a model's sizes, its encoder's and its step's program, and the state it keeps of a sentence."""
    program = model.program
    lines = [
        f"weights: {model.weights.size:,} bytes in {model.precision},"
        f" {model.weights.size - program.first_step_byte:,} of them read by a step"
    ]
    state = [f"state {k}: {width} floats a row" for k, width in enumerate(program.states)]
    state += [
        f"ring {k}: {ring.capacity} columns of {ring.width} floats a row, dilation {ring.dilation}"
        for k, ring in enumerate(program.rings)
    ]
    state += [f"item {k}: {width} floats a column of the source" for k, width in enumerate(program.items)]
    state += [f"fixed {k}: {width} floats a sentence" for k, width in enumerate(program.fixed)]
    for title, part in (("encoder", program.encode), ("step", program.step)):
        n = len(part.instructions)
        lines += ["", f"{title}: {n} instructions, {part.row_floats:,} floats of registers a row"]
        lines += instruction_lines(part, model)
    starts = _starts(program.step.instructions)
    return "\n".join([*lines, f"logits: r{starts.index(program.logits.start)}", "", *state])


def instruction_lines(program: Program, model: PackedModel) -> Iterator[str]:
    """Yield the instructions of a program, one line each."""
    starts = _starts(program.instructions)
    for number, row in enumerate(program.instructions):
        code = {column: int(row[column]) for column in Column}
        op = Op(code[Column.OP])
        registers = " ".join(_registers(code, starts))
        numbers = " ".join([*_weights(code, op, model), *_numbers(code, op)])
        yield f"{number:4} {op.name:16} {registers:32} {numbers}".rstrip()


def _starts(table: Table) -> list[int]:
    """Return where the registers of a program begin, in order."""
    starts = set()
    for start, stride in (
        (Column.D_START, Column.D_STRIDE),
        (Column.A_START, Column.A_STRIDE),
        (Column.B_START, Column.B_STRIDE),
    ):
        starts |= {int(row[start]) for row in table if row[stride]}
    return sorted(starts)


def _registers(one: Mapping[Column, int], starts: list[int]) -> Iterator[str]:
    """Yield the registers d, a and b that an instruction has, with the column if it is not 0."""
    for name in "DAB":
        start, stride, column = (one[Column[f"{name}_{what}"]] for what in ("START", "STRIDE", "COLUMN"))
        if stride:
            part = f"+{column}" if column else ""
            yield f"{name.lower()}=r{starts.index(start)}{part}"


def _weights(one: Mapping[Column, int], op: Op, model: PackedModel) -> Iterator[str]:
    """Yield the names of the weights that an instruction reads, and of their scales."""
    sides = WEIGHTS.get(op, "") + ("v" if op == Op.LINEAR and one[Column.K] == Base.BIAS else "")
    for side in sides:
        yield f"{side}={_name(one[Column[side.upper()]], model)}"
        scales = one[SCALES[side]]
        if op in MATRICES and scales:
            yield f"{SCALES[side].name.lower()}={_name(scales, model)}"


def _name(place: int, model: PackedModel) -> str:
    return model.names.get(place, f"byte {place}")


def _numbers(one: Mapping[Column, int], op: Op) -> Iterator[str]:
    """Yield the widths and other numbers of an instruction."""
    yield f"n={one[Column.N]}"
    if op in ATTENTIONS:
        yield f"v={one[Column.V]}"
        if one[Column.S]:
            yield f"window={one[Column.S]} bell={Bell(one[Column.T]).name.lower()}"
    if one[Column.M]:
        yield f"m={one[Column.M]}"
    if op == Op.LINEAR:
        yield f"base={Base(one[Column.K]).name.lower()}"
    elif one[Column.K]:
        yield f"k={one[Column.K]}"
    if one[Column.ROWS] == RowKind.SENTENCES:
        yield "a row a sentence"


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="run folder or weights file")
    parser.add_argument("--profile", action="store_true", help="measure a decode step")
    parser.add_argument("--batch-size", type=int, default=1, help="sentences of --profile (%(default)s)")
    parser.add_argument("--precision", help="of the weights (default: the file's)")
    args = parser.parse_args(arguments)
    try:
        contents = read_run(args.model)[1]
        if not has_program(contents.config.model):
            raise BytenmtError(f"{args.model}: the CPU engine has no program for its architecture")
        precision = args.precision or contents.precision
        packed = pack_model(restored(contents.arrays), contents.config.model, precision)
    except BytenmtError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.profile:
        measured = profile(packed, args.batch_size, contents.config.model.source)
        print("\n".join(format_profile(packed, measured)))
    else:
        print(listing(packed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
