"""Run folders of a version before: tests/files/older_runs.tar.xz holds a translation run and one without a
source, 4 updates long, with the texts that they learnt."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from small_runs import CPU, weights

from bytenmt.checkpoints.checkpoint import load_run
from bytenmt.checkpoints.manifest import read_pointer
from bytenmt.checkpoints.weights import read_config
from bytenmt.config.facts import TextFact
from bytenmt.config.schema import Config, config_tree, parse_config
from bytenmt.data.corpus import PairFiles
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError
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
def test_it_goes_on(older: Path, name: str) -> None:
    """Resuming equals an uninterrupted run; the text is recognised by its size wherever it is, and other
    text is refused.
    """
    run, source = older / name, name == "luong"
    config = longer(read_config(run))
    with pytest.raises(BytenmtError, match="not the text that|other text"):
        train(run, config, **texts(older, source) | {"files": other(older, source)}, device=CPU, resume=True)
    train(run, config, **texts(older, source), device=CPU, resume=True)
    whole_config = replace(config, train=replace(config.train, precision="fp32"))  # as auto was on a CPU
    train(older / "whole", whole_config, **texts(older, source), device=CPU)
    one, whole = weights(run), weights(older / "whole")
    assert one.keys() == whole.keys()
    for key, tensor in one.items():
        torch.testing.assert_close(tensor, whole[key], rtol=1e-3, atol=1e-5)
    facts = read_pointer(run).last_facts()
    assert facts.update == 7 and facts.progress is not None and facts.progress.update == 7


def other(folder: Path, source: bool) -> list[PairFiles]:
    if source:
        (folder / "first").write_text("a\n" * 30)
        return [PairFiles(folder / "first", folder / "first")]
    (folder / "more").write_bytes((folder / "text").read_bytes()[:-1])
    return [PairFiles(tgt=folder / "more")]


def test_what_it_tells_of_its_text(older: Path) -> None:
    (text,) = read_pointer(older / "seq2seq").last_facts().texts
    assert isinstance(text, TextFact) and text.bytes == (older / "text").stat().st_size
