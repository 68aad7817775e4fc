"""Runs beside each other: p is small where they differ and large where not; curves of what is whole."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from bytenmt.evaluation.comparison import (
    N_SAMPLES,
    Scored,
    curves,
    over_seeds,
    paired_bootstrap,
    records,
    table,
    tree,
    with_significance,
)
from bytenmt.evaluation.scores import text_scores

REFERENCES = [f"the {i} cats sat on {i * 7 % 13} mats" for i in range(120)]


def scored(name: str, texts: list[str]) -> Scored:
    return Scored(name, "luong", 1000, 1.0, text_scores(texts, REFERENCES))


@pytest.mark.slow
def test_chance_is_told_from_skill() -> None:
    """Against the first run: one that is much worse, and one with as many mistakes elsewhere."""
    first = [line.replace("cats", "dogs") if i % 4 == 0 else line for i, line in enumerate(REFERENCES)]
    alike = [line.replace("cats", "dogs") if i % 4 == 1 else line for i, line in enumerate(REFERENCES)]
    worse = [line.replace("sat", "x") for line in REFERENCES]
    runs = [scored(name, texts) for name, texts in (("first", first), ("alike", alike), ("worse", worse))]
    found = with_significance(runs, [first, alike, worse], REFERENCES, "13a")
    assert (found[0].p_chrf, found[0].p_bleu) == (None, None)
    for p in (found[1].p_chrf, found[1].p_bleu):
        assert p is not None and p > 0.1
    for p in (found[2].p_chrf, found[2].p_bleu):
        assert p is not None and p < 0.01
    lines = list(table(found, len(REFERENCES)))
    assert [line.split()[0] for line in lines[1:4]] == ["first", "alike", "worse"]
    assert [line.count("*") for line in lines[:4]] == [0, 0, 0, 2] and "bootstrap" in lines[-1]


def test_seeds_have_a_mean_and_a_standard_deviation() -> None:
    """Runs with the same settings but for the seed are summarised; a single run is not."""
    texts = {"a": REFERENCES, "b": REFERENCES[:60] + ["x"] * 60, "c": REFERENCES[:30] + ["x"] * 90}
    runs = [
        scored(name, lines)._replace(settings="same" if name != "c" else "") for name, lines in texts.items()
    ]
    runs[1] = runs[1]._replace(bits_per_byte=3.0)
    [(names, scores)] = over_seeds(runs)
    assert names == ["a", "b"] and scores["bits_per_byte"] == (2.0, pytest.approx(2**0.5))
    assert scores["exact_match"] == (75.0, pytest.approx(50 / 2**0.5))
    assert tree(runs, 120)["seeds"][0]["exact_match"]["mean"] == 75.0
    assert any(line.startswith("2 seeds (a, b): bits_per_byte 2 ± 1.4") for line in table(runs, 120))


def test_metrics_of_plugins_have_a_column() -> None:
    """The table and the JSON have them."""
    runs = [scored(name, REFERENCES) for name in ("a", "b")]
    runs = [
        run._replace(scores=run.scores._replace(metrics={"length_ratio": ratio}))
        for run, ratio in zip(runs, (0.98765, 1.25), strict=True)
    ]
    head, *rows = [line.split() for line in list(table(runs, 120))[:3]]
    assert head[-1] == "length_ratio" and [row[-1] for row in rows] == ["0.9877", "1.25"]
    assert [run["length_ratio"] for run in tree(runs, 120)["runs"]] == [0.98765, 1.25]


def test_equal_runs_do_not_differ() -> None:
    """p is 1 where all translations are the same: a tie is as large as the observed difference."""
    lines = [line.replace("cats", "dogs") if i % 4 == 0 else line for i, line in enumerate(REFERENCES)]
    runs = [scored(name, lines) for name in ("one", "copy")]
    found = with_significance(runs, [lines, lines], REFERENCES, "13a")
    assert (found[1].p_chrf, found[1].p_bleu) == (1.0, 1.0)
    assert found[1].p_chrf == tree(found, len(lines))["runs"][1]["chrf_p"]
    assert "*" not in "\n".join(list(table(found, len(lines)))[:3])


@pytest.mark.slow
def test_without_ties_p_is_that_of_sacrebleu() -> None:
    """The oracle is sacreBLEU's own paired bootstrap of the same draws."""
    generator = random.Random(1)
    texts = [
        [line.replace("cats", "dogs") if generator.random() < share else line for line in REFERENCES]
        for share in (0.2, 0.25, 0.4)
    ]
    for name, metric in (("chrF", CHRF()), ("BLEU", BLEU())):
        named = [(str(i), lines) for i, lines in enumerate(texts)]
        _, results = PairedTest(named, {name: metric}, [REFERENCES], "bs", N_SAMPLES, n_jobs=1)()
        (found,) = (value for key, value in results.items() if key != "System")
        assert paired_bootstrap(metric, texts, REFERENCES) == [one.p_value for one in found[1:]]


def test_a_run_alone_is_compared_with_none() -> None:
    runs = with_significance([scored("a", REFERENCES)], [REFERENCES], REFERENCES, "13a")
    assert runs[0].p_bleu is None and "bootstrap" not in "\n".join(table(runs, 120))


@pytest.mark.slow
def test_curves_are_of_what_was_written(tmp_path: Path) -> None:
    """A panel for each thing that a run measured, a line for each run that did; half a line is left out."""
    pytest.importorskip("matplotlib")
    written = [
        {"update": 1, "seconds": 60.0, "train_bits_per_byte": 3.0},
        {"update": 2, "seconds": 120.0, "valid_bits_per_byte": 2.0, "valid_chrf": 10.0},
        {"update": 4, "seconds": 240.0, "valid_bits_per_byte": 1.0},
    ]
    text = "".join(json.dumps(record) + "\n" for record in written) + '{"update":5,"val'
    (tmp_path / "metrics.jsonl").write_text(text, encoding="utf-8")
    assert records(tmp_path) == written and records(tmp_path / "none") == []
    made = curves({"하나": records(tmp_path), "two": written[1:2]})
    assert [axes.get_xlabel() for axes in made.axes] == ["update", "minutes", "minutes"]
    by_update, by_time, chrf = made.axes
    assert by_update.lines[0].get_xydata().tolist() == [[2, 2.0], [4, 1.0]]
    assert by_time.lines[0].get_xydata().tolist() == [[2, 2.0], [4, 1.0]]  # minutes
    assert [len(axes.lines) for axes in (by_update, by_time, chrf)] == [3, 3, 2]
