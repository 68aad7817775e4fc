"""A table made again: trained, stopped and gone on with, decoded, scored; rows that were not run are told."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import reproduce
from tools.reproduce import Recipe, Stopped

RECIPE = """
title = "A tiny table"
texts = { src = "a.src", tgt = "a.tgt", valid-src = "a.src", valid-tgt = "a.tgt" }
test = { src = "a.src", ref = "a.tgt" }
options = ["--arch", "seq2seq", "--preset", "tiny", "--threads", "1", "-q", "--max-tokens", "300",
  "--set", "model.d_hidden=8", "--set", "model.d_embedding=8", "--set", "train.valid_lines=0"]
decode = ["--max-len-a", "1", "--max-len-b", "4", "--engine", "torch"]

[[row]]
name = "short"
options = ["--max-updates", "3"]

[[row]]
name = "long"
options = ["--max-updates", "30000"]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    (tmp_path / "a.src").write_text("ab\ncde\n" * 20, encoding="utf-8")
    (tmp_path / "a.tgt").write_text("ba\nedc\n" * 20, encoding="utf-8")
    (tmp_path / "tiny.toml").write_text(RECIPE, encoding="utf-8")
    return Recipe.read(tmp_path / "tiny.toml")


def test_a_row_is_trained_scored_and_told(recipe: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "short"
    folder.mkdir(parents=True)
    reproduce.train(recipe, "short", tmp_path, folder / "run", until=float("inf"))
    found = json.loads(json.dumps(reproduce.record(recipe, "short", tmp_path, folder)))
    assert found["updates"] == 3 and found["cpu_seconds"] > 0 and found["bytes_seen"] > 0
    assert 0 <= found["scores"]["chrf"]["score"] <= 100 and "13a" in found["scores"]["bleu"]["signature"]
    assert (folder / "test.hyp").read_text(encoding="utf-8").count("\n") == 40
    told = reproduce.table(recipe, {"short": found}, tmp_path / "out")
    assert f"{found['scores']['chrf']['score']:.2f}" in told
    assert "| long | not run" in told and "--max-updates 30000" in told
    reproduce.draw(tmp_path / "curves.png", {"short": found})
    assert (tmp_path / "curves.png").stat().st_size > 1000


TOLD = """
import signal, sys, time
from pathlib import Path
run = Path(sys.argv[sys.argv.index("-o") + 1])
run.mkdir(exist_ok=True)
(run / "told").write_text(" ".join(sys.argv))
try:
    time.sleep(60)
except KeyboardInterrupt:
    (run / "checkpoints.json").write_text("{}")
"""


def test_time_that_is_used_stops_a_training_which_goes_on(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of the program one that saves where it is interrupted; its time is used once it has begun."""
    run = tmp_path / "run"
    (tmp_path / "program.py").write_text(TOLD, encoding="utf-8")
    monkeypatch.setattr(reproduce, "PROGRAM", [sys.executable, str(tmp_path / "program.py")])
    real = subprocess.Popen.wait
    for goes_on in (False, True):
        (run / "told").unlink(missing_ok=True)

        def wait(child: subprocess.Popen[bytes], timeout: float | None = None) -> int:
            while not (run / "told").exists():
                time.sleep(0.01)
            if timeout is None:
                raise subprocess.TimeoutExpired("program", 0)
            return real(child, timeout)

        with monkeypatch.context() as patched, pytest.raises(Stopped):
            patched.setattr(subprocess.Popen, "wait", wait)
            reproduce.train(recipe, "long", tmp_path, run, until=float("inf"))
        assert (run / "checkpoints.json").is_file()
        assert ("--resume" in (run / "told").read_text(encoding="utf-8")) == goes_on


def test_every_recipe_can_be_read() -> None:
    corpora = Path("corpora")
    for path in reproduce.RECIPES.glob("*.toml"):
        recipe = Recipe.read(path)
        assert set(recipe.test) in ({"src", "ref"}, {"text"})
        for row in recipe.rows:
            assert "--arch" in recipe.training(row, corpora, Path("run"))
