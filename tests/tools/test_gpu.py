"""The program for a GPU: green on a CPU, small."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import FORKSERVER

from bytenmt.checkpoints.weights import read_run
from bytenmt.decoding.cpu.compilation import compile_kernels
from tools.bench import gpu

pytestmark = pytest.mark.slow


def run_in_fork(words: list[str], cwd: Path, timeout: float) -> SimpleNamespace:
    """Run a part in a fork of a process that has imported PyTorch, in place of subprocess.run."""
    process = FORKSERVER.Process(target=run_program, args=(words, cwd))
    process.start()
    process.join(timeout)
    return SimpleNamespace(returncode=process.exitcode)


def run_program(words: list[str], folder: Path) -> None:
    os.chdir(folder)
    sys.argv = words[1:2] + words[3:]
    exec(words[2], {})


def test_every_part_is_green_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_kernels()  # not in the time of the training
    monkeypatch.setattr(subprocess, "run", run_in_fork)
    code = gpu.main(["check", "speed", "train", "--arch", "luong", "--dry-run", "-o", str(tmp_path)])
    found = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert code == 0 and [part["status"] for part in found["parts"]] == ["done"] * 3
    values = {record["case"]: record["value"] for record in found["records"]}
    assert values["luong, gradients"] == 0 and values["luong, replays of the CUDA graph"] > 0
    assert values["shipped-en-de, updates"] == 6
    assert all(path.stat().st_size <= 15e6 for path in tmp_path.iterdir())
    parts = sorted(tmp_path.glob("shipped-en-de.fp32.part*"))
    (tmp_path / "whole.safetensors").write_bytes(b"".join(part.read_bytes() for part in parts))
    for name, precision in (("whole", "fp32"), ("shipped-en-de", "int8")):
        assert read_run(tmp_path / f"{name}.safetensors")[1].precision == precision


def test_needs_are_those_beside_pytorch_and_numba(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--needs"]) == 0
    names = {line.partition("==")[0] for line in capsys.readouterr().out.split()}
    assert {"msgspec", "tomli-w", "sentencex", "sacrebleu", "portalocker"} <= names
    assert not names & {"torch", "numpy", "numba", "pytest", "optuna"}
