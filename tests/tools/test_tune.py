"""The tuner: how each program that it tunes is called, and what it reads of a run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("optuna", reason="the extra [tune] is not installed")

from tools import tune  # noqa: E402
from tools.rival.recipe import CHOICES, Recipe  # noqa: E402


@pytest.mark.parametrize(
    ("program", "key", "words"),
    [
        ("bytenmt", "train.lr", "-m bytenmt train --src x --set train.valid_lines=0 --set train.lr=0.004"),
        ("rival", "lr", "rival/train.py --src x --valid-every 1000000 --lr 0.004"),
    ],
)
def test_a_program_is_called_with_its_own_words(
    program: str, key: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        called.append(command)
        folder = Path(command[command.index("-o") + 1])
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text(json.dumps({"update": 7, "valid_bits_per_byte": 1.5}) + "\n")
        (folder / "best.safetensors").touch()
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    training = tune.Training(tmp_path, tune.PROGRAMS[program], ["--src", "x"], 1)
    for _ in range(2):  # done once
        found = training.run({key: "0.004"}, 0.5)
        assert (found.bits, found.updates) == (1.5, 7)
    (command,) = called
    line = " ".join(command)
    assert all(word in line for word in words.split())
    assert line.endswith(f"{key}=0.004" if program == "bytenmt" else f"--{key} 0.004")
    assert "--max-minutes 0.5" in line and "--max-updates 0" in line
    assert not list(tmp_path.glob("runs/*/*.safetensors"))


@pytest.mark.parametrize("program", tune.PROGRAMS)
def test_what_is_varied_can_be_read(program: str) -> None:
    ranges = [tune.Range.parse(text) for text in tune.PROGRAMS[program].varied]
    assert all(one.choices or 0 < one.low < one.high for one in ranges)


def test_what_is_varied_of_the_rival_are_its_options() -> None:
    defaults = Recipe()._asdict()
    for one in map(tune.Range.parse, tune.PROGRAMS["rival"].varied):
        name = one.key.replace("-", "_")
        for value in one.choices or (str(one.low), str(one.high)):
            assert type(defaults[name])(value) in CHOICES.get(name, [type(defaults[name])(value)])


def test_trials_of_ones_own_come_after_the_preset(tmp_path: Path) -> None:
    """One that leaves a key out has it drawn; a value that is not varied is refused."""
    ranges = [tune.Range.parse(text) for text in ("lr=1e-3..1e-2", "size=1|2")]
    seen: list[dict[str, str]] = []

    class FakeTraining(tune.Training):
        def run(self, settings: Mapping[str, str], minutes: float) -> tune.RungResult:
            seen.append(dict(settings))
            return tune.RungResult(1.0, 1, 60.0)

    first = [tune.parse_settings("lr=5e-3,size=2", ranges), tune.parse_settings("size=1", ranges)]
    training = FakeTraining(tmp_path, tune.PROGRAMS["bytenmt"], [], 1)
    tune.tune(tmp_path, training, ranges, [1.0], 4.0, 1, first)
    assert seen[:2] == [{}, {"lr": "0.005", "size": "2"}] and seen[2]["size"] == "1"
    assert 1e-3 <= float(seen[2]["lr"]) <= 1e-2 and len(seen) == 4
    for wrong in ("size=3", "depth=1"):
        with pytest.raises(ValueError, match="--try"):
            tune.parse_settings(wrong, ranges)
