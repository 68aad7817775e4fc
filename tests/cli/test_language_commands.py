"""predict and generate as a user meets them: what they print, and their one-line errors."""

import gzip
import json
import lzma
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import accepted, invoke
from made_up_engine import make_run

from bytenmt.checkpoints.facts import Facts, TextFact
from bytenmt.cli import language as language_commands
from bytenmt.language.ngram import NGram

BLIND = ("model.source=false", "model.input_feeding=false")
TEXT = "The cat sat on 3 mats.\n고양이 <b>셋</b>\r\n".encode() * 20 + bytes(range(256))
LEARNT = b"The cat sat. The mat sat on the cat.\n" * 30


@pytest.fixture(autouse=True)
def texts(place: Path) -> None:
    Path("text").write_bytes(TEXT)
    Path("learnt").write_bytes(LEARNT)
    Path("text.gz").write_bytes(gzip.compress(TEXT))
    Path("cut.xz").write_bytes(lzma.compress(TEXT)[:-20])


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets what standard input holds; click's own has no file number."""
    streams = language_commands, "standard_input"
    return lambda path: monkeypatch.setattr(*streams, lambda: BytesIO(Path(path).read_bytes()))


@pytest.mark.slow
def test_a_file_stdin_and_a_packed_file_give_the_same(stdin: Any) -> None:
    told = accepted("predict no_source text")
    assert re.match(rf"bits per byte: \d+\.\d{{4}}\nbytes: {len(TEXT)}\nthe likeliest byte: ", told)
    stdin("text")
    assert accepted("predict no_source") == told
    assert accepted("predict no_source -") == told
    assert accepted("predict no_source text.gz") == told


@pytest.mark.slow
def test_the_n_gram_stands_beside_the_figure() -> None:
    """Left out where the training text, which the run's facts name, is not as it was."""
    facts = Facts(texts=(TextFact(str(Path("learnt").resolve()), len(LEARNT)),))
    make_run(Path("tells"), settings=BLIND, facts=facts)
    told = accepted("predict tells text")
    text, learnt = (np.frombuffer(data, np.uint8) for data in (TEXT, LEARNT))
    expected = NGram.from_texts([learnt]).bits(text).mean()
    assert f"reference, order-5 n-gram of the training text: {expected:.4f}\n" in told
    assert "reference" not in accepted("predict tells text --no-reference")
    for run, size, why in (
        ("tells", -1, "has changed"),
        ("tells", None, "cannot be read: No such file"),
        ("no_source", None, "does not record"),
    ):
        Path("learnt").write_bytes(LEARNT[:size])
        if size is None:
            Path("learnt").unlink()
        result = invoke(f"predict {run} text")
        assert result.exit_code == 0 and "n-gram" not in result.stdout
        assert re.fullmatch(r"no n-gram model to compare with: [^\n]+\n", result.stderr)
        assert why in result.stderr


def test_each_byte_as_json() -> None:
    result = invoke("predict no_source text --per-byte")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert bytes(record["byte"] for record in records) == TEXT
    assert [record["offset"] for record in records] == [*range(len(TEXT))]
    mean = np.mean([record["bits"] for record in records])
    right = 100 * np.mean([record["rank"] == 1 for record in records])
    assert f"bits per byte: {mean:.4f}\n" in result.stderr
    assert f"the likeliest byte: {right:.2f} %\n" in result.stderr


def test_nothing_on_stdin(stdin: Any) -> None:
    stdin("empty")
    result = invoke("predict no_source --no-reference")
    assert result.exit_code == 1 and "standard input is empty" in result.stderr


@pytest.mark.slow
def test_text_is_drawn() -> None:
    words = ("generate", "no_source", "--engine", "torch", "--prompt", "고양이\n", "--bytes", "50")
    text = accepted(*words)
    assert text.startswith("고양이\n") and len(text.encode()) == 10 + 50
    assert accepted(*words) == text != accepted(*words, "--seed", "2")
    assert accepted(*words, "--temperature", "0.1", "--top-k", "3", "--top-p", "0.5") != text
