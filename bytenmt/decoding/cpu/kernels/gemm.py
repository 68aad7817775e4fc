"""Multiply rows with packed panels of weights, by address.

The bits of an output depend on its row, its weights and its base alone, not on the rows and panels
that share the call: it is a sum of multiply-adds in the order of the inputs, beginning with zero,
and the base is added last. panels.py packs the weights; microkernels.py has the inner step for each
precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bytenmt.decoding.cpu.kernels.microkernels import (
    NATIVE_INT8,
    Fp32,
    Int8,
    Int8InInt16,
    Int8Wide,
    prepared_row_bytes,
)
from bytenmt.decoding.cpu.kernels.panels import FP32, STEP_BYTES, TILE_ROWS
from bytenmt.decoding.cpu.kernels.simd import (
    FEATURES,
    LANES,
    Builder,
    Value,
    const_int,
    emit_function,
    load,
    loop,
    prefetch,
    store,
)
from bytenmt.decoding.cpu.records import Address
from bytenmt.jit import compiled
from bytenmt.kernel_constants import PANEL

_PANEL_VECTORS = PANEL // LANES
_PANEL_BYTES = STEP_BYTES  # of one row's outputs for a panel, too
# With AVX-512, 32 registers of 16 numbers hold 24 sums beside their operands. Elsewhere a vector
# takes two or four of 16 registers: there a block is many rows with one vector of outputs.
_HAS_AVX512 = FEATURES.get("avx512f", False)
_AVX512_SUMS = 24
_PREFETCH_BYTES = 4096  # how far ahead weights are prefetched that only one row uses: a page


class _GemmArguments(NamedTuple):
    """The arguments of the kernels: rows of inputs, panels of weights, and rows of outputs."""

    x: Value  # address of the inputs
    x_bytes: Value  # from one row to the next
    w: Value  # address of the weights
    panel_bytes: Value  # of the weights of a panel
    n_steps: Value  # of the sum over the inputs of a panel
    y: Value  # address of the outputs
    y_bytes: Value  # from one row to the next
    base: Value  # address of what is added to the outputs, 0 for nothing
    base_bytes: Value  # from one row to the next
    scales: Value  # address

    def offset(self, b: Builder, n_bytes: Value, rows: Value, w_bytes: Value) -> _GemmArguments:
        """Return the arguments moved by n_bytes of outputs, some rows, and w_bytes of weights."""
        none = b.icmp_signed("==", self.base, const_int(0))
        base = b.add(b.add(self.base, n_bytes), b.mul(rows, self.base_bytes))
        return self._replace(
            x=b.add(self.x, b.mul(rows, self.x_bytes)),
            w=b.add(self.w, w_bytes),
            y=b.add(b.add(self.y, n_bytes), b.mul(rows, self.y_bytes)),
            base=b.select(none, const_int(0), base),
            scales=b.add(self.scales, n_bytes),
        )


def _emit_block(
    b: Builder,
    kind: Fp32,
    here: _GemmArguments,
    n_rows: int,
    n_vectors: int,
    ahead: Value | None = None,
) -> None:
    """Emit the product of n_rows rows with n_vectors vectors of outputs.

    ahead: how many bytes ahead weights are prefetched, None for no prefetching.
    """
    rows = [b.add(here.x, b.mul(here.x_bytes, const_int(row))) for row in range(n_rows)]
    n_sums = len(kind.initial_sums)

    def body(step: Value, *sums: Value) -> list[Value]:
        weights = [kind.weights(b, here.w, step, k) for k in range(n_vectors)]
        if ahead:
            for k in range(n_vectors):
                address = b.add(b.mul(step, const_int(_PANEL_BYTES)), const_int(4 * LANES * k))
                prefetch(b, b.add(b.add(here.w, ahead), address))
        following: list[Value] = []
        for row in rows:
            inputs = kind.inputs(b, row, step)
            for weight in weights:
                first = len(following)
                following += kind.add(b, sums[first : first + n_sums], inputs, weight)
        return following

    _, *sums = loop(b, here.n_steps, 1, list(kind.initial_sums) * (n_rows * n_vectors), body)
    values = []
    for place in range(n_rows * n_vectors):
        row, k = divmod(place, n_vectors)
        value = kind.result(b, sums[place * n_sums : (place + 1) * n_sums], rows[row])
        if kind.scaled:
            value = b.fmul(value, load(b, here.scales, const_int(k * LANES)))
        values.append((value, const_int(row), const_int(k * LANES)))
    with b.if_else(b.icmp_signed("!=", here.base, const_int(0))) as (with_base, without):
        with with_base:
            for value, row, address in values:
                start = load(b, b.add(here.base, b.mul(here.base_bytes, row)), address)
                store(b, b.fadd(value, start), b.add(here.y, b.mul(here.y_bytes, row)), address)
        with without:
            for value, row, address in values:
                store(b, value, b.add(here.y, b.mul(here.y_bytes, row)), address)


def _gemm_kernel(kind: Fp32) -> Any:
    """Return a kernel for rows and panels: (rows, n_panels, arguments of _GemmArguments)."""
    row_sums = _PANEL_VECTORS * len(kind.initial_sums)
    max_rows = kind.narrow_rows
    if _HAS_AVX512:
        max_rows = _AVX512_SUMS // row_sums
    sizes = [n for n in (6, 5, 4, 3, 2, 1) if n <= max_rows]

    def generate(b: Builder, rows: Value, n_panels: Value, *arguments: Value) -> None:
        everything = _GemmArguments(*arguments)

        def over_rows(panel: Value) -> list[Value]:
            outputs = b.mul(panel, const_int(_PANEL_BYTES))
            weights = b.mul(panel, everything.panel_bytes)
            there = everything.offset(b, outputs, const_int(0), weights)
            row = const_int(0)
            for n in sizes:  # as often as the block fits, then smaller blocks for the rest

                def block(row: Value, n: int = n) -> list[Value]:
                    if n == 1 or _HAS_AVX512:
                        ahead = None
                        if n * row_sums == _AVX512_SUMS:  # long enough to prefetch the next panel
                            ahead = there.panel_bytes
                        here = there.offset(b, const_int(0), row, const_int(0))
                        _emit_block(b, kind, here, n, _PANEL_VECTORS, ahead)
                        return []

                    def narrow(part: Value) -> list[Value]:
                        # 16 outputs have as many bytes as a step's weights to them.
                        _emit_block(b, kind, there.offset(b, part, row, part), n, 1)
                        return []

                    loop(b, const_int(_PANEL_BYTES), 4 * LANES, [], narrow)
                    return []

                row = loop(b, b.sub(rows, const_int(n - 1)), n, [], block, row)[0]
            return []

        loop(b, n_panels, 1, [], over_rows)

    return emit_function(12, 0, generate)


def _gemv_kernel(kind: Fp32) -> Any:
    """Return a kernel for one row: (n_vectors, arguments of _GemmArguments).

    n_vectors: the vectors of outputs.
    """

    def generate(b: Builder, n_vectors: Value, *arguments: Value) -> None:
        everything = _GemmArguments(*arguments)

        def some(first: Value, n: int) -> list[Value]:
            panel = b.sdiv(first, const_int(_PANEL_VECTORS))
            outputs = b.mul(first, const_int(4 * LANES))
            weights = b.mul(panel, everything.panel_bytes)
            here = everything.offset(b, outputs, const_int(0), weights)
            _emit_block(b, kind, here, 1, n, const_int(_PREFETCH_BYTES))
            return []

        end = b.sub(n_vectors, const_int(_PANEL_VECTORS - 1))
        reached = loop(b, end, _PANEL_VECTORS, [], lambda first: some(first, _PANEL_VECTORS))[0]
        for n in range(1, _PANEL_VECTORS):
            with b.if_then(b.icmp_signed("==", b.sub(n_vectors, reached), const_int(n))):
                some(reached, n)

    return emit_function(11, 0, generate)


_INT8: Int8 = Int8InInt16()
_WIDE_INT8: Int8 = Int8InInt16()
if NATIVE_INT8:
    _INT8 = Int8()
    _WIDE_INT8 = Int8Wide()
_fp32 = _gemm_kernel(Fp32())
_int8 = _gemm_kernel(_INT8)
_row_int8 = _gemv_kernel(_INT8)
_row_wide = _gemv_kernel(_WIDE_INT8)
prepare_int8 = emit_function(3, 0, _INT8.prepare)
_prepare_wide = emit_function(3, 0, _WIDE_INT8.prepare)
_STEP_INPUTS = _INT8.inputs_per_step
_INPUT_BYTES = _INT8.input_bytes


@compiled
def linear_panels(
    x: Address,
    x_stride: int,
    rows: int,
    w: Address,
    n_in: int,
    y: Address,
    y_stride: int,
    first_panel: int,
    last_panel: int,
    precision: int,
    base: Address,
    base_stride: int,
    scales: Address,
    scratch: Address,
) -> None:
    """Set y[row, o] = base[row, o] + scale[o] * sum_i w[o, i] x[row, i] for a range of outputs o.

    Strides count float32 numbers. Panels (of 64 outputs) first_panel to last_panel - 1 are used.
    x (rows, n_in). w: panel 0 of a matrix packed in `precision`, FP32 or INT8 of panels.py.
    y (rows, panels * PANEL).
    base: numbers like those of y, 0 for zeros, y itself to accumulate; base_stride 0 for a bias.
    scales: of the outputs, for int8. scratch: scratch_bytes(n_in) bytes of this thread, for int8.
    """
    n_steps = n_in
    if precision != FP32:
        n_steps = (n_in + _STEP_INPUTS - 1) // _STEP_INPUTS
    x_bytes = 4 * x_stride
    y_bytes = 4 * y_stride
    base_bytes = 4 * base_stride
    w_bytes = n_steps * _PANEL_BYTES  # of a panel
    q = scratch  # the rows, rounded to integers
    q_bytes = prepared_row_bytes(n_in, _INPUT_BYTES)
    w += first_panel * w_bytes
    y += first_panel * _PANEL_BYTES
    scales += first_panel * _PANEL_BYTES
    if base != 0:
        base += first_panel * _PANEL_BYTES
    n_panels = last_panel - first_panel
    for _ in range(0, rows, TILE_ROWS):
        n = min(rows, TILE_ROWS)
        if precision == FP32:
            _fp32(
                n, n_panels, x, x_bytes, w, w_bytes, n_steps, y, y_bytes, base, base_bytes, scales
            )
        else:
            for row in range(n):
                prepare_int8(q + row * q_bytes, x + row * x_bytes, n_in)
            _int8(
                n, n_panels, q, q_bytes, w, w_bytes, n_steps, y, y_bytes, base, base_bytes, scales
            )
        rows -= n
        x += n * x_bytes
        y += n * y_bytes
        if base != 0:
            base += n * base_bytes


@compiled
def linear_row(
    x: Address,
    w: Address,
    n_in: int,
    y: Address,
    n_out: int,
    wide: bool,
    scales: Address,
    scratch: Address,
) -> None:
    """Set y[o] = scale[o] * sum_i w[o, i] x[i]: a packed int8 matrix times one row of inputs.

    x (n_in,) float32. w (n_out, n_in): packed by panels.pack. wide: round inputs to 16 bits instead
    of 8. scales: one for each output; they and y have room for whole vectors of 16. scratch:
    scratch_bytes(n_in, 1) bytes of temporary memory.
    """
    n_steps = (n_in + 3) // 4
    panel_bytes = n_steps * _PANEL_BYTES
    n_vectors = (n_out + LANES - 1) // LANES
    if wide:
        _prepare_wide(scratch, x, n_in)
        _row_wide(n_vectors, scratch, 0, w, panel_bytes, n_steps, y, 0, 0, 0, scales)
    else:
        prepare_int8(scratch, x, n_in)
        _row_int8(n_vectors, scratch, 0, w, panel_bytes, n_steps, y, 0, 0, 0, scales)
