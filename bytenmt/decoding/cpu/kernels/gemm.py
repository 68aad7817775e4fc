"""Products of rows with panels of weights, on LLVM's vectors, called from compiled code by address.

An output's bits depend on its row, its weights and its base alone: whatever rows and panels share the call,
its sum is multiply-adds in the order of the inputs from zero, and the base is added last.
Knows no models; panels.py packs what it multiplies with, microkernels.py says what a step of a sum is.
"""

from __future__ import annotations

from typing import Any

from bytenmt.decoding.cpu.kernels.microkernels import (
    NATIVE_INT8,
    W8A8,
    Bf16,
    Bf16InFloat32,
    Fp32,
    Int8,
    Int8InFloat32,
    row_bytes,
)
from bytenmt.decoding.cpu.kernels.panels import BF16, FP32, INT8, PANEL, STEP_BYTES
from bytenmt.decoding.cpu.kernels.simd import (
    FEATURES,
    LANES,
    NATIVE_BF16,
    Builder,
    Value,
    emitted,
    load,
    loop,
    prefetch,
    store,
    whole,
)
from bytenmt.jit import compiled

_VECTORS = PANEL // LANES  # of a panel
_PANEL_BYTES = STEP_BYTES  # of a panel's outputs, too
_TILE = 96  # rows that pass before the next panel is taken; there is room for as many prepared ones
# 32 registers of 16 numbers hold 24 sums besides what they are made from. Elsewhere a vector takes two or
# four registers of 16: there many rows meet the vectors of a panel one by one.
_WIDE = FEATURES.get("avx512f", False)
_SUMS = 24
_AHEAD = 4096  # bytes before they are multiplied weights of one row's own are asked for: a page


class _Rows:
    """Rows side by side in memory and the panels that they meet: the arguments of the functions below.

    x, w, y, base (0: none), scales: addresses; x_bytes, y_bytes, base_bytes: from one row to the next;
    size: bytes of a panel's weights; n_steps: of its inputs.
    """

    def __init__(self, b: Builder, arguments: tuple[Value, ...]) -> None:
        self.b = b
        self.x, self.x_bytes, self.w, self.size, self.n_steps = arguments[:5]
        self.y, self.y_bytes, self.base, self.base_bytes, self.scales = arguments[5:]

    def further(self, n_bytes: Value, rows: Value, w_bytes: Value) -> _Rows:
        """The same n_bytes of outputs, some rows, and w_bytes of weights further on."""
        b = self.b
        none = b.icmp_signed("==", self.base, whole(0))
        base = b.add(b.add(self.base, n_bytes), b.mul(rows, self.base_bytes))
        return _Rows(
            b,
            (
                b.add(self.x, b.mul(rows, self.x_bytes)),
                self.x_bytes,
                b.add(self.w, w_bytes),
                self.size,
                self.n_steps,
                b.add(b.add(self.y, n_bytes), b.mul(rows, self.y_bytes)),
                self.y_bytes,
                b.select(none, whole(0), base),
                self.base_bytes,
                b.add(self.scales, n_bytes),
            ),
        )


def _block(kind: Fp32, here: _Rows, n_rows: int, n_vectors: int, ahead: Value | None = None) -> None:
    """Write the product of n_rows rows with n_vectors vectors of outputs. ahead: bytes from the weights that
    are multiplied to those that are asked for."""
    b = here.b
    rows = [b.add(here.x, b.mul(here.x_bytes, whole(row))) for row in range(n_rows)]
    n_sums = len(kind.zeros)

    def body(step: Value, *sums: Value) -> list[Value]:
        weights = [kind.weights(b, here.w, step, k) for k in range(n_vectors)]
        for k in range(n_vectors if ahead else 0):
            at = b.add(b.mul(step, whole(_PANEL_BYTES)), whole(4 * LANES * k))
            prefetch(b, b.add(b.add(here.w, ahead), at))
        made: list[Value] = []
        for row in rows:
            inputs = kind.inputs(b, row, step)
            for weight in weights:
                made += kind.add(b, sums[len(made) : len(made) + n_sums], inputs, weight)
        return made

    _, *sums = loop(b, here.n_steps, 1, list(kind.zeros) * (n_rows * n_vectors), body)
    values = []
    for place in range(n_rows * n_vectors):
        row, k = divmod(place, n_vectors)
        value = kind.result(b, sums[place * n_sums : (place + 1) * n_sums], rows[row])
        if kind.scaled:
            value = b.fmul(value, load(b, here.scales, whole(k * LANES)))
        values.append((value, whole(row), whole(k * LANES)))
    with b.if_else(b.icmp_signed("!=", here.base, whole(0))) as (with_base, without):
        with with_base:
            for value, row, at in values:
                start = load(b, b.add(here.base, b.mul(here.base_bytes, row)), at)
                store(b, b.fadd(value, start), b.add(here.y, b.mul(here.y_bytes, row)), at)
        with without:
            for value, row, at in values:
                store(b, value, b.add(here.y, b.mul(here.y_bytes, row)), at)


def _product(kind: Fp32) -> Any:
    """Make the product of rows with panels, for compiled code: (rows, n_panels, the arguments of _Rows)."""
    many = _SUMS // (_VECTORS * len(kind.zeros)) if _WIDE else kind.narrow_rows
    sizes = [n for n in (6, 5, 4, 3, 2, 1) if n <= many]

    def generate(b: Builder, rows: Value, n_panels: Value, *arguments: Value) -> None:
        everything = _Rows(b, arguments)

        def over_rows(panel: Value) -> list[Value]:
            outputs, weights = b.mul(panel, whole(_PANEL_BYTES)), b.mul(panel, everything.size)
            there = everything.further(outputs, whole(0), weights)
            row = whole(0)
            for n in sizes:  # as many times as it goes, then the rest in smaller blocks

                def block(row: Value, n: int = n) -> list[Value]:
                    if n == 1 or _WIDE:
                        full = n * _VECTORS * len(kind.zeros) == _SUMS  # time to ask for the next panel
                        ahead = there.size if full else None
                        _block(kind, there.further(whole(0), row, whole(0)), n, _VECTORS, ahead)
                        return []

                    def narrow(part: Value) -> list[Value]:
                        # 16 outputs have as many bytes as a step's weights to them.
                        _block(kind, there.further(part, row, part), n, 1)
                        return []

                    loop(b, whole(_PANEL_BYTES), 4 * LANES, [], narrow)
                    return []

                row = loop(b, b.sub(rows, whole(n - 1)), n, [], block, row)[0]
            return []

        loop(b, n_panels, 1, [], over_rows)

    return emitted(12, 0, generate)


def _row_product(kind: Fp32) -> Any:
    """Make the product of one row with n_vectors vectors of outputs: (n_vectors, the arguments of _Rows)."""

    def generate(b: Builder, n_vectors: Value, *arguments: Value) -> None:
        everything = _Rows(b, arguments)

        def some(first: Value, n: int) -> list[Value]:
            panel = b.sdiv(first, whole(_VECTORS))
            outputs, weights = b.mul(first, whole(4 * LANES)), b.mul(panel, everything.size)
            _block(kind, everything.further(outputs, whole(0), weights), 1, n, whole(_AHEAD))
            return []

        behind = b.sub(n_vectors, whole(_VECTORS - 1))
        reached = loop(b, behind, _VECTORS, [], lambda first: some(first, _VECTORS))[0]
        for n in range(1, _VECTORS):
            with b.if_then(b.icmp_signed("==", b.sub(n_vectors, reached), whole(n))):
                some(reached, n)

    return emitted(11, 0, generate)


_FP32, _BF16, _INT8, _W8A8 = (
    Fp32(),
    Bf16() if NATIVE_BF16 else Bf16InFloat32(),
    Int8() if NATIVE_INT8 else Int8InFloat32(),
    W8A8() if NATIVE_INT8 else Int8InFloat32(),
)
_fp32, _bf16, _int8, _w8a8 = _product(_FP32), _product(_BF16), _product(_INT8), _product(_W8A8)
_prepare_bf16, _prepare_int8, prepare_w8a8 = (emitted(3, 0, kind.prepare) for kind in (_BF16, _INT8, _W8A8))
_row_int8, _row_w8a8 = _row_product(_INT8), _row_product(_W8A8)
# By a precision's code: inputs a step, and bytes of an input of a prepared row.
_TOGETHER = tuple(kind.inputs_a_step for kind in (_FP32, _BF16, _INT8, _W8A8))
_INPUT_BYTES = tuple(kind.input_bytes for kind in (_FP32, _BF16, _INT8, _W8A8))


def scratch_bytes(n_in: int, rows: int = _TILE) -> int:
    """Room that linear_panels needs for prepared rows, by default for any number, whatever the precision."""
    return min(rows, _TILE) * row_bytes.py_func(n_in, 4)  # type: ignore[attr-defined, no-any-return]


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
    """y[row, o] = base[row, o] + scale[o] * sum_i w[o, i] x[row, i], o in panels first to last - 1.

    Addresses in bytes, strides in float32 numbers. x (rows, n_in) float32; w: panel 0, as pack makes them;
    y (rows, panels * PANEL) float32. base: address of numbers like y's, 0 for zeros; y itself to accumulate;
    a bias has base_stride 0. scales: of int8 and w8a8, float32, whole panels. scratch: scratch_bytes(n_in)
    bytes of this thread's own, not for fp32.
    """
    together, input_bytes = _TOGETHER[precision], _INPUT_BYTES[precision]
    n_steps = (n_in + together - 1) // together
    size = n_steps * _PANEL_BYTES
    room = row_bytes(n_in, input_bytes)
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
        elif precision == BF16:
            for row in range(n):
                _prepare_bf16(scratch + row * room, x + 4 * row * x_stride, n_in)
            _bf16(n, n_panels, scratch, room, w, size, n_steps, y, a, base, b, scales)
        elif precision == INT8:
            for row in range(n):
                _prepare_int8(scratch + row * room, x + 4 * row * x_stride, n_in)
            _int8(n, n_panels, scratch, room, w, size, n_steps, y, a, base, b, scales)
        else:
            for row in range(n):
                prepare_w8a8(scratch + row * room, x + 4 * row * x_stride, n_in)
            _w8a8(n, n_panels, scratch, room, w, size, n_steps, y, a, base, b, scales)
        rows -= n
        x += 4 * n * x_stride
        y += n * a
        if base != 0:
            base += n * b


@compiled
def row_panels(
    x: int, w: int, n_in: int, y: int, n_out: int, precision: int, scales: int, scratch: int
) -> None:
    """linear_panels of one row, in int8 or w8a8, that alone meets its weights: y and scales are read up to
    whole vectors, scratch: scratch_bytes(n_in, 1)."""
    size = (n_in + 3) // 4 * _PANEL_BYTES
    n_vectors = (n_out + LANES - 1) // LANES
    if precision == INT8:
        _prepare_int8(scratch, x, n_in)
        _row_int8(n_vectors, scratch, 0, w, size, (n_in + 3) // 4, y, 0, 0, 0, scales)
    else:
        prepare_w8a8(scratch, x, n_in)
        _row_w8a8(n_vectors, scratch, 0, w, size, (n_in + 3) // 4, y, 0, 0, 0, scales)
