"""Test the number of CPU threads of a training: the idle ones, and the same after --resume."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from heard import Heard
from small_runs import CPU, config

from bytenmt.checkpoints.weights import read_run
from bytenmt.training import run as training
from bytenmt.training.run import idle_threads, train


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Eight cores of which PyTorch uses eight by default; `load` may be changed."""
    state = {"load": 0.0}
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (state["load"], 99.0, 99.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(training, "n_cores", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    return state


@pytest.mark.parametrize(
    ("load", "expected"), [(0.0, 8), (0.4, 8), (2.1, 6), (6.6, 1), (7.9, 1), (8.0, 1), (40.0, 1)]
)
def test_as_many_threads_as_cores_are_idle(machine: dict[str, float], load: float, expected: int) -> None:
    machine["load"] = load
    assert idle_threads() == expected


def test_what_the_machine_allows_is_not_exceeded(
    machine: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the cores that the process may use, nor PyTorch's default, nor a number in the environment."""
    monkeypatch.setattr(training, "n_cores", lambda: 3)
    assert idle_threads() == 3
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert idle_threads() == 2
    machine["load"] = 8.0
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert idle_threads() == 2


@pytest.mark.slow
def test_resume_keeps_the_threads(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed run uses the threads of its first start unless --threads is given; PyTorch's own number is
    restored afterwards.
    """
    used, run = list[int](), tmp_path / "run"
    monkeypatch.setattr(training, "n_cores", lambda: 4)
    before = torch.get_num_threads()

    def go(updates: int, idle: int, threads: int | None = None) -> None:
        monkeypatch.setattr(training, "idle_threads", lambda: idle)
        heard = Heard()
        limits = [f"train.max_updates={updates}", "train.schedule='constant'", "train.valid_lines=0"]
        settings = config("luong", *limits)
        resume = run.exists()
        train(run, settings, **texts, device=CPU, resume=resume, threads=threads, reporter=heard)
        (line,) = (line for line in heard.lines if "CPU thread" in line)
        used.append(int(line.partition(" CPU thread")[0].rpartition(" ")[2]))
        progress = read_run(run, "last")[1].facts.progress
        assert progress is not None and progress.threads == used[-1]

    go(1, idle=2)
    go(2, idle=1)
    go(3, idle=1, threads=3)
    go(4, idle=1)
    assert used == [2, 2, 3, 3]
    monkeypatch.setattr(training, "n_cores", lambda: 1)
    go(5, idle=1)
    assert used[-1] == 1, "a machine with fewer cores"
    assert torch.get_num_threads() == before
