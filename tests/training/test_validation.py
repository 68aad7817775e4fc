"""The translations of a validation: their weights, and no more time than there is for them."""

import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from heard import Heard
from small_runs import CPU, assert_same, config, records, weights

from bytenmt.architectures.registry import build_model
from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.decoding.translator import Translator
from bytenmt.training import run as training
from bytenmt.training import translation
from bytenmt.training.run import ALWAYS, SHARE, train
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import TranslationObjective

pytestmark = pytest.mark.slow


def test_as_many_lines_as_there_is_time_for(texts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are decoded with the live weights, some together, until the time is used; what is decoded is what
    all lines would have given."""
    monkeypatch.setitem(translation.LINES_TOGETHER, "cpu", 2)
    torch.manual_seed(1)
    settings = config("luong", "train.valid_lines=5")
    model = build_model(settings.model).eval()
    corpus = ParallelCorpus.open_all([texts["valid"]])
    objective = TranslationObjective(settings, corpus, corpus)
    lines = [corpus.source(i) for i in range(5)]
    for _ in range(2):
        expected = Translator.from_runtime(runtime_from_models([model], CPU)).translate(lines)
        assert objective._translate(model, lines, math.inf) == [text.decode() for text in expected]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(-3)
    every = objective._translate(model, lines, math.inf)
    clock, translate = [0.0], Translator.translate

    def ticking(self: Translator, lines: Any) -> Any:
        clock[0] += 1.0
        return translate(self, lines)

    monkeypatch.setattr(Translator, "translate", ticking)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for seconds, n_lines in ((0.0, 0), (0.5, 2), (1.5, 4), (2.5, 5), (math.inf, 5)):
        decoded = objective.decode(model, seconds)
        assert (decoded["valid_lines"], decoded.get("lines_left_out", 0)) == (n_lines, 5 - n_lines)
        samples = decoded.get("samples", [])
        assert [one["translation"] for one in samples] == every[: min(n_lines, translation.N_SAMPLES)]
        assert ("valid_chrf" in decoded) == bool(n_lines)


def validations(run: Path) -> list[dict[str, Any]]:
    return [record for record in records(run) if "valid_bits_per_byte" in record]


class FakeMachine:
    """A clock that only training work moves; a line is its own translation. spent: seconds of each kind."""

    def __init__(self, patch: pytest.MonkeyPatch, **costs: float) -> None:
        """costs: seconds of an update (20 if not given), a score and a translate."""
        self.spent = dict.fromkeys(("update", "score", "translate"), 0.0)
        classes: dict[str, type] = {"update": Trainer, "score": TranslationObjective, "translate": Translator}
        for name, cls in classes.items():
            patch.setattr(cls, name, self._timed(name, getattr(cls, name), ({"update": 20.0} | costs)[name]))
        patch.setattr(time, "monotonic", lambda: self.seconds)

    @property
    def seconds(self) -> float:
        return sum(self.spent.values())

    def _timed(self, name: str, method: Any, seconds: float) -> Any:
        def timed(*arguments: Any) -> Any:
            self.spent[name] += seconds
            return list(arguments[1]) if name == "translate" else method(*arguments)

        return timed


def test_a_run_never_spends_more(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once two validations have used the time budget, later ones decode nothing and say so until there is
    time again, except the last; chrF that selects the best checkpoint always covers all lines."""
    FakeMachine(monkeypatch, update=1, score=0, translate=750)
    monkeypatch.setattr(training, "ALWAYS", 1000.0)
    settings = ["train.valid_every=1", "train.max_updates=4", "train.valid_lines=5"]
    heard = Heard()
    train(tmp_path / "run", config("luong", *settings), **texts, device=CPU, reporter=heard)
    assert [record["valid_lines"] for record in validations(tmp_path / "run")] == [5, 5, 0, 5]
    assert sum("(no time to decode 5 lines)" in line for line in heard.lines) == 1
    train(tmp_path / "chrf", config("luong", *settings, "train.metric=chrf"), **texts, device=CPU)
    assert [record["valid_lines"] for record in validations(tmp_path / "chrf")] == [5] * 4


def test_validation_and_checkpoints_by_time(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a minute an update, at the first update that sees two more minutes, or three more, on the clock;
    how long a validation takes delays the next one and adds none. The weights know nothing of it."""
    saved, save = list[int](), Trainer.save

    def save_and_record(self: Trainer, run: Path, best: bool, facts: Any) -> None:
        saved.extend([] if best else [self.progress.update])
        save(self, run, best, facts)

    common = ["train.schedule='constant'", "train.max_updates=8", "train.valid_lines=1"]
    common += ["train.metric=chrf", "train.lr=1e-9"]
    timed, plain = tmp_path / "timed", tmp_path / "plain"
    train(plain, config("luong", *common), **texts, device=CPU)
    assert [record["update"] for record in validations(plain)] == [4, 8]
    FakeMachine(monkeypatch, update=60, score=200, translate=0)
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
    """Scoring and decoding each take at most about a twentieth of the time, and lines are decoded at every
    validation."""
    monkeypatch.setattr(training, "ALWAYS", ALWAYS)
    machine = FakeMachine(monkeypatch, score=8.0, translate=0.5)
    train(tmp_path / "run", config("convs2s", *BUSY), **texts, device=CPU)
    found = validations(tmp_path / "run")
    assert [record["valid_lines"] for record in found] == [5] * len(found)
    assert machine.spent["score"] <= SHARE * machine.seconds + 8
    assert 5 <= len(found) <= 8, "from 2 minutes to 20, with 8 / SHARE seconds between them"
    assert machine.spent["translate"] <= SHARE * machine.seconds + 1.0
    assert found[0]["seconds"] == pytest.approx(120, abs=30)


@pytest.mark.parametrize("more", [[], ["train.patience=2", "train.valid_every=8"]])
def test_the_last_validation_decodes(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    """Whatever decoding costs, and whether the run is ended by its limit or by patience."""
    monkeypatch.setattr(training, "ALWAYS", 0.0)
    FakeMachine(monkeypatch, score=8.0, translate=200.0)
    train(tmp_path / "run", config("convs2s", *BUSY, *more), **texts, device=CPU)
    found = validations(tmp_path / "run")
    assert found[-1]["valid_lines"] == 5 and "valid_chrf" in found[-1]


def test_translations_to_read(tmp_path: Path) -> None:
    """Every validation logs the same three lines once, also after resumptions."""
    lines = ["one", "둘", "x" * 40, "four", "five", "six", "seven"]
    file, run = tmp_path / "text", tmp_path / "run"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    pair = PairFiles(file, file)
    settings = ["train.valid_every=2", "train.save_every=2", "train.valid_lines=7", "train.max_tokens=900"]
    for most in (3, 7):
        limited = config("convs2s", *settings, f"train.max_updates={most}", "train.schedule='constant'")
        train(run, limited, files=[pair], valid=pair, device=CPU, resume=most > 3)
    found = {record["update"]: record["samples"] for record in validations(run)}
    assert list(found) == [2, 3, 4, 6, 7]
    for samples in found.values():
        assert [one["source"] for one in samples] == [one["reference"] for one in samples] == lines[:3]
