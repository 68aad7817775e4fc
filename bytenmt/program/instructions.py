"""Define the instruction set of the CPU engine: a table of instructions over registers, and one
block of weights.

A row is one hypothesis in a decode step, one byte of a source in the encoder. A register holds a
vector of float32 for every row; all registers of a program lie in one workspace. Each architecture
writes its programs in its own program.py, with writer.py; decoding/cpu/interpreter.py executes
them.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.kernel_constants import PANEL

Table = npt.NDArray[np.int64]  # instructions: (n, len(Field))

ALIGNMENT = 64  # bytes: a cache line, and a vector


@unique
class Op(IntEnum):
    """The operation of an instruction, which is applied to every row (hypothesis or source byte).

    d is its destination register, a and b its source registers, n their width; w and v are offsets
    of weights, and m, k, s and t numbers. The memory is the encoder's output for the row's
    sentence: items, which have a vector for each of its positions ("columns"), and fixed parts, one
    vector each. No file stores the values, but the interpreters compare them: operations for both
    programs come before RING, those of steps before WINDOW, attentions are ATTEND_DOT to
    ATTEND_LOCATION. Another attention also goes into ATTENTIONS and into session._item_kinds.
    """

    EMBED = 0  # d = row x of table w, where x is the byte read
    POSITION = 1  # d += row i of table w, which has m rows; i: the position, at most m - 1
    LINEAR = 2  # d = W a + bias, W (n, m) at w, bias at v; k: LinearBase, what is added
    ADD_VECTOR = 3  # d += v
    NORM = 4  # d = layer norm of a, with gain w and bias v
    RELU = 5  # d = max(0, d)
    TANH = 6  # d = tanh d
    COPY = 7  # d = a
    GLU = 8  # d = a[:n] * sigma(a[n:2n])
    MEAN = 9  # d = (a + b) sqrt(1/2)
    MAXOUT = 10  # d = the larger of each pair of a, n pairs
    GRU_RESET = 11  # a[:n] = r = sigma(a[:n]), then d = r * b
    # d = a GRU's new state from the old one, d; a (3n): r after sigma, z before sigma, the input's
    # part of the candidate before tanh; b: the state's part of the candidate; k: GruFlag
    GRU_STEP = 12
    LSTM_STEP = 13  # d, b = the new h and c, from the old ones and gates i, f, g, o in a (4n)
    # d = g1 tanh(g2 b + g3 u) (ByteNet); a (4n): g1, g2, g3, u before sigma and tanh
    MULTIPLICATIVE = 14
    # For every i whose bit is set in m, d += a row of a table of i-grams, by a hash of the last i
    # bytes read. k & 63: log2 of a table's rows; bit 6: ignore case; k >> 8: log2 of the rows of a
    # table of words, which is added likewise, 0 without one
    NGRAMS = 15
    # in a step only
    RING = 17  # d = a convolution's last m inputs; a is the newest and is put into ring buffer k
    READ_STATE = 18  # d = recurrent state k of the hypothesis that the row continues
    WRITE_STATE = 19  # recurrent state k of the row = a
    COLUMN = 20  # d = the column of the memory's item k at the row's position; zero past the last
    FIXED = 21  # d = the memory's fixed part k
    # Attentions: keys are the memory's item m, values item v, of all columns or, with s > 0, of
    # those at most s from position b; t: GaussianUse.
    # d = sum_j softmax_j(a . key_j) value_j, times the square root of the source's bytes if k
    ATTEND_DOT = 22
    ATTEND_ADDITIVE = 23  # the same with the score w . tanh(a + key_j), keys by KEEP_EXPONENTIAL
    ATTEND_LOCATION = 24  # the same with the score a_j, or softmax_j(a) if k, of m columns at most
    CENTRE = 25  # d = the row's position, at most the last column's; m: columns at most, 0: all
    PREDICT_CENTRE = 26  # d = sigma(w . a) times the number of columns, m at most, 0: all
    # in an encoder only
    # d = the m columns of a around each column, dilation k, zero outside of the sentence
    WINDOW = 32
    PREVIOUS = 33  # d = a at the column before, zero at the first
    TURN = 34  # d = a of the sentence's columns in reverse
    LAST = 35  # for one row per sentence: d = a at its last column, zero without any
    KEEP = 36  # the memory's item k = a; in reverse order, but for the last column, if m
    KEEP_EXPONENTIAL = 37  # the memory's item k = exp(2 a), for ATTEND_ADDITIVE
    KEEP_FIXED = 38  # for one row per sentence: the memory's fixed part k = a
    KEEP_STATE = 39  # for one row per sentence: recurrent state k of all its beams = a


ATTENTIONS = (Op.ATTEND_DOT, Op.ATTEND_ADDITIVE, Op.ATTEND_LOCATION)


@unique
class LinearBase(IntEnum):
    """Values of the field k of instructions LINEAR (d = W a + …): what is added to the product."""

    ZERO = 0  # nothing: d = W a
    BIAS = 1  # d = W a + bias
    OWN = 2  # d += W a


@unique
class GaussianUse(IntEnum):
    """Values of the field t of attention instructions: where local attention's Gaussian applies.

    It falls with the distance of a source byte from the centre of attention. Its standard deviation
    is s / 2, where s, a field, is how far the window reaches on each side (Luong et al. 2015).
    """

    NONE = 0  # no Gaussian
    AFTER = 1  # multiply the weights after the softmax
    INSIDE = 2  # multiply the scores


class GruFlag:
    """Bits of the field k of the instruction GRU_STEP, for two choices of the GRU's form.

    Without them the candidate is g = tanh(W x + U (r * h)) and the new state z * h + (1 - z) * g,
    where r is the reset gate, z the update gate, x the input and h the old state.
    """

    RESET_AFTER = 1  # g = tanh(W x + r * (U h)) instead: reset = "after"
    UPDATE_TAKES = 2  # the new state is (1 - z) * h + z * g instead: update = "take"


@unique
class Field(IntEnum):
    """Indices of an instruction's fields: the columns of a program's table of instructions."""

    OP = 0  # Op
    # Start, stride and column (see Register), in floats, of the destination d and sources a and b.
    D_START = 1
    D_STRIDE = 2
    D_COLUMN = 3
    A_START = 4
    A_STRIDE = 5
    A_COLUMN = 6
    B_START = 7
    B_STRIDE = 8
    B_COLUMN = 9
    W = 10  # offset of weights, in bytes
    V = 11  # offset of other weights, in bytes; in attentions the number of the item with values
    S = 12  # offset of the scales of w, in bytes; in attentions the window's reach, 0: no window
    T = 13  # offset of the scales of v, in bytes; in attentions GaussianUse
    N = 14  # width of d, or of a without d, in floats
    M = 15  # a number, whose meaning Op says for each operation
    K = 16  # another such number
    ROWS = 17  # RowKind: the rows for which it is executed


@unique
class RowKind(IntEnum):
    """Values of the field ROWS: which rows of the registers an instruction is executed for."""

    ALL = 0  # all hypotheses of a step; all bytes of all sources in an encoder
    SENTENCES = 1  # one row for each sentence
    SERIAL = 2  # as ALL, byte after byte of each text: each reads the state after the one before


class Register(NamedTuple):
    """The place of a register (a float32 vector of every row), or of a part of it, in memory."""

    start: int  # floats per row that all registers before it take
    stride: int  # floats from one row to the next, all of the register; a multiple of PANEL (64)
    width: int  # floats of this part
    column: int = 0  # first float of this part in the register

    def part(self, column: int, width: int) -> Register:
        """Return the part of this register that has `width` floats from float `column` on.

        `column` counts from the start of this register or part. Raises ValueError beyond its end.
        """
        if column + width > self.width:
            raise ValueError(f"columns {column} to {column + width} of a register of {self.width}")
        return Register(self.start, self.stride, width, self.column + column)


class Matrix(NamedTuple):
    """The place of a matrix (n_output, n_input) in the block of memory with a program's weights."""

    place: int  # offset of its numbers, in bytes
    scales: int  # offset of the scales of its outputs, in bytes, if it is int8; otherwise 0
    n_output: int
    n_input: int


class Program(NamedTuple):
    """A model's encoder or decode step as a list of instructions for the CPU engine."""

    instructions: Table  # (n, len(Field)) int64
    row_floats: int  # floats of all registers together for a row (a hypothesis or source byte)

    def select(self, *ops: Op) -> Table:
        """Return the instructions with one of these operations: (n, len(Field)) int64.

        They are compared as integers. Compared with an enum member, NumPy looks for attributes of
        the enum by calling Python code, and a KeyboardInterrupt that arrives there is lost.
        """
        return self.instructions[np.isin(self.instructions[:, Field.OP], [int(op) for op in ops])]


def aligned_zeros(n_floats: int) -> npt.NDArray[np.float32]:
    """Return float32 zeros (n_floats,) whose memory begins on a cache line (64 bytes)."""
    space = np.zeros(n_floats + ALIGNMENT // 4, np.float32)
    first = -space.ctypes.data % ALIGNMENT // 4
    return space[first : first + n_floats]


def padded(width: int) -> int:
    """Round a number of floats up to a multiple of PANEL (64), the rows of a panel of weights."""
    return (width + PANEL - 1) & -PANEL
