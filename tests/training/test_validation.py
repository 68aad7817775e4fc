"""Test the translations of a validation: weights, engine and time."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from heard import Heard
from small_runs import CPU, config

from bytenmt.architectures.registry import build_model
from bytenmt.checkpoints.weights import METRICS
from bytenmt.data.corpus import PairFiles
from bytenmt.decoding.cpu import compilation
from bytenmt.decoding.cpu.compilation import compile_all
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.translator import Translator
from bytenmt.jit import KernelNotCached
from bytenmt.training import validation
from bytenmt.training.metrics import SAMPLES
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation_task import TranslationTask
from bytenmt.training.validation import ALWAYS, FEWEST, SHARE, LiveDecoder, seconds_left, steps

pytestmark = pytest.mark.slow

LINES = [b"one", b"two", b"three", b"four", "다섯".encode(), b"six"] * 4


def a_decoder(arch: str = "luong") -> LiveDecoder:
    """Make a decoder of a model with larger weights than the initial ones, so that its texts differ."""
    torch.manual_seed(1)
    settings = config(arch)
    model = build_model(settings.model).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return LiveDecoder(model, settings, CPU)


def ticking(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[int]:
    """A clock that only the steps of an engine move, so many seconds each; the steps of each chunk."""
    clock, calls = [0.0], list[int]()
    advance, make = validation._Timed.advance, validation._Timed.__init__

    def begin(self: Any, *arguments: Any) -> None:
        calls.append(0)
        make(self, *arguments)

    def step(self: Any, n_steps: int) -> None:
        advance(self, n_steps)
        clock[0] += seconds
        calls[-1] += 1

    monkeypatch.setattr(validation._Timed, "__init__", begin)
    monkeypatch.setattr(validation._Timed, "advance", step)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    return calls


@pytest.mark.parametrize("arch", ["luong", "bytenet"])
def test_the_live_weights_are_decoded(arch: str) -> None:
    """The CPU engine gives the texts of plain PyTorch, before and after the weights change."""
    compile_all(niceness=0)  # a training waits for no kernels: without them it decodes by PyTorch
    decoder = a_decoder(arch)
    texts = []
    for _ in range(2):
        expected = Translator.from_runtime(runtime_from_models([decoder._model], CPU)).translate(LINES)
        found, seconds = decoder.translate(LINES, math.inf)
        assert found == [text.decode() for text in expected] and seconds > 0
        texts.append(found)
        with torch.no_grad():
            for parameter in decoder._model.parameters():
                parameter.mul_(-1)
    assert texts[0] != texts[1]
    assert (
        decoder._runtime().engine_maker(Translator.from_runtime(decoder._runtime()).options).func
        is NumbaEngine
    )


def test_as_many_lines_as_there_are_seconds_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A half more is decoded only where it fits as well; what is given up in the middle counts for nothing,
    and what was found before is what all lines would have given."""
    decoder = a_decoder()
    every, _ = decoder.translate(LINES, math.inf)
    calls = ticking(monkeypatch, 1.0)
    found, seconds = decoder.translate(LINES, 1e9)
    assert found == every and len(calls) == len(steps(len(LINES), 0.0)) == 3
    assert seconds == sum(calls)
    for some, expected in ((calls[0] - 1.5, 0), (2 * calls[0] - 1.0, 6), (2 * (calls[0] + calls[1]) - 1, 12)):
        found, seconds = decoder.translate(LINES, some)
        assert found == every[:expected]
        assert seconds <= some + 1.0, "one step at most is too much"
    assert decoder.translate(LINES, 0.0) == ([], 0.0)
    assert decoder.translate(LINES, 0.0, at_least_some=True)[0] == every[:6]


def test_halves() -> None:
    assert steps(200, 5.0) == [6, 12, 25, 50, 100, 200]
    assert steps(FEWEST, 5.0) == [FEWEST] and steps(1, 5.0) == [1]
    assert steps(200, math.inf) == [200]


def test_without_kernels_pytorch_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a child compiles them, and where it fails; only what needs all lines waits for it."""
    expected, _ = a_decoder().translate(LINES, math.inf)
    waited = list[bool]()
    there = [False]

    def call_all(*_: Any) -> None:
        if not there[0]:
            raise KernelNotCached

    class Child:
        stdin = None

        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def poll(self) -> int | None:
            return 0 if waited else None

        def wait(self) -> None:
            waited.append(True)
            there[0] = True

        def kill(self) -> None:
            pass

    monkeypatch.setattr(compilation, "call_all", call_all)
    monkeypatch.setattr(compilation, "_children", {})
    monkeypatch.setattr(compilation.subprocess, "Popen", Child)
    decoder = a_decoder()
    options = Translator.from_runtime(decoder._runtime()).options
    assert decoder.translate(LINES, 1e9)[0] == expected and not waited
    assert decoder._runtime().engine_maker(options).func is TorchEngine
    assert decoder.translate(LINES, math.inf)[0] == expected and waited
    assert decoder._runtime().engine_maker(options).func is NumbaEngine
    decoder.stop()


def test_what_is_compiled_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels that the child compiles are all that a model needs."""
    called = list[Any]()
    monkeypatch.setattr(compilation, "call_all", lambda packed, source: called.append((packed, source)))
    monkeypatch.setattr("os.nice", lambda more: called.append(more))
    compilation.compile_all()
    (nicer, (packed, source)) = called
    assert nicer == compilation.NICENESS and len(packed) == 1 and source


def test_the_share_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds in any, one in twenty of a longer one."""
    monkeypatch.setattr(validation, "ALWAYS", ALWAYS)
    assert seconds_left(10, 0.5) == ALWAYS - 0.5
    assert seconds_left(1000, 45) == pytest.approx(SHARE * 1000 - 45)


def records(run: Path) -> list[dict[str, Any]]:
    every = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    return [record for record in every if "valid_bits_per_byte" in record]


def test_a_run_never_spends_more(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once two validations have used the time budget, later ones decode nothing and say so until there is
    time again, except the last; chrF that selects the best checkpoint always covers all lines.
    """
    seen = list[float]()
    translate = LiveDecoder.translate

    def dear(self: LiveDecoder, lines: Any, seconds: float, at_least_some: bool) -> Any:
        seen.append(seconds)
        found, _ = translate(self, lines, seconds, at_least_some)
        return found, 750.0 if found else 0.0

    monkeypatch.setattr(validation, "ALWAYS", 1000.0)
    monkeypatch.setattr(LiveDecoder, "translate", dear)
    settings = ["train.valid_every=1", "train.max_updates=4", "train.valid_lines=5"]
    heard = Heard()
    train(tmp_path / "run", config("luong", *settings), **texts, device=CPU, reporter=heard)
    assert [record["valid_lines"] for record in records(tmp_path / "run")] == [5, 5, 0, 5]
    assert ["valid_chrf" in record for record in records(tmp_path / "run")] == [True, True, False, True]
    assert sum("(0 of 5 lines decoded)" in line for line in heard.lines) == 1
    seen.clear()
    train(tmp_path / "chrf", config("luong", *settings, "train.metric=chrf"), **texts, device=CPU)
    assert [record["valid_lines"] for record in records(tmp_path / "chrf")] == [5] * 4
    assert seen == [math.inf] * 4


@dataclass
class FakeMachine:
    """A clock that only training work moves.

    An update takes 20 seconds, scoring the validation text `scoring`, a step of the decoder `step`.
    """

    patch: pytest.MonkeyPatch
    scoring: float
    step: float
    seconds: float = 0.0
    spent_scoring: float = 0.0
    spent_decoding: float = 0.0

    def __post_init__(self) -> None:
        self._costs(Trainer, "update", 20.0, "")
        self._costs(TranslationTask, "score", self.scoring, "spent_scoring")
        self._costs(validation._Timed, "advance", self.step, "spent_decoding")
        self.patch.setattr(time, "monotonic", lambda: self.seconds)

    def _costs(self, cls: type, name: str, seconds: float, account: str) -> None:
        method = getattr(cls, name)

        def timed(*arguments: Any) -> Any:
            self.seconds += seconds
            if account:
                setattr(self, account, getattr(self, account) + seconds)
            return method(*arguments)

        self.patch.setattr(cls, name, timed)


BUSY = [
    "train.max_updates=0",
    "train.max_minutes=20",
    "train.valid_every=auto",
    "train.save_every=auto",
    "train.log_every=20",
    "train.valid_lines=5",
]


def test_a_limit_of_time_spaces_validations_by_it(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scoring and decoding each take at most about a twentieth of the time, and lines are decoded at every
    validation."""
    monkeypatch.setattr(validation, "ALWAYS", ALWAYS)
    machine = FakeMachine(monkeypatch, scoring=8.0, step=0.01)
    train(tmp_path / "run", config("convs2s", *BUSY), **texts, device=CPU)
    found = records(tmp_path / "run")
    assert [record["valid_lines"] for record in found] == [5] * len(found)
    assert "valid_chrf" in found[-1]
    assert machine.spent_scoring <= SHARE * machine.seconds + machine.scoring
    assert 5 <= len(found) <= 8, "from 2 minutes to 20, with 8 / SHARE seconds between them"
    assert machine.spent_decoding <= SHARE * machine.seconds + 1.0
    assert found[0]["seconds"] == pytest.approx(120, abs=30)


@pytest.mark.parametrize(
    "settings",
    [BUSY, [*BUSY, "train.patience=2", "train.valid_every=8"], [*BUSY, "train.valid_every=590s"]],
    ids=["limit", "patience", "limit within a validation"],
)
def test_the_last_validation_decodes(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str]
) -> None:
    """Whatever decoding costs, and whether the run is ended by its limit, by patience, or by a validation
    that uses up the rest of the limit."""
    monkeypatch.setattr(validation, "ALWAYS", 0.0)
    FakeMachine(monkeypatch, scoring=8.0, step=200.0)
    train(tmp_path / "run", config("convs2s", *settings), **texts, device=CPU)
    found = records(tmp_path / "run")
    assert found[-1]["valid_lines"] == 5 and "valid_chrf" in found[-1]


def test_it_is_said_that_scoring_alone_takes_too_long(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once; and while it lasts, the bar says what is done."""
    heard = Heard()
    monkeypatch.setattr(validation, "ALWAYS", ALWAYS)
    FakeMachine(monkeypatch, scoring=1e6, step=0.0)
    settings = ["train.valid_every=1", "train.max_updates=3", "train.valid_lines=0"]
    train(tmp_path / "run", config("luong", *settings), **texts, device=CPU, reporter=heard)
    assert sum("even without decoding" in line for line in heard.lines) == 1
    assert heard.words.count("update 2, validating …") == 1


def test_translations_to_read(tmp_path: Path) -> None:
    """Every validation shows the same three lines once, also after resumptions, without terminal commands."""
    lines = ["one\x1b[2J", "둘", "x" * 400, "four", "five", "six", "seven"]
    file, run = tmp_path / "text", tmp_path / "run"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    pair = PairFiles(file, file)
    settings = ["train.valid_every=2", "train.save_every=2", "train.valid_lines=7", "train.max_tokens=900"]
    for most in (3, 7):
        limited = config("convs2s", *settings, f"train.max_updates={most}", "train.schedule='constant'")
        train(run, limited, files=[pair], valid=pair, device=CPU, resume=most > 3)
        with open(run / SAMPLES, "a") as more:
            more.write("update 99\n  source")
    text = (run / SAMPLES).read_text(encoding="utf-8").removesuffix("update 99\n  source")
    assert re.findall(r"^update (\d+)$", text, re.MULTILINE) == ["2", "3", "4", "6", "7"]
    assert text.isprintable() or set(text) - set(filter(str.isprintable, text)) == {"\n"}
    for name in ("source", "reference"):
        found = re.findall(rf"^  {name} +(.*)$", text, re.MULTILINE)
        assert found == [r"one\x1b[2J", "둘", "x" * 299 + "…"] * 5
    assert len(re.findall("^  translation ", text, re.MULTILINE)) == 15
