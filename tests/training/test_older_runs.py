"""Run folders of a version before: tests/files/older_runs.tar.xz holds a translation run and one without a
source, 4 updates long, with the texts that they learnt."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
from small_runs import CPU

from bytenmt.checkpoints.checkpoint import load_run
from bytenmt.checkpoints.weights import read_config, read_weights
from bytenmt.config.facts import TextFact
from bytenmt.config.schema import Config, config_tree, parse_config
from bytenmt.data.corpus import PairFiles
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.decoding.translator import Translator
from bytenmt.errors import CheckpointError
from bytenmt.training.run import train

pytestmark = pytest.mark.slow

FILES = Path(__file__).parents[1] / "files"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The folder of both runs and their texts."""
    with tarfile.open(FILES / "older_runs.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def longer(config: Config) -> Config:
    tree = config_tree(config)
    tree["train"]["max_updates"] = 7
    return parse_config(tree)


def texts(folder: Path, source: bool) -> dict[str, Any]:
    pair = PairFiles(folder / "source", folder / "target") if source else PairFiles(tgt=folder / "text")
    return {"files": [pair], "valid": pair}


def test_it_translates(older: Path) -> None:
    loaded = load_run(older / "luong", CPU)
    assert (loaded.facts.update, loaded.facts.pairs, loaded.facts.target_bytes) == (4, 6, 66)
    translated = Translator.from_runtime(runtime_from_models([loaded.model], CPU)).translate(
        [b"one red", b"two blue"]
    )
    assert len(translated) == 2


@pytest.mark.parametrize("name", ["luong", "seq2seq"])
def test_another_run_begins_with_its_weights(older: Path, name: str) -> None:
    """A resume is refused in one line that says what to do."""
    run, source = older / name, name == "luong"
    config = longer(read_config(run))
    with pytest.raises(CheckpointError, match="is of version 0.1: begin another run with its weights"):
        train(run, config, **texts(older, source), device=CPU, resume=True)
    train(older / "new", config, **texts(older, source), device=CPU, init_from=run)
    assert read_weights(older / "new", "last")[1].facts.update == 7


def test_what_it_tells_of_its_text(older: Path) -> None:
    (text,) = read_weights(older / "seq2seq", "last")[1].facts.texts
    assert isinstance(text, TextFact) and text.bytes == (older / "text").stat().st_size
