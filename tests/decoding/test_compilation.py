"""Test the compilation of the CPU engine's kernels: once per machine, by one process, and announced."""

import subprocess
import sys
from pathlib import Path

import pytest
from heard import Heard

from bytenmt.decoding.cpu import compilation
from bytenmt.decoding.cpu.compilation import compile_once

CACHED_RUN = """
import sys
from bytenmt.decoding.cpu import interpreter
from bytenmt.decoding.cpu.compilation import compile_kernels
from bytenmt.reporter import Reporter
Reporter.say = lambda self, line: print(line)
compile_kernels()
compile_kernels(Reporter())
assert not sum(interpreter.run.stats.cache_misses.values()) and "torch" not in sys.modules
"""


def test_kernels_are_compiled_once_and_told(tmp_path: Path) -> None:
    calls, heard, folder = list[int](), Heard(), tmp_path / "kernels"

    def store() -> None:
        calls.append(1)
        folder.mkdir(exist_ok=True)
        (folder / "run.nbi").touch()

    for _ in range(2):
        compile_once(store, folder, heard)
    assert len(calls) == 2 and len(heard.lines) == 1 and "up to a minute and a half" in heard.lines[0]


@pytest.mark.parametrize("folder", [None, "file/kernels"])
def test_where_nothing_can_be_stored_every_start_compiles(folder: str | None, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    calls, heard = list[int](), Heard()
    compile_once(lambda: calls.append(1), tmp_path / folder if folder else None, heard)
    assert calls == [1] and "set NUMBA_CACHE_DIR to a writable folder" in heard.lines[-1]


@pytest.mark.slow
def test_others_wait_for_the_process_that_compiles(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from bytenmt.decoding.cpu import compilation as c; "
        "from bytenmt.reporter import Reporter; Reporter.say = lambda self, line: print('told'); "
        f"folder = Path({str(tmp_path / 'kernels')!r}); "
        "work = lambda: (time.sleep(1), folder.mkdir(), (folder / 'run.nbi').touch()); "
        "c.compile_once(lambda: folder.exists() or work(), folder, Reporter())"
    )
    run = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(2)]
    told = [process.communicate()[0] for process in run]
    assert sorted(told) == [b"", b"told\n"]


@pytest.mark.slow
def test_a_second_process_compiles_nothing() -> None:
    compilation.compile_kernels()
    run = subprocess.run([sys.executable, "-c", CACHED_RUN], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr
