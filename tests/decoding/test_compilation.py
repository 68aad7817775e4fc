"""Test the compilation of the CPU engine's kernels: once per machine, by one process, and
announced."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from heard import Heard
from numba.core.codegen import JITCPUCodegen

from bytenmt import jit
from bytenmt.decoding.cpu.compilation import compile_once
from bytenmt.decoding.cpu.library import JIT, VARIABLE
from bytenmt.reporter import SILENT

CACHED_RUN = """
import sys
from bytenmt.decoding.cpu import entry
from bytenmt.decoding.cpu.library import load_engine
from bytenmt.reporter import Reporter
Reporter.say = lambda self, line: print(line)
load_engine()
load_engine(Reporter())
assert not sum(entry.run_engine.stats.cache_misses.values()) and "torch" not in sys.modules
"""


def doubled(x: int) -> int:
    return 2 * x


def compile_doubled(reporter: Any = SILENT, seconds: float = 0) -> None:
    """Compile it as a process does that has not called it yet; it takes that much longer."""
    function: Any = jit.njit(doubled)
    compile_now = function.compile

    def compile_slowly(signature: str) -> None:
        time.sleep(seconds)
        compile_now(signature)

    function.compile = compile_slowly
    compile_once(function, "(int64,)", reporter)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another folder for machine code."""
    monkeypatch.setenv(jit.CACHE_VARIABLE, str(tmp_path / "named"))
    jit.cache_folder.cache_clear()
    yield tmp_path / "named"
    jit.cache_folder.cache_clear()


@pytest.mark.slow
def test_kernels_are_compiled_once_and_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each kind of processor that shares the folder."""
    heard = Heard()
    for n_lines in (1, 1):
        compile_doubled(heard)
        assert len(heard.lines) == n_lines and "up to a minute and a half" in heard.lines[0]
    monkeypatch.setattr(JITCPUCodegen, "magic_tuple", lambda _: ("another", "processor", ""))
    for n_lines in (2, 2):
        compile_doubled(heard)
        assert len(heard.lines) == n_lines


@pytest.mark.slow
@pytest.mark.parametrize("is_full", [False, True])
def test_where_nothing_can_be_stored_every_start_compiles(
    is_full: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    if is_full:
        monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", refuse)
    else:
        place.touch()
    heard = Heard()
    compile_doubled(heard)
    assert "set NUMBA_CACHE_DIR to a writable folder" in heard.lines[-1]


@pytest.mark.slow
def test_others_wait_for_the_process_that_compiles(place: Path) -> None:
    program = (
        "from test_compilation import compile_doubled; from bytenmt.reporter import Reporter; "
        "Reporter.say = lambda self, line: print(line.split()[1]); compile_doubled(Reporter(), 1)"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    words, environment = [sys.executable, "-c", program], os.environ | {"PYTHONPATH": paths}
    run = [subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) for _ in range(2)]
    told = [process.communicate()[0] for process in run]
    assert sorted(told) == [b"compiling\n", b"waiting\n"]


@pytest.mark.slow
def test_a_second_process_compiles_nothing() -> None:
    words, environment = [sys.executable, "-c", CACHED_RUN], os.environ | {VARIABLE: JIT}
    for _ in range(2):
        run = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr
