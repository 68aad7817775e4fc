"""The kernels for training on a CPU equal PyTorch's plain form, values and gradients.

Tests layers/fused_cells.py (fused_gru, fused_lstm, fusible), fused_additive.py (FusedScore),
fused_norm.py (norm_relu) and dropout.py (dropout_mask).
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import product as combinations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bytenmt.architectures import cells
from bytenmt.jit import njit
from bytenmt.layers import fused_additive, fused_cells, fused_norm
from bytenmt.layers.kernel_helpers import Array, as_array, narrow, sigmoid, tanh, widen
from bytenmt.layers.recurrent import GRU, LSTM, GRUReset, GRUUpdate

Watch = Callable[..., list[str]]

# ---- the same in every run

D, N, Q, S = 16, 4, 2, 5  # components, sentences or rows, queries, source positions
# kernels with memory of their own: what they are called with, and the shapes of its arrays
QUERIES, KEYS, SCORES = (N, Q, D), (N, S, D), (N, Q, S)
G2, G3, G4 = (N, 2 * D), (N, 3 * D), (N, 4 * D)  # gates of a cell
WITH_SCRATCH: dict[str, tuple[Any, list[Any]]] = {
    "normalise": (fused_norm, [(N, D), (D,), (D,), 1e-5, (N, D), (N, 2), 0, N]),
    "norm_gradients": (
        fused_norm,
        [*[(N, D)] * 2, (D,), (N, D), (N, 2), (N, D), *[(D,)] * 2, 0, N],
    ),
    "add_query_gradients": (fused_additive, [QUERIES, KEYS, (D,), SCORES, QUERIES, 0, N]),
    "add_key_gradients": (fused_additive, [QUERIES, KEYS, (D,), SCORES, KEYS, (D,), 0, N]),
    "lstm_state": (fused_cells, [G4, G4, (N, D), G4, *[(N, D)] * 3]),
    "lstm_gradients": (fused_cells, [*[(N, D)] * 5, G4, (N, D), G4]),
    "gru_state_gradients": (fused_cells, [(N, D), (N, D), G2, (N, D), G3, (N, D), True]),
}


@njit
def allotted(n: int) -> Array:
    """n float32 from where kernels have theirs."""
    return np.empty(n, np.float32)


def with_one_behind(n: int, m: int, buffers: list[Array]) -> tuple[Array, Array]:
    """n float32, and m more that begin less than four vectors behind their end; the others that
    were tried are kept: memory given back would be given out before what the caller gives back."""
    for _ in range(10_000):
        before, behind = allotted(n), allotted(m)
        buffers += [before, behind]
        if 0 <= behind.ctypes.data - before.ctypes.data - before.nbytes < 192:
            buffers.pop()
            return before, behind
    raise AssertionError("the memory is never given out in order")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", WITH_SCRATCH)
def test_a_kernels_result_is_the_same_wherever_its_memory_lies(name: str, seed: int) -> None:
    """Also right behind an array that it reads. Compiled code that looks whether what it writes
    begins within a few vectors of what it reads adds one by one there, and in lanes elsewhere."""
    module, given = WITH_SCRATCH[name]
    kernel = getattr(module, name)
    draw = np.random.default_rng(seed)
    shapes = [x for x in given if isinstance(x, tuple)]
    values = [draw.normal(size=math.prod(shape)).astype(np.float32) for shape in shapes]
    found = set()
    for near, is_first in combinations(range(len(shapes)), (True, False)):
        buffers: list[Array] = []
        pairs = [with_one_behind(len(value), D, buffers) for value in values]
        arrays = [before.reshape(shape) for (before, _), shape in zip(pairs, shapes, strict=True)]
        for array, value in zip(arrays, values, strict=True):
            array.reshape(-1)[:] = value
        left = iter(arrays)
        arguments = [next(left) if isinstance(x, tuple) else x for x in given]
        own = [pairs[near][1], allotted(D)][:: 1 if is_first else -1]
        buffers += [behind for i, (_, behind) in enumerate(pairs) if i != near]
        del pairs
        while own:  # what is given back last is given out first
            own.pop()
        kernel(*arguments)
        found.add(b"".join(array.tobytes() for array in arrays))
    assert len(found) == 1


# ---- single numbers


@njit
def copied(x: Array, y: Array) -> None:
    """x to y, from one type to another."""
    for i in range(len(x)):
        y[i] = narrow(widen(x[i]), y[i])


@njit
def curves(x: Array, y: Array) -> None:
    """sigmoid and tanh of x (n,) to y (2, n)."""
    for i in range(len(x)):
        y[0, i], y[1, i] = sigmoid(x[i]), tanh(x[i])


def test_bf16_is_rounded_as_pytorch_does_it() -> None:
    """Every bf16 number, what lies halfway to the next and just beside that; infinities; a NaN
    stays one."""
    upper = torch.arange(1 << 16, dtype=torch.int64)
    bits = torch.cat([upper << 16 | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    numbers = bits.to(torch.uint32).view(torch.float32)
    found = torch.empty(len(numbers), dtype=torch.bfloat16)
    copied(as_array(numbers), as_array(found))
    torch.testing.assert_close(found, numbers.bfloat16(), rtol=0, atol=0, equal_nan=True)
    back = torch.empty(len(numbers))
    copied(as_array(found), as_array(back))
    torch.testing.assert_close(back, found.float(), rtol=0, atol=0, equal_nan=True)


def test_sigmoid_and_tanh_are_numpys() -> None:
    x = np.concatenate([np.linspace(-100, 100, 200_001), [np.inf, -np.inf, np.nan, 1e-30, -0.0]])
    found = np.empty((2, len(x)), np.float32)
    curves(x.astype(np.float32), found)
    exact = x.astype(np.float32).astype(np.float64)
    with np.errstate(over="ignore"):
        expected = np.stack([1 / (1 + np.exp(-exact)), np.tanh(exact)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=2.5e-7)
    far = np.abs(exact) < 80
    np.testing.assert_allclose(found[0, far], expected[0, far], rtol=3e-7)


# ---- cells

CELLS: dict[str, Callable[[int, int], GRU | LSTM]] = {"lstm": LSTM}
RESETS: tuple[GRUReset, ...] = ("before", "after")
UPDATES: tuple[GRUUpdate, ...] = ("keep", "take")
for reset, update in combinations(RESETS, UPDATES):
    CELLS[f"gru-{reset}-{update}"] = partial(GRU, reset=reset, update=update)


def test_every_cell_of_the_configuration_is_compared() -> None:
    assert {name.split("-")[0] for name in CELLS} == set(cells.CELLS)


def unrolled(
    cell: GRU | LSTM, x: Tensor, state: list[Tensor], autocast: bool = False
) -> list[Tensor]:
    """All h of a cell over x (rows, t, d_input) and its last state; and the gradients by its
    weights, x and the first state, where every number counts, each by its own random weight."""
    x, state = x.clone().requires_grad_(), [part.clone().requires_grad_() for part in state]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        states, after = cell(x, state)
    found, draw = [states, *after], torch.Generator().manual_seed(5)
    weights = [torch.randn(part.shape, generator=draw, dtype=torch.float64) for part in found]
    pairs = zip(found, weights, strict=True)
    loss = sum((part * weight.to(part.dtype)).sum() for part, weight in pairs)
    assert isinstance(loss, Tensor)
    grads = torch.autograd.grad(loss, [*cell.parameters(), x, *state])
    return [*(part.detach() for part in found), *grads]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "t", "d"), [(1, 1, 1), (3, 5, 7), (2, 9, 48)])
@pytest.mark.parametrize("name", CELLS)
def test_fused_cells_equal_plain_ones(
    name: str, rows: int, t: int, d: int, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Float32 agrees with float64, which is never fused, up to rounding; bf16 is as close as
    autocast of the plain form."""
    torch.manual_seed(d)
    cell, exact = CELLS[name](6, d), CELLS[name](6, d).double()
    exact.load_state_dict(cell.state_dict())
    x = torch.randn(rows, t, 6)
    state = [torch.randn(rows, d) for _ in range(1 + isinstance(cell, LSTM))]
    steps = watch(fused_cells, "gru_state", "lstm_state")
    expected = unrolled(exact, x.double(), [part.double() for part in state])
    assert not steps
    found = unrolled(cell, x, state)
    assert len(steps) == t
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=2e-5)

    def distance() -> float:
        half = unrolled(cell, x, state, autocast=True)
        return math.fsum(float((a - b).square().sum()) for a, b in zip(half, expected, strict=True))

    fused = distance()
    assert len(steps) == 2 * t
    monkeypatch.setattr("bytenmt.layers.recurrent.fusible", lambda product: False)
    plain = distance()
    assert len(steps) == 2 * t
    assert fused <= 1.5 * plain + 1e-8, (fused, plain)


def test_cells_are_fused_in_training_alone() -> None:
    """The plain form is taken without gradients, in float64, for weights that are not trained."""

    def is_fused(cell: GRU) -> bool:
        x, h = torch.zeros(1, 1, 12, dtype=cell.input.weight.dtype), torch.zeros(1, 4)
        return "GRURun" in str(cell.runner()(x, h.to(x.dtype))[0].grad_fn)

    half_trained = GRU(3, 4)
    half_trained.candidate.requires_grad_(False)
    assert is_fused(GRU(3, 4))
    plain = (GRU(3, 4).double(), GRU(3, 4).requires_grad_(False), half_trained)
    assert not any(map(is_fused, plain))
    with torch.no_grad():
        assert not is_fused(GRU(3, 4))


def test_a_nan_goes_through_a_fused_cell() -> None:
    """A training that has diverged is seen, not hidden by a kernel."""
    cell = GRU(3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        states, _ = cell(torch.full((1, 2, 3), math.nan), (torch.zeros(1, 4),))
    states.sum().backward()
    gradient = cell.input.weight.grad
    assert gradient is not None and gradient.isnan().all() and states.isnan().all()


# ---- norms


@pytest.mark.parametrize("shape", [(1, 1), (2, 3, 7), (5, 64), (3, 2, 131)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_norm_and_its_relu_equal_plain_ones(
    shape: tuple[int, ...], kind: torch.dtype, threads: int, watch: Watch
) -> None:
    """Against float64, value and gradients; in bf16 of what was rounded to it."""
    torch.manual_seed(len(shape))
    norm, exact = nn.LayerNorm(shape[-1]), nn.LayerNorm(shape[-1]).double()
    for part in norm.parameters():
        nn.init.normal_(part)
    exact.load_state_dict(norm.state_dict())
    x, weighting = torch.randn(shape).to(kind), torch.randn(shape).to(kind).double()
    calls = watch(fused_norm, "normalise", "norm_gradients")

    def run(of: nn.LayerNorm, start: Tensor) -> list[Tensor]:
        start = start.requires_grad_()
        y = fused_norm.norm_relu(of, start)
        of_all = torch.autograd.grad(y, [start, *of.parameters()], weighting.to(y.dtype))
        return [y.detach(), *of_all]

    expected = run(exact, x.double())
    assert not calls
    found = run(norm, x.clone())
    assert {*calls} == {"normalise", "norm_gradients"}
    assert [part.dtype for part in found] == [kind, kind, torch.float32, torch.float32]
    for one, other in zip(found, expected, strict=True):
        tolerance = 2e-5 if one.dtype == torch.float32 and kind == torch.float32 else 1e-2
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)


def test_norms_are_fused_in_training_alone() -> None:
    """Under autocast in its type; without gradients and in float64 plain; a NaN goes through."""
    norm, x = nn.LayerNorm(4), torch.randn(3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        fused = fused_norm.norm_relu(norm, x)
        assert fused.dtype == torch.bfloat16 and "NormReLU" in str(fused.grad_fn)
        with torch.no_grad():
            assert fused_norm.norm_relu(norm, x).dtype == torch.float32
    torch.testing.assert_close(fused.float(), torch.relu(norm(x)), rtol=1e-2, atol=1e-2)
    assert "NormReLU" not in str(fused_norm.norm_relu(norm.double(), x.double()).grad_fn)
    x[1, 2] = math.nan
    found = fused_norm.norm_relu(nn.LayerNorm(4), x)
    assert found[1].isnan().all() and not found[0].isnan().any()
