"""Test translate --keep, --keep-pattern and --glossary with a model trained with sentinels for a moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_up_engine import make_run
from small_runs import CPU, config, nine_lines

from bytenmt.cli.main import main
from bytenmt.training.run import train

LINES = ["%s개의 <b>{name}</b> 서버", "", "see http://a.b/c. A server", "plain", "3.2.1 {x}", "a \ue000 b"]
KEPT = [["%s", "<b>{name}</b>"], [], ["http://a.b/c"], [], ["3.2.1 {x}"], []]
SHORT = ["--max-len-a", "1", "--max-len-b", "9", "--engine", "torch"]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four updates with sentinels."""
    folder = tmp_path_factory.mktemp("taught")
    files = nine_lines(folder / "text")
    settings = config("luong", "data.sentinels=0.2", "train.max_updates=4")
    train(folder / "run", settings, files=[files], valid=files, device=CPU)
    return folder / "run"


@pytest.fixture
def place(taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text and a table of terms, and a run without sentinels."""
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "plain")
    (tmp_path / "src").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (tmp_path / "terms").write_text("server\tServer|Dienst\n서버\tServer\nplain\t!x\n", encoding="utf-8")
    return tmp_path


def invoke(run: Path | str, *options: str) -> Result:
    return CliRunner().invoke(main, ["translate", str(run), "-i", "src", *SHORT, *options])


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["-b", "1"], ["--sample"], ["-b", "3", "--no-repeat-ngram-size", "3"]])
def test_all_is_kept_line_by_line(place: Path, taught: Path, more: list[str]) -> None:
    """Keep spans as text and in JSON; what has nothing to translate is copied."""
    result = invoke(taught, "--glossary", "terms", *more)
    assert result.exit_code == 0 and result.stderr == ""
    texts = result.stdout.split("\n")[:-1]
    assert len(texts) == len(LINES) and (texts[1], texts[4]) == ("", "3.2.1 {x}")
    assert all(text.count(span) == 1 for text, spans in zip(texts, KEPT, strict=True) for span in spans)
    assert "Server" in texts[0] and "Server" in texts[2]
    told = invoke(taught, "--format", "jsonl", "--no-alignment", "--glossary", "terms", *more)
    records: list[dict[str, Any]] = [json.loads(line) for line in told.stdout.splitlines()]
    assert [record["text"] for record in records] == texts and records[4]["flags"] == []


def test_a_pattern_of_ones_own_and_none_of_the_classes(place: Path, taught: Path) -> None:
    own = ["--keep-pattern", "(?<=A )s[a-z]+", "--keep-pattern", "가|개의"]
    texts = invoke(taught, "--keep", "none", *own).stdout.splitlines()
    assert "server" in texts[2] and "개의" in texts[0] and "{name}" not in texts[0]


def test_a_stream_is_greedy(place: Path, taught: Path) -> None:
    assert invoke(taught, "--stream").stdout == invoke(taught, "-b", "1").stdout != ""


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--keep", "dates"], "'dates' is not a class of spans: expected tags, placeholders"),
        (["--keep-pattern", "a*"], "the pattern 'a*' matches the empty text"),
        (["--keep-pattern", "("], "the pattern '(' is no regular expression"),
        (["--glossary", "src"], "src, line 1: expected `term TAB target`"),
        (["--glossary", "none"], "none cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line(place: Path, options: list[str], why: str) -> None:
    result = invoke("plain", *options)
    assert result.exit_code == 1 and result.stdout == ""
    assert why in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("options", [["--keep", "tags"], ["--keep-pattern", "a"], ["--glossary", "terms"]])
def test_a_model_without_sentinels_refuses(place: Path, options: list[str]) -> None:
    result = invoke("plain", *options)
    assert result.exit_code == 1 and result.stdout == ""
    assert "need a model that was trained with sentinels" in result.stderr
    assert len(result.stderr.splitlines()) == 1
