"""Print the two programs of a packed model, one instruction per line.

  12 LINEAR   d=r2 a=r1+64   w=decoder.input.weight v=decoder.input.bias n=192 m=64 base=bias

Registers are numbered in the order of their addresses; r1+64 is register 1 from column 64 on. Weights have
the names of their parameters. The meaning of n, m and k is documented at each Op in program/instructions.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bytenmt.decoding.cpu.packing import PackedModel
from bytenmt.program.instructions import ATTENTIONS, Base, Bell, Column, Op, Program, RowKind, Table

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
