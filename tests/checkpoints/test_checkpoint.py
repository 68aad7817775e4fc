"""Checkpoints: whole or not there at any moment, and refused by name when they are not what was
written."""

import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from command_line import listing
from made_up_engine import make_run, small_config
from torch import Tensor

from bytenmt.api.runs import Run
from bytenmt.architectures.parameters import parameter_shapes
from bytenmt.architectures.registry import build_model
from bytenmt.checkpoints import checkpoint
from bytenmt.checkpoints.checkpoint import (
    load_checkpoint,
    model_tensors,
    save_checkpoint,
    write_weights,
)
from bytenmt.checkpoints.facts import Facts, TextFact
from bytenmt.checkpoints.metrics import MetricsLog
from bytenmt.checkpoints.weights import PUBLISHED, has_checkpoint, read_run
from bytenmt.config.schema import config_toml, load_config
from bytenmt.errors import CheckpointError

CONFIG = load_config("seq2seq", "tiny", ["model.d_embedding=1", "model.d_hidden=1"])
PACKAGE = str(Path(checkpoint.__file__).parents[1])


def contents(seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights and trainer state of a few numbers."""
    generator = torch.Generator().manual_seed(seed)
    shapes = parameter_shapes(CONFIG.model).items()
    weights = {name: torch.randn(*shape, generator=generator) for name, shape in shapes}
    moment = torch.randn(3, 5, generator=generator)
    return weights, {"moment": moment, "step": torch.tensor(seed)}


def save(run: Path, update: int, *, best: bool = False) -> None:
    one, other = contents(update)
    save_checkpoint(run, update, one, other, CONFIG, Facts(pairs=update), best=best)


def is_saved(run: Path, update: int) -> bool:
    """Does a checkpoint come back bit for bit?"""
    saved = load_checkpoint(run)
    facts = Facts(update=update, pairs=update)
    if (saved.update, saved.config, saved.facts) != (update, CONFIG, facts):
        return False
    both = zip((saved.weights, saved.trainer), contents(update), strict=True)
    return all(
        found.keys() == expected.keys()
        and all(torch.equal(found[name], expected[name]) for name in expected)
        for found, expected in both
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder without a checkpoint."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text(config_toml(CONFIG))
    return tmp_path / "run"


# What a file holds.


def test_a_run_comes_back(tmp_path: Path) -> None:
    make_run(tmp_path / "run", "bytenet")
    config = small_config("bytenet")
    saved = load_checkpoint(tmp_path / "run").weights
    file = tmp_path / "run" / "last.safetensors"
    copy = Path(shutil.copy(file, tmp_path / "copy.safetensors"))
    for path in (tmp_path / "run", file, copy):
        model, stored = Run(path).model(), read_run(path)[1]
        assert (stored.config, stored.facts, model.training) == (config, Facts(update=70), False)
        for name, tensor in model_tensors(model).items():
            assert torch.equal(tensor, saved[name])


def test_files_are_safetensors(tmp_path: Path) -> None:
    """The library reads back what is written, and the same contents give the same bytes."""
    tensors = contents(1)[0]
    tensors = {name: tensor.t().contiguous().t() for name, tensor in tensors.items()}
    for name, some in (("one", tensors), ("two", dict(reversed(tensors.items())))):
        write_weights(tmp_path / name, some, CONFIG, Facts(texts=(TextFact("é", 1),)))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    for n in range(8):  # wherever the header ends, the numbers begin at a multiple of eight
        write_weights(tmp_path / "three", tensors, CONFIG, Facts(texts=(TextFact("x" * n, 1),)))
        assert int.from_bytes((tmp_path / "three").read_bytes()[:8], "little") % 8 == 0
    back = safetensors.torch.load_file(tmp_path / "three")
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and torch.equal(back[name], tensor), name


def test_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "run", "bytenet")
    larger = load_config("bytenet", "tiny", ["model.d_channels=100"])
    own = tmp_path / "own.safetensors"
    write_weights(own, model_tensors(build_model(larger.model)), CONFIG, Facts())
    with pytest.raises(CheckpointError, match="does not fit the model"):
        Run(own).model()
    own.write_bytes(safetensors.torch.save({"a": torch.zeros(2)}))
    with pytest.raises(CheckpointError, match="does not hold the weights of a model"):
        Run(own).model()


# What is kept.


def test_best_and_last_of_a_run(tmp_path: Path) -> None:
    """Translation takes the best; the last where nothing was validated or where it is told so."""
    run, config = make_run(tmp_path / "run"), small_config("luong")
    make_run(tmp_path / "other")
    for update in (74, 75):
        model = build_model(config.model)
        save_checkpoint(run, update, model_tensors(model), {}, config, Facts(), best=False)
    assert read_run(run)[1].facts == Facts(update=70)
    assert read_run(run, "last")[1].facts == Facts(update=75)
    (run / "best.safetensors").unlink()
    assert read_run(run)[1].facts == Facts(update=75)
    # Published weights shadow the run, not its resume.
    shutil.copy(tmp_path / "other" / "best.safetensors", run / PUBLISHED)
    assert [read_run(run, which)[1].facts.update for which in ("best", "last")] == [70, 75]


# A kill at any moment.


def moments(folder: Path, action: Callable[[], None]) -> list[dict[Path, bytes]]:
    """Yield the files on disk before every line of the package that an action executes, and at its
    end: all states that kill -9 can leave, without unflushed data. Equal states are yielded once.
    """
    seen: list[dict[Path, bytes]] = []

    def look() -> None:
        now = listing(folder)
        if now not in seen:
            seen.append(now)

    def trace(frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            look()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    look()
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("older", [[], [1, 2]])
def test_a_kill_leaves_the_old_checkpoint_or_the_new(
    older: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every line of a save: what a resume reads is there bit for bit, all weights can be read,
    and the next save works and leaves nothing lying about."""
    # The kernel outlives a killed process.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    run = tmp_path / "run"
    run.mkdir()
    for update in older:
        save(run, update, best=True)
    states = moments(run, lambda: save(run, 3, best=True))
    seen = []
    for state in states:
        shutil.rmtree(run)
        run.mkdir()
        for path, data in state.items():
            path.write_bytes(data)
        if has_checkpoint(run):
            update = load_checkpoint(run).update
            assert is_saved(run, update)
            assert read_run(run)[1].facts.update in (update, 3)
            seen.append(update)
        else:
            seen.append(0)
        (run / ".metrics.txt.1.tmp").touch()  # of another command
        save(run, 4, best=True)
        assert is_saved(run, 4)
        assert {path.name for path in run.iterdir()} == {
            *("best.safetensors", "last.safetensors", "trainer.pt", ".metrics.txt.1.tmp")
        }
    assert seen == sorted(seen) and set(seen) == {older[-1] if older else 0, 3} and len(seen) > 6


# A disk that is full.


@contextmanager
def file_limit(n_bytes: int) -> Iterator[None]:
    """No file may grow beyond n_bytes: the system itself refuses. Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_real_limit(run: Path) -> None:
    """The system refuses to write on, in the weights or the trainer's file: the checkpoint before
    stands."""
    save(run, 2, best=True)
    sizes = {len(data) for path, data in listing(run).items() if path.name != "config.toml"}
    for limit in (0, 1, 1000, *(size - 1 for size in sizes)):
        with file_limit(limit), pytest.raises(CheckpointError) as caught:
            save(run, 3)
        assert str(run) in str(caught.value) and str(caught.value).endswith(": File too large")
        assert is_saved(run, 2) and not list(run.glob(".*"))
    save(run, 3)
    assert is_saved(run, 3)


def test_metrics_are_whole_lines(tmp_path: Path) -> None:
    """A disk that fills in the middle of a record leaves the records before it."""
    path, log = tmp_path / "metrics.jsonl", MetricsLog(tmp_path, 0)
    log.write({"update": 1})
    with file_limit(20), pytest.raises(CheckpointError, match=f"cannot write {path}: "):
        log.write({"update": 2, "bits_per_byte": 1.5})
    log = MetricsLog(tmp_path, 2)
    log.write({"update": 3})
    assert path.read_bytes() == b'{"update":1}\n{"update":3}\n'
    with open(path, "ab") as file:
        file.write(b'{"update":1,"x')
    MetricsLog(tmp_path, 1)
    assert path.read_bytes() == b'{"update":1}\n'


# Files that are not what was written.


def test_a_trainers_file_that_is_cut_off_is_refused_by_name(run: Path) -> None:
    """Weights that are cut off stand in test_weights_files.py."""
    save(run, 3)
    path = run / "trainer.pt"
    whole = path.read_bytes()
    for size in (0, 1, 7, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(run)
        assert str(caught.value).startswith(f"{path} is damaged") and "\n" not in str(caught.value)
    path.unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        load_checkpoint(run)
