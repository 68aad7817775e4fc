"""A packed model in use: its state of the sentences in its slots, and the calls of its two
programs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.interpreter import run
from bytenmt.decoding.cpu.kernels.decoder_memory import FLAT, KEYS, VALUES
from bytenmt.decoding.cpu.kernels.gemm import scratch_bytes
from bytenmt.decoding.cpu.kernels.instructions import ModelBuffers, Rows, ThreadContext
from bytenmt.decoding.cpu.kernels.microkernels import NATIVE_INT8
from bytenmt.decoding.cpu.packing import PackedModel
from bytenmt.decoding.cpu.thread_team import Barrier
from bytenmt.decoding.search.state import SearchParams, SearchState
from bytenmt.kernel_constants import PANEL, PRECISIONS
from bytenmt.program.instructions import ALIGNMENT, Field, Op, aligned_zeros, padded
from bytenmt.utf8 import EOS

Array = npt.NDArray[np.float32]
# Columns of sources per call of the encoder, unless a single source has more: enough to keep the
# matrix products busy; with a recurrence, which waits for each column, enough sentences to share
# its matrices.
ENCODED_TOGETHER, RECURRENT_TOGETHER = 256, 1024


class ModelSession:
    """A packed model with the memory for n_slots sentences: decoder states, encoder results and
    registers.

    The models of an ensemble have a session each and share one SearchState.
    """

    def __init__(
        self, packed: PackedModel, n_slots: int, beam: int, n_threads: int, n_columns: int = 1
    ) -> None:
        """n_columns: bytes of a text that a pass reads at most."""
        self.packed, self._program = packed, packed.program
        program, logits = packed.program, packed.program.logits
        self._n_slots, self._n_rows, self._n_threads = n_slots, n_slots * beam, n_threads
        self._hidden = aligned_zeros(2 * sum(program.states) * self._n_rows)
        # Columns of a pass are written one by one: none may overwrite what another one reads.
        rings = [
            (ring.capacity + n_columns - 1, ring.width, ring.dilation) for ring in program.rings
        ]
        floats = [capacity * width for capacity, width, _ in rings]
        self._past = aligned_zeros(sum(floats) * self._n_rows)
        history = max((capacity for capacity, _, _ in rings), default=1)
        self._ancestors = np.zeros((2, self._n_rows, history), np.uint16)
        self._columns, self._source_len = np.zeros(n_slots, np.int64), np.zeros(n_slots, np.int64)
        kinds = _item_kinds(packed)
        room = [
            memory_column_floats(width, kind)
            for width, kind in zip(program.items, kinds, strict=True)
        ]
        self._item_floats = sum(room)
        self._tables = (
            _table(_offsets(program.states), program.states),
            _table(_offsets(floats), *([ring[i] for ring in rings] for i in range(3))),
            _table(_offsets(room), program.items, kinds),
            _table(_offsets(program.fixed), program.fixed),
        )
        recurs = len(program.encode.select(Op.PREVIOUS)) > 0
        self._together = RECURRENT_TOGETHER if recurs else ENCODED_TOGETHER
        input_widths = [
            part.select(Op.LINEAR)[:, Field.M] for part in (program.encode, program.step)
        ]
        widest = max(int(widths.max(initial=1)) for widths in input_widths)
        self._product_bytes = scratch_bytes(widest)
        self._memory_offset = np.zeros(n_slots, np.int64)
        self._region, self._memory = 0, aligned_zeros(0)
        self._scratch_floats, self._scratch = 0, aligned_zeros(0)
        self._reserve(0)
        pass_rows = self._n_rows * n_columns
        self._step_space = aligned_zeros(program.step.row_floats * pass_rows)
        self._encode_space, self._encode_rows = aligned_zeros(0), 0
        self._logits = np.array([logits.start, logits.stride, logits.column], np.int64)
        self._reads_words = len(program.step.select(Op.NGRAMS)) > 0
        self._step_rows = _rows(self._step_space, pass_rows, self._reads_words)

    def run_steps(
        self,
        search: SearchState,
        params: SearchParams,
        which: int,
        n_passes: int,
        thread: int,
        n_threads: int,
        barrier: Barrier,
    ) -> None:
        """Execute n_passes decode steps of all running sentences; all threads of a ThreadTeam call
        it.

        which: the model's number in the ensemble. thread: the number of the calling one of
        n_threads threads, from 0. barrier: the counters by which they wait for each other.
        """
        ctx = self._thread_context(thread, n_threads, barrier)
        table, rows = self._program.step.instructions, self._step_rows
        run(table, self._logits, self._buffers(), rows, search, params, which, n_passes, ctx)

    def prepare(self, sources: Sequence[bytes | None], slots: Sequence[int]) -> list[Rows]:
        """Make room for new sentences in the given slots, and reset their states. sources: None of
        a language model. Returns records of rows, with each of which `encode` must be called."""
        texts = [None if source is None else self._encoder_bytes(source) for source in sources]
        order = sorted(range(len(texts)), key=lambda i: -_length(texts[i]))
        for i in order:
            source = sources[i]
            n_bytes = 0 if source is None else len(source) + 1
            self._source_len[slots[i]] = n_bytes
            self._columns[slots[i]] = self._memory_columns(n_bytes)
        self._reserve(max(self._columns[slot] for slot in slots))
        begin = 0
        for width in self._program.states:
            bank = self._hidden[begin : begin + self._n_rows * width].reshape(self._n_slots, -1)
            bank[list(slots)] = 0
            begin += 2 * self._n_rows * width
        calls, group, n_columns = [], list[int](), 0
        for i in order:
            if group and n_columns + _length(texts[i]) > self._together:
                calls.append(group)
                group, n_columns = [], 0
            group.append(i)
            n_columns += _length(texts[i])
        calls.append(group)
        # Allocate once for all calls, which use the same registers one after another.
        n_rows = max(max(len(group), sum(_length(texts[i]) for i in group)) for group in calls)
        if n_rows > self._encode_rows:
            self._encode_rows = n_rows
            self._encode_space = aligned_zeros(self._program.encode.row_floats * n_rows)
        return [
            self._encoder_rows([texts[i] for i in group], [slots[i] for i in group])
            for group in calls
        ]

    def encode(
        self,
        rows: Rows,
        search: SearchState,
        params: SearchParams,
        thread: int,
        n_threads: int,
        barrier: Barrier,
    ) -> None:
        """Encode the sources of a record that `prepare` returned; all threads of a ThreadTeam call
        it."""
        ctx = self._thread_context(thread, n_threads, barrier)
        table = self._program.encode.instructions
        run(table, self._logits, self._buffers(), rows, search, params, 0, 0, ctx)

    def _thread_context(self, thread: int, n_threads: int, barrier: Barrier) -> ThreadContext:
        """Return the context of one of n_threads threads."""
        scratch = self._scratch.ctypes.data + 4 * thread * self._scratch_floats
        return ThreadContext(thread, n_threads, barrier.ctypes.data, scratch)

    def _buffers(self) -> ModelBuffers:
        """Return the addresses of weights and state for compiled code."""
        return ModelBuffers(
            self.packed.weights.ctypes.data,
            PRECISIONS.index(self.packed.precision),
            self._n_rows,
            self._hidden.ctypes.data,
            self._past.ctypes.data,
            self._memory.ctypes.data,
            self._item_floats,
            *self._tables,
            self._memory_offset,
            self._columns,
            self._source_len,
            self._ancestors,
        )

    def _encoder_bytes(self, source: bytes) -> bytes:
        """Return the bytes that the encoder reads: in its order, padded with EOS to its columns, at
        least one."""
        text = source[::-1] if self._program.source.reverse else source
        width = max(len(source) + 1, self._memory_columns(len(source) + 1))
        return text.ljust(width, bytes([EOS]))

    def _memory_columns(self, n_bytes: int) -> int:
        """Return the columns of memory of a source of n_bytes, EOS included; 0 without a source."""
        if self._program.source.unfolding is None or n_bytes == 0:
            return n_bytes
        factor, offset = self._program.source.unfolding
        return math.ceil(factor * n_bytes + offset - 1e-9)  # see architectures/bytenet/model.py

    def _reserve(self, n_columns: int) -> None:
        """Make room for memories of n_columns in every slot, and for attention scores over them."""
        columns = padded(n_columns)
        region = round_up_to_lines(self._item_floats * columns + sum(self._program.fixed))
        if region > self._region:
            larger = aligned_zeros(region * self._n_slots).reshape(self._n_slots, region)
            larger[:, : self._region] = self._memory.reshape(self._n_slots, self._region)
            self._region, self._memory = region, larger.reshape(-1)
            self._memory_offset = np.arange(self._n_slots) * region
        attended = (
            2 * columns
            + max(self._program.items, default=0)
            + PANEL
            + scratch_bytes(columns, 1) // 4
        )
        floats = round_up_to_lines(max(attended, self._product_bytes // 4))
        if floats > self._scratch_floats:
            self._scratch_floats, self._scratch = floats, aligned_zeros(floats * self._n_threads)

    def _encoder_rows(self, texts: list[bytes | None], slots: list[int]) -> Rows:
        """Return the rows of one call of the encoder; texts are sorted by length, longest first."""
        length = np.array([_length(text) for text in texts], np.int64)
        is_row = np.arange(length[0])[:, None] < length  # (columns, texts)
        position, owner = map(np.ascontiguousarray, np.nonzero(is_row))
        padded_texts = b"".join((text or b"").ljust(length[0]) for text in texts)
        return Rows(
            self._encode_space.ctypes.data,
            self._encode_rows,
            np.frombuffer(padded_texts, np.uint8).reshape(len(texts), length[0]).T[is_row],
            np.empty((len(owner) if self._reads_words else 0, 2), np.uint64),  # which `run` fills
            position,
            owner,
            np.zeros(0, np.int64),
            np.array(slots),
            length,
            np.append(0, np.cumsum(is_row.sum(axis=1))),
        )


def _item_kinds(packed: PackedModel) -> list[int]:
    """Return the kind of each memory item: in int8 those that attention reads as a whole are int8,
    too."""
    kinds: list[set[int]] = [set() for _ in packed.program.items]
    for code in packed.program.step.instructions:
        op, key, value = Op(code[Field.OP]), code[Field.M], code[Field.V]
        whole = packed.precision == "int8" and NATIVE_INT8 and code[Field.S] == 0
        if op == Op.COLUMN:
            kinds[code[Field.K]].add(FLAT)
        elif op in (Op.ATTEND_DOT, Op.ATTEND_ADDITIVE):
            kinds[key].add(KEYS if whole and op == Op.ATTEND_DOT else FLAT)
            kinds[value].add(VALUES if whole else FLAT)
        elif op == Op.ATTEND_LOCATION:
            kinds[value].add(FLAT)
    return [uses.pop() if len(uses) == 1 else FLAT for uses in kinds]


def memory_column_floats(width: int, kind: int) -> int:
    """Return how many float32 numbers a column of `width` numbers takes in an item of the encoder
    memory.
    kind: FLAT (float32), KEYS or VALUES (both int8) of decoder_memory."""
    return width if kind == FLAT else padded(width) // 4 + 1


def round_up_to_lines(n_floats: int) -> int:
    """Return n_floats rounded up to whole cache lines (of 16 float32 numbers)."""
    return -(-4 * n_floats // ALIGNMENT) * ALIGNMENT // 4


def _length(text: bytes | None) -> int:
    return 0 if text is None else len(text)


def _rows(space: Array, capacity: int, reads_words: bool) -> Rows:
    """Return rows for decoder steps, which fill them themselves."""
    words = np.zeros((capacity if reads_words else 0, 2), np.uint64)
    position, owner, beam = (np.zeros(capacity, np.int64) for _ in range(3))
    nothing = np.zeros(0, np.int64)
    ids = np.zeros(capacity, np.uint8)
    return Rows(
        space.ctypes.data, capacity, ids, words, position, owner, beam, nothing, nothing, nothing
    )


def _table(*columns: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.array(list(zip(*columns, strict=True)), np.int64).reshape(-1, len(columns))


def _offsets(widths: Sequence[int]) -> list[int]:
    """Return for each width the sum of the widths before it."""
    return [sum(widths[:i]) for i in range(len(widths))]
