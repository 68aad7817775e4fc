"""evaluation.comparison: models that differ in their seeds alone, pooled or not."""

from pathlib import Path
from typing import Any

import pytest
from small_runs import CPU, config, write_pairs

from bytenmt.checkpoints.facts import Facts, Progress
from bytenmt.checkpoints.weights import read_run
from bytenmt.config.schema import load_config
from bytenmt.data.pair_files import PairFiles
from bytenmt.evaluation.comparison import (
    System,
    Training,
    summarise_seeds,
    table,
    to_dict,
    with_significance,
)
from bytenmt.evaluation.scores import text_metrics
from bytenmt.training.run import train

FILES = PairFiles(Path("/a/train.ko"), Path("/a/train.en"))
TABLE = PairFiles(tsv=Path("t.tsv"), weight=2.0)
OTHER_TEXT = "other training text: a train.ko and train.en (30 and 40 bytes);"


def model(
    name: str,
    *settings: str,
    value: float = 1.0,
    update: int = 20_000,
    waited: int = 0,
    **facts: Any,
) -> System:
    """A model that was trained to the end, on FILES of 30 and 40 bytes, unless they are given."""
    settings_of_run = load_config("luong", "tiny", [*settings, "train.patience=3"])
    text: dict[str, Any] = {"corpora": (FILES,), "source_bytes": 30, "target_bytes": 40}
    recorded = Facts(progress=Progress(update=update, waited=waited), **text | facts)
    training = Training.from_model(Path("missing"), settings_of_run, recorded)
    return System(name, [], {"chrf": value}, training=training)


def test_seeds_have_a_mean_and_a_standard_deviation() -> None:
    """Runs with the same settings but for the seed are summarised, wherever their files lie; other
    settings and a second run of the same seed are not."""
    moved = PairFiles(Path("/b/train.ko"), Path("/b/train.en"))
    models = [
        model("a", "train.seed=1", value=1.0),
        model("b", "train.seed=2", value=3.0, corpora=(moved,)),
        model("c", "train.lr=0.1", value=9.0),
        model("again", "train.seed=1", value=9.0),
    ]
    [summary] = summarise_seeds(models)
    assert summary.names == ["a", "b"]
    assert [*summary.means["chrf"]] == pytest.approx([2.0, 2**0.5])
    assert str(summary) == "2 seeds (a, b): chrf 2 ± 1.4"
    assert summary.to_dict()["chrf"]["mean"] == 2.0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"target_bytes": 41}, f"{OTHER_TEXT} b train.ko and train.en (30 and 41 bytes)"),
        ({"corpora": (TABLE,)}, f"{OTHER_TEXT} b t.tsv x 2 (30 and 40 bytes)"),
        ({"corpora": ()}, f"{OTHER_TEXT} b not recorded"),
        ({"update": 12_000}, "another end: a trained to the end; b stopped at update 12,000"),
        ({"update": 9_000, "waited": 3}, "another end: a trained to the end; b stopped early"),
    ],
)
def test_other_text_or_another_end_is_not_pooled(changes: Any, reason: str) -> None:
    [summary] = summarise_seeds([model("a", "train.seed=1"), model("b", "train.seed=2", **changes)])
    assert summary.means == {} and summary.reason == reason
    assert str(summary) == f"seeds not pooled (a, b): {summary.reason}"
    assert summary.to_dict() == {"systems": ["a", "b"], "not_pooled": summary.reason}


def test_early_stopping_is_the_same_end() -> None:
    ends = (("train.seed=1", 500), ("train.seed=2", 900))
    stopped = [model("a", seed, update=update, waited=3) for seed, update in ends]
    assert summarise_seeds(stopped)[0].reason == ""


def test_minutes_are_an_end_at_the_same_update_alone() -> None:
    limits = ["train.max_updates=0", "train.max_minutes=1"]
    same, other = model("b", "train.seed=2", *limits), model("c", "train.seed=3", *limits, update=9)
    first = model("a", "train.seed=1", *limits)
    assert summarise_seeds([first, same])[0].reason == ""
    assert "stopped at update 9" in summarise_seeds([first, other])[0].reason


@pytest.mark.slow
def test_a_run_folder_tells_the_end_of_its_training(tmp_path: Path) -> None:
    """The best weights are those of an earlier update."""
    texts = write_pairs(tmp_path, n=8, n_words=2)
    systems = []
    for seed, n_updates in ((1, 4), (2, 4), (3, 2)):
        run = tmp_path / f"run{seed}"
        settings = config("luong", f"train.seed={seed} train.max_updates=4 train.valid_every=1")
        shorter = config("luong", f"train.seed={seed} train.max_updates={n_updates}")
        train(run, shorter, **texts, device=CPU)
        training = Training.from_model(run, settings, read_run(run)[1].facts)
        values = dict.fromkeys(text_metrics(), 1.0)
        systems.append(System(run.name, ["a"], values, training=training))
    pooled = with_significance(systems[:2], [], ["a"])
    assert any(line.startswith("2 seeds (run1, run2): chrf 1 ± 0") for line in table(pooled))
    seeds = to_dict(systems)["seeds"]
    assert seeds[0]["not_pooled"].endswith("run3 stopped at update 2")
