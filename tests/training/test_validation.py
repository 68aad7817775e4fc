"""Validations: the weights whose translations are scored, and the time between them."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import CPU, assert_same, config, records, weights

from bytenmt.architectures.registry import build_model
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.decoding.translator import Translator
from bytenmt.training import run as training
from bytenmt.training.run import SHARE, train
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import TranslationObjective

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
    """A clock that only training work moves; a line is its own translation. spent: seconds of each kind."""

    def __init__(self, patch: pytest.MonkeyPatch, **costs: float) -> None:
        """costs: seconds of an update, a score and a translate."""
        self.spent = dict.fromkeys(("update", "score", "translate"), 0.0)
        classes: dict[str, type] = {"update": Trainer, "score": TranslationObjective, "translate": Translator}
        for name, cls in classes.items():
            patch.setattr(cls, name, self._timed(name, getattr(cls, name), costs[name]))
        patch.setattr(time, "monotonic", lambda: self.seconds)

    @property
    def seconds(self) -> float:
        return sum(self.spent.values())

    def _timed(self, name: str, method: Any, seconds: float) -> Any:
        def timed(*arguments: Any) -> Any:
            self.spent[name] += seconds
            return list(arguments[1]) if name == "translate" else method(*arguments)

        return timed


def test_validation_and_checkpoints_by_time(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a minute an update, at the first update that sees two more minutes, or three more, on the clock;
    how long a validation takes delays the next one and adds none. What
    is compiled before the first update does not count. The weights know nothing of it."""
    saved, save = list[int](), Trainer.save

    def save_and_record(self: Trainer, run: Path, best: bool, facts: Any) -> None:
        saved.extend([] if best else [self.progress.update])
        save(self, run, best, facts)

    common = ["train.schedule='constant'", "train.max_updates=8", "train.valid_lines=1"]
    common += ["train.metric=chrf", "train.lr=1e-9"]
    timed, plain = tmp_path / "timed", tmp_path / "plain"
    train(plain, config("luong", *common), **texts, device=CPU)
    assert [record["update"] for record in validations(plain)] == [4, 8]
    spent = FakeMachine(monkeypatch, update=60, score=200, translate=0).spent
    monkeypatch.setattr(training, "check_program", lambda *_: spent.update(compilation=900.0))
    monkeypatch.setattr(Trainer, "save", save_and_record)
    often = ["train.valid_every=4m", "train.save_every='3m'"]
    train(timed, config("luong", *common, *often), **texts, device=CPU)
    assert [record["update"] for record in validations(timed)] == [5, 8]
    assert saved == [4, 6, 7, 8], "the clock stands at 180, 300 + 200, 560 and 620 seconds there"
    assert_same(weights(timed), weights(plain))


BUSY = ["train.max_updates=0", "train.max_minutes=20", "train.valid_every=auto", "train.save_every=auto"]
BUSY += ["train.log_every=20", "train.valid_lines=5"]


def test_a_limit_of_time_spaces_validations_by_it(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scoring and decoding take together at most about a twentieth of the time."""
    machine = FakeMachine(monkeypatch, update=20, score=7.5, translate=0.5)
    train(tmp_path / "run", config("convs2s", *BUSY), **texts, device=CPU)
    found = validations(tmp_path / "run")
    assert [record["valid_lines"] for record in found] == [5] * len(found)
    assert machine.spent["score"] + machine.spent["translate"] <= SHARE * machine.seconds + 8
    assert 5 <= len(found) <= 8, "from 2 minutes to 20, with 8 / SHARE seconds between them"
    assert found[0]["seconds"] == pytest.approx(120, abs=30)
