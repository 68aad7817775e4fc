"""The vector kernels of the CPU engine: products with panels, functions and sums of spans, the
barrier."""

import os
import subprocess
import sys
import threading
from functools import cache
from typing import Any

import numba
import numpy as np
import pytest
from cpu_engines import from_python

from bytenmt.checkpoints.quantize import quantise
from bytenmt.decoding.cpu.kernels import columns, elementwise, gemm, microkernels, panels, simd
from bytenmt.decoding.cpu.kernels.attention import attend_dot
from bytenmt.decoding.cpu.kernels.barrier import barrier
from bytenmt.decoding.cpu.kernels.decoder_memory import store_column
from bytenmt.decoding.cpu.kernels.gemm import linear_panels
from bytenmt.decoding.cpu.kernels.panels import INT8, ZERO_BYTE, pack, scratch_bytes
from bytenmt.decoding.cpu.records import KEYS, N_COUNTERS, VALUES, ModelBuffers, ThreadContext
from bytenmt.decoding.cpu.session import memory_column_floats, round_up_to_lines
from bytenmt.kernel_constants import PANEL, PRECISIONS
from bytenmt.program.instructions import Field

pytestmark = pytest.mark.slow  # the kernels are compiled with wrappers that Python can call
f32 = np.float32
# Of a product, relative to the square root of the inputs: numbers and weights are about one.
# Without VNNI inputs are rounded to 16 bits, not to 8.
TOLERANCE = {"fp32": 4e-6, "int8": 5e-2 if microkernels.NATIVE_INT8 else 3e-4}


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, f32)


def same_bits(x: Any, y: Any) -> bool:
    return x.tobytes() == y.tobytes()


def unpack(packed: Any, n_out: int, n_in: int, precision: str, scales: Any) -> Any:
    """Return the matrix (n_out, n_in) float32 of packed panels. scales (n_out or more,) float32:
    for int8."""
    kind, together = (f32, 1) if precision == "fp32" else (np.uint8, 4)
    n_groups = -(-n_in // together)
    parts = packed.view(kind).reshape(-1, n_groups, PANEL, together).swapaxes(1, 2)
    whole = parts.reshape(-1, n_groups * together)[:n_out, :n_in]
    matrix = whole.astype(f32)
    with np.errstate(invalid="ignore"):  # a scale of NaN makes its output NaN
        return (matrix - f32(ZERO_BYTE)) * scales[:n_out, None] if precision == "int8" else matrix


class Matrix:
    """A packed matrix and what it needs besides; x may have a stride of its own."""

    def __init__(self, matrix: Any, precision: str) -> None:
        self.n_out, self.n_in = matrix.shape
        self.precision = precision
        self.n_panels = -(-self.n_out // PANEL)
        q, scales = quantise(matrix)
        self.panels = pack(matrix if precision == "fp32" else q)
        self.scales = np.zeros(self.n_panels * PANEL, f32)
        self.scales[: self.n_out] = scales
        self.values = unpack(self.panels, self.n_out, self.n_in, precision, self.scales)
        self.scratch = np.full(scratch_bytes(self.n_in), 0xFF, np.uint8)

    def times(
        self, x: Any, base: Any = None, into: Any = None, panels: tuple[int, int] | None = None
    ) -> Any:
        """x (rows, n_in) -> (rows, panels * PANEL); base None, a bias or of the same shape."""
        y = np.full((len(x), self.n_panels * PANEL), f32(7)) if into is None else into
        first, last = panels or (0, self.n_panels)
        base_address = 0 if base is None else base.ctypes.data
        base_stride = 0 if base is None or base.ndim == 1 else base.strides[0] // 4
        inputs = x.ctypes.data, x.strides[0] // 4, len(x)
        outputs = y.ctypes.data, y.strides[0] // 4, first, last
        added = PRECISIONS.index(self.precision), base_address, base_stride
        rest = self.scales.ctypes.data, self.scratch.ctypes.data
        compiled(linear_panels)(
            *inputs, self.panels.ctypes.data, self.n_in, *outputs, *added, *rest
        )
        return y


@pytest.mark.parametrize("precision", PRECISIONS)
def test_unpacked_panels_are_the_matrix_as_near_as_the_precision_allows(precision: str) -> None:
    matrix = numbers(130, 37) * np.logspace(-3, 3, 130, dtype=f32)[:, None]
    matrix[5] = 0
    got = Matrix(matrix, precision)
    assert got.panels.size == {"fp32": 3 * 37, "int8": 3 * 10}[precision] * panels.STEP_BYTES
    if precision == "fp32":
        assert same_bits(got.values, matrix)
    else:
        q, scales = quantise(matrix)
        assert (np.abs(q).max(axis=1)[np.arange(130) != 5] == 127).all()
        assert (np.abs(got.values - matrix) <= scales[:, None] * f32(0.5001)).all()
        assert same_bits(got.values, q * scales[:, None])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n_in", (1, 2, 7, 16, 33, 130))
def test_product_is_that_of_the_unpacked_matrix(precision: str, n_in: int) -> None:
    matrix = Matrix(numbers(200, n_in, seed=n_in), precision)
    for rows in (1, 2, 3, 5, 8, 13, 97, 200):
        # What stands beside the inputs must not come in, and be it NaN.
        wide = np.full((rows, n_in + 5), f32(np.nan))
        x = wide[:, :n_in]
        x[:] = numbers(rows, n_in, seed=rows)
        bias, own = numbers(256), numbers(rows, 256, seed=1)
        exact = x.astype(float) @ matrix.values.T.astype(float)
        for base in (None, bias, own):
            y = matrix.times(x, base)
            added = 0.0 if base is None else base[..., :200]
            assert np.abs(y[:, :200] - (exact + added)).max() < TOLERANCE[precision] * n_in**0.5
            # The last panel's rest holds the base, without products.
            assert (y[:, 200:] == (0.0 if base is None else base[..., 200:])).all()
        kept = own.copy()
        assert same_bits(matrix.times(x, own, into=own), matrix.times(x, kept))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_bits_do_not_depend_on_the_rows_and_panels_of_a_call(precision: str) -> None:
    times = Matrix(numbers(5 * PANEL, 75), precision).times
    x, base = numbers(103, 75), numbers(103, 5 * PANEL, seed=1)
    together = times(x, base)
    for size in (1, 2, 3, 4, 5, 6, 7, 9, 96):
        apart = [times(x[at : at + size], base[at : at + size]) for at in range(0, len(x), size)]
        assert same_bits(np.concatenate(apart), together), f"{size} rows a call"
    for rows in (1, 2, 103):
        found = np.zeros((rows, 5 * PANEL), f32)
        for some in ((3, 5), (0, 1), (1, 3)):
            times(x[:rows], base[:rows], into=found, panels=some)
        assert same_bits(found, together[:rows]), f"panels apart, {rows} rows"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_is_no_number_stays_in_its_row_and_output_and_is_not_lost(precision: str) -> None:
    weights, x = numbers(70, 40), numbers(9, 40, seed=1)
    clean = Matrix(weights, precision).times(x)[:, :70]
    for bad in (np.nan, np.inf, -np.inf):
        ill = x.copy()
        ill[4, 17] = bad
        y = Matrix(weights, precision).times(ill)[:, :70]
        assert not np.isfinite(y[4]).any()
        assert same_bits(np.delete(y, 4, 0), np.delete(clean, 4, 0))
        ill = weights.copy()
        ill[66, 3] = bad
        y = Matrix(ill, precision).times(x)[:, :70]
        assert not np.isfinite(y[:, 66]).any()
        assert same_bits(np.delete(y, 66, 1), np.delete(clean, 66, 1))


def test_int8_inputs_are_relative_to_the_largest() -> None:
    matrix = Matrix(numbers(64, 300), "int8")
    x = numbers(1, 300, seed=1)
    plain = matrix.times(x)
    for size in (2.0**-80, 2.0**60):
        assert same_bits(matrix.times(x * f32(size)), plain * f32(size))
    assert (matrix.times(np.zeros_like(x)) == 0).all()
    # All on the largest the sums may become: nothing overflows.
    most = Matrix(np.full((64, 4096), f32(1)), "int8")
    for sign in (1, -1):
        assert np.allclose(most.times(np.full((1, 4096), f32(sign))), sign * 4096, rtol=1e-6)


compiled = cache(from_python)


def span(
    function: Any, *sources: Any, factors: tuple[float, ...] = (), in_place: bool = False
) -> Any:
    """function over whole arrays, with numbers around that must stay."""
    n = len(sources[0])
    guarded = np.full(n + 40, f32(3.25))
    y = guarded[20 : 20 + n]
    if in_place:
        y[:] = sources[0]
        sources = (y, *sources[1:])
    arrays = [f32(x) for x in factors]
    compiled(function)(y.ctypes.data, *(x.ctypes.data for x in sources), n, *arrays)
    assert (guarded[:20] == 3.25).all() and (guarded[20 + n :] == 3.25).all()
    return y


def exp(x: Any) -> Any:
    return span(elementwise._exp_shifted, x, factors=(0.0,))


def sigma(x: Any) -> Any:
    return 1 / (1 + np.exp(-x.astype(float)))


def test_exp_tanh_and_sigmoid_are_exact_to_rounding() -> None:
    with np.errstate(over="ignore"):
        x = np.linspace(-87, 88.7, 500_003).astype(f32)
        assert np.abs(exp(x) / np.exp(x.astype(float)) - 1).max() < 2e-7
        x = np.concatenate([np.linspace(-15, 15, 500_003), np.logspace(-20, 0, 1000)]).astype(f32)
        x = x[x != 0]
        tanh, exact = span(elementwise.tanh, x), np.tanh(x.astype(float))
        assert np.abs(tanh / exact - 1).max() < 5e-7 and np.abs(tanh).max() <= 1
        assert np.abs(span(elementwise.sigmoid, x) / sigma(x) - 1).max() < 3e-7
    edges = np.array([np.nan, np.inf, -np.inf, 0, 200, -200], f32)
    assert str(exp(edges)) == "[nan inf  0.  1. inf  0.]"
    of_tanh, of_sigmoid = [np.nan, 1, -1, 0, 1, -1], [np.nan, 1, 0, 0.5, 1, 0]
    np.testing.assert_allclose(span(elementwise.tanh, edges), of_tanh, rtol=1e-5, atol=5e-7)
    np.testing.assert_allclose(span(elementwise.sigmoid, edges), of_sigmoid, rtol=1e-5, atol=1e-30)
    assert str(span(elementwise.relu, edges)) == "[ nan  inf   0.   0. 200.   0.]"


def test_a_number_has_the_same_bits_wherever_it_stands() -> None:
    x = numbers(77) * f32(3)
    for function in (elementwise.relu, elementwise.tanh, elementwise.sigmoid):
        whole = span(function, x)
        for first in range(0, 77, 5):
            for n in (1, 3, 15, 16, 17):
                assert same_bits(span(function, x[first : first + n]), whole[first : first + n])
        assert same_bits(span(function, x, in_place=True), whole)


@pytest.mark.parametrize("n", (1, 16, 63, 64, 150, 1000))
def test_sums_are_those_of_float64_and_keep_what_is_no_number(n: int) -> None:
    a, b, c = (numbers(n, seed=seed) for seed in range(3))
    wide_a, wide_b, wide_c = (x.astype(float) for x in (a, b, c))
    cases: list[tuple[Any, list[Any], tuple[float, ...], float]] = [
        (columns.dot, [a, b], (), wide_a @ wide_b),
        (elementwise.row_sum, [a], (), wide_a.sum()),
        (elementwise.squared_distances, [a], (0.5,), ((wide_a - 0.5) ** 2).sum()),
        (elementwise.row_max, [a], (), wide_a.max()),
    ]
    for function, given_sources, factors, want in cases:
        sources = [x.copy() for x in given_sources]
        arrays = [f32(x) for x in factors]

        def run(function: Any = function, sources: Any = sources, arrays: Any = arrays) -> Any:
            return compiled(function)(*(x.ctypes.data for x in sources), n, *arrays)

        assert abs(run() - want) < 1e-6 * n
        sources[0][n // 2] = np.nan
        assert np.isnan(run())


# ---- attention over int8

in_bytes_only = pytest.mark.skipif(not microkernels.NATIVE_INT8, reason="needs VNNI")


class Memory:
    """Sources' keys and values at places, in what was left there: bytes of all kinds."""

    def __init__(
        self, widths: tuple[int, int], columns: list[int], kinds: tuple[int, int], seed: int = 0
    ) -> None:
        draw = np.random.default_rng(seed)
        room = list(map(memory_column_floats, widths, kinds))
        most = -(-max(columns) // PANEL) * PANEL
        region = round_up_to_lines(sum(room) * most)
        self.space = draw.integers(0, 256, (len(columns), 4 * region), np.uint8).view(f32)
        floats = 2 * most + sum(widths) + PANEL + scratch_bytes(max(most, *widths), 1) // 4
        self.scratch = draw.integers(0, 256, 4 * floats, np.uint8).view(f32)
        nothing = np.zeros((0, 4), np.int64)
        self.model = ModelBuffers(
            0, INT8, len(columns), 0, 0, self.space.ctypes.data, sum(room), nothing[:, :2], nothing,
            np.array([[0, widths[0], kinds[0]], [room[0], widths[1], kinds[1]]]), nothing[:, :2],
            np.arange(len(columns)) * region, np.array(columns), np.array(columns),
            np.zeros((2, len(columns), 1), np.uint8),
        )  # fmt: skip
        self.width = widths[1]

    def keep(self, place: int, item: int, x: Any) -> None:
        # Threads keep them in any order.
        for column in np.random.default_rng(1).permutation(len(x)):
            where = x[column].ctypes.data, self.scratch.ctypes.data
            compiled(store_column)(self.model, place, item, int(column), *where)

    def attend(self, place: int, query: Any, root: int) -> tuple[Any, Any]:
        """The context and the weights."""
        d, crew = np.full(self.width, f32(9)), ThreadContext(0, 1, 0, self.scratch.ctypes.data)
        to, address = d.ctypes.data, query.ctypes.data
        code = np.zeros(len(Field), np.int64)
        code[[Field.N, Field.M, Field.V, Field.K]] = self.width, 0, 1, root
        compiled(attend_dot)(code, self.model, crew, place, to, address, 0)
        return d, self.scratch[: self.model.columns[place]].copy()


def rounded(x: Any) -> Any:
    """Rows rounded to 255 numbers of each, float64."""
    scale = np.abs(x).max(axis=1, keepdims=True).astype(float) / 127
    return np.rint(x / scale) * scale


@in_bytes_only
@pytest.mark.parametrize("n", [1, 3, 4, 16, 17, 63, 64, 65, 130])
@pytest.mark.parametrize(("width_of_keys", "width"), [(8, 8), (3, 70), (100, 33), (256, 256)])
def test_attention_over_bytes_is_that_over_numbers_that_were_rounded(
    n: int, width_of_keys: int, width: int
) -> None:
    draw = np.random.default_rng(n)
    memory = Memory((width_of_keys, width), [5, n], (KEYS, VALUES))
    keys, values = (draw.normal(size=(n, one)).astype(f32) for one in (width_of_keys, width))
    values *= np.exp(draw.normal(size=(n, 1))).astype(f32)
    query = draw.normal(size=width_of_keys).astype(f32)
    memory.keep(1, 0, keys)
    memory.keep(1, 1, values)
    scores = rounded(keys) @ rounded(query[None])[0]
    weights = np.exp(scores - scores.max())
    weights *= np.sqrt(n) / weights.sum()
    context, told = memory.attend(1, query, 1)
    np.testing.assert_allclose(told, weights, atol=2e-5, rtol=2e-5)
    np.testing.assert_allclose(context, weights @ rounded(values), atol=1e-4 * np.abs(values).max())


@in_bytes_only
@pytest.mark.parametrize(("n_out", "n_in"), [(1, 5), (16, 64), (40, 3), (64, 33), (200, 130)])
def test_the_product_of_a_row_has_the_bits_of_a_row_among_others(n_out: int, n_in: int) -> None:
    matrix, x = Matrix(numbers(n_out, n_in), "int8"), numbers(2, n_in, seed=1)
    y, row = matrix.times(x), np.zeros(matrix.n_panels * PANEL, f32)
    parts = (x[1], matrix.panels, row, matrix.scales, matrix.scratch)
    x_, panels_, row_, scales, scratch = (part.ctypes.data for part in parts)
    compiled(gemm.linear_row)(x_, panels_, n_in, row_, n_out, False, scales, scratch)
    assert same_bits(row[:n_out], y[1, :n_out]) and (row[:n_out] != 0).all()


# ---- the barrier, and other machines


@numba.njit(nogil=True)
def barrier_rounds(counters: int, n_threads: int, me: int, rounds: Any, n_rounds: int) -> int:
    """Each thread notes its round and looks whether all others have come to it; the sum of who had
    not."""
    late = 0
    for round_ in range(1, n_rounds + 1):
        rounds[me * 8] = round_
        barrier(counters, n_threads)
        for other in range(n_threads):
            late += rounds[other * 8] != round_
        barrier(counters, n_threads)
    return late


@pytest.mark.parametrize("n_threads", (1, 2, 3))
def test_nobody_passes_a_barrier_before_all_have_come(n_threads: int) -> None:
    counters, rounds = np.zeros(N_COUNTERS, np.int64), np.zeros(8 * n_threads, np.int64)
    late = [-1] * n_threads
    barrier_rounds(counters.ctypes.data, 1, 0, rounds, 0)

    def work(me: int) -> None:
        late[me] = barrier_rounds(counters.ctypes.data, n_threads, me, rounds, 300)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert late == [0] * n_threads


MACHINES = {
    # The least of the 64-bit ones, without fused multiply-adds; and eight numbers a register.
    "x86-64": "+sse2",
    "haswell": "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+sse4.2,+popcnt,+movbe",
}


@pytest.mark.skipif(not simd.X86, reason="the machines are kinds of x86")
@pytest.mark.skipif("NUMBA_CPU_NAME" in os.environ, reason="is such a machine already")
@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_without_the_instructions_computes_the_same(machine: str) -> None:
    features = MACHINES[machine]
    if not all(simd.FEATURES.get(name[1:], False) for name in features.split(",")):
        pytest.skip(f"cannot run code for {machine}")
    environment = {**os.environ, "NUMBA_CPU_NAME": machine, "NUMBA_CPU_FEATURES": features}
    command = [sys.executable, "-m", "pytest", "-qx", "--noconftest"]  # which imports PyTorch
    command += [__file__, "-k", "product or bits or no_number or exact or inputs"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:]
