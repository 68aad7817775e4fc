"""Execute the programs of models (program/) and steps of the search, in one compiled function.

All threads execute the same instructions, each on its range of the rows or panels, and wait for
each other after each instruction.
"""

from __future__ import annotations

from bytenmt.decoding.cpu.kernels.barrier import barrier
from bytenmt.decoding.cpu.kernels.gemm import linear_panels
from bytenmt.decoding.cpu.kernels.instructions import (
    A_COLUMN,
    A_START,
    A_STRIDE,
    B_COLUMN,
    B_START,
    B_STRIDE,
    D_COLUMN,
    D_START,
    D_STRIDE,
    OP,
    ROWS,
    K,
    M,
    N,
    RowSelection,
    S,
    V,
    W,
    copy,
    copy_columns,
    gather_windows,
    padded,
    register_address,
    thread_range,
)
from bytenmt.decoding.cpu.operations import execute_row_op, execute_source_op, execute_step_op
from bytenmt.decoding.cpu.pass_rows import begin_pass, n_columns_of, read_source_bytes
from bytenmt.decoding.cpu.records import Address, EngineCall, ModelBuffers, Rows, ThreadContext
from bytenmt.decoding.cpu.scoring import record_attention, score_forced_bytes, write_log_p
from bytenmt.decoding.search.beam_search import choose_bytes
from bytenmt.decoding.search.state import ForcedText, Ints, SearchParams, SearchState
from bytenmt.jit import compiled, inlined
from bytenmt.kernel_constants import PANEL
from bytenmt.program.instructions import LinearBase, Op, RowKind


@compiled
def run(call: EngineCall) -> None:
    """Execute call.n_steps decode steps of one model, or once its encoder if n_steps is 0.

    A step executes the program (the model as a table of instructions), stores the logits in
    call.search and, for the last model of an ensemble, chooses the next bytes (or scores those of
    fixed texts). Steps end early when all sentences have ended. The call.ctx.n_threads threads must
    call it at once, each with its own ctx.
    """
    model = call.model
    rows = call.rows
    search = call.search
    ctx = call.ctx
    if call.n_steps == 0:
        if ctx.thread == 0:
            read_source_bytes(rows)
        if not barrier(ctx.barrier, ctx.n_threads):
            return
        execute(call, len(rows.ids), len(rows.first) - 1)
    for _ in range(call.n_steps):
        if ctx.thread == 0:
            begin_pass(model, rows, search)
        if not barrier(ctx.barrier, ctx.n_threads):
            return
        n_rows = search.n_rows[0]
        if n_rows == 0:
            break
        n_columns = 1
        if len(model.states) > 0:
            n_columns = n_columns_of(search, search.row_slot[0])
        execute(call, n_rows, n_columns)
        if ctx.thread == 0:
            store_logits(call.logits, rows, search, call.which)
            if call.which == len(search.logits) - 1:
                choose_or_score(search, call.params)
        if not barrier(ctx.barrier, ctx.n_threads):
            return


@compiled
def store_logits(logits: Ints, rows: Rows, search: SearchState, which: int) -> None:
    """Copy the logits of all rows of a decode step from their register to search.logits[which].

    A register is an array (rows, stride) of floats in the workspace rows.space. logits (3,): floats
    per row of all registers before it, its stride, and the column of the first logit in it. which:
    the model's number in the ensemble.
    """
    first = register_address(rows, logits[0], logits[2])
    for row in range(search.n_rows[0]):
        target = search.logits[which, row]
        copy(target.ctypes.data, first + 4 * row * logits[1], len(target))


@compiled
def choose_or_score(search: SearchState, params: SearchParams) -> None:
    """Finish a decode step of all models: choose the next bytes, or score those of fixed texts.

    Reads the logits of every model from search.logits, and writes the logarithm of the models' mean
    probabilities to search.log_p. Then score_forced_bytes is called if search.forced has texts,
    otherwise choose_bytes; both write their results to `search`.
    """
    write_log_p(search)
    if len(search.forced.n_text) > 0:
        score_forced_bytes(search)
    else:
        choose_bytes(search, params)


@compiled
def execute(call: EngineCall, n_all: int, n_columns: int) -> None:
    """Execute call.program for the first n_all rows of call.rows; all threads call it at once.

    A row is a byte that is read. n_columns: rows of each text; in an encoder, of the longest. A
    serial part of the program (a recurrence), in which a row depends on the row before it in its
    text, is executed for the first row of all texts, then for the second, and so on.
    """
    program = call.program
    rows = call.rows
    ctx = call.ctx
    # Records are passed to inlined functions number by number: pass a few arrays, not the whole
    # search.
    step = call.search.step
    parent = call.search.parent
    forced = call.search.forced
    layer = 0  # attention instructions before this one
    part = 0  # the instruction at which a serial part begins
    part_layer = 0  # the attention instructions before it
    column = 0  # the row of each text for which a serial part is executed
    pc = 0
    while pc < len(program):
        code = program[pc]
        selection = select_rows(code[ROWS], rows, n_all, n_columns, column)
        execute_instruction(code, call.model, rows, step, parent, forced, ctx, selection, layer)
        if not barrier(ctx.barrier, ctx.n_threads):
            return
        layer += Op.ATTEND_DOT <= code[OP] <= Op.ATTEND_LOCATION
        pc += 1
        if code[ROWS] != RowKind.SERIAL:
            part = pc
            part_layer = layer
        elif pc == len(program) or program[pc, ROWS] != RowKind.SERIAL:
            column += 1
            if column < n_columns:
                pc = part
                layer = part_layer
            else:
                column = 0


@inlined
def select_rows(row_kind: int, rows: Rows, n_all: int, n_columns: int, column: int) -> RowSelection:
    """Return the rows for which an instruction is executed: origin + every * i for i < n_rows.

    row_kind: a RowKind: all n_all rows, one row for each sentence, or (SERIAL) row number `column`
    of each text. n_columns: rows of each text; in an encoder, of the longest.
    """
    if row_kind == RowKind.SENTENCES:
        return RowSelection(len(rows.slot), 0, 1)
    if row_kind != RowKind.SERIAL:
        return RowSelection(n_all, 0, 1)
    if len(rows.first) > 0:  # the sources of an encoder, column by column
        first = rows.first[column]
        end = rows.first[min(column + 1, n_columns)]  # equal to `first` without any column
        return RowSelection(end - first, first, 1)
    return RowSelection(n_all // n_columns, column, n_columns)


@inlined
def execute_instruction(  # noqa: C901 (the dispatch by opcode)
    code: Ints,
    model: ModelBuffers,
    rows: Rows,
    step: Ints,
    parent: Ints,
    forced: ForcedText,
    ctx: ThreadContext,
    selection: RowSelection,
    layer: int,
) -> None:
    """Execute this thread's share of an instruction for the rows of `selection`.

    code (fields,): the instruction, indexed by program.instructions.Field. step (slots,): how many
    bytes each text had before this pass. parent (slots, beams): the beam of the step before that
    each beam continues. forced: receives the attention weights if they are recorded. layer: number
    of attention instructions before this one.
    """
    op = code[OP]
    d_bytes = 4 * selection.every * code[D_STRIDE]  # from one of these rows to the next
    a_bytes = 4 * selection.every * code[A_STRIDE]
    b_bytes = 4 * selection.every * code[B_STRIDE]
    origin = selection.origin
    d = register_address(rows, code[D_START], code[D_COLUMN]) + 4 * origin * code[D_STRIDE]
    a = register_address(rows, code[A_START], code[A_COLUMN]) + 4 * origin * code[A_STRIDE]
    b = register_address(rows, code[B_START], code[B_COLUMN]) + 4 * origin * code[B_STRIDE]
    if op == Op.LINEAR:
        execute_linear(code, model, ctx, selection.n_rows, d, d_bytes // 4, a, a_bytes // 4)
        return
    first, last = thread_range(selection.n_rows, ctx)
    if op < Op.RING:
        for i in range(first, last):
            row = origin + selection.every * i
            d_row = d + i * d_bytes
            execute_row_op(code, model, rows, row, d_row, a + i * a_bytes, b + i * b_bytes)
    elif op < Op.WINDOW:
        is_recorded = forced.attention.shape[2] > 0
        for i in range(first, last):
            row = origin + selection.every * i
            d_row = d + i * d_bytes
            a_row = a + i * a_bytes
            b_row = b + i * b_bytes
            execute_step_op(code, model, rows, step, parent, ctx, row, d_row, a_row, b_row)
            if is_recorded and Op.ATTEND_DOT <= op <= Op.ATTEND_LOCATION:
                record_attention(code, model, rows, forced, step, ctx, row, layer, b_row)
    elif op == Op.WINDOW:
        gather_windows(code, rows, first, last, d, d_bytes, a, a_bytes)
    elif op < Op.KEEP:
        copy_columns(code, rows, first, last, origin, d, d_bytes, a, a_bytes)
    else:
        for row in range(first, last):
            execute_source_op(code, model, rows, row, a + row * a_bytes, ctx.scratch)


@inlined
def execute_linear(
    code: Ints,
    model: ModelBuffers,
    ctx: ThreadContext,
    n_rows: int,
    d: Address,
    d_stride: int,
    a: Address,
    a_stride: int,
) -> None:
    """Set d to W a, W a + bias or d + W a for n_rows rows; each thread computes some outputs.

    code (fields,): an instruction Op.LINEAR, which says which sum it is (code[K], a LinearBase) and
    where W and bias are in model.weights. d, a: addresses of the vectors of the first row; those of
    the next rows are d_stride and a_stride floats apart.
    """
    base = 0
    base_stride = 0
    if code[K] == LinearBase.BIAS:
        base = model.weights + code[V]
    elif code[K] == LinearBase.OWN:
        base = d
        base_stride = d_stride
    first, last = thread_range(padded(code[N]) // PANEL, ctx)
    linear_panels(
        a,
        a_stride,
        n_rows,
        model.weights + code[W],
        code[M],
        d,
        d_stride,
        first,
        last,
        model.precision,
        base,
        base_stride,
        model.weights + code[S],
        ctx.scratch,
    )
