"""Lines answered by several processes: in their order, with the bytes of one process."""

import subprocess
import sys
from concurrent.futures import BrokenExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from made_up_engine import made_up_translator, make_run

from bytenmt.datasets import workers as module
from bytenmt.datasets.workers import Workers
from bytenmt.errors import BytenmtError


def test_a_process_that_dies_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Mock(map=Mock(side_effect=BrokenExecutor))
    monkeypatch.setattr(module, "ProcessPoolExecutor", Mock(return_value=pool))
    with pytest.raises(BytenmtError, match="a process of --workers died"):
        Workers(2, made_up_translator).translate([b"x"], 0)


@pytest.mark.slow
def test_the_output_is_that_of_one_process(tmp_path: Path) -> None:
    """Real processes keep the order of lines, also of those of standard input and after some that are done,
    and random draws; modules in the current folder are not imported by them.
    """
    make_run(tmp_path / "run")
    (tmp_path / "in").write_bytes("".join(f"{number} Zeilen {{x}}\n" for number in range(40)).encode())
    for name in ("multiprocessing", "numpy", "signal"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    program = "import sys; sys.path[:] = filter(None, sys.path); from bytenmt.cli.main import main; main()"
    texts = []
    for more in ("-i in --workers 1", "--workers 2", "-i in --workers 2 --resume"):
        command = f"translate run -o out {more} --buffer-size 7 --max-len-a 1 --max-len-b 5 --sample"
        if "resume" in more:
            (tmp_path / ".out.part").write_bytes(b"".join(texts[0][:9]))
            (tmp_path / "out").unlink()
        with open(tmp_path / "in", "rb") as lines:
            done = subprocess.run(
                [sys.executable, "-c", program, *command.split()], cwd=tmp_path, stdin=lines, stderr=-1
            )
        assert done.returncode == 0, done.stderr
        texts.append((tmp_path / "out").read_bytes().splitlines(keepends=True))
    assert all(text == texts[0] for text in texts) and len(texts[0]) == 40
