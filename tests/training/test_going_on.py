"""Test --resume: the run's own texts, the limits to raise, and a jump of the learning rate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from small_runs import CPU, config

import bytenmt
from bytenmt.checkpoints.weights import METRICS, read_run
from bytenmt.cli.main import main
from bytenmt.errors import BytenmtError
from bytenmt.training.arguments import texts_of_run
from bytenmt.training.run import train

SMALL = ["--arch", "luong", "--preset", "tiny", "--threads", "1"]
SMALL += ["--set", "model.d_embedding=8", "--set", "model.d_hidden=8", "--set", "train.valid_lines=0"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("src", "one two\nthree\nfour\n"), ("tgt", "eins zwei\ndrei\nvier\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "valid").write_text("sechs\nzehn\nacht und neun\n", encoding="utf-8")
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ["train", "-o", "run", *words])


def last_update(run: Path) -> int:
    return int(json.loads((run / METRICS).read_text(encoding="utf-8").splitlines()[-1])["update"])


@pytest.mark.parametrize("option", ["pairs", "weighted", "text"])
def test_a_run_knows_its_texts(place: Path, option: str) -> None:
    """--resume needs none of them, also from another folder; others are refused as ever."""
    texts = {
        "pairs": ["--src", "src", "--tgt", "tgt", "--valid-src", "src", "--valid-tgt", "valid"],
        "weighted": ["--src", "src", "--tgt", "tgt", "--src", "tgt", "--tgt", "src", "--weight", "2"]
        + ["--weight", "0.5", "--valid-src", "src", "--valid-tgt", "valid"],
        "text": ["--text", "src", "--valid-text", "valid", "--set", "train.window=4"],
    }[option]
    assert (done := call(*SMALL, *texts, "--max-updates", "1")).exit_code == 0, done.stderr
    files, valid = texts_of_run(place / "run")
    assert valid is not None and valid.tgt == place / "valid"
    assert [one.weight for one in files] == {"weighted": [2.0, 0.5]}.get(option, [1.0])
    (place / "elsewhere").mkdir()
    done = CliRunner().invoke(main, ["train", "-o", "run", "--resume", "--max-updates", "2"])
    assert done.exit_code == 0, done.stderr
    assert last_update(place / "run") == 2
    refused = call("--resume", "--max-updates", "3", "--text", "valid", "--valid-text", "valid")
    assert refused.exit_code == 1 and last_update(place / "run") == 2
    (place / "src").unlink()
    gone = call("--resume", "--max-updates", "3")
    assert gone.exit_code == 1 and "src does not exist" in gone.stderr


def test_without_a_checkpoint_the_texts_are_asked_for(place: Path) -> None:
    done = call(*SMALL, "--resume")
    assert done.exit_code == 1 and "run holds nothing to continue: give the training text" in done.stderr


def test_a_shared_file_does_not_tell_where_texts_lay(texts: dict[str, Any], tmp_path: Path) -> None:
    train(tmp_path / "run", config("luong", "train.max_updates=1"), **texts, device=CPU)
    facts = read_run(tmp_path / "run", "last")[1].facts
    assert facts.valid is not None and facts.without_folders().valid is None


def test_python_leaves_out_what_is_none(place: Path) -> None:
    """None leaves an option out; errors are those of the command."""
    small = {"model.d_embedding": 8, "model.d_hidden": 8, "train.valid_lines": 0}
    more: dict[str, Any] = {"src": "src", "tgt": "tgt", "valid_src": "src", "valid_tgt": "valid"}
    more |= {"arch": "luong", "preset": "tiny", "settings": small, "threads": 1}
    run = bytenmt.train("run", **more, max_updates=1, max_minutes=None)
    assert run.config.train.max_minutes == 0
    with pytest.raises(BytenmtError, match="continue it with --resume, or give another folder"):
        bytenmt.train("run", **more, max_updates=1)
    with pytest.raises(BytenmtError, match="no training text: give --src and --tgt"):
        bytenmt.train("new", arch="luong")
    assert bytenmt.train("run", resume=True, max_updates=2, threads=1).metrics()[-1]["update"] == 2
