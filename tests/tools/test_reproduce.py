"""A table made again: trained, stopped, resumed, decoded, scored; missing rows are named."""

import argparse
import json
import math
from pathlib import Path

import command_server
import pytest

from bytenmt.config.schema import load_config
from bytenmt.errors import BytenmtError
from tools import reproduce
from tools.results import scoring
from tools.results.recipe import FOLDER, REPOSITORY, Recipe

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
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    (tmp_path / "a.src").write_text("ab\ncde\n" * 6, encoding="utf-8")
    (tmp_path / "a.tgt").write_text("ba\nedc\n" * 6, encoding="utf-8")
    (tmp_path / "tiny.toml").write_text(RECIPE, encoding="utf-8")
    return Recipe.from_file(tmp_path / "tiny.toml")


def parsed(folder: Path, *rows: str) -> argparse.Namespace:
    output = folder / "out"
    return argparse.Namespace(output=output, corpora=folder, row=list(rows), minutes=math.inf)


@pytest.mark.slow
def test_rows_are_trained_scored_and_told(
    recipe: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An ensemble's members are done before it, and nothing is done twice. A student's text is what
    its teacher says. A row that was stopped is named; those that were asked for are printed. The
    dozen commands are answered by a warmed process."""
    folder = tmp_path / "out" / "tiny"
    (folder / "student" / "run").mkdir(parents=True)
    (folder / "student" / "run" / "metrics.jsonl").write_text('{"update": 1250}\n{"upd', "utf-8")
    with command_server.serving(tmp_path) as program:
        for module in (reproduce, scoring):
            monkeypatch.setattr(module, "PROGRAM", [str(program)])
        assert not reproduce.make(recipe, parsed(tmp_path, "both"))
        before = (folder / "short" / "row.json").stat().st_mtime_ns
        capsys.readouterr()
        reproduce.make(recipe, parsed(tmp_path, "short"))
        printed = capsys.readouterr().out
        assert (folder / "short" / "row.json").stat().st_mtime_ns == before
        reproduce._distil(recipe, "student", tmp_path, folder, until=math.inf)
    pairs = (folder / "distilled-short.tsv").read_text(encoding="utf-8").splitlines()
    assert pairs and {pair.split("\t")[0] for pair in pairs} <= {"ab", "cde"}
    assert "ab\tba" not in pairs  # three updates are not enough to know it
    rows = ("short", "other", "both")
    found = {row: json.loads((folder / row / "row.json").read_text()) for row in rows}
    assert found["short"]["updates"] == 3 and found["short"]["seconds"] > 0
    assert found["both"]["updates"] == 5
    assert (folder / "short" / "test.hyp").read_text(encoding="utf-8").count("\n") == 12
    for one in found.values():
        assert 0 <= one["scores"]["chrf"]["score"] <= 100
        assert "13a" in one["scores"]["bleu"]["signature"]
        assert list(one["measured"]["chrf_by_noise"]) == ["0", "0.05", "0.1", "0.2"]
        assert set(one["measured"]["text_bytes_per_second_by_batch"]) == {"1", "32"}
    sizes = [found[row]["measured"]["megabytes"] for row in rows]
    assert sizes[2] == pytest.approx(sizes[0] + sizes[1])
    excerpt = (folder / "table.md").read_text(encoding="utf-8")
    assert f"{found['both']['scores']['chrf']['score']:.2f}" in excerpt
    assert "| short |" in printed and "long" not in printed and "other" not in printed
    assert "| student | 1,250 updates, stopped |" in excerpt
    assert f"--src {tmp_path}/a.src" in excerpt
    assert all(one in excerpt for one in ("| long | not run", "--max-updates 30000", "too long"))
    assert f"--init-from {folder / 'short' / 'run'}" in excerpt and f"--tsv {folder}" in excerpt
    assert (folder / "curves.png").stat().st_size > 1000


WRONG = [
    ('ensemble = ["short"', 'ensemble = ["long"', "both needs long, which does not stand above"),
    ('title = "A tiny table"', "titel = 1", "titel"),
    ("[[row]]", "[[row", "tiny.toml"),
]


@pytest.mark.parametrize(("old", "new", "excerpt"), WRONG)
def test_a_wrong_recipe_is_one_line(tmp_path: Path, old: str, new: str, excerpt: str) -> None:
    assert old in RECIPE
    (tmp_path / "tiny.toml").write_text(RECIPE.replace(old, new), encoding="utf-8")
    with pytest.raises(BytenmtError, match=excerpt):
        Recipe.from_file(tmp_path / "tiny.toml")


MIXED = """
title = "Mixed"
weights = [1, 2.5]
texts.src = ["a.src", "b.src"]
texts.tgt = ["a.tgt", "b.tgt"]
texts.valid-src = "a.src"
texts.valid-tgt = "a.tgt"
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
    """Files and the translations of teachers are mixed; seeds share their teacher's translations. A
    row is selected with all its seeds."""
    (tmp_path / "mixed.toml").write_text(MIXED, encoding="utf-8")
    recipe = Recipe.from_file(tmp_path / "mixed.toml")
    assert (
        recipe.select_rows(["teacher"]) == recipe.select_rows([])[:2] == ["teacher@1", "teacher@2"]
    )
    assert recipe.select_rows(["timed@2", "teacher@1"]) == ["timed@2", "teacher@1"]
    message = "--row b: expected one of teacher, .*, or one seed as NAME@1"
    with pytest.raises(BytenmtError, match=message):
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
    for seed in (1, 2):  # a run's translations serve all seeds
        words = recipe.training_arguments(f"taught@{seed}", Path("c"), Path("r"))
        assert "r/distilled-en-de-1.tsv" in words


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
                config = load_config(parsed["--arch"], parsed["--preset"], settings)
                others = {word for key, word in pairs if key not in ("--set", "-o")}
                excerpt = f"{config} {sorted(others - {'--set'} - set(settings))}"
                assert trainings.setdefault(excerpt, row.name) == row.name
