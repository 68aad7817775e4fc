"""A decoder or encoder as a program: a table of instructions over registers, and one block of weights.

A register is a row of float32 numbers for every row of the call (a beam of a sentence in a step, a byte of a
source in an encoder); all registers of a program lie in one workspace. The models are written as programs
in recurrent.py, bytenet.py and convs2s.py; interpreter.py carries them out. Knows no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, unique
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.kernels.panels import INTEGERS, PANEL, pack
from bytenmt.kernel_constants import PRECISIONS

Array = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Table = npt.NDArray[np.int64]
Tensors = Mapping[str, Array]  # a model's weights by the names of its parameters

ALIGNMENT = 64  # bytes: a cache line, and a vector


@unique
class Op(IntEnum):
    """What an instruction does, to every row: d is its destination, a and b its sources, n their width.

    Where "columns" are spoken of, they are those of the row's sentence in the encoder's memory.
    """

    EMBED = 0  # d = the look-up table's row of the byte read
    POSITION = 1  # d += the table's row of the position, the last one of m from there on
    LINEAR = 2  # d = W a + bias; k: what is added, see Base
    ADD_VECTOR = 3  # d += v
    NORM_RELU = 4  # d = max(0, layer norm of a)
    RELU = 5  # d = max(0, d)
    TANH = 6  # d = tanh d
    COPY = 7  # d = a
    GLU = 8  # d = a[:n] * sigma(a[n:2n])
    MEAN = 9  # d = (a + b) sqrt(1/2)
    MAXOUT = 10  # d = the larger of each pair of a, n pairs
    GRU_RESET = 11  # a[:n] = r = sigma(a[:n]), then d = r * b
    # d = the new state from d, the gates a (r; z and g before their functions) and U's share of g b; k: Gru
    GRU_STEP = 12
    LSTM_STEP = 13  # d, b = the new h and c, from the gates a (4n)
    NORM = 14  # d = layer norm of a
    MULTIPLICATIVE = 15  # d = a multiplicative unit of b; a (4n): g1, g2, g3, u before their functions
    # d += the sum of a row of each table of n-grams, of k & 63 rows as a power of 2, for every n whose bit is
    # set in m, by the hash of the last n bytes read; with k & 64 in small letters
    NGRAMS = 16
    # in a step only
    RING = 17  # d = the m taps of ring k, the newest a; a is kept in the ring
    READ_STATE = 18  # d = state k of the row's parent
    WRITE_STATE = 19  # state k of the row = a
    COLUMN = 20  # d = the memory's column of the row's position; zero past the last
    FIXED = 21  # d = the memory's fixed part k
    ATTEND_DOT = 22  # d = sum_j softmax_j(a . key_j) value_j, times the root of m where k
    ATTEND_ADDITIVE = 23  # the same with the score w . tanh(a + key_j)
    ATTEND_LOCATION = 24  # the same with the score a_j, of the first m columns; k: their softmax once more
    # All three: of all columns, or of those at most s from b; t: see Bell
    CENTRE = 25  # d = the row's position, at most the last of the sentence's columns, of which m are seen
    PREDICT_CENTRE = 26  # d = sigma(w . a) times those columns
    # in an encoder only
    WINDOW = 32  # d = the m columns of a around each column, dilation k, zero outside of the sentence
    # d = the states of a recurrence over a sentence's columns, backwards where m; a its input's share of the
    # gates; b scratch, a row a sentence, that begins with h and ends holding the last h
    GRU_SCAN = 33  # w: U of r and z, v: U of g, k: see Gru; scratch h, u (2n), r * h, g
    LSTM_SCAN = 34  # w: U; scratch h, c, u (4n)
    KEEP = 35  # the memory's item k = a; its columns before the last one turned round where m
    KEEP_EXPONENTIAL = 36  # the memory's item k = exp(2 a), for ATTEND_ADDITIVE
    KEEP_FIXED = 37  # a row a sentence: the memory's fixed part k = a
    KEEP_STATE = 38  # a row a sentence: state k, of all beams, = a


@unique
class Base(IntEnum):
    """What LINEAR adds its products to."""

    ZERO = 0
    BIAS = 1
    OWN = 2  # what the destination holds


@unique
class Bell(IntEnum):
    """What a window's Gaussian of standard deviation s / 2 is a factor of."""

    NONE = 0
    AFTER = 1  # the weights after the softmax
    INSIDE = 2  # the scores


class Gru:
    """Bits of k: the reset comes after the product; z takes the new state."""

    RESET_AFTER = 1
    UPDATE_TAKES = 2


@unique
class Column(IntEnum):
    """The columns of an instruction: the operation; three registers, each by its start among a row's floats,
    its stride and the column in it; places of weights in bytes and of their scales; widths and other numbers;
    what it has a row for."""

    OP = 0
    D_START, D_STRIDE, D_COLUMN = 1, 2, 3
    A_START, A_STRIDE, A_COLUMN = 4, 5, 6
    B_START, B_STRIDE, B_COLUMN = 7, 8, 9
    W, V = 10, 11
    S, T = 12, 13  # scales of w and v
    N, M, K = 14, 15, 16
    ROWS = 17  # RowKind


@unique
class RowKind(IntEnum):
    """What an instruction has a row for."""

    ALL = 0  # the rows of a step; the columns of all sources in an encoder
    SENTENCES = 1
    SERIAL = 2  # as ALL, where of several columns of a text each waits for the states of the one before


class Register(NamedTuple):
    """start: floats of a row before it; stride: its floats, whole panels; column: where in it this part
    begins; width: floats of this part."""

    start: int
    stride: int
    width: int
    column: int = 0

    def part(self, column: int, width: int) -> Register:
        """width floats of it, from a column on."""
        if column + width > self.width:
            raise ValueError(f"columns {column} to {column + width} of a register of {self.width}")
        return Register(self.start, self.stride, width, self.column + column)


class Matrix(NamedTuple):
    """A packed matrix: where its panels (and scales) stand, its size."""

    place: int
    scales: int
    n_output: int
    n_input: int


class Program(NamedTuple):
    """instructions (n, len(Column)) int64; row_floats: floats of all registers, a row."""

    instructions: Table
    row_floats: int


def padded(width: int) -> int:
    """Floats of whole panels."""
    return -(-width // PANEL) * PANEL


class Weights:
    """The block of weights while it is filled; every entry begins on a cache line.

    names: of what begins at a place, for those who read a program; see listing.py.
    """

    def __init__(self, precision: str) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision is {precision!r}, expected one of {', '.join(PRECISIONS)}")
        self.precision = precision
        self.names: dict[int, str] = {}
        self.n_bytes = 0
        self._parts: list[Bytes] = []

    def vector(self, values: Array, name: str) -> int:
        """Keep float32 numbers as they are, padded with zeros to whole panels; returns their place."""
        flat = np.zeros(padded(values.size), np.float32)
        flat[: values.size] = values.ravel()
        return self._add(flat.view(np.uint8), name)

    def matrix(self, values: Array, name: str) -> Matrix:
        """Pack a matrix (n_output, n_input) in the block's precision."""
        n_output, n_input = values.shape
        scales = 0
        if self.precision in INTEGERS:
            from bytenmt.storage.rounding import quantise  # here: not part of the kernels' cache key

            scales = self.vector(quantise(values)[1], f"{name}:scale")
        return Matrix(self._add(pack(values, self.precision), name), scales, n_output, n_input)

    def block(self) -> Bytes:
        """Everything as one array that begins on a cache line."""
        space = np.empty(self.n_bytes + ALIGNMENT, np.uint8)
        first = -space.ctypes.data % ALIGNMENT
        whole = space[first : first + self.n_bytes]
        at = 0
        for part in self._parts:
            whole[at : at + part.size] = part
            at += -(-part.size // ALIGNMENT) * ALIGNMENT
        return whole

    def _add(self, part: Bytes, name: str) -> int:
        place = self.n_bytes
        self.names[place] = name
        self._parts.append(part)
        self.n_bytes += -(-part.size // ALIGNMENT) * ALIGNMENT
        return place


class Writer:
    """Writes one program into a block of weights."""

    def __init__(self, weights: Weights, tensors: Tensors) -> None:
        self.weights = weights
        self.tensors = tensors
        self._rows: list[list[int]] = []
        self._row_floats = 0
        self._shared: dict[str, Register] = {}

    def register(self, width: int) -> Register:
        """A new register."""
        stride = padded(width)
        made = Register(self._row_floats, stride, width)
        self._row_floats += stride
        return made

    def shared(self, use: str, width: int) -> Register:
        """The register of a use: made the first time."""
        if use not in self._shared:
            self._shared[use] = self.register(width)
        return self._shared[use]

    def vector(self, name: str) -> int:
        """Keep a parameter as it is; returns its place."""
        return self.weights.vector(self.tensors[name], name)

    def emit(
        self,
        op: Op,
        d: Register | None = None,
        a: Register | None = None,
        b: Register | None = None,
        rows: RowKind = RowKind.ALL,
        **numbers: int,
    ) -> None:
        """One instruction; n is the destination's width unless told otherwise."""
        row = {"OP": int(op), "ROWS": int(rows), "N": (d or a or Register(0, 0, 0)).width}
        row |= {name.upper(): number for name, number in numbers.items()}
        for name, register in (("D", d), ("A", a), ("B", b)):
            if register is not None:
                row |= {
                    f"{name}_START": register.start,
                    f"{name}_STRIDE": register.stride,
                    f"{name}_COLUMN": register.column,
                }
        self._rows.append([row.get(column.name, 0) for column in Column])

    def linear(
        self,
        d: Register,
        a: Register,
        matrix: str | tuple[str, Array],
        bias: str | None = None,
        *,
        add: bool = False,
        rows: RowKind = RowKind.ALL,
    ) -> None:
        """d = W a + bias, or d += W a with `add`.

        matrix: the name of a parameter (n_output, n_input), or a name and the array. It fills d up to whole
        panels, so that d must not be followed by another part that is already written.
        """
        name, values = matrix if isinstance(matrix, tuple) else (matrix, self.tensors[matrix])
        packed = self.weights.matrix(values.reshape(len(values), -1), name)
        if (packed.n_output, packed.n_input) != (d.width, a.width) or d.column % PANEL:
            raise ValueError(f"{name} is {packed.n_output} x {packed.n_input}, d {d}, a {a}")
        base = Base.OWN if add else Base.ZERO if bias is None else Base.BIAS
        v = self.vector(bias) if base == Base.BIAS and bias is not None else 0
        self.emit(Op.LINEAR, d, a, rows=rows, w=packed.place, s=packed.scales, v=v, k=base, m=packed.n_input)
        if add and bias is not None:
            self.emit(Op.ADD_VECTOR, d, rows=rows, v=self.vector(bias))

    def program(self) -> Program:
        """What was written."""
        table = np.array(self._rows, np.int64).reshape(-1, len(Column))
        op, state = table[:, Column.OP], table[:, Column.K]
        for first in np.flatnonzero(op == Op.READ_STATE):
            written = np.flatnonzero((op == Op.WRITE_STATE) & (state == state[first]))
            table[first : written.max(initial=0) + 1, Column.ROWS] = RowKind.SERIAL
        return Program(table, self._row_floats)
