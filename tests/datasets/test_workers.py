"""Lines answered by several processes: in their order, with the bytes of one process."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from made_up_engine import made_up_translator, make_run

from bytenmt.cli.line_filter import Filter, format_plain
from bytenmt.data.text_file import TextFile
from bytenmt.datasets import workers as module
from bytenmt.datasets.workers import Workers
from bytenmt.errors import BytenmtError


class Threads(ThreadPoolExecutor):
    """Threads instead of processes; each part takes a different time."""

    def __init__(self, n: int, context: object, begin: object, arguments: Sequence[Any]) -> None:
        super().__init__(n)
        self.draw = random.Random(2)

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:  # type: ignore[override]
        wait = self.draw.choice([0.0, 0.03])

        def slowly() -> Any:
            time.sleep(wait)
            return call(*arguments)

        return super().submit(slowly)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(module, "ProcessPoolExecutor", Threads)
    monkeypatch.setattr(module, "_own", [made_up_translator()])
    return Workers(3, made_up_translator)


@pytest.mark.parametrize("n_done", [0, 7])
def test_order_is_kept(pool: Workers, n_done: int) -> None:
    """Lines of a file and of a stream stay in order, also after some that are done already."""
    lines = b"".join(b"line %d\n" % number for number in range(100))
    expected = b"".join(b"LINE %d0\n" % number for number in range(n_done, 100))
    for buffer_size in (5, 40, 1000):
        output = io.BytesIO()
        given = made_up_translator(), output, format_plain, buffer_size, n_done, pool.translate
        Filter(*given).file(TextFile.from_bytes(lines, "x"))
        assert output.getvalue() == expected
        Filter(*given).stream(io.BytesIO(lines))
        assert output.getvalue() == 2 * expected


def test_a_process_that_dies_is_one_line(pool: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise BrokenExecutor

    monkeypatch.setattr(module, "_translate", die)
    with pytest.raises(BytenmtError, match="a process of --workers died"):
        pool.translate([b"x"], 0)


@pytest.mark.slow
def test_the_output_is_that_of_one_process(tmp_path: Path) -> None:
    """Real processes, also with random draws; modules in the current folder are not imported by them."""
    make_run(tmp_path / "run")
    (tmp_path / "in").write_bytes("".join(f"{number} Zeilen {{x}}\n" for number in range(40)).encode())
    for name in ("multiprocessing", "numpy", "signal"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    program = "import sys; sys.path.pop(0); from bytenmt.cli.main import main; main()"
    texts = []
    for n in ("1", "2"):
        command = f"translate run -i in -o out --workers {n} --buffer-size 7 --max-len-a 1 --max-len-b 5"
        command += " --format jsonl --no-alignment --sample"
        done = subprocess.run(
            [sys.executable, "-c", program, *command.split()], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / "out").read_bytes().splitlines()
        texts.append([line.partition(b'"seconds"')[0] for line in lines])
    assert texts[0] == texts[1] and len(texts[0]) == 40
