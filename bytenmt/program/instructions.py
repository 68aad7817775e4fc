"""The instruction set of the CPU engine: a table of instructions over registers, and one block of weights.

A register is a row of float32 numbers for every row of the call (a beam of a sentence in a step, a byte of a
source in an encoder); all registers of a program lie in one workspace. Each architecture writes its programs
in its own program.py, with writer.py; decoding/cpu/interpreter.py executes them.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.kernel_constants import PANEL

Table = npt.NDArray[np.int64]

ALIGNMENT = 64  # bytes: a cache line, and a vector


@unique
class Op(IntEnum):
    """The operation of an instruction, which is applied to every row (hypothesis or source byte).

    d is its destination, a and b its sources, n their width. "Columns" are those of the row's sentence in the
    encoder's memory. No file stores the numbers. The interpreters tell groups by ranges: operations on rows
    come before RING, steps before WINDOW, attentions from ATTEND_DOT to ATTEND_LOCATION; another attention
    also goes into ATTENTIONS and into session._item_kinds.
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


ATTENTIONS = (Op.ATTEND_DOT, Op.ATTEND_ADDITIVE, Op.ATTEND_LOCATION)


@unique
class Base(IntEnum):
    """The term that LINEAR adds its products to."""

    ZERO = 0
    BIAS = 1
    OWN = 2  # what the destination holds


@unique
class Bell(IntEnum):
    """The numbers that a window's Gaussian, of standard deviation s / 2, is multiplied with."""

    NONE = 0
    AFTER = 1  # the weights after the softmax
    INSIDE = 2  # the scores


class Gru:
    """Bits of k in GRU instructions: apply the reset after the product; let z weigh the new state."""

    RESET_AFTER = 1
    UPDATE_TAKES = 2


@unique
class Column(IntEnum):
    """The columns of the instruction table: the operation; three registers, each by its start among a row's
    floats, its stride and the column in it; offsets of weights and of their scales, in bytes; widths and
    other numbers; the kind of its rows."""

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
    """The rows that an instruction is executed for."""

    ALL = 0  # the rows of a step; the columns of all sources in an encoder
    SENTENCES = 1
    SERIAL = 2  # as ALL, where of several columns of a text each waits for the states of the one before


class Register(NamedTuple):
    """A register, or a part of one.

    start: floats of a row before it; stride: its floats, whole panels; column: first float of this part;
    width: floats of this part.
    """

    start: int
    stride: int
    width: int
    column: int = 0

    def part(self, column: int, width: int) -> Register:
        """Return `width` floats of this part, from `column` on, counted from its own start.

        Raises ValueError beyond its end.
        """
        if column + width > self.width:
            raise ValueError(f"columns {column} to {column + width} of a register of {self.width}")
        return Register(self.start, self.stride, width, self.column + column)


class Matrix(NamedTuple):
    """A packed matrix. place, scales: offsets of its panels and of their scales, in bytes."""

    place: int
    scales: int
    n_output: int
    n_input: int


class Program(NamedTuple):
    """A program. instructions: (n, len(Column)) int64; row_floats: floats of all registers in a row."""

    instructions: Table
    row_floats: int

    def select(self, *ops: Op) -> Table:
        """Return the instructions with one of these operations: (n, len(Column)) int64.

        They are compared as integers. Compared with an enum member, NumPy looks for attributes of the enum by
        calling Python code, and a KeyboardInterrupt that arrives there is lost.
        """
        return self.instructions[np.isin(self.instructions[:, Column.OP], [int(op) for op in ops])]


def aligned_zeros(n_floats: int) -> npt.NDArray[np.float32]:
    """Return zeros that begin on a cache line."""
    space = np.zeros(n_floats + ALIGNMENT // 4, np.float32)
    first = -space.ctypes.data % ALIGNMENT // 4
    return space[first : first + n_floats]


def padded(width: int) -> int:
    """Round a number of floats up to whole panels."""
    return -(-width // PANEL) * PANEL
