"""Checkpoints: whole or not there at any moment, and refused by name when they are not what was written."""

import hashlib
import json
import os
import random
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from bytenmt.architectures.parameters import parameter_shapes
from bytenmt.architectures.registry import build_model
from bytenmt.checkpoints import checkpoint, manifest, tensor_file
from bytenmt.checkpoints import weights as weights_module
from bytenmt.checkpoints.checkpoint import (
    has_checkpoint,
    load_checkpoint,
    load_run,
    read_pointer,
    save_checkpoint,
    weights,
    write_atomically,
    write_weights,
)
from bytenmt.config.facts import Facts
from bytenmt.config.schema import Config, config_toml, load_config
from bytenmt.errors import CheckpointError
from bytenmt.training.metrics import append_metrics, cut_metrics

CPU = torch.device("cpu")
CONFIG = load_config("seq2seq", "tiny", "", ["model.d_embedding=1", "model.d_hidden=1"])
PACKAGE = str(Path(checkpoint.__file__).parent)


def make_run(run: Path, arch: str = "bytenet", *settings: str, update: int = 3) -> Config:
    """A run folder with one checkpoint of random weights."""
    run.mkdir()
    config = load_config(arch, "tiny", "", settings)
    (run / "config.toml").write_text(config_toml(config))
    model = build_model(config.model)
    save_checkpoint(run, update, weights(model), {"step": torch.ones(1)}, config, Facts(), keep=2, best=True)
    return config


def contents(seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights and trainer state of a few numbers."""
    generator = torch.Generator().manual_seed(seed)
    return (
        {
            name: torch.randn(*shape, generator=generator)
            for name, shape in parameter_shapes(CONFIG.model).items()
        },
        {"moment": torch.randn(3, 5, generator=generator), "step": torch.tensor(seed)},
    )


def save(run: Path, update: int, *, seed: int | None = None, keep: int = 2, best: bool = False) -> None:
    one, other = contents(update if seed is None else seed)
    save_checkpoint(
        run, update, one, other, CONFIG, Facts(pairs=update, target_bytes=seed), keep=keep, best=best
    )


def is_saved(run: Path, update: int, seed: int | None = None) -> bool:
    """Does a checkpoint come back bit for bit?"""
    saved = load_checkpoint(run, update)
    one, other = contents(update if seed is None else seed)
    return (
        saved.update == update
        and saved.config == CONFIG
        and saved.facts == Facts(update=update, pairs=update, target_bytes=seed)
        and saved.weights.keys() == one.keys()
        and saved.trainer.keys() == other.keys()
        and all(torch.equal(saved.weights[name], one[name]) for name in one)
        and all(torch.equal(saved.trainer[name], other[name]) for name in other)
    )


def files(run: Path) -> set[str]:
    """Every file of a run folder but its configuration, shortened: "3" weights, "3t" trainer state."""
    found = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    short = set()
    for name in found - {"checkpoints.json", "config.toml"}:
        name = name.removeprefix("checkpoints/update-").removesuffix(".safetensors").lstrip("0")
        short.add(name.replace(".trainer", "t"))
    return short


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder without a checkpoint."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text(config_toml(CONFIG))
    return tmp_path / "run"


# What a file holds.


@pytest.mark.parametrize("tie", ["false", "true"])
def test_a_run_comes_back(tmp_path: Path, tie: str) -> None:
    """Loading gives the same weights, tied and in evaluation mode, with configuration and facts, from the
    folder, the file in it and a copy.
    """
    config = make_run(tmp_path / "run", "bytenet", f"model.tie_embedding={tie}")
    saved = load_checkpoint(tmp_path / "run").weights
    file = tmp_path / "run" / "checkpoints" / "update-00000003.safetensors"
    copy = shutil.copy(file, tmp_path / "copy.safetensors")
    for path in (tmp_path / "run", file, copy):
        loaded = load_run(path, CPU)
        assert (loaded.config, loaded.facts, loaded.model.training) == (config, Facts(update=3), False)
        for name, tensor in weights(loaded.model).items():
            assert torch.equal(tensor, saved[name])
        tied = loaded.model.decoder.output.weight is loaded.model.embedding.weight
        assert tied == (tie == "true")


def test_files_are_safetensors(tmp_path: Path) -> None:
    """The library reads back every type, shape and layout, and the same contents give the same bytes."""
    generator = np.random.default_rng(5)
    tensors = {}
    for dtype in checkpoint.NAMES:
        values = torch.from_numpy(generator.integers(0, 2, (4, 6)))
        tensors |= {f"{dtype}": values.to(dtype), f"{dtype} turned": values.to(dtype).t()}
        tensors |= {f"{dtype} scalar": values[0, 0].to(dtype), f"{dtype} empty": values[:0].to(dtype)}
        tensors[f"{dtype} part"] = values.to(dtype)[1:3, ::2]
    write_weights(tmp_path / "one", tensors, CONFIG, Facts(source_profile="é"))
    write_weights(tmp_path / "two", dict(reversed(tensors.items())), CONFIG, Facts(source_profile="é"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    for n in range(8):  # wherever the header ends, the numbers begin at a multiple of eight
        write_weights(tmp_path / "three", tensors, CONFIG, Facts(source_profile="x" * n))
        assert int.from_bytes((tmp_path / "three").read_bytes()[:8], "little") % 8 == 0
    back = safetensors.torch.load_file(tmp_path / "one")
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and torch.equal(back[name], tensor), name


def test_the_pointer_knows_the_files(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Size and SHA-256 in checkpoints.json are those of the files, computed here on their own."""
    monkeypatch.setattr(tensor_file, "CHUNK", 700)  # several pieces a file
    save(run, 1, best=True)
    (kept,) = json.loads((run / "checkpoints.json").read_bytes())["kept"]
    for holds, name in (("weights", "update-00000001"), ("trainer", "update-00000001.trainer")):
        data = (run / "checkpoints" / f"{name}.safetensors").read_bytes()
        assert len(data) > tensor_file.CHUNK
        assert kept[holds] == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def test_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    """Another architecture, another size, another program's file, another part, an older version."""
    make_run(tmp_path / "run")
    make_run(tmp_path / "other", "convs2s")
    for name in ("checkpoints", "checkpoints.json"):
        (tmp_path / "run" / name).rename(tmp_path / name)
        (tmp_path / "other" / name).rename(tmp_path / "run" / name)
    with pytest.raises(CheckpointError, match=r"another model \(convs2s\).*bytenet"):
        load_run(tmp_path / "run", CPU)
    larger = load_config("bytenet", "tiny", "", ["model.d_channels=100"])
    own = tmp_path / "own.safetensors"
    write_weights(own, weights(build_model(larger.model)), CONFIG, Facts())
    with pytest.raises(CheckpointError, match="does not fit the model"):
        load_run(own, CPU)
    own.write_bytes(safetensors.torch.save({"a": torch.zeros(2)}))
    with pytest.raises(CheckpointError, match="not a bytenmt checkpoint"):
        load_run(own, CPU)
    own.write_bytes(safetensors.torch.save({"a": torch.zeros(2)}, {"format": "bytenmt 1"}))
    with pytest.raises(CheckpointError, match=r"own.safetensors was written by an older version.*train"):
        load_run(own, CPU)
    with pytest.raises(CheckpointError, match="holds trainer, expected weights"):
        load_run(tmp_path / "run" / "checkpoints" / "update-00000003.trainer.safetensors", CPU)
    with pytest.raises(CheckpointError, match="none.safetensors is missing"):
        load_run(tmp_path / "none.safetensors", CPU)
    (tmp_path / "text").write_text("text")
    with pytest.raises(CheckpointError, match="text is not a run folder"):
        load_run(tmp_path / "text", CPU)


def test_an_older_run_is_refused(run: Path) -> None:
    """A folder with checkpoints but no pointer is refused in one line, instead of resuming from the start."""
    assert not has_checkpoint(run)
    with pytest.raises(CheckpointError, match="has no checkpoint yet"):
        load_run(run, CPU)
    (run / "best.safetensors").write_bytes(b"")
    for use in (lambda: has_checkpoint(run), lambda: load_run(run, CPU), lambda: save(run, 1)):
        with pytest.raises(CheckpointError, match="older version of bytenmt: train it again"):
            use()


# What is kept.


def test_the_last_and_the_best_are_kept(run: Path) -> None:
    """Both files of the last two; of an older best one the weights."""
    expected = [
        (1, True, {"1", "1t"}),
        (2, False, {"1", "1t", "2", "2t"}),
        (3, False, {"1", "2", "2t", "3", "3t"}),
        (4, True, {"3", "3t", "4", "4t"}),
        (5, True, {"4", "4t", "5", "5t"}),
        (6, False, {"5", "5t", "6", "6t"}),
        (7, False, {"5", "6", "6t", "7", "7t"}),
    ]
    for update, best, there in expected:
        save(run, update, best=best)
        assert files(run) == there
        assert is_saved(run, update)
    kept = read_pointer(run)
    assert ([k.update for k in kept.checkpoints], kept.best, kept.last) == ([5, 6, 7], 5, 7)
    assert [(k.facts.pairs, k.facts.target_bytes) for k in kept.checkpoints] == [
        (5, None),
        (6, None),
        (7, None),
    ]
    assert is_saved(run, 6) and load_checkpoint(run).update == 7
    with pytest.raises(CheckpointError, match="only the weights of update 5: .* takes one of 6, 7"):
        load_checkpoint(run, 5)
    with pytest.raises(CheckpointError, match="no checkpoint of update 4: .* takes one of 6, 7"):
        load_checkpoint(run, 4)
    save(run, 8, keep=1)
    assert files(run) == {"5", "8", "8t"}
    with pytest.raises(ValueError, match="at least 1"):
        save(run, 9, keep=0)


def test_best_and_last_of_a_run(tmp_path: Path) -> None:
    """Translation takes the best, the last where nothing was validated, or the last where told so."""
    make_run(tmp_path / "run")
    config = checkpoint.read_config(tmp_path / "run")
    for update in (4, 5):
        model = build_model(config.model)
        save_checkpoint(tmp_path / "run", update, weights(model), {}, config, Facts(), keep=1, best=False)
    assert load_run(tmp_path / "run", CPU).facts == Facts(update=3)
    assert load_run(tmp_path / "run", CPU, "last").facts == Facts(update=5)
    save_checkpoint(tmp_path / "run", 2, weights(model), {}, config, Facts(), keep=1, best=False)
    assert load_run(tmp_path / "run", CPU).facts == Facts(update=2)


def test_going_on_from_an_older_one_drops_the_newer(run: Path) -> None:
    """With the first save, not before; the best too where it is newer."""
    for update in (1, 2, 3, 4):
        save(run, update, keep=4, best=update in (2, 4))
    load_checkpoint(run, 2)
    assert len(files(run)) == 8
    save(run, 3, seed=33, keep=4)
    assert files(run) == {"1", "1t", "2", "2t", "3-2", "3-2t"}
    assert is_saved(run, 2) and is_saved(run, 3, 33)
    assert (read_pointer(run).best, read_pointer(run).last) == (None, 3)
    save(run, 4, keep=4, best=True)
    assert read_pointer(run).best == 4


def test_the_same_update_again(run: Path) -> None:
    """Equal contents keep their files and rank; other contents replace them."""
    save(run, 1)
    save(run, 2, best=True)
    save(run, 2)
    assert files(run) == {"1", "1t", "2", "2t"} and read_pointer(run).best == 2
    save(run, 2, seed=22)
    assert files(run) == {"1", "1t", "2-2", "2-2t"} and is_saved(run, 2, 22)
    save(run, 2, seed=23)
    assert files(run) == {"1", "1t", "2", "2t"} and is_saved(run, 2, 23)


def test_the_same_weights_with_another_trainer_state(run: Path) -> None:
    """A file that the pointer names is never replaced by another one, whichever of the two differs."""
    save(run, 1)
    one, other = contents(1)
    facts = Facts(pairs=1)
    states = moments(
        run,
        lambda: save_checkpoint(
            run, 1, one, {**other, "x": one["embedding.weight"]}, CONFIG, facts, keep=1, best=False
        ),
    )
    for state in states:
        kept = json.loads(state["checkpoints.json"])["kept"][0]
        name = f"checkpoints/update-00000001{'-2' if kept['slot'] == 2 else ''}"
        for holds, ending in (("weights", ".safetensors"), ("trainer", ".trainer.safetensors")):
            assert hashlib.sha256(state[name + ending]).hexdigest() == kept[holds]["sha256"]
    assert len(states) > 6 and "x" in load_checkpoint(run).trainer


def test_other_files_are_left_alone(run: Path) -> None:
    """Clearing deletes checkpoints and leftovers of killed writes, nothing else."""
    save(run, 1)
    folder = run / "checkpoints"
    ours = [folder / ".update-00000001.weights.12.tmp", folder / "update-00000009.safetensors"]
    ours += [run / ".checkpoints.json.12.tmp", run / ".metrics.jsonl.12.tmp"]
    others = [folder / "average.safetensors", folder / "notes", run / ".hidden.tmp", run / "x.safetensors"]
    for path in [*ours, *others]:
        path.write_bytes(b"")
    save(run, 2)
    assert not any(path.exists() for path in ours) and all(path.exists() for path in others)


# A kill at any moment.


def contents_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, as another process sees it."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def moments(folder: Path, action: Callable[[], None]) -> list[dict[str, bytes]]:
    """Yield the files on disk before every line of the package that an action executes, and at its end: all
    states that kill -9 can leave, without unflushed data. Equal states are yielded once.
    """
    seen: list[dict[str, bytes]] = []

    def look() -> None:
        now = contents_of(folder)
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


KILLED: dict[str, tuple[list[int], Callable[[Path], None], tuple[int, int | None], set[str]]] = {
    # name: updates saved before, the save that is killed, what it saves, the files after one save more
    "first": ([], lambda run: save(run, 1), (1, None), {"4", "4t"}),
    "next": ([1, 2], lambda run: save(run, 3, best=True), (3, None), {"4", "4t"}),
    "again": ([1, 2], lambda run: save(run, 2, seed=5), (2, 5), {"4", "4t"}),
    "older": ([1, 2, 3], lambda run: save(run, 2, seed=5), (2, 5), {"4", "4t"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", KILLED)
def test_a_kill_leaves_the_old_checkpoint_or_the_new(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every line of a save: all that the pointer names is there bit for bit, and the next save works
    and leaves nothing lying about."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # the kernel outlives a killed process
    monkeypatch.setattr(tensor_file, "CHUNK", 700)
    before, action, (update, seed), after = KILLED[case]
    run = tmp_path / "run"
    run.mkdir()
    for older in before:
        save(run, older)
    old = {update: None for update in before[-2:]}
    states = moments(run, lambda: action(run))
    seen = []
    for state in states:
        shutil.rmtree(run)
        (run / "checkpoints").mkdir(parents=True)
        for name, data in state.items():
            (run / name).write_bytes(data)
        if has_checkpoint(run):
            kept = {one.update: one.facts.target_bytes for one in read_pointer(run).checkpoints}
            seen.append("old" if kept == old else "new")
            assert kept == old or kept[update] == seed and max(kept) == update
            assert all(is_saved(run, one, kept[one]) for one in kept)
        else:
            seen.append("none")
        save(run, 4, keep=1, best=True)
        assert is_saved(run, 4) and files(run) == after
    n_old = seen.count("none" if not before else "old")
    assert len(seen) - n_old == seen.count("new") >= 1 and n_old >= 6
    assert seen == sorted(seen, reverse=True)  # once new, always new


def test_everything_is_on_disk_before_the_next_step(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a power cut: a file is synced before it gets its name, names before the pointer, the pointer
    before anything is deleted."""
    save(run, 1)
    save(run, 2)
    log: list[tuple[str, str]] = []
    calls = {"fsync": os.fsync, "replace": os.replace, "unlink": os.unlink}

    def record(call: str) -> Callable[..., None]:
        def recorded(what: Any, *more: Any, **options: Any) -> None:
            name = (
                os.readlink(f"/proc/self/fd/{what}")
                if call == "fsync"
                else os.fspath(more[0] if more else what)
            )
            if call == "fsync" and not os.path.isdir(name):
                assert os.fstat(what).st_size > 200, "nothing is left in the process"
            log.append((call, "folder" if os.path.isdir(name) else Path(name).name))
            calls[call](what, *more, **options)

        return recorded

    for call in calls:
        monkeypatch.setattr(os, call, record(call))
    save(run, 3)
    pid = os.getpid()
    assert log[:9] == [
        ("fsync", f".update-00000003.weights.{pid}.tmp"),
        ("fsync", f".update-00000003.trainer.{pid}.tmp"),
        ("replace", "update-00000003.safetensors"),
        ("replace", "update-00000003.trainer.safetensors"),
        ("fsync", "folder"),
        ("unlink", f".checkpoints.json.{pid}.tmp"),  # whatever somebody has put there
        ("fsync", f".checkpoints.json.{pid}.tmp"),
        ("replace", "checkpoints.json"),
        ("fsync", "folder"),
    ]
    assert sorted(log[9:]) == [
        ("unlink", "update-00000001.safetensors"),
        ("unlink", "update-00000001.trainer.safetensors"),
    ]


# A disk that is full.


def test_a_failed_save_leaves_the_old_checkpoint(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the disk at every call that can fail: one line, all files as they were."""
    save(run, 1)
    save(run, 2)
    before = contents_of(run)
    left = 0

    def failing(call: Callable[..., Any]) -> Callable[..., Any]:
        def fails(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(28, "No space left on device")
            return call(*arguments, **options)

        return fails

    def open_failing(path: Path, mode: str) -> Any:
        file = failing(open)(path, mode)
        return _Failing(file, failing) if mode == "wb" else file

    patches = [(os, "fsync"), (os, "replace")]
    with monkeypatch.context() as patched:
        patched.setattr(tensor_file, "CHUNK", 700)
        patched.setattr(tensor_file, "open", open_failing, raising=False)
        for module, name in patches:
            patched.setattr(module, name, failing(getattr(module, name)))
        for left_now in range(200):
            left = left_now
            try:
                save(run, 3, best=True)
                break
            except CheckpointError as error:
                assert "update 3" in str(error) and "No space left on device" in str(error)
                assert "that of update 2 stands" in str(error) and "\n" not in str(error)
            now = contents_of(run)
            left = 10**6
            if read_pointer(run).last == 3:  # only the very last sync failed
                assert is_saved(run, 3)
                shutil.rmtree(run / "checkpoints")
                (run / "checkpoints.json").unlink()
                save(run, 1)
                save(run, 2)
            else:
                assert now == before, left_now
    assert left_now > 15 and is_saved(run, 3) and files(run) == {"2", "2t", "3", "3t"}


class _Failing:
    """A file whose writes can fail."""

    def __init__(self, file: Any, failing: Callable[..., Any]) -> None:
        self.file, self.fileno, self.flush = file, file.fileno, file.flush
        self.write = failing(file.write)

    def __enter__(self) -> "_Failing":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


@contextmanager
def file_limit(n_bytes: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the system itself refuses. Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_real_limit(run: Path) -> None:
    """The system refuses to write on, in the weights, the trainer's file or the pointer."""
    sizes = set()
    for update in (1, 2):
        save(run, update)
        sizes |= {len(data) for data in contents_of(run).values()}
    before = contents_of(run)
    for limit in (0, 1, 1000, *(size - 1 for size in sizes)):
        with file_limit(limit), pytest.raises(CheckpointError) as caught:
            save(run, 3)
        assert "cannot save the checkpoint of update 3" in str(caught.value)
        assert "File too large; that of update 2 stands" in str(caught.value)
        assert contents_of(run) == before and is_saved(run, 2)
    with file_limit(max(sizes)):
        save(run, 3)
    assert is_saved(run, 3)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "run").write_text("")
    with pytest.raises(CheckpointError, match=r"cannot save the checkpoint of update 1 in .*run: Not a dir"):
        save(tmp_path / "run", 1)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk between the first byte and the last: the old file stands and nothing lies about."""
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_metrics_are_whole_lines(tmp_path: Path) -> None:
    """A disk that fills in the middle of a record leaves the records before it."""
    append_metrics(tmp_path, Facts(update=1))
    with file_limit(20), pytest.raises(CheckpointError, match="cannot write .*metrics.jsonl"):
        append_metrics(tmp_path, {"update": 2, "bits_per_byte": 1.5})
    append_metrics(tmp_path, Facts(update=3))
    assert (tmp_path / "metrics.jsonl").read_bytes() == b'{"update":1}\n{"update":3}\n'
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(b'{"update":1,"x')
    cut_metrics(tmp_path, 2)
    assert (tmp_path / "metrics.jsonl").read_bytes() == b'{"update":1}\n'


# Files that are not what was written.


@pytest.mark.parametrize("part", ["", ".trainer"])
def test_damage_is_refused_by_name(run: Path, part: str) -> None:
    """Cut off anywhere or one bit turned anywhere, in the header too: the one before is told of and works."""
    for update in (100, 200, 300):
        save(run, update, keep=3)
    path = run / "checkpoints" / f"update-00000300{part}.safetensors"
    whole = path.read_bytes()
    chance = random.Random(3)
    bits = [0, 64, 8 * 8 + 5, 8 * len(whole) - 1, *(chance.randrange(8 * len(whole)) for _ in range(60))]
    bits += [chance.randrange(8 * 200) for _ in range(10)]
    damaged = []
    for bit in bits:
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(changed))
    sizes = [0, 1, 7, 8, 9, len(whole) // 2, len(whole) - 1]
    for data in [*damaged, *(whole[:size] for size in sizes), whole + b"\0"]:
        path.write_bytes(data)
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(run)
        said = str(caught.value)
        assert said.startswith(f"{path} is damaged") and "\n" not in said
        assert ("its SHA-256 differs" in said) == (len(data) == len(whole))
        assert said.endswith("--resume-from 200 goes on from the one before it (kept: 100, 200)")
    path.unlink()
    with pytest.raises(CheckpointError, match="is missing: --resume-from 200"):
        load_checkpoint(run)
    assert is_saved(run, 200)


def test_damage_is_told_to_who_translates(tmp_path: Path) -> None:
    """With the file to use instead; a damaged file is refused when it is given by its own name too, and
    a copy when it is cut off."""
    run = tmp_path / "run"
    config = make_run(run)
    path = run / "checkpoints" / "update-00000003.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="SHA-256 differs.*: no other checkpoint is kept"):
        load_run(run, CPU)
    save_checkpoint(run, 4, weights(build_model(config.model)), {}, config, Facts(), keep=2, best=False)
    with pytest.raises(CheckpointError) as caught:
        load_run(run, CPU)
    other = str(caught.value).partition(": give -m ")[2]
    assert load_run(Path(other), CPU).facts == Facts(update=4)
    with pytest.raises(CheckpointError, match="update-00000003.safetensors is damaged.*SHA-256"):
        load_run(path, CPU)
    copy = tmp_path / "copy.safetensors"
    for share in (0.0, 0.001, 0.5, 0.999):
        copy.write_bytes(data[: int(share * len(data))])
        with pytest.raises(CheckpointError, match="copy.safetensors is damaged or cut off"):
            load_run(copy, CPU)


def test_a_damaged_pointer_is_refused_by_name(run: Path) -> None:
    """Cut off, or contradicting itself: by every command, and a save does not replace it."""
    save(run, 1)
    save(run, 2)
    path = run / "checkpoints.json"
    whole = path.read_bytes()
    wrong = [whole[:size] for size in (0, 1, len(whole) // 2, len(whole) - 1)]
    wrong += [whole.replace(b'"last": 2', b'"last": 1'), whole.replace(b'"best": null', b'"best": 7')]
    wrong += [whole.replace(b'"update": 1', b'"update": 3'), whole.replace(b'"sha256": "', b'"sha256": "X')]
    wrong += [whole.replace(b'"kept"', b'"Kept"'), b"\xff" + whole[1:], b"[]"]
    for data in wrong:
        assert data != whole
        path.write_bytes(data)
        for use in (lambda: load_checkpoint(run), lambda: load_run(run, CPU), lambda: save(run, 3)):
            with pytest.raises(CheckpointError) as caught:
                use()
            assert str(caught.value).startswith(f"{path} is damaged") and "\n" not in str(caught.value)
        assert has_checkpoint(run) and path.read_bytes() == data
    path.write_bytes(whole.replace(b"bytenmt 2", b"bytenmt 3"))
    with pytest.raises(CheckpointError, match="by another version"):
        load_checkpoint(run)
    path.write_bytes(whole)
    assert is_saved(run, 2)


def test_training_goes_on_while_a_model_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that the pointer named a moment ago is deleted: the pointer is read again."""
    run = tmp_path / "run"
    config = make_run(run)
    stale = read_pointer(run)
    for update in (4, 5, 6):
        save_checkpoint(
            run, update, weights(build_model(config.model)), {}, config, Facts(), keep=1, best=True
        )
    answers = [stale, manifest.read_pointer(run)]
    monkeypatch.setattr(weights_module, "read_pointer", lambda path: answers.pop(0))
    assert load_run(run, CPU).facts == Facts(update=6)
