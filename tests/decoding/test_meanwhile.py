"""What answers while the compiled engine's kernels are not there yet, and how it hands over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cpu_engines import model, packed
from made_up_engine import MadeUpEngine, made_up_text, make_run

from bytenmt.decoding import engines, loading
from bytenmt.decoding.cpu import compilation
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.meanwhile import Meanwhile
from bytenmt.decoding.cpu.reader import CpuReader
from bytenmt.decoding.interface import EngineSpec, Options, Request
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.pytorch.reader import TorchReader
from bytenmt.decoding.scheduler import decode
from bytenmt.decoding.translator import Translator
from bytenmt.jit import NotKept
from bytenmt.reporter import Reporter


@pytest.mark.parametrize("after", [0, 1, 2, 5, 1000])
def test_it_hands_over_between_sentences(after: int) -> None:
    """Every request is answered, by one of the two; when the other one is ready nothing begins any more with
    the first, and the other begins when that has ended."""
    requests = [Request(b"x" * (1 + 7 * i % 23), 40, number=i) for i in range(20)]
    first: list[list[Request]] = []
    second: list[list[Request]] = []
    asked = [0]
    now = MadeUpEngine(3, Options(), first)

    def ready() -> bool:
        asked[0] += 1
        return asked[0] > after

    def later() -> MadeUpEngine:
        assert not now.running
        return MadeUpEngine(3, Options(), second)

    found = dict(decode(Meanwhile(now, later, ready), requests))
    assert {i: best[0].text for i, best in found.items()} == {
        i: made_up_text(request) for i, request in enumerate(requests)
    }
    numbers = [[request.number for batch in part for request in batch] for part in (first, second)]
    assert [*numbers[0], *numbers[1]] == list(range(20))
    assert bool(numbers[1]) is (after < 1000) and bool(numbers[0]) is (after > 0)


class Child:
    """A process that has ended; all that were begun."""

    begun: ClassVar[list[Child]] = []

    def __init__(self, *_: Any, **__: Any) -> None:
        self.begun.append(self)

    def poll(self) -> int | None:
        return 0


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether kernels are on the disk, as whoever looks there is told; nobody compiles them."""
    there = [False]
    call = compilation.call_all

    def call_all(*given: Any) -> None:
        if not there[0]:
            raise NotKept
        call(*given)

    monkeypatch.setattr(compilation, "call_all", call_all)
    monkeypatch.setattr(compilation, "LOOKS", 0.0)
    monkeypatch.setattr(compilation.subprocess, "Popen", Child)
    Child.begun.clear()
    return there


class Told(Reporter):
    """What was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_pytorch_answers_until_the_kernels_are_there(kernels: list[bool], tmp_path: Path) -> None:
    """The same texts, and a line says so; then the compiled engine goes on, and nothing is said."""
    run, told = make_run(tmp_path / "run"), Told()
    lines = [b"one", b"and another", "셋".encode()]
    runtime = loading.load_runs([run], EngineSpec(device="cpu"), told, at_once=True)
    translator = Translator.of_runtime(runtime, max_len_a=0.0, max_len_b=12)
    found = translator.translate(lines)
    (engine,) = translator._engines.values()
    assert isinstance(engine, Meanwhile) and isinstance(engine._engine, TorchEngine)
    assert isinstance(runtime.reader(), TorchReader)
    assert len(told.lines) == 1 and "PyTorch decodes until then" in told.lines[0]
    kernels[0] = True
    assert translator.translate(lines) == found
    assert isinstance(engine._engine, NumbaEngine) and isinstance(runtime.reader(), CpuReader)
    loading.load_runs([run], EngineSpec(device="cpu"), told, at_once=True)
    assert len(told.lines) == 1


def waiting(wanted: EngineSpec, at_once: bool) -> Callable[[Path], Any]:
    return lambda run: loading.load_runs([run], wanted, at_once=at_once)


@pytest.mark.parametrize(
    "load",
    [
        waiting(EngineSpec("numba", "cpu"), True),
        waiting(EngineSpec(device="cpu", precision="w8a8"), True),
        waiting(EngineSpec(device="cpu"), False),
    ],
    ids=["asked for", "not in PyTorch", "in a library"],
)
def test_others_wait(load: Callable[[Path], Any], kernels: list[bool], tmp_path: Path) -> None:
    """Who asks for this engine, for a precision that is its own, or for the same engine in every call."""
    run = make_run(tmp_path / "run")
    with pytest.raises(NotKept):
        load(run)


def test_without_pytorch_one_waits(
    kernels: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with pytest.raises(NotKept):
        loading.load_runs([run], EngineSpec(device="cpu"), at_once=True)


def test_one_process_compiles(kernels: list[bool]) -> None:
    """The others begin none, and who needs the kernels waits for it."""
    one = packed(model("seq2seq"))
    with compilation.alone():
        assert compilation._others_compile()
        other = compilation.Compilation(one, True)
        assert not other.done() and not Child.begun
    kernels[0] = True
    assert other.done(wait=True) and not compilation._others_compile()
    kernels[0] = False
    compilation.Compilation(one, True)
    assert len(Child.begun) == 1
