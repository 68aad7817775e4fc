"""a and b of ByteNet's unfolding, found in lengths: against a search over everything."""

from __future__ import annotations

import random
from math import ceil

import numpy as np
import pytest

from bytenmt.architectures.bytenet.unfolding import fit_unfolding


def pairs(n: int, seed: int, slope: float = 1.15, spread: float = 6.0) -> tuple[np.ndarray, np.ndarray]:
    draw = random.Random(seed)
    source = [draw.randrange(1, 200) for _ in range(n)]
    target = [max(0, round(slope * s + draw.gauss(4, spread))) for s in source]
    return np.array(source, np.int32), np.array(target, np.int32)


def loss(a: float, b: float, source: np.ndarray, target: np.ndarray, q: float) -> float:
    """The pinball loss of a line, pair by pair, EOS counted on both sides."""
    total = 0.0
    for s, t in zip(source.tolist(), target.tolist(), strict=True):
        above = (t + 1) - (a * (s + 1) + b)
        total += q * above if above > 0 else (1 - q) * -above
    return total


@pytest.mark.parametrize("q", [0.9, 0.99])
@pytest.mark.parametrize("slope", [0.4, 1.15])
def test_no_line_of_hundredths_and_whole_bytes_is_better(q: float, slope: float) -> None:
    """All slopes about the true one and all offsets; what is rounded up may cost a little."""
    source, target = pairs(60, seed=3, slope=slope)
    found = fit_unfolding(source, target, q)
    slopes = [a / 100 for a in range(int(100 * slope) - 25, int(100 * slope) + 26)]
    best = min(loss(a, b, source, target, q) for a in slopes for b in range(40))
    assert loss(found.factor, found.offset, source, target, q) <= best + (1 - q) * len(source)


@pytest.mark.parametrize("seed", range(4))
def test_it_covers_what_it_says(seed: int) -> None:
    source, target = pairs(1000, seed)
    found = fit_unfolding(source, target)
    columns = [ceil(found.factor * (s + 1) + found.offset - 1e-9) for s in source.tolist()]
    covered = sum(c >= t + 1 for c, t in zip(columns, target.tolist(), strict=True)) / 1000
    assert found.covered == covered >= 0.99
    assert found.columns == pytest.approx(sum(columns) / 1000)


def test_a_line_without_noise_is_found() -> None:
    """t + 1 = 0.8 (s + 1) + 7."""
    source = np.arange(4, 400, 5)
    found = fit_unfolding(source, (0.8 * (source + 1) + 7 - 1).round().astype(int))
    assert (found.factor, found.offset, found.covered) == (0.8, 7, 1.0)
    assert str(found) == "|t^| = 0.8 |s| + 7: columns for 100.0% of the targets, 169.0 on the mean"


def test_a_few_pairs_that_do_not_belong_together_hardly_move_it() -> None:
    """Half a percent with targets ten times as long."""
    source, target = pairs(2000, seed=1)
    wild = target.copy()
    wild[::200] = 10 * source[::200] + 500
    plain, other = fit_unfolding(source, target), fit_unfolding(source, wild)
    assert abs(plain.factor - other.factor) < 0.1 and abs(plain.offset - other.offset) < 15


def test_one_pair_and_no_bytes() -> None:
    assert fit_unfolding(np.array([0]), np.array([0])).covered == 1
    assert fit_unfolding(np.array([3]), np.array([10**6])).offset <= 4096
