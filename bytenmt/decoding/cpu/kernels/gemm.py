"""Matrix products of rows with packed panels of weights, called from compiled code by address.

The bits of an output depend on its row, its weights and its base alone, not on the rows and panels
that share the call: it is a sum of multiply-adds in the order of the inputs, beginning with zero,
and the base is added last. panels.py packs the weights; microkernels.py has the inner step for each
precision.
"""

from __future__ import annotations

from typing import Any

from bytenmt.decoding.cpu.kernels.microkernels import (
    NATIVE_INT8,
    Fp32,
    Int8,
    Int8InInt16,
    Int8Wide,
    row_bytes,
)
from bytenmt.decoding.cpu.kernels.panels import FP32, STEP_BYTES
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
from bytenmt.jit import compiled
from bytenmt.kernel_constants import PANEL

_VECTORS = PANEL // LANES  # per panel
_PANEL_BYTES = STEP_BYTES  # of one row's outputs for a panel, too
_TILE = (
    96  # rows that are multiplied with a panel before the next panel; scratch memory holds as many
)
# With AVX-512, 32 registers of 16 numbers hold 24 sums beside their operands. Elsewhere a vector
# takes two or four of 16 registers: there a block is many rows with one vector of outputs.
_WIDE = FEATURES.get("avx512f", False)
_SUMS = 24
_PREFETCH_BYTES = 4096  # how far ahead weights are prefetched that only one row uses: a page


class _GemmArguments:
    """The arguments of the kernels below: rows of inputs, panels of weights, and rows of outputs.

    x, w, y, base (0: none), scales: addresses. x_bytes, y_bytes, base_bytes: from one row to the
    next.
    size: bytes of the weights of a panel; n_steps: steps of the sum over its inputs.
    """

    def __init__(self, b: Builder, arguments: tuple[Value, ...]) -> None:
        self.b = b
        self.x, self.x_bytes, self.w, self.size, self.n_steps = arguments[:5]
        self.y, self.y_bytes, self.base, self.base_bytes, self.scales = arguments[5:]

    def offset(self, n_bytes: Value, rows: Value, w_bytes: Value) -> _GemmArguments:
        """Return the arguments moved by n_bytes of outputs, some rows, and w_bytes of weights."""
        b = self.b
        none = b.icmp_signed("==", self.base, const_int(0))
        base = b.add(b.add(self.base, n_bytes), b.mul(rows, self.base_bytes))
        return _GemmArguments(
            b,
            (
                b.add(self.x, b.mul(rows, self.x_bytes)),
                self.x_bytes,
                b.add(self.w, w_bytes),
                self.size,
                self.n_steps,
                b.add(b.add(self.y, n_bytes), b.mul(rows, self.y_bytes)),
                self.y_bytes,
                b.select(none, const_int(0), base),
                self.base_bytes,
                b.add(self.scales, n_bytes),
            ),
        )


def _emit_block(
    kind: Fp32, here: _GemmArguments, n_rows: int, n_vectors: int, ahead: Value | None = None
) -> None:
    """Emit the product of n_rows rows with n_vectors vectors of outputs.

    ahead: how many bytes ahead weights are prefetched, None for no prefetching.
    """
    b = here.b
    rows = [b.add(here.x, b.mul(here.x_bytes, const_int(row))) for row in range(n_rows)]
    n_sums = len(kind.initial_sums)

    def body(step: Value, *sums: Value) -> list[Value]:
        weights = [kind.weights(b, here.w, step, k) for k in range(n_vectors)]
        for k in range(n_vectors if ahead else 0):
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
    many = _SUMS // (_VECTORS * len(kind.initial_sums)) if _WIDE else kind.narrow_rows
    sizes = [n for n in (6, 5, 4, 3, 2, 1) if n <= many]

    def generate(b: Builder, rows: Value, n_panels: Value, *arguments: Value) -> None:
        everything = _GemmArguments(b, arguments)

        def over_rows(panel: Value) -> list[Value]:
            outputs, weights = b.mul(panel, const_int(_PANEL_BYTES)), b.mul(panel, everything.size)
            there = everything.offset(outputs, const_int(0), weights)
            row = const_int(0)
            for n in sizes:  # as often as the block fits, then smaller blocks for the rest

                def block(row: Value, n: int = n) -> list[Value]:
                    if n == 1 or _WIDE:
                        full = (
                            n * _VECTORS * len(kind.initial_sums) == _SUMS
                        )  # long enough to prefetch the next panel
                        ahead = there.size if full else None
                        _emit_block(
                            kind, there.offset(const_int(0), row, const_int(0)), n, _VECTORS, ahead
                        )
                        return []

                    def narrow(part: Value) -> list[Value]:
                        # 16 outputs have as many bytes as a step's weights to them.
                        _emit_block(kind, there.offset(part, row, part), n, 1)
                        return []

                    loop(b, const_int(_PANEL_BYTES), 4 * LANES, [], narrow)
                    return []

                row = loop(b, b.sub(rows, const_int(n - 1)), n, [], block, row)[0]
            return []

        loop(b, n_panels, 1, [], over_rows)

    return emit_function(12, 0, generate)


def _gemv_kernel(kind: Fp32) -> Any:
    """Return a kernel for one row and n_vectors vectors of outputs: (n_vectors, arguments of
    _GemmArguments)."""

    def generate(b: Builder, n_vectors: Value, *arguments: Value) -> None:
        everything = _GemmArguments(b, arguments)

        def some(first: Value, n: int) -> list[Value]:
            panel = b.sdiv(first, const_int(_VECTORS))
            outputs, weights = b.mul(first, const_int(4 * LANES)), b.mul(panel, everything.size)
            _emit_block(
                kind,
                everything.offset(outputs, const_int(0), weights),
                1,
                n,
                const_int(_PREFETCH_BYTES),
            )
            return []

        end = b.sub(n_vectors, const_int(_VECTORS - 1))
        reached = loop(b, end, _VECTORS, [], lambda first: some(first, _VECTORS))[0]
        for n in range(1, _VECTORS):
            with b.if_then(b.icmp_signed("==", b.sub(n_vectors, reached), const_int(n))):
                some(reached, n)

    return emit_function(11, 0, generate)


_FP32 = Fp32()
_INT8, _WIDE_INT8 = (Int8(), Int8Wide()) if NATIVE_INT8 else (Int8InInt16(), Int8InInt16())
_fp32, _int8 = _gemm_kernel(_FP32), _gemm_kernel(_INT8)
_row_int8, _row_wide = _gemv_kernel(_INT8), _gemv_kernel(_WIDE_INT8)
prepare_int8, _prepare_wide = (emit_function(3, 0, kind.prepare) for kind in (_INT8, _WIDE_INT8))
_TOGETHER, _INPUT_BYTES = _INT8.inputs_per_step, _INT8.input_bytes


def scratch_bytes(n_in: int, rows: int = _TILE) -> int:
    """Return the bytes of temporary memory that linear_panels needs for up to `rows` rows of n_in
    inputs.

    They suffice for any precision; by default, for any number of rows.
    """
    return min(rows, _TILE) * row_bytes.py_func(n_in, Int8Wide.input_bytes)  # type: ignore[attr-defined, no-any-return]


@compiled
def linear_panels(
    x: int,
    x_stride: int,
    rows: int,
    w: int,
    n_in: int,
    y: int,
    y_stride: int,
    first_panel: int,
    last_panel: int,
    precision: int,
    base: int,
    base_stride: int,
    scales: int,
    scratch: int,
) -> None:
    """Set y[row, o] = base[row, o] + scale[o] * sum_i w[o, i] x[row, i] for the outputs o of a
    range of panels.

    Addresses are in bytes, strides in float32 numbers; panels first_panel to last_panel - 1 are
    computed.
    x (rows, n_in) float32. w: panel 0 of a matrix packed in `precision`, FP32 or INT8 of panels.py.
    y (rows, panels * PANEL) float32.
    base: address of numbers like those of y, 0 for zeros, y itself to accumulate; base_stride 0 for
    a bias.
    scales: float32, for int8. scratch: scratch_bytes(n_in) bytes of this thread, not for fp32.
    """
    n_steps = n_in if precision == FP32 else (n_in + _TOGETHER - 1) // _TOGETHER
    size = n_steps * _PANEL_BYTES
    room = row_bytes(n_in, _INPUT_BYTES)
    a, b = 4 * y_stride, 4 * base_stride
    w += first_panel * size
    y += first_panel * _PANEL_BYTES
    scales += first_panel * _PANEL_BYTES
    if base != 0:
        base += first_panel * _PANEL_BYTES
    n_panels = last_panel - first_panel
    for _ in range(0, rows, _TILE):
        n = min(rows, _TILE)
        if precision == FP32:
            _fp32(n, n_panels, x, 4 * x_stride, w, size, n_steps, y, a, base, b, scales)
        else:
            for row in range(n):
                prepare_int8(scratch + row * room, x + 4 * row * x_stride, n_in)
            _int8(n, n_panels, scratch, room, w, size, n_steps, y, a, base, b, scales)
        rows -= n
        x += 4 * n * x_stride
        y += n * a
        if base != 0:
            base += n * b


@compiled
def linear_row(
    x: int, w: int, n_in: int, y: int, n_out: int, wide: bool, scales: int, scratch: int
) -> None:
    """Set y[o] = scale[o] * sum_i w[o, i] x[i]: a single row of linear_panels, with int8 weights.

    wide: round inputs to 16 bits, see microkernels.Int8Wide. y and scales have room for whole
    vectors;
    scratch: scratch_bytes(n_in, 1) bytes.
    """
    size = (n_in + 3) // 4 * _PANEL_BYTES
    n_vectors = (n_out + LANES - 1) // LANES
    if wide:
        _prepare_wide(scratch, x, n_in)
        _row_wide(n_vectors, scratch, 0, w, size, (n_in + 3) // 4, y, 0, 0, 0, scales)
    else:
        prepare_int8(scratch, x, n_in)
        _row_int8(n_vectors, scratch, 0, w, size, (n_in + 3) // 4, y, 0, 0, 0, scales)
