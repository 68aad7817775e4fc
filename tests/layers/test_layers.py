"""Fast paths of the layers equal their plain forms, values and gradients, over a grid of shapes.

Tests layers/deferred_matmul.py (deferred_product), attention.py (AdditiveScore), fused_additive.py
(can_fuse, FusedScore) and dropout.py (drop).
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bytenmt.layers import fused_additive
from bytenmt.layers.attention import AdditiveScore
from bytenmt.layers.deferred_matmul import deferred_product, plain_product
from bytenmt.layers.dropout import drop


def gradients(run: Callable[[], Tensor], of: list[Tensor]) -> list[Tensor]:
    """The value of run, then its gradients by `of` under a fixed random weighting."""
    y = run()
    weighting = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
    return [y.detach(), *torch.autograd.grad(y, of, weighting.to(y.dtype))]


def assert_close(actual: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Largest difference below `tolerance` of the expected tensor's largest element."""
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        error = float((one - other).abs().max()) if one.numel() else 0.0
        assert error <= tolerance * max(1.0, float(other.abs().max())), error


# ---- deferred products


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize(
    ("rows", "d_input", "d_output", "steps"), [(1, 4, 3, 1), (5, 1, 6, 2), (4, 7, 1, 5)]
)
@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
def test_deferred_products_equal_plain_ones(
    batch: tuple[int, ...], rows: int, d_input: int, d_output: int, steps: int, kind: torch.dtype
) -> None:
    """A recurrence through one matrix: each output feeds the next step."""
    torch.manual_seed(0)
    matrix = torch.randn(*batch, d_output, d_input, dtype=kind, requires_grad=True)
    x = torch.randn(steps, *batch, rows, d_input, dtype=kind, requires_grad=True)

    def run(product_of: Callable[[Tensor], Callable[[Tensor], Tensor]]) -> Tensor:
        product, y, actual = product_of(matrix), torch.zeros((), dtype=kind), []
        for x_t in x:
            y = torch.tanh(product(x_t + y.sum(dim=-1, keepdim=True) if y.dim() else x_t))
            actual.append(y)
        return torch.stack(actual)

    actual = gradients(lambda: run(deferred_product), [matrix, x])
    expected = gradients(lambda: run(plain_product), [matrix, x])
    assert_close(actual, expected, 1e-12 if kind == torch.float64 else 1e-5)


def test_a_step_whose_output_is_not_used_gives_no_gradient() -> None:
    """Only what the loss depends on is gathered; a second backward gives the same again."""
    torch.manual_seed(0)
    matrix = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 2, 4, dtype=torch.float64)
    product = deferred_product(matrix)
    used = [product(x_t) for x_t in x][1].square().sum()
    (expected,) = torch.autograd.grad((x[1] @ matrix.mT).square().sum(), matrix)
    for _ in range(2):
        (actual,) = torch.autograd.grad(used, matrix, retain_graph=True)
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_deferred_products_follow_autocast(kind: torch.dtype) -> None:
    """bf16 under autocast, the gradient in the matrix's own type; float64 stays."""
    torch.manual_seed(0)
    matrix, x = torch.randn(3, 4, dtype=kind, requires_grad=True), torch.randn(2, 4, dtype=kind)
    with torch.autocast("cpu", torch.bfloat16):
        actual = gradients(lambda: deferred_product(matrix)(x), [matrix])
        expected = gradients(lambda: plain_product(matrix)(x), [matrix])
        y = deferred_product(matrix)(x)
    y.sum().backward()  # outside of autocast, as training does it
    assert matrix.grad is not None and matrix.grad.dtype == kind
    assert_close(actual, expected, 1e-2)


# ---- additive scores


def additive_inputs(
    n: int, rows: int, s: int, d: int, n_steps: int = 3
) -> tuple[AdditiveScore, Tensor, Tensor]:
    """A score with random weights, keys (n, s, d) and queries (n_steps, n, rows, 5)."""
    torch.manual_seed(n + s + d)
    score = AdditiveScore(5, d)
    torch.nn.init.normal_(score.v)
    keys = torch.randn(n, s, d).requires_grad_()
    return score, keys, torch.randn(n_steps, n, rows, 5).requires_grad_()


def scores(score: AdditiveScore, keys: Tensor, queries: Tensor) -> list[Tensor]:
    """The scores of all steps and the gradients of everything."""

    def run() -> Tensor:
        step = score.stepper(keys)
        return torch.stack([step(query) for query in queries])

    return gradients(run, [keys, queries, score.v, score.query.weight])


def check_scores(score: AdditiveScore, keys: Tensor, queries: Tensor, tolerance: float) -> None:
    """Against tanh itself, which float64 always takes."""
    actual = scores(score, keys, queries)
    exact_keys, exact_queries = (x.detach().double().requires_grad_() for x in (keys, queries))
    expected = scores(score.double(), exact_keys, exact_queries)
    assert_close(actual, [tensor.float() for tensor in expected], tolerance)


SHAPES = [(1, 1, 1, 1), (3, 1, 7, 5), (2, 3, 4, 64), (5, 1, 2, 131), (4, 2, 9, 192)]


@pytest.mark.parametrize("shape", SHAPES)
def test_fused_additive_scores_equal_plain_ones(
    shape: tuple[int, int, int, int], threads: int, watch: Callable[..., list[str]]
) -> None:
    score, keys, queries = additive_inputs(*shape)
    assert fused_additive.can_fuse(keys)
    calls = watch(fused_additive.FusedScore, "forward")
    check_scores(score, keys, queries, 1e-5)
    assert len(calls) == len(queries)


@pytest.mark.parametrize(
    ("of_keys", "of_queries"), [(8, 8), (30, 30), (200, 200), (60, 0.1), (0.1, 60)]
)
def test_large_additive_scores_take_the_plain_form(of_keys: float, of_queries: float) -> None:
    """Near the limit the fused form is exact still, beyond it tanh is computed as such, so that
    exponentials never overflow, whichever side is large."""
    score, keys, queries = additive_inputs(2, 1, 3, 6)
    with torch.no_grad():
        keys.mul_(of_keys)
        queries.mul_(of_queries)
    check_scores(score, keys, queries, 1e-4)


def test_a_nan_in_the_keys_reaches_the_scores() -> None:
    """The range check must not hide it."""
    score, keys, queries = additive_inputs(2, 1, 3, 6)
    with torch.no_grad():
        keys[1, 2, 0] = torch.nan
    step = score.stepper(keys)
    assert bool(step(queries[0]).isnan()[1, 0, 2])


# ---- dropout

KINDS = [torch.float32, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("probability", [0.1, 0.9])
@pytest.mark.parametrize("shape", [(4096,), (5, 41, 1023)])
def test_dropout_zeroes_its_share_and_scales_the_rest(
    shape: tuple[int, ...], probability: float, kind: torch.dtype
) -> None:
    """Each element is 0 or 1 / (1 - p); their share is p to five standard deviations; so is the
    gradient."""
    torch.manual_seed(0)
    x = torch.ones(shape, dtype=kind, requires_grad=True)
    y = drop(x, probability, training=True)
    y.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, y)
    scale = torch.tensor(1 / (1 - round(probability * 65536) / 65536), dtype=kind)
    assert bool(((y == 0) | (y == scale)).all())
    n = x.numel()
    deviation = abs(float((y == 0).double().mean()) - probability)
    assert deviation < 5 * (probability * (1 - probability) / n) ** 0.5


def test_dropout_is_drawn_from_torchs_generator(threads: int) -> None:
    """Dropout is the same for one seed with any number of threads, another at the next call."""
    torch.manual_seed(5)
    x = torch.ones(300, 1001)
    first, second = drop(x, 0.2, True), drop(x, 0.2, True)
    torch.set_num_threads(3 - threads)
    torch.manual_seed(5)
    assert torch.equal(drop(x, 0.2, True), first)
    # Two independent masks agree in 0.8^2 + 0.2^2 of the elements; neighbours of one mask as well.
    for one, other in ((first, second), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1])):
        assert abs(float((one == other).float().mean()) - 0.68) < 0.005


def test_no_dropout_is_the_input_itself() -> None:
    x = torch.ones(100, 100)
    assert drop(x, 0.5, training=False) is x
    assert drop(x, 0.0, training=True) is x
    assert bool((drop(x, 0.99999, training=True) >= 0).all())
