"""Lines with several sentences, told apart from those with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import CPU, config

from bytenmt.checkpoints.weights import read_run
from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.data.corpus_report import multi_sentence_share
from bytenmt.data.sentences import sentence_ends
from bytenmt.decoding.model_summary import model_description
from bytenmt.training.run import train


@pytest.mark.parametrize(
    ("line", "several"),
    [
        ("It is late. I have to go.", True),
        ("Komm schon! Wir sind spät.", True),
        ("Wirklich? »Ja.«", True),
        ("今日は。明日も。", True),
        ("안녕. 또 보자.", True),
        ("One sentence only.", False),
        ("Mr. Smith met Dr. Jones.", False),
        ("Am 12. August war J. Bach da.", False),
        ("It costs 3.50 in U.S. Dollars.", False),
        ("Wait... what?", False),
        ("See example.org. for more", False),
        ("", False),
    ],
)
def test_lines(line: str, several: bool) -> None:
    assert bool(sentence_ends(line)) == several


def test_the_share_counts_parts_by_their_weight(tmp_path: Path) -> None:
    """The share is that of the source lines, or of the target lines without a source."""
    (tmp_path / "a").write_text("One. Two.\nOne.\n", encoding="utf-8")
    (tmp_path / "b").write_text("One.\n" * 2, encoding="utf-8")
    a, b = tmp_path / "a", tmp_path / "b"
    corpus = ParallelCorpus.open_all([PairFiles(a, b), PairFiles(b, a, weight=3.0)])
    assert multi_sentence_share(corpus) == 1 / 8
    assert multi_sentence_share(ParallelCorpus.open_all([PairFiles(tgt=a)])) == 0.5


def test_a_run_tells_it(texts: dict[str, Any], tmp_path: Path) -> None:
    """The share is in the facts of the run, in the metadata of its weights and in the output of `info`."""
    files = texts["files"]
    assert files[0].src is not None
    lines = files[0].src.read_text(encoding="utf-8").splitlines()
    changed = [f"{line}! One more." if i % 4 == 0 else line for i, line in enumerate(lines)]
    files[0].src.write_text("\n".join(changed) + "\n", encoding="utf-8")
    run = tmp_path / "run"
    train(run, config("convs2s", "train.max_updates=2", "train.valid_lines=0"), **texts, device=CPU)
    expected = pytest.approx(sum(i % 4 == 0 for i in range(len(lines))) / len(lines), abs=1e-6)
    assert read_run(run, "last")[1].facts.multi_sentence_share == expected
    assert read_run(run)[1].facts.multi_sentence_share == expected
    assert "of the training lines hold several" in model_description(str(run), None)
