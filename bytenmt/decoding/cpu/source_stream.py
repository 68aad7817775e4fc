"""Read a source in pieces: execute an encoder with bounded look-ahead for new columns alone.

The program is that of whole sources. Instruction i can be executed for column j when column j + lag[i] has
come; its lag grows with every convolution that reads columns to the right. Registers hold the columns that
later instructions wait for, and a ring for each convolution the columns to the left that it reads again. So
every instruction is executed once for each column, in the same order of operations, and a byte costs the same
wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.kernels.instructions import Rows
from bytenmt.program.instructions import Base, Column, Op, Program, Table, aligned_zeros

PIECE = 64  # bytes of a source that are read together at most
# Operations whose destination is not read; LINEAR unless it adds to it.
OVERWRITING = frozenset(
    (Op.EMBED, Op.LINEAR, Op.NORM_RELU, Op.COPY, Op.GLU, Op.MEAN, Op.MAXOUT, Op.NORM, Op.MULTIPLICATIVE)
) | {Op.WINDOW, Op.GRU_SCAN, Op.LSTM_SCAN}


class StreamProgram(NamedTuple):
    """An encoder's program with a ring for each convolution.

    instructions: those of the program, b of WINDOW being its ring. row_floats: of all registers. lags (i,)
    int64: see above. ring_floats: of all rings. registers: start and stride of those that hold columns.
    """

    instructions: Table
    row_floats: int
    lags: npt.NDArray[np.int64]
    ring_floats: int
    registers: frozenset[tuple[int, int]]

    @classmethod
    def from_program(cls, program: Program, lookahead: int) -> StreamProgram:
        """Add the rings. Raises ValueError if an instruction waits for more than `lookahead` columns."""
        table, lags, ring_floats, last = program.instructions.copy(), list[int](), 0, dict[int, int]()
        registers = set()
        for row in table:
            code = dict(zip(Column, row.tolist(), strict=True))
            op, d = Op(code[Column.OP]), code[Column.D_START]
            read = [code[Column.A_START]] if code[Column.A_STRIDE] else []
            read += [code[Column.B_START]] if code[Column.B_STRIDE] else []
            if op not in OVERWRITING or (op == Op.LINEAR and code[Column.K] == Base.OWN):
                read.append(d)
            lags.append(max((last.get(start, 0) for start in read), default=0))
            if op == Op.WINDOW:
                lags[-1] += code[Column.V]
                row[Column.B_START], row[Column.B_COLUMN] = program.row_floats, ring_floats
                n_kept = (code[Column.M] - 1) * code[Column.K] - code[Column.V]
                ring_floats += max(0, n_kept) * (code[Column.N] // code[Column.M])
            if code[Column.D_STRIDE]:
                last[d] = lags[-1]
                registers.add((d, code[Column.D_STRIDE]))
        if max(lags) > lookahead:
            raise ValueError(f"the encoder waits for {max(lags)} columns, its look-ahead is {lookahead}")
        return cls(table, program.row_floats, np.array(lags), ring_floats, frozenset(registers))


class EncoderWorkspace:
    """The registers and rings of an encoder that reads a source in pieces; rows are columns of the source."""

    def __init__(self, program: StreamProgram) -> None:
        self._program = program
        self._n_kept = int(program.lags.max(initial=0))
        self._capacity = self._n_kept + PIECE
        self._space = aligned_zeros(program.row_floats * self._capacity + program.ring_floats)
        self._first, self._end = 0, 0  # column of row 0; columns that have come
        self._ids = np.zeros(self._capacity, np.uint8)
        self._words = np.zeros((self._capacity, 2), np.uint64)

    def rows(self, text: bytes, words: npt.NDArray[np.uint64], is_last: bool) -> Iterator[Rows]:
        """Yield the rows of the encoder's calls that read the next bytes; execute each before the next.

        words: the word (see ngram_hash) at each byte, empty if the program has no n-gram tables. is_last:
        whether no bytes follow.
        """
        lags, owners = self._program.lags[:, None], np.zeros(self._capacity, np.int64)
        for begin in range(0, len(text), PIECE):
            piece = np.frombuffer(text, np.uint8)[begin : begin + PIECE]
            if self._end - self._first + len(piece) > self._capacity:
                self._move()
            at = self._end - self._first
            end = at + len(piece)
            self._ids[at:end] = piece
            if len(words):
                self._words[at:end] = words[begin : begin + PIECE]
            columns = np.array([self._end, self._end + len(piece)])
            span = np.maximum(columns - lags, 0) - self._first
            if is_last and begin + PIECE >= len(text):
                span[:, 1] = end
            yield Rows(
                self._space.ctypes.data,
                self._capacity,
                self._ids[:end],
                self._words[:end] if len(words) else words,
                np.arange(self._first, self._first + end),
                owners,
                owners[:0],
                np.zeros(2, np.int64),
                owners[:1],
                span,
            )
            self._end += len(piece)

    def _move(self) -> None:
        """Move the columns that an instruction waits for to the first rows."""
        end = self._end - self._first
        parts: list[npt.NDArray[Any]] = [self._ids, self._words]
        for start, stride in self._program.registers:
            floats = self._space[start * self._capacity : (start + stride) * self._capacity]
            parts.append(floats.reshape(self._capacity, stride))
        for part in parts:
            part[: self._n_kept] = part[end - self._n_kept : end]
        self._first += end - self._n_kept
