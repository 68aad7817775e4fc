"""Lines are split into sentences, translated one by one, and joined with their own white space."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up_engine import made_up_translator

from bytenmt.checkpoints.facts import Facts
from bytenmt.data.sentences import languages_of_files, sentence_ends
from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.decoding.loading import LoadedRun, Runtime, runtime_from_models
from bytenmt.translation.chunks import Chunk
from bytenmt.translation.line_batch import RestoredChunk, join_chunks
from bytenmt.translation.translator import sentence_languages

EN = ("en",)
# Lines with a bar where a sentence ends.
HARD_LINES = Path(__file__).parents[1] / "files" / "hard_sentences.tsv"


@pytest.mark.parametrize("language", ["en", "de", "ko"])
def test_hard_lines(language: str) -> None:
    """97 % of the lines have all boundaries right and none too many."""
    right, n_lines = 0, 0
    for row in HARD_LINES.read_text(encoding="utf-8").splitlines():
        code, marked = row.split("\t")
        if code == language:
            parts = marked.split("¦")
            expected = [len("".join(parts[:n])) for n in range(1, len(parts))]
            right += sentence_ends("".join(parts), [language]) == expected
            n_lines += 1
    assert n_lines == 50 and right >= 0.97 * n_lines


def test_an_unknown_language_has_the_boundaries_of_all() -> None:
    assert sentence_ends("On May 3. He came. Am 3. Mai kam er.", ["en", "de"]) == [18]
    for one in ("Am 12. August war J. Bach da.", "It costs 3.50 in U.S. Dollars.", "Wait... what?"):
        assert sentence_ends(one) == []
    assert sentence_ends("今日は。明日も。") == [4] and sentence_ends("Wirklich? »Ja.«") == [9]
    assert [sentence_ends(one, ["en"]) for one in ("No end", "", "One.")] == [[]] * 3


def test_sentences_are_translated_one_by_one() -> None:
    """The prefix begins the first; white space stays, also at both ends; equal sentences are one
    request, long ones are cut as well, and a line that is not split keeps its signs."""
    admitted: list[list[Request]] = []
    translator = made_up_translator(admitted, EN, prefix="so: ")
    assert translator.translate("  One.\tTwo.  One. Two. ") == "  so: ONE.0\tTWO.0  ONE.0 TWO.0 "
    sources = sorted(request.source or b"" for some in admitted for request in some)
    assert sources == [b"One.", b"One.", b"Two."]
    assert translator.translate("- One. Two.") == "- so: ONE.0 TWO.0"
    (result,) = translator.translate_lines([b"One. Two."])
    assert result.best_chunks() == [(b"One.", b"so: ONE.0", b" "), (b"Two.", b"TWO.0", b"")]
    assert made_up_translator().translate("One. Two.") == "ONE. TWO.0"
    assert made_up_translator().translate("Name: ________") == "NAME: ________0"
    short = made_up_translator(languages=EN, max_source_bytes=10)
    assert short.translate("One. Two three four.") == "ONE.0 TWO THREE0 FOUR.0"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Name: ........ Date: ____", "NAME:0 ........ DATE:0 ____"),
        ("Name: ________ Date: ____", "NAME:0 ________ DATE:0 ____"),
        ("Chapter 1 . . . . . 5", "CHAPTER 10 . . . . . 5"),
        ("  ---- ", "  ---- "),
        ("Really???? ....", "REALLY?0??? ...."),
        ("at a.org/____x", "AT A.ORG/____X0"),
        ("at http://a.org/____x", "AT HTTP://A.ORG/____X0"),
        ("a___b {____}", "A___B {____}0"),
        ("👍👍👍👍", "👍👍👍👍"),
        ("** ─ …", "** ─ …"),
        (" - One. Two. x", " - ONE.0 TWO. X0"),
        ("# a #b", "# A #B0"),
        ("-a • b", "-A • B0"),
        ("> - - - - a", "> - - - - A0"),
    ],
)
def test_repeated_signs_are_copied(line: str, expected: str) -> None:
    """So are lines of signs alone; addresses and kept spans are not cut. 0: where the model is
    asked."""
    assert made_up_translator(languages=EN, keep=("placeholders",)).translate(line) == expected


def test_n_best_join_those_of_equal_rank() -> None:
    """The last one of a chunk stands for those that are missing, as of one that is copied."""
    chunks = [Chunk(b"-", b" ", b"-"), Chunk(b"x", b"  ", b"x"), Chunk(b"x", b" ", b"x")]
    of_chunks = []
    for texts in (b"-", b"abc", b"AB"):
        of_chunks.append([Hypothesis(b"%c" % byte, -1.0, -1.0) for byte in texts])
    line = [RestoredChunk(*pair, []) for pair in zip(chunks, of_chunks, strict=True)]
    joined = join_chunks(line, 0.5).hypotheses
    assert [one.text for one in joined] == [b"- a  A ", b"- b  B ", b"- c  B "]
    assert joined[0].log_probability == -3.0 and joined[0].score == -3.0 / 8**0.5
    assert joined[0].source_log_probability is None
    for chunk in line[1:]:  # the first one is a copy, which no model has ranked
        ranked = [one._replace(source_log_probability=-2.0) for one in chunk.hypotheses]
        chunk.hypotheses[:] = ranked
    assert join_chunks(line, 0.5).hypotheses[0].source_log_probability == -4.0
    assert join_chunks(line[2:], 1.0).hypotheses[1] == ranked[1]._replace(text=b"B ")


def runtime(**facts: Any) -> Runtime:
    run: Any = LoadedRun(Path("x"), None, Facts(**facts), "fp32")  # type: ignore[arg-type]
    return replace(runtime_from_models([], torch.device("cpu")), runs=[run])


@pytest.mark.parametrize(
    ("facts", "is_split"),
    [({"multi_sentence_share": 0.01}, True), ({"multi_sentence_share": 0.3}, False), ({}, False)],
)
def test_auto_follows_the_training_text(facts: dict[str, Any], is_split: bool) -> None:
    one = runtime(**facts)
    assert bool(sentence_languages(one, "auto")) == is_split
    assert sentence_languages(one, "always") == ("en", "de")
    assert sentence_languages(one, "never") == ()


def test_the_language_is_that_of_the_training_files() -> None:
    assert languages_of_files(["a/train.ko", "b.ko.gz"]) == ("ko",)
    for names in (["train.en", "train.de"], ["train.src"], ["train.gz"], [""], []):
        assert languages_of_files(names) == ("en", "de")
