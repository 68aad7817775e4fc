"""Test the output formats: every field of a JSON line, and n-best lists."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import accepted, invoke

from bytenmt.cli.output_formats import JsonRecords, n_best_list
from bytenmt.decoding.interface import Hypothesis
from bytenmt.translation.chunks import Chunk
from bytenmt.translation.line_batch import TranslationResult
from bytenmt.translation.translator import Translator

LINES = ["one", "두 번째", "", "four"]  # of the file src
SHORT: dict[str, Any] = {"max_len_a": 0.1, "max_len_b": 9, "device": "cpu"}
TRANSLATE = "translate run -i src --max-len-a 0.1 --max-len-b 9 --device cpu"
FIELDS = ["line", "source", "text", "score", "log_probability", "bits_per_byte", "doubt"]
FIELDS += ["verdict", "reasons", "flags", "unknown_words", "n_best"]


def lines_of(text: str) -> list[str]:
    """A random model writes what str.splitlines takes for line ends."""
    return text.split("\n")[:-1]


def test_the_command_writes_what_the_translator_finds(place: Path) -> None:
    expected = Translator.load("run", beam=3, n_best=2, **SHORT).n_best(LINES)

    def said(*options: str) -> list[str]:
        return lines_of(accepted(*TRANSLATE.split(), "-b", "3", *options))

    records = [json.loads(line) for line in said("--n-best", "2", "--format=jsonl")]
    for number, (record, hypotheses) in enumerate(zip(records, expected, strict=True), 1):
        assert record["line"] == number and 0 <= record["seconds"] < 60
        for one, h in zip(record["n_best"], hypotheses, strict=True):
            assert one["text"] == h.text and one["bits_per_byte"] == pytest.approx(h.bits_per_byte)
            assert (one["score"], one["log_probability"]) == (h.score, h.log_probability)
        assert record["n_best"][0].items() <= record.items()
        assert [*record] == [*FIELDS, "seconds"]
    bests = [json.loads(line) for line in said("--format=jsonl")]
    assert all("n_best" not in record for record in bests)
    sources = [json.loads(line) for line in said("--format=jsonl", "--max-source-bytes=4")]
    assert [record["source"] for record in sources] == LINES
    assert [record["text"] for record in bests] == [record["text"] for record in records]
    numbered = [(number, h) for number, some in enumerate(expected) for h in some]
    rows = [f"{number} ||| {h.text} ||| {h.score:.6f}" for number, h in numbered]
    assert said("--n-best", "2") == rows


def test_numbers_go_on_from_buffer_to_buffer() -> None:
    """An n-best list counts from 0, as Moses did, JSON lines from 1; a NaN score is null."""
    chunks = [Chunk(b"x", b"", b"x")]
    answer = TranslationResult([Hypothesis("é".encode(), -1.5, -0.5)], chunks, [], [])
    listed = n_best_list([answer, answer], 7, [0.0, 0.0]).decode().split("\n")
    assert listed[:2] == ["7 ||| é ||| -0.500000", "8 ||| é ||| -0.500000"]
    none = TranslationResult([Hypothesis(b"a", -np.inf, -np.inf)], chunks, [], [])
    written = JsonRecords()([answer, none], 7, [0.25, 0.5])
    assert "é".encode() in written
    told = [json.loads(line) for line in written.splitlines()]
    assert [record["line"] for record in told] == [8, 9]
    assert [record["seconds"] for record in told] == [0.25, 0.5] and told[1]["score"] is None


def test_what_a_person_should_look_at(place: Path) -> None:
    base = f"{TRANSLATE} --engine torch"
    answer = accepted(f"{base} --format jsonl --flag-above 0.5")
    records = [json.loads(line) for line in lines_of(answer)]
    for record, line in zip(records, LINES, strict=True):
        assert record["flags"] == (["unsure"] if line else [])
        assert record["verdict"] == ("check" if line else "sure")
        assert record["reasons"] == (["the model is unsure"] if line else [])
    plain = invoke(f"{base} --flag-above 0.5")
    assert lines_of(plain.stdout) == [record["text"] for record in records]
    told = [line.partition(" (")[0] for line in plain.stderr.splitlines() if "unsure" in line]
    assert told == [f"bytenmt: line {number}: check: the model is unsure" for number in (1, 2, 4)]
    assert "unsure" not in invoke(f"{base} --flag-above 60").stderr
