"""Lines answered by several processes: in their order, with the bytes of one process."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_up_engine import made_up_translator, make_run

from bytenmt.cli.line_filter import Filter
from bytenmt.cli.main import main
from bytenmt.data.text_file import TextFile
from bytenmt.datasets import workers as module
from bytenmt.datasets.recipe import TranslatorSpec
from bytenmt.datasets.workers import Workers, threads_per_process, worker_processes
from bytenmt.errors import BytenmtError, DataError


class Threads(ThreadPoolExecutor):
    """Threads instead of processes; each part takes a different time."""

    def __init__(self, n: int, context: object, begin: object, arguments: Sequence[Any]) -> None:
        super().__init__(n)
        self.draw = random.Random(2)
        self.most_asked = 0

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
    return Workers(TranslatorSpec(("run",)), 3)


def test_order_is_kept(pool: Workers, tmp_path: Path) -> None:
    """Lines of a file and of a stream stay in order, and a resumable output records lines when they are
    written.
    """
    lines = b"".join(b"line %d\n" % number for number in range(100))
    (tmp_path / "in").write_bytes(lines)
    expected = b"".join(b"LINE %d0\n" % number for number in range(100))
    translator = made_up_translator()

    class RecordedOutput:
        n_answered = 7

        def __init__(self) -> None:
            self.added: list[bytes] = []

        def skip(self, lines: Sequence[bytes]) -> None:
            assert len(lines) in (0, 2, 5)

        def add(self, lines: Sequence[bytes]) -> None:
            self.added += lines
            assert output.getvalue().count(b"\n") == len(self.added)

    for read in ("file", "stream"):
        for kept in (None, RecordedOutput()):
            output = io.BytesIO()
            lines_filter = Filter(translator, output, buffer_size=5, resumable=kept, workers=pool)
            if read == "file":
                lines_filter.file(TextFile.open(tmp_path / "in"))
            else:
                lines_filter.stream(io.BytesIO(lines))
            assert output.getvalue() == (expected if kept is None else expected[7 * 8 :])


def test_an_error_comes_behind_what_was_asked(pool: Workers) -> None:
    output = io.BytesIO()
    with pytest.raises(DataError, match="line 12"):
        given = b"x\n" * 11 + b"\xff\n"
        Filter(made_up_translator(), output, buffer_size=2, workers=pool).stream(
            io.BytesIO(given), errors="strict"
        )
    assert output.getvalue() == b"X0\n" * 11


def test_a_process_that_dies_is_one_line(pool: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise BrokenExecutor

    monkeypatch.setattr(module, "_translate", die)
    with pytest.raises(BytenmtError, match="a process of --workers died"):
        Filter(made_up_translator(), io.BytesIO(), workers=pool).stream(io.BytesIO(b"x\n"))


def test_threads_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "n_cores", lambda: 8)
    assert [threads_per_process(n, None) for n in (1, 2, 8, 20)] == [None, 2, 1, 1]
    assert threads_per_process(3, 5) == 5
    with worker_processes(TranslatorSpec(()), 1) as nobody:
        assert nobody is None


@pytest.mark.slow
def test_the_output_is_that_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real processes, also with what a search owes and draws."""
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run")
    Path("in").write_bytes("".join(f"{number} Zeilen {{x}}\n" for number in range(40)).encode())
    short = ["--buffer-size", "7", "--max-len-a", "1", "--max-len-b", "5"]
    short += ["--format", "jsonl", "--no-alignment", "--sample", "--keep", "placeholders"]
    texts = []
    for n in ("1", "2"):
        command = ["translate", "-m", "run", "-i", "in", "-o", "out", "--workers", n, *short]
        done = CliRunner().invoke(main, command, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        texts.append([line.partition(b'"seconds"')[0] for line in Path("out").read_bytes().splitlines()])
    assert texts[0] == texts[1] and len(texts[0]) == 40
    wrong = CliRunner().invoke(main, ["translate", "-m", "run", "--workers", "2", "--stream"], input="a\n")
    assert wrong.exit_code == 1
    assert wrong.stderr == "bytenmt: --workers 2 cannot be combined with --stream: drop one of the two\n"
