"""Scores by length: every line counts once, and a bucket's scores are those of its lines alone."""

from __future__ import annotations

from bytenmt.evaluation.by_length import by_length, table
from bytenmt.evaluation.scores import text_scores


def test_a_buckets_scores_are_those_of_its_lines() -> None:
    """Lines may come in any order; there are eight buckets of twenty lines or more, fewer of a short text."""
    lengths = [(37 * i) % 211 for i in range(200)]
    references = [f"line {i} of all" for i in range(200)]
    hypotheses = [line if n < 100 else f"{line} wrong" for line, n in zip(references, lengths, strict=True)]
    found = by_length(lengths, hypotheses, references)
    assert [bucket.n_lines for bucket in found] == [25] * 8
    assert all(one.longest < other.shortest for one, other in zip(found, found[1:], strict=False))
    for bucket in found:
        own = [i for i in range(200) if bucket.shortest <= lengths[i] <= bucket.longest]
        assert len(own) == bucket.n_lines
        assert abs(bucket.mean - sum(lengths[i] for i in own) / len(own)) < 1e-9
        assert bucket.scores == text_scores([hypotheses[i] for i in own], [references[i] for i in own])
    assert found[0].scores.exact_match == 100 and found[-1].scores.exact_match == 0
    assert len(by_length(lengths[:45], hypotheses[:45], references[:45])) == 2
    assert len(list(table(found))) == 9
