"""Write a program from shapes alone: registers, instructions, and the weights that they read.

A program is written without any weights. It names the parameters that it reads and their shapes,
and a WeightSink gives them places, which decoding/cpu/packing.py fills with the numbers of a
trained model. So one description of an architecture gives its program, the parameters that a
weights file must hold, and what a decode step costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.kernel_constants import PANEL
from bytenmt.program.instructions import (
    Field,
    LinearBase,
    Matrix,
    Op,
    Program,
    Register,
    RowKind,
    padded,
)

Array = npt.NDArray[np.float32]
Shapes = dict[str, tuple[int, ...]]  # of a model's parameters, by their names


class WeightArray(NamedTuple):
    """An array of weights that a program reads: a parameter, or computed from parameters."""

    name: str  # as errors name it
    shape: tuple[int, ...]  # of the array
    parameters: Shapes  # names and shapes of the parameters that it is computed from
    compute: Callable[..., Array]  # returns it, given the arrays of these parameters in their order


def parameter(name: str, *shape: int) -> WeightArray:
    """Describe a parameter of the model, by its name and shape, as an array of a program."""
    return WeightArray(name, shape, {name: shape}, lambda array: array)


class WeightEntry(NamedTuple):
    """The place of an array that a program reads, in the block of memory with all its weights."""

    values: WeightArray  # the array, and the parameters that it is computed from
    offset: int  # in bytes, of its numbers
    matrix: Matrix | None  # the place of its parts; None for a vector, never quantised


class WeightSink:
    """Lays out the weights that a program reads in one block of memory, by their shapes alone.

    precision: of the matrices, "fp32" or "int8".
    """

    def __init__(self, precision: str = "fp32") -> None:
        self._is_int8 = precision == "int8"
        # The arrays in their order; each begins on a cache line and has room for whole panels.
        self.entries = list[WeightEntry]()
        self.n_bytes = 0  # of the block
        self.shapes = Shapes()  # of the parameters read, by their names

    def vector(self, values: WeightArray) -> int:
        """Add an array, of any shape, that stays float32; return its offset in bytes."""
        self._record(values)
        offset = self._reserve(math.prod(values.shape))
        self.entries.append(WeightEntry(values, offset, None))
        return offset

    def matrix(self, values: WeightArray) -> Matrix:
        """Add a matrix (n_output, ...), all axes but the first its inputs; return its place."""
        self._record(values)
        n_output = values.shape[0]
        n_input = math.prod(values.shape[1:])
        scales = self._reserve(n_output) if self._is_int8 else 0
        n_steps = -(-n_input // 4) if self._is_int8 else n_input  # int8: four inputs a step
        matrix = Matrix(self._reserve(padded(n_output) * n_steps), scales, n_output, n_input)
        self.entries.append(WeightEntry(values, matrix.place, matrix))
        return matrix

    def _reserve(self, n_floats: int) -> int:
        offset = self.n_bytes
        self.n_bytes += 4 * padded(n_floats)
        return offset

    def _record(self, values: WeightArray) -> None:
        for name, shape in values.parameters.items():
            if self.shapes.setdefault(name, shape) != shape:
                raise ValueError(f"{name} is read as {shape} and as {self.shapes[name]}")


class Writer:
    """Builds a program (a model as a list of instructions), instruction by instruction.

    weights: gets the arrays that the program reads. is_encoder: whether the program is an encoder,
    which runs over all bytes of sources, instead of one step of a decoder.
    """

    def __init__(self, weights: WeightSink, is_encoder: bool = False) -> None:
        self.weights = weights
        self._is_encoder = is_encoder
        self._rows: list[list[int]] = []
        self._row_floats = 0
        self._shared: dict[tuple[str, int], Register] = {}

    def register(self, width: int) -> Register:
        """Return a new register: working memory for `width` floats of every row."""
        stride = padded(width)
        new = Register(self._row_floats, stride, width)
        self._row_floats += stride
        return new

    def shared(self, width: int, use: str = "taps") -> Register:
        """Return the register of `width` floats that layers share for a temporary use.

        use: any name of the use. The first call with it and this width makes the register.
        """
        if (use, width) not in self._shared:
            self._shared[use, width] = self.register(width)
        return self._shared[use, width]

    def vector(self, name: str, *shape: int) -> int:
        """Add a parameter of the model to `weights` as float32; return its offset in bytes.

        name, shape: of the parameter, which may have any number of axes.
        """
        return self.weights.vector(parameter(name, *shape))

    def matrix(self, name: str, n_output: int, n_input: int) -> Matrix:
        """Add the parameter `name` (n_output, n_input) to `weights`; return the matrix' place."""
        return self.weights.matrix(parameter(name, n_output, n_input))

    def emit(
        self,
        op: Op,
        d: Register | None = None,
        a: Register | None = None,
        b: Register | None = None,
        rows: RowKind = RowKind.ALL,
        **numbers: int,
    ) -> None:
        """Append an instruction.

        d: its destination register; a, b: its source registers. rows: which rows it is executed
        for. numbers: its other fields, named as in Field, in lower case; n is by default the width
        of d, or of a without d.
        """
        row = {"OP": int(op), "ROWS": int(rows), "N": (d or a or Register(0, 0, 0)).width}
        row |= {name.upper(): number for name, number in numbers.items()}
        for name, register in (("D", d), ("A", a), ("B", b)):
            if register is not None:
                row |= {
                    f"{name}_START": register.start,
                    f"{name}_STRIDE": register.stride,
                    f"{name}_COLUMN": register.column,
                }
        self._rows.append([row.get(column.name, 0) for column in Field])

    def read_state(self, d: Register, state: int) -> None:
        """Append a load of the recurrent state number `state` into register d.

        In an encoder the state is the value that d had at the source byte before.
        """
        if self._is_encoder:
            self.emit(Op.PREVIOUS, d, d)
        else:
            self.emit(Op.READ_STATE, d, k=state)

    def write_state(self, a: Register, state: int) -> None:
        """Append a store of register a in the decoder's recurrent state number `state`.

        In an encoder nothing is appended: the state stays in the register.
        """
        if not self._is_encoder:
            self.emit(Op.WRITE_STATE, a=a, k=state)

    def last_column(self, a: Register) -> Register:
        """Append a copy of an encoder's register a at each source's last byte; return its register.

        The copy has one row for each sentence, which is zero if the source is empty.
        """
        d = self.register(a.width)
        self.emit(Op.LAST, d, a, rows=RowKind.SENTENCES)
        return d

    def linear(
        self,
        d: Register,
        a: Register,
        matrix: str | WeightArray,
        bias: str | None = None,
        *,
        add: bool = False,
        rows: RowKind = RowKind.ALL,
    ) -> None:
        """Append a linear map of registers: d = W a + bias, or d += W a + bias with `add`.

        matrix: W, as a WeightArray or the name of a parameter (d.width, a.width). bias: the name of
        a parameter; None: no bias. rows: which rows it is executed for. A multiple of PANEL (64)
        floats is written to d, so write parts of its register that lie behind d later. Raises
        ValueError for widths that do not fit, or if d does not begin at a multiple of PANEL.
        """
        values = parameter(matrix, d.width, a.width) if isinstance(matrix, str) else matrix
        packed = self.weights.matrix(values)
        if (packed.n_output, packed.n_input) != (d.width, a.width) or d.column % PANEL:
            raise ValueError(f"{values.name} is {packed.n_output} x {packed.n_input}, d {d}, a {a}")
        numbers: dict[str, Any] = {"w": packed.place, "s": packed.scales, "m": packed.n_input}
        if add:
            numbers["k"] = LinearBase.OWN
        elif bias is not None:
            numbers |= {"k": LinearBase.BIAS, "v": self.vector(bias, d.width)}
        self.emit(Op.LINEAR, d, a, rows=rows, **numbers)
        if add and bias is not None:
            self.emit(Op.ADD_VECTOR, d, rows=rows, v=self.vector(bias, d.width))

    def program(self) -> Program:
        """Return the program of all instructions so far.

        From the read of a recurrent state to its last write they are marked as RowKind.SERIAL, to
        be executed for one byte of each text after another.
        """
        table = np.array(self._rows, np.int64).reshape(-1, len(Field))
        op = table[:, Field.OP]
        state = table[:, Field.K]
        d = table[:, Field.D_START : Field.D_COLUMN + 1]
        for first in np.flatnonzero((op == Op.READ_STATE) | (op == Op.PREVIOUS)):
            is_write = (op == Op.WRITE_STATE) & (state == state[first])
            if self._is_encoder:
                is_write = (d == d[first]).all(axis=1)
            table[first : np.flatnonzero(is_write).max(initial=0) + 1, Field.ROWS] = RowKind.SERIAL
        return Program(table, self._row_floats)
