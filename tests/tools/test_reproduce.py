"""A table made again: trained, stopped and gone on with, decoded, scored; rows that were not run are told."""

import argparse
import json
import math
import signal
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import ANY, Mock, call

import command_server
import pytest

from bytenmt.config.schema import load_config
from bytenmt.errors import BytenmtError
from tools import reproduce
from tools.reproduce import TrainingStopped, learning_curve
from tools.results import scoring
from tools.results.recipe import FOLDER, REPOSITORY, Recipe
from tools.results.tables import table

RECIPE = """
title = "A tiny table"
texts = { src = "a.src", tgt = "a.tgt", valid-src = "a.src", valid-tgt = "a.tgt" }
test = { src = "a.src", ref = "a.tgt" }
options = ["--arch", "seq2seq", "--preset", "tiny", "--threads", "1", "-q", "--max-tokens", "300",
  "--set", "model.d_hidden=8", "--set", "model.d_embedding=8", "--set", "train.valid_lines=0"]
decode = ["--max-len-a", "1", "--max-len-b", "4", "--engine", "torch"]
noise = true

[[row]]
name = "short"
options = ["--max-updates", "3"]

[[row]]
name = "other"
options = ["--max-updates", "2", "--seed", "2"]

[[row]]
name = "both"
ensemble = ["short", "other"]

[[row]]
name = "long"
options = ["--max-updates", "30000"]
init-from = "short"
not-run = "too long"

[[row]]
name = "student"
options = ["--max-updates", "2"]
distil = ["short"]

[[row]]
name = "rival"
program = "rival"
options = ["--max-updates", "4"]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    (tmp_path / "a.src").write_text("ab\ncde\n" * 20, encoding="utf-8")
    (tmp_path / "a.tgt").write_text("ba\nedc\n" * 20, encoding="utf-8")
    (tmp_path / "tiny.toml").write_text(RECIPE, encoding="utf-8")
    return Recipe.from_file(tmp_path / "tiny.toml")


def parsed(folder: Path, *rows: str) -> argparse.Namespace:
    return argparse.Namespace(output=folder / "out", corpora=folder, row=list(rows), minutes=math.inf)


@pytest.mark.slow
def test_rows_are_trained_scored_and_told(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ensemble's members are done before it, nothing is done twice, and a student learns what its teachers
    say. The dozen commands are answered by a warmed process.
    """
    folder = tmp_path / "out" / "tiny"
    with command_server.serving(tmp_path) as program:
        for module in (reproduce, scoring):
            monkeypatch.setattr(module, "PROGRAM", [str(program)])
        assert not reproduce.make(recipe, parsed(tmp_path, "both"))
        before = (folder / "short" / "row.json").stat().st_mtime_ns
        reproduce.make(recipe, parsed(tmp_path, "both"))
        assert (folder / "short" / "row.json").stat().st_mtime_ns == before
        reproduce.train(recipe, "student", tmp_path, folder, until=math.inf)
    pairs = (folder / "distilled-short.tsv").read_text(encoding="utf-8").splitlines()
    assert pairs and {pair.split("\t")[0] for pair in pairs} <= {"ab", "cde"}
    assert "ab\tba" not in pairs  # three updates are not enough to know it
    found = {row: json.loads((folder / row / "row.json").read_text()) for row in ("short", "other", "both")}
    assert found["short"]["updates"] == 3 and found["short"]["seconds"] > 0
    assert found["both"]["updates"] == 5
    assert (folder / "short" / "test.hyp").read_text(encoding="utf-8").count("\n") == 40
    for one in found.values():
        assert 0 <= one["scores"]["chrf"]["score"] <= 100 and "13a" in one["scores"]["bleu"]["signature"]
        assert list(one["measured"]["chrf_by_noise"]) == ["0", "0.05", "0.1", "0.2"]
        assert set(one["measured"]["text_bytes_per_second_by_batch"]) == {"1", "32"}
    sizes = [found[row]["measured"]["megabytes"] for row in ("short", "other", "both")]
    assert sizes[2] == pytest.approx(sizes[0] + sizes[1])
    excerpt = (folder / "table.md").read_text(encoding="utf-8")
    assert f"{found['both']['scores']['chrf']['score']:.2f}" in excerpt
    assert "| long | not run" in excerpt and "--max-updates 30000" in excerpt and "too long" in excerpt
    assert f"--init-from {folder / 'short' / 'run'}" in excerpt and f"--tsv {folder}" in excerpt
    assert (folder / "curves.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("old", "new", "excerpt"),
    [
        ('ensemble = ["short"', 'ensemble = ["long"', "row both needs long, which does not stand above it"),
        ('title = "A tiny table"', "titel = 1", "titel"),
        ("[[row]]", "[[row", "tiny.toml"),
    ],
)
def test_a_wrong_recipe_is_one_line(tmp_path: Path, old: str, new: str, excerpt: str) -> None:
    assert old in RECIPE
    (tmp_path / "tiny.toml").write_text(RECIPE.replace(old, new), encoding="utf-8")
    with pytest.raises(BytenmtError, match=excerpt):
        Recipe.from_file(tmp_path / "tiny.toml")


def test_seeds_are_told_as_one_row(recipe: Recipe, tmp_path: Path) -> None:
    """Their mean and how far from it the farthest is; a row of which one seed is there as that one's."""
    head = RECIPE[: RECIPE.index("[[row]]")].replace("noise = true", "seeds = [1, 2, 5]")
    rows = '[[row]]\nname = "a"\n[[row]]\nname = "b"\ntitle = "the other"\noptions = ["--set", "b=1"]\n'
    (tmp_path / "seeds.toml").write_text(head + rows, encoding="utf-8")

    def one(bits: float, exact: float) -> dict[str, Any]:
        names = ("bleu", "bleu_lowercased", "chrf", "exact_match")
        excerpt = {"parameters": "1,000", "updates": 1500, "seconds": 60.0}
        return {"scores": {name: {"score": exact} for name in names}, "valid_bits_per_byte": bits, **excerpt}

    found = {"a@1": one(1.0, 50.0), "a@2": one(1.1, 52.0), "a@5": one(1.5, 57.0), "b@2": one(2.0, 3.0)}
    lines = table(Recipe.from_file(tmp_path / "seeds.toml"), found, tmp_path).splitlines()
    assert "| exact, % | valid bits/byte | parameters | updates | minutes |" in lines[2]
    a, b = (next(line for line in lines if line.startswith(f"| {name} |")) for name in ("a", "the other"))
    assert a.endswith("| 53.00 ± 4.00 | 1.2000 ± 0.3000 | 1,000 | 1,500 ± 0 | 1 ± 0 |")
    assert b.endswith("| 3.00 | 2.0000 | 1,000 | 1,500 | 1 |")
    assert sum("not run" in line for line in lines) == 2  # the other's seeds 1 and 5, by their commands


def test_time_that_is_used_stops_a_training_which_goes_on(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer is interrupted, and waited for while it saves; the next call resumes what it has saved."""
    child = Mock(returncode=0)
    started = Mock(return_value=child)
    monkeypatch.setattr(subprocess, "Popen", started)
    for goes_on in (False, True):
        child.wait.side_effect = [subprocess.TimeoutExpired("program", 0), 0]
        with pytest.raises(TrainingStopped):
            reproduce.train(recipe, "long", tmp_path, tmp_path, until=0.0)
        assert child.method_calls[-3:] == [call.wait(0.0), call.send_signal(signal.SIGINT), call.wait(ANY)]
        assert ("--resume" in started.call_args[0][0]) == goes_on
        (tmp_path / "long" / "run").mkdir(parents=True, exist_ok=True)
        (tmp_path / "long" / "run" / "trainer.pt").touch()


MIXED = """
title = "Mixed"
weights = [1, 2.5]
texts = { src = ["a.src", "b.src"], tgt = ["a.tgt", "b.tgt"], valid-src = "a.src", valid-tgt = "a.tgt" }
test = { src = "a.src", ref = "a.tgt" }
seeds = [1, 2]

[[row]]
name = "teacher"
options = ["--arch", "luong"]

[[row]]
name = "student"
distil = ["teacher"]
options = ["--arch", "seq2seq"]

[[row]]
name = "taught"
distil = ["data/models/en-de"]

[[row]]
name = "timed"
program = "rival"
minutes = 36
options = ["--noise", "0.1"]
"""


def test_corpora_are_mixed_by_weight(tmp_path: Path) -> None:
    """Files and the translations of teachers are mixed; seeds share the translations of their own teacher. A
    row is selected with all its seeds.
    """
    (tmp_path / "mixed.toml").write_text(MIXED, encoding="utf-8")
    recipe = Recipe.from_file(tmp_path / "mixed.toml")
    assert recipe.select_rows(["teacher"]) == ["teacher@1", "teacher@2"] == recipe.select_rows([])[:2]
    assert recipe.select_rows(["timed@2", "teacher@1"]) == ["timed@2", "teacher@1"]
    with pytest.raises(BytenmtError, match="--row b: expected one of teacher, .*, or one seed as NAME@1"):
        recipe.select_rows(["b"])
    words = recipe.training_arguments("teacher@1", Path("c"), Path("r"))
    sides = ["--src", "c/a.src", "--src", "c/b.src", "--tgt", "c/a.tgt", "--tgt", "c/b.tgt"]
    assert words[2:] == [
        *sides,
        *("--valid-src", "c/a.src", "--valid-tgt", "c/a.tgt", "--weight", "1", "--weight", "2.5"),
        *("--arch", "luong", "--seed", "1"),
    ]
    words = recipe.training_arguments("student@2", Path("c"), Path("r"))
    pairs = ["r/distilled-teacher@2-1.tsv", "r/distilled-teacher@2-2.tsv"]
    assert [other for one, other in zip(words, words[1:], strict=False) if one == "--tsv"] == pairs
    assert "--src" not in words and words.count("--weight") == 2
    assert recipe.teachers("taught@2", tmp_path) == [REPOSITORY / "data/models/en-de"]
    words = [recipe.training_arguments(f"taught@{seed}", Path("c"), Path("r")) for seed in (1, 2)]
    assert all("r/distilled-en-de-1.tsv" in one for one in words)  # a run's translations serve all seeds


def test_minutes_become_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is timed once for all its seeds; without a timing it is not trained."""
    (tmp_path / "mixed.toml").write_text(MIXED, encoding="utf-8")
    recipe, folder = Recipe.from_file(tmp_path / "mixed.toml"), tmp_path / "out" / "mixed"
    assert recipe.training_arguments("timed@1", tmp_path, folder)[-2:] == ["--max-updates", "UPDATES"]
    with pytest.raises(BytenmtError, match="--time"):
        reproduce.train(recipe, "timed@2", tmp_path, folder, math.inf)
    commands: list[list[str]] = []

    def run(words: list[str], what: str, until: float) -> None:
        commands.append(words)
        run = Path(words[words.index("-o") + 1])
        run.mkdir(parents=True)
        found = [(50, 10.0, "train"), (100, 30.0, "train"), (150, 50.0, "train"), (150, 80.0, "valid")]
        lines = [json.dumps({"update": u, "seconds": s, f"{t}_bits_per_byte": 1}) for u, s, t in found]
        (run / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

    monkeypatch.setattr(reproduce, "_run_program", run)
    monkeypatch.setattr(reproduce, "_check_texts", lambda *parsed: None)  # no text is read
    args = argparse.Namespace(output=tmp_path / "out", corpora=tmp_path, row=[], time=5.0)
    reproduce.time_rows(recipe, args)
    (words,) = commands
    assert words[-4:] == ["--max-updates", "0", "--max-minutes", "5"]
    assert recipe.timed_rate("timed@2", folder) == 150.0  # of 100 updates in 40 seconds
    for row in ("timed@1", "timed@2"):
        assert recipe.training_arguments(row, tmp_path, folder)[-2:] == ["--max-updates", "5400"]


def test_a_curve_is_drawn_as_if_nothing_else_had_run() -> None:
    records = [
        {"update": 50, "seconds": 20.0, "train_bits_per_byte": 1.5},
        {"update": 60, "seconds": 25.0, "valid_bits_per_byte": 1.25},
        {"update": 90, "seconds": 70.0, "valid_bits_per_byte": 1.0},
    ]
    assert learning_curve(records, None) == [(25.0, 1.25), (70.0, 1.0)]
    assert learning_curve(records, 180.0) == [(20.0, 1.25), (30.0, 1.0)]


@pytest.mark.slow
def test_every_recipe_can_be_read() -> None:
    """And its settings are ones that there are; no two of its rows are the same training."""
    for path in FOLDER.glob("*.toml"):
        recipe = Recipe.from_file(path)
        assert set(recipe.test) in ({"src", "ref"}, {"text"})
        trainings: dict[str, str] = {}
        for row in recipe.row:
            if row.program == "bytenmt" and not row.ensemble:
                words = recipe.training_arguments(row.name, Path("corpora"), Path("results"))
                pairs = list(zip(words, words[1:], strict=False))
                parsed = dict(pairs)
                settings = [value for key, value in pairs if key == "--set"]
                settings += ["model.source=false"] if recipe.is_language_model else []
                if "--init-from" in parsed:  # which brings the model
                    parsed = {"--arch": "luong", "--preset": "small", **parsed}
                config = load_config(parsed["--arch"], parsed["--preset"], "", settings)
                others = [w for key, w in pairs if key not in ("--set", "-o") and not w.startswith("--set")]
                excerpt = f"{config} {sorted(set(others) - set(settings))}"
                assert trainings.setdefault(excerpt, row.name) == row.name
