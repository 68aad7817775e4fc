"""A run that begins with another's weights: with them exactly, and with nothing else of that run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from processes import results
from small_runs import CPU, assert_same, config, weights

from bytenmt.checkpoints.checkpoint import read_weights
from bytenmt.config.schema import Config, load_config
from bytenmt.distributed import Group
from bytenmt.errors import CheckpointError, ConfigError
from bytenmt.training.arguments import configuration, settings_tree
from bytenmt.training.run import train

STILL = ("train.lr=1e-30", "train.weight_decay=0.0", "train.valid_lines=0")  # weights as they were


def begun(texts: dict[str, Any], run: Path, *settings: str, arch: str = "luong", **more: Any) -> Path:
    train(run, config(arch, "train.max_updates=2", *settings), **texts, device=CPU, **more)
    return run


def best(path: Path) -> dict[str, torch.Tensor]:
    return read_weights(path)[1][0]


@pytest.fixture(scope="module")
def module_texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from bytenmt.data.corpus import PairFiles

    folder = tmp_path_factory.mktemp("texts")
    for name, lines in (("src", "one two\nthree\n"), ("tgt", "eins zwei\ndrei\n")):
        (folder / name).write_text(lines * 9)
    pair = PairFiles(folder / "src", folder / "tgt")
    return {"files": [pair], "valid": pair}


@pytest.fixture(scope="module")
def first_run(module_texts: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return begun(module_texts, tmp_path_factory.mktemp("runs") / "first")


@pytest.mark.slow
@pytest.mark.parametrize("ema", [(), ("train.ema=0.9999",)])
def test_it_begins_with_the_weights(
    first_run: Path, texts: dict[str, Any], tmp_path: Path, ema: tuple[str, ...]
) -> None:
    """The new run has the weights of the best checkpoint or average, another dropout, a fresh optimiser, and
    its own text.
    """
    run = begun(texts, tmp_path / "next", *STILL, "model.dropout=0.1", *ema, init_from=first_run)
    assert_same(best(first_run), best(run))
    facts = read_weights(run, "last")[1][2]
    assert facts.pairs == 40
    assert facts.progress is not None and facts.progress.update == 2


@pytest.mark.slow
def test_resume_does_not_begin_again(first_run: Path, texts: dict[str, Any], tmp_path: Path) -> None:
    """Stopped and resumed by the same options, it ends with the weights of one that was not, even where the
    first run has gone since."""
    constant = "train.schedule='constant'"
    gone = tmp_path / "gone"
    begun(texts, gone)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    wanted = config("luong", constant, "train.max_updates=6", "train.ema=0.9")
    train(whole, wanted, **texts, device=CPU, init_from=gone)
    stopped = config("luong", constant, "train.max_updates=3", "train.ema=0.9")
    train(parts, stopped, **texts, device=CPU, init_from=gone, resume=True)
    gone.rename(tmp_path / "elsewhere")
    train(parts, wanted, **texts, device=CPU, init_from=gone, resume=True)
    assert_same(weights(whole), weights(parts))


def _as_one(group: Group, folder: Path, texts: dict[str, Any], first_run: Path) -> None:
    # What they read differs, as on machines whose disks do: the leading process reads for all.
    start = first_run if group.is_leader else folder / "not there"
    begun(texts, folder / "run", *STILL, init_from=start, group=group)


@pytest.mark.slow
def test_processes_begin_with_the_same(first_run: Path, texts: dict[str, Any], tmp_path: Path) -> None:
    results(_as_one, tmp_path, texts, first_run)
    assert_same(best(first_run), best(tmp_path / "run"))


def test_another_model_is_refused(first_run: Path, texts: dict[str, Any], tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(CheckpointError, match="another model"):
        begun(texts, tmp_path / "wide", "model.d_hidden=16", init_from=first_run)
    assert not (tmp_path / "wide").exists()


def options(first_run: Path, *settings: str, arch: str | None = None, preset: str | None = None) -> Config:
    return configuration(
        first_run.parent / "new", False, arch, preset, None, settings_tree(settings, {}), True, first_run
    )


def test_its_model_comes_from_there(first_run: Path) -> None:
    """Dropout may be changed, and the other keys are those of any run."""
    own = config("luong")
    assert options(first_run).model == own.model
    assert options(first_run, arch="luong").train == load_config("luong", "small", "", []).train
    assert options(first_run, preset="tiny").train == load_config("luong", "tiny", "", []).train
    other = options(first_run, "model.dropout=0.5", "train.lr=0.5")
    assert other.model == msgspec.structs.replace(own.model, dropout=0.5) and other.train.lr == 0.5
    with pytest.raises(ConfigError, match="--arch is 'bytenet', but --init-from .* is 'luong'"):
        options(first_run, arch="bytenet")
    with pytest.raises(ConfigError, match="unknown key model.wrong"):
        options(first_run, "model.wrong=1")
