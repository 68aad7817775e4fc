"""Test how well bits per byte detect wrong lines: the area under the curve equals a count over all pairs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from tools.wrong_lines import detection, main

lines = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=12)


@given(lines)
def test_the_area_is_the_share_of_pairs_in_order(drawn: list[tuple[int, bool]]) -> None:
    bits = [cost / 4 for cost, _ in drawn]
    texts = ["right" if right else "wring" for _, right in drawn]
    found = detection(bits, texts, ["right"] * len(drawn))
    pairs = list(
        product(
            [b for b, (_, ok) in zip(bits, drawn, strict=True) if not ok],
            [b for b, (_, ok) in zip(bits, drawn, strict=True) if ok],
        )
    )
    assert found.n == len(drawn) and found.n_wrong == sum(not ok for _, ok in drawn)
    if not pairs:
        assert found.area is None
    else:
        expected = sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs)
        assert found.area == pytest.approx(expected)


def test_ranks_are_correlated() -> None:
    """Dearer lines are worse, one after another; where all are alike nothing is told."""
    references = ["a house by the sea"] * 3
    texts = ["a house by the sea", "a house by the se", "quite another text"]
    chrf = [CHRF().sentence_score(t, [r]).score for t, r in zip(texts, references, strict=True)]
    assert sorted(chrf, reverse=True) == chrf
    assert detection([0.1, 0.2, 0.3], texts, references).correlation == pytest.approx(-1)
    assert detection([0.3, 0.2, 0.1], texts, references).correlation == pytest.approx(1)
    assert detection([0.1, 0.1, 0.1], texts, references).correlation is None


def test_json_lines_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ref").write_text("a\nb\n", encoding="utf-8")
    lines = ['{"text": "a", "bits_per_byte": 0.1}', '{"text": "", "bits_per_byte": null}']
    assert main(["--ref", str(tmp_path / "ref")], lines) == 0
    assert '"n": 2, "n_wrong": 1, "area": 0.0' in capsys.readouterr().out
