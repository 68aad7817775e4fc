"""Benchmarks: the GPU program is green on a CPU; bytes of a step; sentences without end."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from processes import FORKSERVER

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import build_model
from bytenmt.checkpoints.weights import read_run
from bytenmt.config.schema import load_config
from bytenmt.decoding.cpu.library import load_engine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.pytorch.forward import pad_texts
from bytenmt.utf8 import BOS, EOS
from tools.bench import decode as bench_decode
from tools.bench import gpu, steps

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
    load_engine()  # not in the time of the training
    monkeypatch.setattr(subprocess, "run", run_in_fork)
    parts = ["check", "speed", "train"]
    code = gpu.main([*parts, "--arch", "luong", "--dry-run", "-o", str(tmp_path)])
    found = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert code == 0 and [part["status"] for part in found["parts"]] == ["done"] * 3
    values = {record["case"]: record["value"] for record in found["records"]}
    assert values["luong, gradients"] == 0 and values["luong, replays of the CUDA graph"] > 0
    assert values["shipped-en-de, updates"] == 6
    assert all(path.stat().st_size <= 15e6 for path in tmp_path.iterdir())
    pieces = sorted(tmp_path.glob("shipped-en-de.fp32.part*"))
    (tmp_path / "whole.safetensors").write_bytes(b"".join(one.read_bytes() for one in pieces))
    for name, precision in (("whole", "fp32"), ("shipped-en-de", "int8")):
        assert read_run(tmp_path / f"{name}.safetensors")[1].precision == precision


def test_needs_are_those_beside_pytorch_and_numba(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--needs"]) == 0
    names = {line.partition("==")[0] for line in capsys.readouterr().out.split()}
    assert {"msgspec", "tomli-w", "sentencex", "sacrebleu", "portalocker"} <= names
    assert not names & {"torch", "numpy", "numba", "pytest", "optuna"}


# ---- steps of decoding

CPU = torch.device("cpu")


def packed_bytes(arch: str, *settings: str, n_rows: int = 1) -> tuple[int, int]:
    """Bytes that a step of preset tiny reads, and its decoder's weights."""
    config = load_config(arch, "tiny", list(settings))
    model = build_model(config.model)
    arrays = {name: p.detach().numpy() for name, p in model.named_parameters()}
    n_weights = sum(part.numel() for part in model.decoder.parameters())
    return steps.step_bytes(pack_model(arrays, config.model, "fp32"), n_rows), n_weights


@pytest.mark.slow
def test_what_a_step_reads() -> None:
    """The decoder's weights, but of tables one row for each row."""
    for arch in bench_decode.ARCHITECTURES:
        n_bytes, n_weights = packed_bytes(arch)
        assert 4 * n_weights * 0.9 <= n_bytes <= 4 * n_weights * 1.5, arch  # panels of 64 outputs
    longer, shorter = (packed_bytes("convs2s", f"model.n_positions={n}") for n in (2000, 50))
    assert longer[0] == shorter[0]
    plain, _ = packed_bytes("luong")
    with_tables, _ = packed_bytes("luong", "model.ngrams=[2,3,5]", n_rows=32)
    # Rows, orders, width of the embedding, bytes of a float32.
    assert with_tables - plain == 32 * 3 * 64 * 4


@pytest.mark.slow
@pytest.mark.parametrize("arch", PRESETS["tiny"])
def test_random_sentences_never_end(arch: str) -> None:
    model: Any = steps.endless_model(arch, "tiny").model
    one = steps.random_requests(1, 100)[0]
    text = b"made of some bytes that a model reads"
    memory = model.encode(*pad_texts([(one.source or b"") + bytes([EOS])], CPU))
    read = torch.tensor([[BOS, *text]], dtype=torch.uint8)
    with torch.no_grad():
        after = model(read, memory, model.start(memory))[0][0]
    # Never among a dozen candidates of 256.
    assert (after[:, EOS] < after.quantile(0.8, dim=1)).all()
    engine = steps.make_engine(steps.Case(arch, "tiny", "torch", "fp32", 2, 3), CPU)
    steps.StepTimer(engine, 2, 100).time_steps(40)
