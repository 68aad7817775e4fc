"""A program with a training loop of its own: its progress, and how `bytenmt.train` goes on with its run."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from small_runs import CPU, assert_same, config, weights

import bytenmt
from bytenmt.config.facts import Facts
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import TranslationObjective

SETTINGS = ("train.schedule=linear", "train.max_epochs=2", "train.warmup_updates=1", "train.max_updates=0")


def own_loop(texts: dict[str, Any], n_updates: int) -> tuple[Trainer, TranslationObjective]:
    """Train as the guide does."""
    settings = config("luong", *SETTINGS)
    train, valid = (ParallelCorpus.open_all(files) for files in (texts["files"], [texts["valid"]]))
    objective = TranslationObjective(settings, train, valid, texts["files"], valid_files=texts["valid"])
    trainer = Trainer(settings, CPU, objective=objective)
    trainer.model.train()
    for share in islice(objective.shares(epoch=0, batch=0), n_updates):
        trainer.learn([share])
    return trainer, objective


def test_it_trains_as_the_command_and_can_be_resumed(texts: dict[str, Any], tmp_path: Path) -> None:
    """A schedule by epochs falls in it, and the weights are those of a run without a break."""
    whole, own = tmp_path / "whole", tmp_path / "own"
    train(whole, config("luong", *SETTINGS), **texts, device=CPU)
    trainer, objective = own_loop(texts, 3)
    assert trainer.progress.batch == 3 and trainer.progress.epoch_batches > 3
    assert trainer.progress.seconds > 0 < trainer.progress.cpu_seconds
    assert trainer.optimizer.param_groups[0]["lr"] < 0.95 * trainer.config.train.lr
    trainer.save(own, best=True, facts=objective.facts())
    bytenmt.train(own, resume=True, threads=1)
    assert_same(weights(whole), weights(own))


@pytest.mark.slow
def test_a_run_without_facts_is_resumed_with_its_files(texts: dict[str, Any], tmp_path: Path) -> None:
    """Nothing is said of another text."""
    trainer, _ = own_loop(texts, 2)
    trainer.save(tmp_path / "run", best=True)
    outcome = train(tmp_path / "run", config("luong", *SETTINGS), **texts, device=CPU, resume=True)
    assert outcome.update > 2
    trainer.save(tmp_path / "other", facts=Facts(pairs=3))
    with pytest.raises(bytenmt.BytenmtError, match="3 pairs.*now"):
        train(tmp_path / "other", config("luong", *SETTINGS), **texts, device=CPU, resume=True)
