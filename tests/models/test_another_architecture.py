"""The example architecture of docs/adding-an-architecture.md is trained, stored and used to translate."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import CPU, config
from source_tree import PACKAGE

from bytenmt.config import schema
from bytenmt.config.presets import PRESETS
from bytenmt.config.schema import load_config, parse_config
from bytenmt.decoding.model_summary import information, program_of
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError, CheckpointError, ConfigError
from bytenmt.models import MODELS, build_model, register
from bytenmt.reporter import Reporter
from bytenmt.storage.average import average
from bytenmt.storage.quantize import convert
from bytenmt.storage.tensor_file import entry, read_arrays, serialised
from bytenmt.training.run import train

LINES = [b"one", "둘 three".encode(), b"x"]


@pytest.fixture
def echo() -> Iterator[ModuleType]:
    """The module on the page, registered for the length of a test."""
    text = (PACKAGE / "docs/adding-an-architecture.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert source.count("\n") <= 66
    module = ModuleType("echo_of_the_page")
    sys.modules[module.__name__] = module  # where its annotations are looked up
    try:
        exec(compile(source, module.__name__, "exec", dont_inherit=True), vars(module))
        yield module
    finally:
        del sys.modules[module.__name__]
        MODELS.pop("echo", None)
        schema.REGISTERED.pop("echo", None)
        for of in PRESETS.values():
            of.pop("echo", None)


def trained(run: Path, texts: dict[str, Any], *settings: str) -> Path:
    """A few updates of it."""
    limits = ["train.max_updates=6", "train.max_tokens=200", "train.valid_lines=2", *settings]
    train(run, load_config("echo", None, "", limits), **texts, device=CPU)
    return run


def test_it_is_trained_and_asked(echo: ModuleType, tmp_path: Path, texts: dict[str, Any]) -> None:
    """auto takes PyTorch in place of the CPU engine, and says so once; what insists on that engine fails."""
    run, told = trained(tmp_path / "run", texts), list[str]()

    class Told(Reporter):
        def say(self, line: str) -> None:
            told.append(line)

    asked: dict[str, Any] = {"device": "cpu", "beam": 2, "max_len_b": 9}
    found = Translator.load(run, reporter=Told(), **asked).translate(LINES)
    assert told == ["bytenmt: decoding by --engine torch: the numba engine has no program for echo"]
    assert found == Translator.load(run, engine="torch", reporter=Told(), **asked).translate(LINES)
    assert len(told) == 1
    for engine, precision, what in (("numba", "auto", "no program for echo"), ("auto", "int8", "torch has")):
        with pytest.raises(BytenmtError, match=what):
            Translator.load(run, engine=engine, precision=precision, device="cpu")
    with pytest.raises(BytenmtError, match="has no program for echo"):
        program_of(str(run))
    assert "echo" in information(str(run), None) and "fading = 0.8" in information("echo", None)


def test_its_weights_are_stored_and_checked(echo: ModuleType, tmp_path: Path, texts: dict[str, Any]) -> None:
    """Converted, averaged, and refused where they do not fit, as those of any other."""
    run = trained(tmp_path / "run", texts)
    convert(run, tmp_path / "half.safetensors", "int8")
    average([run], tmp_path / "mean.safetensors", 1)
    for file in ("half.safetensors", "mean.safetensors"):
        assert Translator.load(tmp_path / file, device="cpu", max_len_b=5).translate(LINES)
    arrays, facts = read_arrays(tmp_path / "mean.safetensors")
    arrays["decoder.0.bias"] = np.zeros(3, np.float32)
    entries = {name: entry(part) for name, part in arrays.items()}
    (tmp_path / "bad.safetensors").write_bytes(b"".join(serialised(entries, facts)))
    with pytest.raises(CheckpointError, match=r"first 'decoder\.0\.bias'"):
        Translator.load(tmp_path / "bad.safetensors", device="cpu")


def test_its_configuration_is_strict(echo: ModuleType) -> None:
    assert load_config("echo", None, "", ["model.source=false"]).model.source is False
    for setting, what in (
        ("model.fading=x", r"model\.fading"),
        ("model.d_hidden=3", r"unknown key model\.d_hidden"),
        ("train.lr=-1", r"train\.lr"),
    ):
        with pytest.raises(ConfigError, match=what):
            load_config("echo", None, "", [setting])
    with pytest.raises(ValueError, match="already"):
        register(echo.EchoConfig, echo.Echo, {"small": {}})


def test_a_chunk_is_as_good_as_its_bytes(echo: ModuleType) -> None:
    """The contract: any cut of the target gives the same logits."""
    torch.manual_seed(1)
    model = build_model(load_config("echo", None, "", []).model).eval()
    src, tgt = (torch.randint(32, 127, (2, n), dtype=torch.uint8) for n in (5, 7))
    memory = model.encode(src, torch.tensor([5, 3]))
    whole, _ = model(tgt, memory, model.start(memory))
    state, parts = model.start(memory), []
    for part in tgt.split([1, 4, 2], dim=1):
        logits, state = model(part, memory, state)
        parts.append(logits)
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-6)


def test_the_five_are_unchanged_by_it(echo: ModuleType) -> None:
    assert config("luong") == config("luong") and "echo" not in PRESETS["tiny"]
    with pytest.raises(ConfigError, match="preset tiny is of .* alone, not of echo"):
        load_config("echo", "tiny", "", [])


def test_options_that_it_has_no_use_for_are_refused(echo: ModuleType) -> None:
    for setting in ("model.tie_embedding=true", "model.ngrams=[3]"):
        with pytest.raises(ConfigError, match="leave them out"):
            load_config("echo", None, "", [setting])
    assert load_config("echo", None, "", ["model.dropout=0.3"]).model.dropout == 0.3


def test_another_process_is_told_to_import_it() -> None:
    for told in (
        lambda: load_config("echo", None, "", []),
        lambda: parse_config({"model": {"arch": "echo"}}),
    ):
        with pytest.raises(ConfigError, match="echo.*once the program has imported that module"):
            told()
