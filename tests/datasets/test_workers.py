"""Lines answered by several processes: in their order, with the bytes of one process."""

import subprocess
import sys
from concurrent.futures import BrokenExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from command_line import accepted, dying_after
from made_up_engine import made_up_translator, make_run

from bytenmt.cli.main import main
from bytenmt.datasets import workers as module
from bytenmt.datasets.workers import Workers
from bytenmt.errors import BytenmtError
from bytenmt.translation.translator import Translator


def test_a_process_that_dies_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Mock(map=Mock(side_effect=BrokenExecutor))
    monkeypatch.setattr(module, "ProcessPoolExecutor", Mock(return_value=pool))
    with pytest.raises(BytenmtError, match="a worker process died"):
        Workers(2, made_up_translator).translate([b"x"], 0)


def unloadable() -> Translator:
    raise BytenmtError("no model here")


@pytest.mark.slow
def test_why_a_process_has_no_model_is_told() -> None:
    with Workers(2, unloadable) as workers, pytest.raises(BytenmtError, match="^no model here$"):
        workers.translate([b"x"] * 9, 0)


@pytest.mark.slow
def test_the_output_is_that_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real processes keep the order of standard input's lines, some done before, and random draws.
    They do not import modules in the current folder."""
    make_run(tmp_path / "run")
    (tmp_path / "in").write_text("".join(f"{number} Zeilen {{x}}\n" for number in range(40)))
    monkeypatch.chdir(tmp_path)
    command = "translate run -o out --buffer-size 7 --max-len-a 1 --max-len-b 5 --sample"
    accepted(f"{command} -i in")
    whole = (tmp_path / "out").read_bytes()
    (tmp_path / "out").unlink()
    with dying_after(2):
        CliRunner().invoke(main, f"{command} -i in", catch_exceptions=False, standalone_mode=False)
    assert (tmp_path / ".out.part").read_bytes().count(b"\n") == 14
    for name in ("multiprocessing", "numpy", "signal"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    program = "import sys; sys.path[:] = filter(None, sys.path)\n"
    program += "from bytenmt.cli.main import main; main()"
    words = [sys.executable, "-c", program, *command.split(), "--workers", "2", "--resume"]
    with open("in", "rb") as lines:
        done = subprocess.run(words, stdin=lines, stderr=-1)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_bytes() == whole and whole.count(b"\n") == 40
