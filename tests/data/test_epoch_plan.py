"""The plan against its properties, a plain Python planner and its own kernels uncompiled.

Tests data/epoch_plan.py (epoch_plan) and data/bucketing.py (cut_strips, cut_batches, draw_copies).
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_draw import splitmix

from bytenmt.data import bucketing
from bytenmt.data.epoch_plan import EpochPlan, epoch_plan


def lengths(values: object) -> np.ndarray:
    return np.array(values, np.int32)


def widths(source: np.ndarray, target: np.ndarray, pairs: list[int]) -> tuple[int, int]:
    """Bytes of a row of each side of a batch, counted in plain Python."""
    end = 1 if source.any() else 0
    return max(int(source[i]) + end for i in pairs), max(int(target[i]) + 1 for i in pairs)


def planned_widths(plan: EpochPlan) -> list[tuple[int, int]]:
    """Bytes of a row of each side of the batches, in the order in which they are used."""
    return [(source, target) for source, target in plan.shapes[plan.sequence].tolist()]


def check_plan(source: np.ndarray, target: np.ndarray, max_tokens: int, plan: EpochPlan) -> None:
    """Each pair once, no batch empty, none over the budget, widths as they are."""
    batches = [plan.batch(k) for k in range(plan.n_batches)]
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(target)))
    for index, batch in enumerate(batches):
        assert len(batch) >= 1 and batch.dtype == np.int64
        expected = widths(source, target, batch.tolist())
        assert planned_widths(plan)[index] == expected
        assert len(batch) == 1 or len(batch) * sum(expected) <= max_tokens


def same(first: EpochPlan, second: EpochPlan) -> bool:
    parts: list[Any] = [*zip(first, second, strict=True)]
    return all(np.array_equal(a, b) for a, b in parts)


# Short ones, ones that share cells, and ones that an entry of the packer does not hold.
one_length = (
    st.integers(0, 5) | st.integers(0, 90) | st.integers(500, 1100) | st.integers(65_530, 2**31 - 1)
)
length_pairs = st.lists(st.tuples(one_length, one_length), max_size=120)
budgets = st.integers(1, 2000) | st.integers(1, 2**40)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    pairs=length_pairs,
    has_source=st.booleans(),
    max_tokens=budgets,
    seed=st.integers(-5, 2**70),
    epoch=st.integers(0, 99),
)
def test_plan_is_a_partition_within_the_budget(
    pairs: list[tuple[int, int]], has_source: bool, max_tokens: int, seed: int, epoch: int
) -> None:
    source = lengths([s if has_source else 0 for s, _ in pairs])
    target = lengths([t for _, t in pairs])
    plan = epoch_plan(source, target, max_tokens, seed, epoch)
    check_plan(source, target, max_tokens, plan)


def realistic(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets of 20 to 60 bytes, sources about as long."""
    draw = np.random.default_rng(3)
    target = draw.integers(20, 61, n)
    source = np.clip(target + draw.normal(0, 5, n), 20, 60)
    return lengths(source), lengths(target)


def plain_plan(
    source: np.ndarray, target: np.ndarray, max_tokens: int, seed: int, epoch: int
) -> list[list[int]]:
    """Compute epoch_plan for lengths below 512 by Python's sort and lists."""
    draw = splitmix(splitmix(splitmix(seed)() + epoch)())

    def below(limit: int) -> int:
        return (draw() >> 32) * limit >> 32

    def mix_up(items: list[int]) -> None:
        for last in range(len(items) - 1, 0, -1):
            other = below(last + 1)
            items[last], items[other] = items[other], items[last]

    end = 1 if source.any() else 0
    s, t = [int(n) + end for n in source], [int(n) + 1 for n in target]
    factor = 64 + below(256)
    strips: list[list[int]] = [[]]
    first = 0
    for length in range(max(t) + 1):
        strip = strips[-1]
        strip += [pair for pair in range(len(t)) if t[pair] == length]
        if not strip:
            first = length + 1
            continue
        n_batch = max(1, max_tokens * len(strip) // sum(s[pair] + t[pair] for pair in strip))
        span = max(s[pair] for pair in strip) - min(s[pair] for pair in strip)
        if len(strip) * (length - first + 1) * 256 >= n_batch * span * factor:
            strips.append([])
            first = length + 1
    path: list[int] = []
    for number, strip in enumerate(strips):
        for length in sorted({s[pair] for pair in strip}, reverse=number % 2 == 1):
            cell = sorted(pair for pair in strip if s[pair] == length)
            mix_up(cell)
            path += cell
    budget = 1 + below(max_tokens)
    cut: list[list[int]] = []
    for pair in path:
        tried = [*cut[-1], pair] if cut else []
        if cut and len(tried) * (max(s[i] for i in tried) + max(t[i] for i in tried)) <= budget:
            cut[-1].append(pair)
        else:
            budget = max_tokens if cut else budget
            cut.append([pair])
    numbers = list(range(len(cut)))
    mix_up(numbers)
    return [cut[number] for number in numbers]


@pytest.mark.parametrize("has_source", [True, False])
def test_plan_equals_plain_python(has_source: bool) -> None:
    source, target = realistic(400)
    source *= has_source
    for seed, epoch, max_tokens in (1, 0, 700), (2**80 + 5, 3, 1500), (-1, 1, 90):
        plan = epoch_plan(source, target, max_tokens, seed, epoch)
        expected = plain_plan(source, target, max_tokens, seed, epoch)
        assert [plan.batch(k).tolist() for k in range(plan.n_batches)] == expected


@contextmanager
def uncompiled() -> Iterator[None]:
    """All kernels as plain Python functions, which wrap around as the compiled ones do."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(over="ignore"):
        for name, kernel in [*vars(bucketing).items()]:
            patch.setattr(bucketing, name, getattr(kernel, "py_func", kernel))
        yield


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=60),
    st.booleans(),
    st.floats(0, 3),
    st.floats(0, 3),
    st.integers(1, 2000),
    st.integers(0, 9),
)
def test_kernels_equal_themselves_uncompiled(
    pairs: list[tuple[int, int]],
    long: bool,
    first: float,
    second: float,
    max_tokens: int,
    seed: int,
) -> None:
    """long: targets around the length that an entry does not hold; no source, which would take too
    long."""
    source = lengths([0 if long else s for s, _ in pairs])
    target = lengths([t + 65_500 * long for _, t in pairs])
    bounds = np.array([0, len(pairs) // 3, len(pairs)])
    plan = partial(epoch_plan, source, target, max_tokens, seed, 0, bounds=bounds)
    compiled = plan(weights=[first, second])
    with uncompiled():
        assert same(compiled, plan(weights=[first, second]))


def test_plan_is_drawn_from_seed_and_epoch() -> None:
    source, target = realistic(3000)
    seen = set()
    for seed in range(3):
        for epoch in range(3):
            plan = epoch_plan(source, target, 3000, seed, epoch)
            np.random.default_rng().random()
            assert same(plan, epoch_plan(source, target, 3000, seed, epoch))
            seen.add(plan.order.tobytes())
    assert len(seen) == 9
    # (seed 0, epoch 1) and (seed 1, epoch 0) share nothing, nor do batches of two epochs:
    first, second = (epoch_plan(source, target, 3000, 0, epoch) for epoch in (0, 1))

    def members(plan: EpochPlan) -> set[frozenset[int]]:
        return {frozenset(plan.batch(k).tolist()) for k in range(plan.n_batches)}

    assert len(members(first) & members(second)) < 0.05 * first.n_batches
    # A batch says nothing about how long the next one will be.
    for plan in (first, second):
        means = [target[plan.batch(k)].mean() for k in range(plan.n_batches)]
        assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.3


def like_sentences(n: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    source = np.clip(np.round(draw.lognormal(np.log(110), 0.6, n)), 1, 1000)
    target = np.maximum(1, np.round(source * draw.lognormal(0.05, 0.15, n)))
    return lengths(source), lengths(target)


def padding(source: np.ndarray, target: np.ndarray, plan: EpochPlan) -> float:
    """The share of bytes that are none, counted from the order alone."""
    end = 1 if source.any() else 0
    total = np.zeros(plan.n_batches, np.int64)
    for side in (source + end, target + 1):
        total += np.maximum.reduceat(side[plan.order], plan.bounds[:-1])
    used = (source + end + target + 1).sum(dtype=np.int64)
    return float(1 - used / (total * np.diff(plan.bounds)).sum())


@pytest.mark.slow
def test_little_padding() -> None:
    source, target = like_sentences(1_000_000)
    plan = epoch_plan(source, target, 25_000, 1, 0)
    assert padding(source, target, plan) < 0.01
    n_bytes = int((np.diff(plan.bounds) * plan.shapes.sum(axis=1)).sum())
    assert plan.n_batches < 1.05 * n_bytes / 25_000 + 2  # the batches are full
    assert padding(0 * source, target, epoch_plan(0 * source, target, 25_000, 1, 0)) < 0.005


@pytest.mark.parametrize("n", [300, 20_000])
def test_little_padding_in_small_corpora(n: int) -> None:
    """Not much more than square cells of a batch each would have."""
    source, target = realistic(n)
    plan = epoch_plan(source, target, 2000, 1, 0)
    side = np.sqrt(2000 / 82 * 41 * 20 / n)  # bytes, in a band of 41 by 20
    assert padding(source, target, plan) < 1.5 * side / 82 + 0.01


weight_lists = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.1, 3.0, 2.75]))
)


@given(weight_lists, st.integers(0, 99), st.booleans())
def test_weights_repeat_pairs(parts: list[tuple[int, float]], epoch: int, has_source: bool) -> None:
    bounds = np.cumsum([0, *(size for size, _ in parts)])
    weights = [weight for _, weight in parts]
    draw = random.Random(5)
    target = lengths([draw.randrange(30) for _ in range(bounds[-1])])
    source = target * has_source
    plan = epoch_plan(source, target, 300, 1, epoch, bounds=bounds, weights=weights)
    times = Counter(int(i) for k in range(plan.n_batches) for i in plan.batch(k))
    for k in range(plan.n_batches):
        batch = plan.batch(k).tolist()
        assert len(batch) == 1 or len(batch) * sum(widths(source, target, batch)) <= 300
    for p, (size, weight) in enumerate(parts):
        found = [times[i] for i in range(bounds[p], bounds[p + 1])]
        assert set(found) <= {int(weight), int(weight) + (weight % 1 > 0)}
        assert 0 <= sum(found) - int(size * weight + 1e-9) <= (weight % 1 > 0)
    assert same(plan, epoch_plan(source, target, 300, 1, epoch, bounds=bounds, weights=weights))


def test_a_fraction_is_drawn_anew_and_fairly() -> None:
    """Three pairs with weight 0.5 each occur in half of the epochs, 1.5 of them per epoch on
    average."""
    three = lengths([5, 6, 7])
    times: Counter[int] = Counter()
    totals = []
    for epoch in range(600):
        plan = epoch_plan(three, three, 100, 1, epoch, bounds=np.array([0, 3]), weights=[0.5])
        times.update(plan.order.tolist())
        totals.append(len(plan.order))
    assert set(totals) == {1, 2}
    assert all(250 < times[pair] < 350 for pair in range(3))
    assert len(plan.order) == 1 + plan.n_batches or plan.n_batches == 1


def test_weights_of_one_change_nothing() -> None:
    source, target = realistic(300)
    plan = partial(epoch_plan, source, target, 900, 1, 0)
    parts = np.array([0, 100, 300])
    assert same(plan(bounds=parts, weights=[1, 1.0]), plan())
    once_more = plan(bounds=parts, weights=[2, 1])
    assert len(once_more.order) == 400 and (np.bincount(once_more.order)[:100] == 2).all()


def test_extreme_plans() -> None:
    nothing = epoch_plan(lengths([]), lengths([]), 100, 1, 0)
    assert nothing.n_batches == len(nothing.order) == 0
    # 9 + 9 bytes and 2 EOS are 20: two fill a budget, one less lets them stand alone. The first
    # batch has its own budget.
    nine = lengths([9] * 5)
    for max_tokens, n_pairs in ((40, 2), (39, 1), (1, 1)):
        plan = epoch_plan(nine, nine, max_tokens, 1, 0)
        assert max(np.diff(plan.bounds)) == n_pairs
        assert planned_widths(plan)[0] == (10, 10)


def test_too_many_pairs_are_refused() -> None:
    pair = lengths([1])
    with pytest.raises(ValueError, match="at most 2147483647"):
        epoch_plan(pair, pair, 10, 1, 0, bounds=np.array([0, 1]), weights=[2**31])
