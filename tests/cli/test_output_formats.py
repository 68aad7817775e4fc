"""Test the output formats: every field of a JSON line, and n-best lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from made_up_engine import make_run

from bytenmt.cli.main import main
from bytenmt.cli.output_formats import JsonRecords, n_best_list
from bytenmt.decoding.interface import Hypothesis
from bytenmt.decoding.line_batch import Chunk, TranslationResult
from bytenmt.decoding.translator import Translator

LINES = ["one", "", "두 번째"]
SHORT: dict[str, Any] = {"max_len_a": 0.1, "max_len_b": 9, "device": "cpu"}


def lines_of(text: str) -> list[str]:
    """A random model writes what str.splitlines takes for line ends."""
    return text.split("\n")[:-1]


def test_the_command_writes_what_the_translator_finds(tmp_path: Path) -> None:
    """The command prints the translator's results as JSON lines, with and without n-best, and as n-best lists
    of Moses.
    """
    make_run(tmp_path / "run")
    (tmp_path / "src").write_text("\n".join(LINES) + "\n")
    expected = Translator.load(tmp_path / "run", beam=3, n_best=2, **SHORT).n_best(LINES)
    files = ["-m", f"{tmp_path}/run", "-i", f"{tmp_path}/src"]
    command = ["translate", *files, *["--max-len-a", "0.1", "--max-len-b", "9", "--device", "cpu", "-b", "3"]]

    def said(*options: str) -> list[str]:
        return lines_of(CliRunner().invoke(main, [*command, *options]).stdout)

    records = [json.loads(line) for line in said("--n-best", "2", "--format=jsonl")]
    for number, (record, hypotheses) in enumerate(zip(records, expected, strict=True), 1):
        assert record["line"] == number and 0 <= record["seconds"] < 60
        bits = [-h.log_probability / np.log(2) / len(h.text.encode()) if h.text else None for h in hypotheses]
        for one, h, expected_bits in zip(record["n_best"], hypotheses, bits, strict=True):
            assert one["text"] == h.text and one["bits_per_byte"] == pytest.approx(expected_bits)
            assert (one["score"], one["log_probability"]) == (h.score, h.log_probability)
        assert record["n_best"][0].items() <= record.items()
        told = ["line", "sentence", "text", "score", "log_probability", "bits_per_byte", "n_best"]
        told[6:6] = ["verdict", "reasons", "flags"]
        assert [*record][:10] == told and record["sentence"] == number - 1
    bests = [json.loads(line) for line in said("--format=jsonl")]
    assert all("n_best" not in record and "source" not in record for record in bests)
    sources = [json.loads(line) for line in said("--format=jsonl", "--with-source", "--max-source-bytes=4")]
    assert [record["source"] for record in sources] == LINES
    assert [record["text"] for record in bests] == [record["text"] for record in records]
    assert said("--n-best", "2") == [
        f"{number} ||| {h.text} ||| {h.score:.6f}"
        for number, hypotheses in enumerate(expected)
        for h in hypotheses
    ]


def test_numbers_go_on_from_buffer_to_buffer() -> None:
    """A sentence has the same number in both forms, from 0 as Moses did; a line counts from 1."""
    answer = TranslationResult([Hypothesis("é".encode(), -1.5, -0.5)], [Chunk(b"x", b"", b"x")], [], [])
    assert n_best_list([answer, answer], 7, [0.0, 0.0]).decode().split("\n")[:2] == [
        "7 ||| é ||| -0.500000",
        "8 ||| é ||| -0.500000",
    ]
    written = JsonRecords()([answer, answer], 7, [0.25, 0.5])
    assert "é".encode() in written
    told = [json.loads(line) for line in written.splitlines()]
    assert [(record["line"], record["sentence"]) for record in told] == [(8, 7), (9, 8)]
    assert [record["seconds"] for record in told] == [0.25, 0.5]


def test_a_score_that_is_no_number_is_null() -> None:
    """JSON has none of its own."""
    answer = TranslationResult([Hypothesis(b"a", -np.inf, -np.inf)], [Chunk(b"x", b"", b"x")], [], [])
    assert json.loads(JsonRecords()([answer], 0, [0.0]))["score"] is None


def test_what_a_person_should_look_at(tmp_path: Path) -> None:
    """Flags and bits of characters in jsonl; a line on stderr otherwise."""
    make_run(tmp_path / "run")
    (tmp_path / "src").write_text("\n".join(LINES) + "\n")
    base = [
        "translate",
        "-m",
        f"{tmp_path}/run",
        "-i",
        f"{tmp_path}/src",
        "--engine",
        "torch",
        "--device",
        "cpu",
    ]
    base += ["--max-len-a", "0.1", "--max-len-b", "9"]

    def said(*options: str) -> Result:
        return CliRunner().invoke(main, [*base, *options])

    answer = said("--format", "jsonl", "--character-bits", "--flag-above", "0.5")
    records = [json.loads(line) for line in answer.stdout.split("\n")[:-1]]
    for record, line in zip(records, LINES, strict=True):
        assert record["flags"] == (["unsure"] if line else [])
        assert record["verdict"] == ("check" if line else "sure")
        assert record["reasons"] == (["the model is unsure"] if line else [])
        if line:
            assert "".join(character for character, _ in record["characters"]) == record["text"]
            bits = sum(cost for _, cost in record["characters"])
            assert bits / len(record["text"].encode()) == pytest.approx(record["bits_per_byte"], abs=1e-4)
    plain = said("--flag-above", "0.5")
    assert plain.stdout.split("\n")[:-1] == [record["text"] for record in records]
    assert [line.partition(" (")[0] for line in plain.stderr.splitlines() if "unsure" in line] == [
        "bytenmt: line 1: check: the model is unsure",
        "bytenmt: line 3: check: the model is unsure",
    ]
    assert "unsure" not in said("--flag-above", "60").stderr
