"""Validations: the weights whose translations are scored, and the time between them."""

import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from small_runs import CPU, assert_same, config, records, weights, write_pairs

from bytenmt.architectures.registry import build_model
from bytenmt.checkpoints.checkpoint import load_checkpoint
from bytenmt.checkpoints.weights import read_run
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.errors import BytenmtError
from bytenmt.plugins import METRICS, Metric
from bytenmt.training import loop as training
from bytenmt.training.arguments import texts_of_run
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import TranslationObjective
from bytenmt.translation.translator import Translator

pytestmark = pytest.mark.slow


def test_lines_are_decoded_with_the_live_weights(texts: dict[str, Any]) -> None:
    torch.manual_seed(1)
    settings = config("luong", "train.valid_lines=5")
    model = build_model(settings.model).eval()
    corpus = ParallelCorpus.open_all([texts["valid"]])
    objective = TranslationObjective(settings, corpus, corpus)
    lines = [corpus.source(i) for i in range(5)]
    for _ in range(2):
        expected = Translator.from_runtime(runtime_from_models([model], CPU)).translate(lines)
        decoded = objective.decode(model)
        assert decoded["valid_lines"] == 5 and decoded["valid_chrf"] >= 0
        for k, one in enumerate(decoded["samples"]):
            pair = {"source": corpus.source(k).decode(), "reference": corpus.target(k).decode()}
            assert one == pair | {"translation": expected[k].decode()}
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(-3)


def validations(run: Path) -> list[dict[str, Any]]:
    return [record for record in records(run) if "valid_bits_per_byte" in record]


class FakeMachine:
    """A clock that only training work moves; a line is its own translation. spent: seconds of each
    kind."""

    def __init__(self, patch: pytest.MonkeyPatch, **costs: float) -> None:
        """costs: seconds of an update and a score; a translation takes none."""
        self.spent = dict.fromkeys(("update", "score", "translate"), 0.0)
        classes = (Trainer, TranslationObjective, Translator)
        for cls, name in zip(classes, self.spent, strict=True):
            patch.setattr(cls, name, self._timed(name, getattr(cls, name), costs.get(name, 0.0)))
        patch.setattr(time, "monotonic", lambda: sum(self.spent.values()))

    def _timed(self, name: str, method: Any, seconds: float) -> Any:
        def timed(*arguments: Any) -> Any:
            self.spent[name] += seconds
            return list(arguments[1]) if name == "translate" else method(*arguments)

        return timed


def test_a_limit_of_time_is_that_of_the_training(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Validations count, and what is compiled before the first update does not. The weights and the
    updates of validations know nothing of the clock."""
    common = "train.schedule=constant train.valid_lines=1 train.metric=chrf train.lr=1e-9"
    timed, plain = tmp_path / "timed", tmp_path / "plain"
    train(plain, config("luong", common, "train.max_updates=7"), **texts, device=CPU)
    spent = FakeMachine(monkeypatch, update=60, score=200).spent
    monkeypatch.setattr(training, "check_program", lambda *_: spent.update(compilation=900.0))
    limits = "train.max_updates=0 train.max_minutes=9"
    train(timed, config("luong", common, limits), **texts, device=CPU)
    assert [record["update"] for record in validations(timed)] == [4, 7]
    assert [record["update"] for record in validations(plain)] == [4, 7]
    assert_same(weights(timed), weights(plain))


@pytest.mark.parametrize(
    ("metric", "values", "best_update"),
    [
        ("bits_per_byte", [3.0, 1.0, 2.0], 2),
        ("chrf", [10.0, 40.0, 20.0], 2),
        ("exact_match", [0.0, 50.0, 25.0], 2),
        ("bleu", [5.0, 4.0, 3.0], 1),
        ("length", [5.0, 4.0, 9.0], 2),
    ],
)
def test_the_best_by_each_metric_is_kept(
    metric: str,
    values: list[float],
    best_update: int,
    texts: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Higher is better, or lower, as the metric says; also one of a plugin, of which lower is."""
    scores = Mock(side_effect=[{f"valid_{metric}": value} for value in values])
    monkeypatch.setitem(METRICS, "length", Metric("length", False, lambda *_: [0.0]))
    monkeypatch.setattr(TranslationObjective, "score", scores)
    monkeypatch.setattr(TranslationObjective, "decode", lambda *_: {})
    settings = f"train.metric={metric} train.valid_every=1 train.max_updates=3 train.valid_lines=1"
    train(tmp_path, config("luong", settings), **texts, device=CPU)
    assert read_run(tmp_path)[1].facts.update == best_update
    progress = load_checkpoint(tmp_path).facts.progress
    assert progress is not None and progress.best == values[best_update - 1]


def test_a_metric_of_a_plugin_is_logged(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the sources, the translations and the references of the validation lines."""
    corpus = ParallelCorpus.open_all([texts["valid"]])

    def n_source_characters(sources: Any, translations: Any, references: Any) -> list[float]:
        assert [*references] == [corpus.target(k).decode() for k in range(2)]
        return [float(len(source)) for source in sources]

    monkeypatch.setitem(METRICS, "characters", Metric("characters", True, n_source_characters))
    settings = ["train.metric=characters", "train.valid_lines=2", "train.max_updates=1"]
    train(tmp_path, config("luong", *settings), **texts, device=CPU)
    expected = sum(len(corpus.source(k).decode()) for k in range(2)) / 2
    assert validations(tmp_path)[-1]["valid_characters"] == expected


class Failure(Exception):
    """The failure of a plugin."""


@pytest.mark.parametrize("n_updates", [4, 6])
def test_a_validation_that_fails_loses_nothing(
    n_updates: int, texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint comes first, and the resumed run validates before it goes on: weights and log
    are those of a run in one go, also where the last validation fails."""
    settings = ["train.valid_every=2", "train.save_every=100", "train.ema=0.9"]
    limits = config("luong", *settings, "train.max_updates=6")
    whole, failed = tmp_path / "whole", tmp_path / "failed"
    train(whole, limits, **texts, device=CPU)
    score = TranslationObjective.score

    def fails_once(self: TranslationObjective, model: Any) -> Any:
        if load_checkpoint(failed).update == n_updates:
            raise Failure
        return score(self, model)

    with monkeypatch.context() as patch:
        patch.setattr(TranslationObjective, "score", fails_once)
        with pytest.raises(Failure):
            train(failed, limits, **texts, device=CPU)
    assert load_checkpoint(failed).update == n_updates
    assert validations(failed)[-1]["update"] == n_updates - 2
    train(failed, limits, **texts, device=CPU, resume=True)
    assert_same(weights(whole), weights(failed))
    assert read_run(whole)[1].facts.update == read_run(failed)[1].facts.update
    known = ("update", "valid_bits_per_byte", "train_bits_per_byte", "lr")
    for one, other in zip(records(whole), records(failed), strict=True):
        assert {key: one.get(key) for key in known} == {key: other.get(key) for key in known}


def test_a_metric_of_a_plugin_that_fails_is_one_line(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Mock(side_effect=Failure("no\nmodel"))
    monkeypatch.setitem(METRICS, "broken", Metric("broken", True, failing))
    settings = config("luong", "train.valid_lines=1 train.max_updates=2 train.valid_every=1")
    message = "^metric broken: Failure: no model: correct the plugin$"
    with pytest.raises(BytenmtError, match=message):
        train(tmp_path, settings, **texts, device=CPU)
    assert load_checkpoint(tmp_path).update == 1
    monkeypatch.delitem(METRICS, "broken")
    train(tmp_path, settings, **texts, device=CPU, resume=True)
    assert [record["update"] for record in validations(tmp_path)] == [1, 2]


def test_several_texts_choose_together(texts: dict[str, Any], tmp_path: Path) -> None:
    """A value is the mean of those of each text alone, and a resumed run knows all texts."""
    other = write_pairs(tmp_path, n_valid=7, n_words=2)["valid"]
    settings = config("luong", "train.valid_lines=3", "train.max_updates=1")
    values = []
    for name, valid in (("one", [texts["valid"]]), ("other", [other])):
        train(tmp_path / name, settings, files=texts["files"], valid=valid[0], device=CPU)
        values.append(validations(tmp_path / name)[-1])
    run = tmp_path / "both"
    both = {"files": texts["files"], "valid": texts["valid"], "more_valid": [other]}
    train(run, settings, **both, device=CPU)
    record = validations(run)[-1]
    for name in ("valid_bits_per_byte", "valid_chrf"):
        of_texts = [one[name] for one in values]
        assert record[f"{name}_of_texts"] == pytest.approx(of_texts)
        assert record[name] == pytest.approx(sum(of_texts) / 2)
    assert record["valid_lines"] == 6
    assert texts_of_run(run) == (texts["files"], [texts["valid"], other])
    assert read_run(run)[1].facts.without_folders().more_valid == ()
