"""Hold the state of a packed model's sentences, and call its two programs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.cpu.call_table import TableCache
from bytenmt.decoding.cpu.kernels.panels import scratch_bytes
from bytenmt.decoding.cpu.library import load_engine
from bytenmt.decoding.cpu.packing import PackedModel
from bytenmt.decoding.cpu.records import (
    FLAT,
    KEYS,
    VALUES,
    EngineCall,
    ModelBuffers,
    Rows,
    ThreadContext,
)
from bytenmt.decoding.cpu.thread_team import Barrier
from bytenmt.decoding.search.record_fields import allocate_arrays
from bytenmt.decoding.search.state import SearchParams, SearchState
from bytenmt.kernel_constants import PANEL, PRECISIONS
from bytenmt.program.instructions import ALIGNMENT, Field, Op, aligned_zeros, padded
from bytenmt.utf8 import EOS

# A source as the encoder reads it, empty in a language model, and the slot of its sentence.
EncoderInput = tuple[bytes, int]
# Columns of sources per call of the encoder, unless a single source has more: enough to keep the
# matrix products busy; with a recurrence, which waits for each column, enough sentences to share
# its matrices.
MAX_ENCODER_COLUMNS = 256
MAX_RECURRENT_COLUMNS = 1024


class ModelSession:
    """A packed model with the memory for n_slots sentences: decoder states, encoder results and
    registers.

    The models of an ensemble have a session each and share one SearchState.
    """

    def __init__(
        self, packed: PackedModel, n_slots: int, beam: int, n_threads: int, n_columns: int = 1
    ) -> None:
        """beam: hypotheses of a sentence. n_columns: bytes of a text that a pass reads at most."""
        program = packed.program
        self._kernels = load_engine()
        self._tables = TableCache()
        self.packed = packed
        self._program = program
        self._n_slots = n_slots
        self._n_rows = n_slots * beam
        self._n_threads = n_threads
        is_recurrent = len(program.encode.select(Op.PREVIOUS)) > 0
        self._max_columns = MAX_RECURRENT_COLUMNS if is_recurrent else MAX_ENCODER_COLUMNS
        self._reads_words = len(program.step.select(Op.NGRAMS)) > 0
        logits = program.logits
        self._logits = np.array([logits.start, logits.stride, logits.column])
        self._allocate_states(n_columns)
        self._allocate_memory()
        pass_rows = self._n_rows * n_columns
        self._step_space = aligned_zeros(program.step.row_floats * pass_rows)
        sizes = {"rows": pass_rows, "sentences": 0, "columns": 0}
        arrays = allocate_arrays(Rows, sizes)  # which decode steps fill themselves
        if not self._reads_words:
            arrays["word"] = arrays["word"][:0]
        self._step_rows = Rows(self._step_space.ctypes.data, pass_rows, **arrays)
        self._encode_space = aligned_zeros(0)
        self._encode_rows = 0

    def _allocate_states(self, n_columns: int) -> None:
        """Make room for recurrent states and ring buffers."""
        program = self._program
        self._hidden = aligned_zeros(2 * sum(program.states) * self._n_rows)
        self._states = _table(_offsets(program.states), program.states)
        # Columns of a pass are written one by one: none may overwrite what another one reads.
        capacities = [ring.capacity + n_columns - 1 for ring in program.rings]
        widths = [ring.width for ring in program.rings]
        floats = [capacity * width for capacity, width in zip(capacities, widths, strict=True)]
        self._past = aligned_zeros(sum(floats) * self._n_rows)
        dilations = [ring.dilation for ring in program.rings]
        self._rings = _table(_offsets(floats), capacities, widths, dilations)
        self._ancestors = np.zeros((2, self._n_rows, max(capacities, default=1)), np.uint16)

    def _allocate_memory(self) -> None:
        """Lay out the encoder memory of a slot, and make room for empty sources."""
        program = self._program
        kinds = _item_kinds(self.packed, self._kernels.has_int8_products)
        items = zip(program.items, kinds, strict=True)
        column_floats = [memory_column_floats(width, kind) for width, kind in items]
        self._item_floats = sum(column_floats)
        self._items = _table(_offsets(column_floats), program.items, kinds)
        self._fixed = _table(_offsets(program.fixed), program.fixed)
        self._columns = np.zeros(self._n_slots, np.int64)
        self._source_len = np.zeros(self._n_slots, np.int64)
        self._memory_offset = np.zeros(self._n_slots, np.int64)
        self._region = 0  # floats of a slot's memory
        self._memory = aligned_zeros(0)
        linear = [part.select(Op.LINEAR) for part in (program.encode, program.step)]
        self._product_bytes = scratch_bytes(int(np.vstack(linear)[:, Field.M].max(initial=1)))
        self._scratch_floats = 0  # of each thread
        self._scratch = aligned_zeros(0)
        self._known_buffers: ModelBuffers | None = None
        self._reserve(0)

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

        search: the sentences, updated in place. params: the options of the search. which: the
        model's number in the ensemble. thread: the number of the calling one of n_threads threads,
        from 0. barrier: the counters by which they wait for each other.
        """
        ctx = self._thread_context(thread, n_threads, barrier)
        program = self._program.step.instructions
        model = self._buffers()
        rows = self._step_rows
        call = EngineCall(program, self._logits, model, rows, search, params, which, n_passes, ctx)
        self._run(call)

    def prepare(self, sources: Sequence[bytes | None], slots: Sequence[int]) -> list[Rows]:
        """Make room for new sentences in the given slots, and reset their states.

        sources: without EOS; None in a language model. Returns groups of the sources as records of
        rows (one a byte); `encode` must be called with each.
        """
        inputs = []
        for source, slot in zip(sources, slots, strict=True):
            n_bytes = 0 if source is None else len(source) + 1
            self._source_len[slot] = n_bytes
            self._columns[slot] = self._memory_columns(n_bytes)
            inputs.append((b"" if source is None else self._encoder_bytes(source), slot))
        self._reserve(max(self._columns[slot] for slot in slots))
        begin = 0
        for width in self._program.states:
            bank = self._hidden[begin : begin + self._n_rows * width].reshape(self._n_slots, -1)
            bank[list(slots)] = 0
            begin += 2 * self._n_rows * width
        calls = _group_inputs(inputs, self._max_columns)
        # Allocate once for all calls, which use the same registers one after another.
        n_rows = max(max(len(call), _n_columns(call)) for call in calls)
        if n_rows > self._encode_rows:
            self._encode_rows = n_rows
            self._encode_space = aligned_zeros(self._program.encode.row_floats * n_rows)
        return [self._encoder_rows(call) for call in calls]

    def encode(
        self,
        rows: Rows,
        search: SearchState,
        params: SearchParams,
        thread: int,
        n_threads: int,
        barrier: Barrier,
    ) -> None:
        """Encode a group of sources, rows, that `prepare` returned, into the memory of their slots.

        All threads of a ThreadTeam call it. thread: the number of the calling one of n_threads
        threads, from 0. barrier: the counters by which they wait for each other. search, params: as
        for run_steps; an encoder does not change them.
        """
        ctx = self._thread_context(thread, n_threads, barrier)
        program = self._program.encode.instructions
        model = self._buffers()
        self._run(EngineCall(program, self._logits, model, rows, search, params, 0, 0, ctx))

    def _run(self, call: EngineCall) -> None:
        """Execute a call of interpreter.run in machine code."""
        table = self._tables.table_of(call)
        self._kernels.run_engine(table.ctypes.data)

    def _thread_context(self, thread: int, n_threads: int, barrier: Barrier) -> ThreadContext:
        """Return the context of one of n_threads threads."""
        scratch = self._scratch.ctypes.data + 4 * thread * self._scratch_floats
        return ThreadContext(thread, n_threads, barrier.ctypes.data, scratch)

    def _buffers(self) -> ModelBuffers:
        """Return the addresses of weights and state for compiled code."""
        if self._known_buffers is not None:
            return self._known_buffers
        self._known_buffers = ModelBuffers(
            self.packed.weights.ctypes.data,
            PRECISIONS.index(self.packed.precision),
            self._n_rows,
            self._hidden.ctypes.data,
            self._past.ctypes.data,
            self._memory.ctypes.data,
            self._item_floats,
            self._states,
            self._rings,
            self._items,
            self._fixed,
            self._memory_offset,
            self._columns,
            self._source_len,
            self._ancestors,
        )
        return self._known_buffers

    def _encoder_bytes(self, source: bytes) -> bytes:
        """Return the bytes that the encoder reads: in its order, padded with EOS to its columns.

        There is at least one.
        """
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
            self._region = region
            self._memory = larger.reshape(-1)
            self._known_buffers = None
            self._memory_offset = np.arange(self._n_slots) * region
        widest_item = max(self._program.items, default=0)
        attended = 2 * columns + widest_item + PANEL + scratch_bytes(columns, 1) // 4
        floats = round_up_to_lines(max(attended, self._product_bytes // 4))
        if floats > self._scratch_floats:
            self._scratch_floats = floats
            self._scratch = aligned_zeros(floats * self._n_threads)

    def _encoder_rows(self, inputs: list[EncoderInput]) -> Rows:
        """Return the rows of one call of the encoder, whose inputs have the longest one first."""
        length = np.array([len(text) for text, _ in inputs], np.int64)
        is_row = np.arange(length[0])[:, None] < length  # (columns, texts)
        position, owner = map(np.ascontiguousarray, np.nonzero(is_row))
        padded_texts = b"".join(text.ljust(length[0]) for text, _ in inputs)
        text_bytes = np.frombuffer(padded_texts, np.uint8).reshape(len(inputs), length[0])
        n_words = len(owner) if self._reads_words else 0
        return Rows(
            space=self._encode_space.ctypes.data,
            capacity=self._encode_rows,
            ids=text_bytes.T[is_row],
            word=np.empty((n_words, 2), np.uint64),  # `run` fills it
            position=position,
            owner=owner,
            beam=np.zeros(0, np.int64),
            slot=np.array([slot for _, slot in inputs]),
            length=length,
            first=np.append(0, np.cumsum(is_row.sum(axis=1))),
        )


def _item_kinds(packed: PackedModel, has_int8_products: bool) -> list[int]:
    """Return the kind of each memory item.

    In int8 models those that attention reads as a whole are int8, too, where the kernels multiply
    bytes.
    """
    kinds: list[set[int]] = [set() for _ in packed.program.items]
    for code in packed.program.step.instructions:
        op = Op(code[Field.OP])
        value = code[Field.V]
        whole = packed.precision == "int8" and has_int8_products and code[Field.S] == 0
        if op == Op.COLUMN:
            kinds[code[Field.K]].add(FLAT)
        elif op in (Op.ATTEND_DOT, Op.ATTEND_ADDITIVE):
            kinds[code[Field.M]].add(KEYS if whole and op == Op.ATTEND_DOT else FLAT)
            kinds[value].add(VALUES if whole else FLAT)
        elif op == Op.ATTEND_LOCATION:
            kinds[value].add(FLAT)
    return [uses.pop() if len(uses) == 1 else FLAT for uses in kinds]


def memory_column_floats(width: int, kind: int) -> int:
    """Return how many float32 numbers a vector of one source position takes in encoder memory.

    width: numbers of the vector. kind: how they are stored: FLAT in float32; KEYS or VALUES
    (records.py) in int8, padded to a multiple of PANEL, and a float32 scale.
    """
    return width if kind == FLAT else padded(width) // 4 + 1


def round_up_to_lines(n_floats: int) -> int:
    """Return n_floats rounded up to whole cache lines (of 16 float32 numbers)."""
    return -(-4 * n_floats // ALIGNMENT) * ALIGNMENT // 4


def _n_columns(inputs: Sequence[EncoderInput]) -> int:
    return sum(len(text) for text, _ in inputs)


def _group_inputs(inputs: list[EncoderInput], max_columns: int) -> list[list[EncoderInput]]:
    """Return the inputs, longest first, in groups of at most max_columns bytes or of one input."""
    groups = list[list[EncoderInput]]()
    for one in sorted(inputs, key=lambda one: -len(one[0])):
        if groups and _n_columns([*groups[-1], one]) <= max_columns:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _table(*columns: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return a table (rows, columns) of these columns."""
    return np.array(list(zip(*columns, strict=True)), np.int64).reshape(-1, len(columns))


def _offsets(widths: Sequence[int]) -> list[int]:
    """Return for each width the sum of the widths before it."""
    return [sum(widths[:i]) for i in range(len(widths))]
