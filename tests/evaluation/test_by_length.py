"""Scores by length: every line counts once, and a bucket's scores are those of its lines alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bytenmt.evaluation.by_length import borders, by_length, table
from bytenmt.evaluation.scores import text_scores


@given(st.lists(st.integers(0, 60), min_size=1, max_size=200), st.integers(1, 9))
def test_buckets_are_a_partition_into_about_equal_parts(lengths: list[int], n: int) -> None:
    """Buckets are ordered, disjoint and complete; none exceeds its share by more than the lines of one
    length.
    """
    found = borders(lengths, n)
    assert len(found) <= n
    assert all(a <= b for a, b in found)
    assert all(before[1] < after[0] for before, after in zip(found, found[1:], strict=False))
    counts = [sum(a <= length <= b for length in lengths) for a, b in found]
    assert sum(counts) == len(lengths) and min(counts) > 0
    most_alike = max(lengths.count(length) for length in lengths)
    assert max(counts) <= len(lengths) / n + 1 + most_alike


def test_distinct_lengths_are_shared_out_evenly() -> None:
    counts = [b - a + 1 for a, b in borders(range(100), 8)]
    assert sum(counts) == 100 and max(counts) - min(counts) <= 1


def test_a_buckets_scores_are_those_of_its_lines() -> None:
    """Also where the lines come in any order; eight of twenty lines or more, fewer of a short text."""
    lengths = [(37 * i) % 101 for i in range(200)]
    references = [f"line {i} of all" for i in range(200)]
    hypotheses = [line if length < 50 else f"{line} wrong" for line, length in zip(references, lengths)]  # noqa: B905
    found = by_length(lengths, hypotheses, references)
    assert len(found) == 8 and sum(bucket.n_lines for bucket in found) == 200
    for bucket in found:
        own = [i for i in range(200) if bucket.shortest <= lengths[i] <= bucket.longest]
        assert len(own) == bucket.n_lines >= 20
        assert abs(bucket.mean - sum(lengths[i] for i in own) / len(own)) < 1e-9
        expected = text_scores([hypotheses[i] for i in own], [references[i] for i in own])
        assert bucket.scores == expected
    assert found[0].scores.exact_match == 100 and found[-1].scores.exact_match == 0
    assert len(by_length(lengths[:45], hypotheses[:45], references[:45])) == 2
    assert len(list(table(found))) == 9
