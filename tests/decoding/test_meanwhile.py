"""Test decoding with NumPy until the CPU engine's kernels are compiled, and the switch to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from cpu_engines import model, packed
from made_up_engine import MadeUpEngine, made_up_text, make_run
from threadpoolctl import threadpool_info, threadpool_limits

from bytenmt import jit
from bytenmt.decoding import loading
from bytenmt.decoding.cpu import compilation
from bytenmt.decoding.cpu.fallback import CHUNK_BYTES, FEW, FallbackAttention, FallbackEngine, FallbackReader
from bytenmt.decoding.cpu.interpreter import run as compiled_run
from bytenmt.decoding.cpu.numpy_kernels import numpy_interpreter
from bytenmt.decoding.cpu.reader import CpuReader
from bytenmt.decoding.interface import EngineSpec, Options, Request
from bytenmt.decoding.loading import FEW_SENTENCES
from bytenmt.decoding.reading import Reading
from bytenmt.decoding.scheduler import decode
from bytenmt.decoding.setting_table import AUTO
from bytenmt.decoding.translator import Translator
from bytenmt.jit import KernelNotCached
from bytenmt.kernel_cache import PACKAGE
from bytenmt.reporter import SILENT, Reporter
from bytenmt.serve.loading import load_models


@pytest.mark.parametrize("after", [0, 1, 2, 5, 1000])
def test_it_hands_over_between_sentences(after: int) -> None:
    """Every request is answered, by one of the two; when the other one is ready nothing begins any more with
    the first, and the other begins when that has ended."""
    requests = [Request(b"x" * (1 + 7 * i % 23), 40, number=i) for i in range(20)]
    first: list[list[Request]] = []
    second: list[list[Request]] = []
    calls = [0]
    now = MadeUpEngine(3, Options(), first)

    def ready() -> bool:
        calls[0] += 1
        return calls[0] > after

    def later() -> MadeUpEngine:
        assert not now.running
        return MadeUpEngine(3, Options(), second)

    found = dict(decode(FallbackEngine(now, later, ready), requests))
    assert {i: best[0].text for i, best in found.items()} == {
        i: made_up_text(request) for i, request in enumerate(requests)
    }
    numbers = [[request.number for batch in part for request in batch] for part in (first, second)]
    assert [*numbers[0], *numbers[1]] == list(range(20))
    assert bool(numbers[1]) is (after < 1000) and bool(numbers[0]) is (after > 0)


class Child:
    """A process; all that were begun, and whether they have ended."""

    begun: ClassVar[list[Child]] = []
    ended: ClassVar[bool] = False
    stdin = None

    def __init__(self, *_: Any, **__: Any) -> None:
        self.begun.append(self)
        self.killed = False

    def kill(self) -> None:
        self.killed = True

    def wait(self) -> None:
        pass

    def poll(self) -> int | None:
        return 0 if self.ended else None


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Replace the look-up of kernels on disk; a child process compiles them until an entry is added."""
    there = [False]
    call = compilation.call_all

    def call_all(*given: Any) -> None:
        if not there[0] and jit._CACHED_ONLY.get():
            raise KernelNotCached
        if not there[0]:
            there.append(True)
        call(*given)

    class One(Child):
        def poll(self) -> int | None:
            return 0 if there[0] else super().poll()

    monkeypatch.setattr(compilation, "call_all", call_all)
    monkeypatch.setattr(compilation, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(compilation, "_children", {})
    monkeypatch.setattr(compilation.subprocess, "Popen", One)
    monkeypatch.setattr(Child, "ended", False)
    Child.begun.clear()
    return there


class LineCollector(Reporter):
    """A reporter that collects lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_numpy_answers_until_the_kernels_are_there(kernels: list[bool], tmp_path: Path) -> None:
    """Texts are the same, and one line announces NumPy; then the compiled engine takes over without a
    message.
    """
    run, told = make_run(tmp_path / "run"), LineCollector()
    lines = [b"one", b"and another", "셋".encode()]
    runtime = loading.load_runs([run], EngineSpec(device="cpu"), told, at_once=True)
    translator = Translator.from_runtime(runtime, max_len_a=0.0, max_len_b=12)
    found = translator.translate(lines)
    (engine,) = translator._engines.values()
    assert isinstance(engine, FallbackEngine) and works_by(engine._engine) is numpy_interpreter()
    assert len(told.lines) == 1 and "until then NumPy decodes short inputs" in told.lines[0]
    kernels[0] = True
    assert translator.translate(lines) == found
    assert works_by(engine._engine) is compiled_run and engine.capacity == engine._engine.capacity
    loading.load_runs([run], EngineSpec(device="cpu"), told, at_once=True)
    assert len(told.lines) == 1


def works_by(engine: Any) -> Any:
    return engine.first_model()._run


class Counter:
    """A reader, a stream and what attends in one: of which kind it is, and how much it was given at a time.
    A byte of a text costs as many nats as the reader has read before it."""

    def __init__(self, name: str, calls: list[tuple[str, int]]) -> None:
        self.name, self.asked, self.behind = name, calls, 0

    def stream(self) -> Counter:
        return Counter(self.name, self.asked)

    def read(self, data: bytes) -> Reading:
        self.asked.append((self.name, len(data)))
        cost = np.arange(self.behind, self.behind + len(data))
        self.behind += len(data)
        return Reading(-cost.astype(np.float64), cost)

    def texts(self, sources: Sequence[bytes] | None, texts: Sequence[bytes]) -> list[Reading]:
        self.asked.append((self.name, len(texts)))
        assert sources is None or len(sources) == len(texts)
        return [Counter("", []).read(text) for text in texts]

    def layers(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[dict[int, Any]]:
        self.asked.append((self.name, len(pairs)))
        return [{1: text} for _, text in pairs]


def from_the(nth: int) -> Callable[[], bool]:
    """Return a function that is true from its nth call on, counted from 1."""
    times = count(1)
    return lambda: next(times) >= nth


def test_texts_are_read_few_at_a_time_until_the_kernels_are_there() -> None:
    texts = [bytes([k]) * (k % 5 + 1) for k in range(100)]
    calls: list[tuple[str, int]] = []
    for sources in (None, texts):
        calls.clear()
        one = FallbackReader(Counter("now", calls), lambda: Counter("later", calls), from_the(3))
        found = one.texts(sources, texts)
        assert [len(reading.rank) for reading in found] == [k % 5 + 1 for k in range(100)]
        assert calls == [("now", FEW), ("now", FEW), ("later", 100 - 2 * FEW)]
        assert one.texts(sources, texts[:3])[2].rank.tolist() == [0, 1, 2]
        assert calls[-1] == ("later", 3) and one.texts(sources and [], []) == []


def test_attention_is_told_few_at_a_time_until_the_kernels_are_there() -> None:
    calls: list[tuple[str, int]] = []
    one = FallbackAttention(Counter("now", calls), lambda: Counter("later", calls), from_the(2))
    pairs = [(b"", bytes([k])) for k in range(40)]
    assert [layers[1] for layers in one.layers(pairs)] == [text for _, text in pairs]
    assert calls == [("now", FEW), ("later", 40 - FEW)]


@pytest.mark.parametrize("nth", [1, 2, 3, 1000])
def test_a_stream_goes_on_where_it_was(nth: int) -> None:
    """The second reader reads the previous text again; every byte has the same score as in one piece."""
    calls: list[tuple[str, int]] = []
    stream = FallbackReader(Counter("now", calls), lambda: Counter("later", calls), from_the(nth)).stream()
    parts = [stream.read(b"x" * n) for n in (1, 2 * CHUNK_BYTES + 5, 3)]
    cost = np.concatenate([part.rank for part in parts])
    assert cost.tolist() == list(range(2 * CHUNK_BYTES + 9))
    assert all(np.array_equal(-part.log_p, part.rank) for part in parts)
    read = {name: sum(n for whose, n in calls if whose == name) for name in ("now", "later")}
    assert read["later"] == (0 if nth == 1000 else 2 * CHUNK_BYTES + 9)
    assert read["now"] == {1: 0, 2: 1, 3: 1 + CHUNK_BYTES, 1000: 2 * CHUNK_BYTES + 9}[nth]


def test_readers_hand_over_too(kernels: list[bool], tmp_path: Path) -> None:
    """Scores of texts and attention of a loaded run are the same before and after the switch."""
    run = make_run(tmp_path / "run")
    runtime = loading.load_runs([run], EngineSpec(device="cpu"), at_once=True)
    reader, attention = runtime.reader(), runtime.attention()
    before = reader.texts([b"abc"], [b"de"]), [one.layers([(b"abc", b"de")]) for one in attention]
    kernels[0] = True
    after = reader.texts([b"abc"], [b"de"]), [one.layers([(b"abc", b"de")]) for one in attention]
    assert isinstance(reader, FallbackReader) and isinstance(reader._reader.target, CpuReader)
    assert np.allclose(before[0][0].log_p, after[0][0].log_p, atol=1e-5)
    for one, other in zip(before[1], after[1], strict=True):
        for number, weights in one[0].items():
            assert np.allclose(weights, other[0][number], atol=1e-5)


def waiting(spec: EngineSpec, at_once: bool) -> Callable[[Path], Any]:
    return lambda run: loading.load_runs([run], spec, at_once=at_once)


@pytest.mark.parametrize(
    "load",
    [
        waiting(EngineSpec("numba", "cpu"), True),
        waiting(EngineSpec(device="cpu", precision="w8a8"), True),
        waiting(EngineSpec(device="cpu", precision="bf16"), True),
        waiting(EngineSpec(device="cpu"), False),
    ],
    ids=["asked for", "in bytes", "in halves", "in a library"],
)
def test_others_wait(load: Callable[[Path], Any], kernels: list[bool], tmp_path: Path) -> None:
    """Calls that name this engine or a precision of their own, or use one engine for everything, wait for the
    kernels.
    """
    load(make_run(tmp_path / "run"))
    assert kernels[1:] == [True] and not Child.begun


def test_where_nothing_is_kept_the_engine_is_compiled_in_place(
    kernels: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child has ended and the disk has nothing: NumPy does not go on to the end of a long job."""
    runtime = loading.load_runs([make_run(tmp_path / "run")], EngineSpec(device="cpu"), at_once=True)
    engine = runtime.make_engine(Options(), 2)
    request = Request(b"one", 5)
    found = dict(decode(engine, [request]))
    assert isinstance(engine, FallbackEngine) and works_by(engine._engine) is numpy_interpreter()
    monkeypatch.setattr(Child, "ended", True)
    assert dict(decode(engine, [request]))[0][0].text == found[0][0].text
    assert works_by(engine._engine) is compiled_run and kernels[1:] == [True]


def test_a_server_begins_at_once(kernels: list[bool], tmp_path: Path) -> None:
    """The server has translated a line when it starts, and waits if NumPy does not have the precision."""
    runs = [f"ko-en={make_run(tmp_path / 'run')}"]
    decoding = {"keep": "", "glossary": (), "reverse": False, "precision": AUTO, "threads": 1}
    load_models(runs, decoding, None, lambda seconds: None, SILENT)
    assert len(Child.begun) == 1 and len(kernels) == 1
    load_models(runs, {**decoding, "precision": "w8a8"}, None, lambda seconds: None, SILENT)
    assert len(Child.begun) == 1 and len(kernels) == 2


def test_numpy_keeps_to_its_thread() -> None:
    """Beside a process that compiles, a product on two would wait for its core."""
    numpy_interpreter.cache_clear()
    with threadpool_limits(2, "blas"):
        numpy_interpreter()
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        assert {pool["num_threads"] for pool in pools if "numpy" in pool["filepath"]} <= {1}


def test_one_process_compiles(kernels: list[bool]) -> None:
    """The others begin none, and who needs the kernels waits for it; where it was stopped, one begins."""
    one = packed(model("seq2seq"))
    with compilation.compilation_lock():
        assert compilation.is_locked()
        other, late = compilation.Compilation(one, True), compilation.Compilation(one, True)
        assert not other.done() and not other.ready() and not Child.begun
    assert not compilation.is_locked() and not late.ready() and len(Child.begun) == 1
    kernels[0] = True
    assert other.done(wait=True) and other.ready() and late.ready()
    kernels[0] = False
    compilation._children.clear()
    compilation.Compilation(one, True)
    compilation.Compilation(one, True)
    assert len(Child.begun) == 2  # of this process, too, there is one


@pytest.mark.parametrize("n_lines", [FEW_SENTENCES, FEW_SENTENCES + 1])
def test_many_sentences_wait_for_the_kernels(
    n_lines: int, kernels: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy would take longer over them; who waits is told so now and then."""
    told, waited = LineCollector(), list[float]()

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        kernels[0] = len(waited) == 3
        time.sleep(0.05)

    monkeypatch.setattr(compilation, "sleep", sleep)
    monkeypatch.setattr(compilation, "REPEAT_SECONDS", 0.01)
    runtime = loading.load_runs([make_run(tmp_path / "run")], EngineSpec(device="cpu"), told, at_once=True)
    translator = Translator.from_runtime(runtime, max_len_a=0.0, max_len_b=3)
    translator.translate([f"line {number}" for number in range(n_lines)])
    engines = [works_by(engine._engine) for engine in translator._engines.values()]  # type: ignore[attr-defined]
    if n_lines > FEW_SENTENCES:
        assert len(waited) == 3 and set(engines) == {compiled_run}
        assert "still compiling the decode kernels" in told.lines[1]
    else:
        assert not waited and set(engines) == {numpy_interpreter()} and len(told.lines) == 1


def test_a_service_that_ends_ends_its_compiler(kernels: list[bool], tmp_path: Path) -> None:
    loading.load_runs([make_run(tmp_path / "run")], EngineSpec(device="cpu"), at_once=True)
    compilation.stop_child()
    compilation.stop_child()  # there is none any more
    assert [child.killed for child in Child.begun] == [True]


OTHER_PACKAGE = """
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
Path("imported").touch()
"""
STARTS = """
import sys
from bytenmt.decoding.cpu import compilation
compilation.CHILD = compilation.CHILD.replace("compile_in_child()", sys.argv[1])
child = compilation.start_child()
child.stdin.close()
sys.exit(child.wait())
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["current folder", "path"])
def test_the_child_compiles_the_package_of_its_parent(where: str, tmp_path: Path) -> None:
    """Not the one that stands in the current folder, such as a clone, nor another one in PYTHONPATH."""
    other = tmp_path / "bytenmt"
    other.mkdir()
    (other / "__init__.py").write_text(OTHER_PACKAGE, encoding="utf-8")
    program = "import bytenmt.jit, pathlib; pathlib.Path('package').write_text(bytenmt.jit.__file__)"
    parent = f"import sys; sys.path[:0] = [{str(PACKAGE.parent)!r}]" + STARTS
    environment = dict(os.environ, PYTHONPATH=str(tmp_path) if where == "path" else "")
    done = subprocess.run(
        [sys.executable, "-c", parent, program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "package").read_text() == str(PACKAGE / "jit.py")
    assert not (tmp_path / "imported").exists()


ENDS = """
import sys
from bytenmt.decoding.cpu import compilation
program = "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(2); pathlib.Path('done').touch()"
compilation.CHILD = compilation.CHILD.replace(
    "compile_in_child()",
    "import bytenmt.decoding.cpu.compilation as c; "
    f"c.compile_all = lambda: exec({program!r}); c.compile_in_child()",
)
child = compilation.start_child()
print(child.pid, flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["normal", "SIGTERM", "SIGKILL"])
def test_a_signal_ends_the_compiler_and_a_normal_end_does_not(ending: str, tmp_path: Path) -> None:
    """A compilation started by a short command continues for the next one; a stopped server leaves no process
    behind.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", ENDS], cwd=tmp_path, stdin=pipe, stdout=pipe) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        child = int(parent.stdout.readline())
        until((tmp_path / "begun").exists)
        if ending == "normal":
            parent.stdin.close()
        else:
            parent.send_signal(getattr(signal, ending))
        parent.wait(60)
    until(lambda: has_ended(child))
    assert (tmp_path / "done").exists() is (ending == "normal")


def until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def has_ended(pid: int) -> bool:
    """Return whether a process that is not our child has ended; a zombie counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
