"""Scores by length: every line counts once, and a bucket's scores are those of its lines alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from bytenmt.evaluation.scores import text_scores
from tools.by_length import by_length, main


def test_a_buckets_scores_are_those_of_its_lines() -> None:
    """Lines may come in any order; there are eight buckets of twenty lines or more, fewer of a short text."""
    lengths = [(37 * i) % 211 for i in range(200)]
    sources = ["x" * length for length in lengths]
    references = [f"line {i} of all" for i in range(200)]
    hypotheses = [line if n < 100 else f"{line} wrong" for line, n in zip(references, lengths, strict=True)]
    found = by_length(sources, hypotheses, references)
    assert [bucket.n_lines for bucket in found] == [25] * 8
    assert all(one.longest < other.shortest for one, other in zip(found, found[1:], strict=False))
    for bucket in found:
        own = [i for i in range(200) if bucket.shortest <= lengths[i] <= bucket.longest]
        assert len(own) == bucket.n_lines
        assert bucket.scores == text_scores([hypotheses[i] for i in own], [references[i] for i in own])
    assert found[0].scores.exact_match == 100 and found[-1].scores.exact_match == 0
    assert len(by_length(sources[:45], hypotheses[:45], references[:45])) == 2


def test_files_are_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("src", "가\nb\n"), ("ref", "c\nd\n"), ("short", "c\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = ["--src", str(tmp_path / "src"), "--ref", str(tmp_path / "ref")]
    assert main([str(tmp_path / "ref"), *options]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "1",
        "to",
        "3",
        "2",
        "0.0",
        "100.0",
        "100.0",
        "%",
    ]
    assert main([str(tmp_path / "short"), *options]) == 1 and "2, 1, 2 lines" in capsys.readouterr().err
