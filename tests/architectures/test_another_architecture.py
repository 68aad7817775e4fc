"""The example architecture of docs/adding-an-architecture.md is trained, stored and used to translate."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from small_runs import CPU, forget_architecture
from source_tree import PACKAGE

from bytenmt import architectures
from bytenmt.architectures.parameters import decoder_weights, parameter_shapes, receptive_field, state_bytes
from bytenmt.architectures.registry import build_model, register
from bytenmt.config.schema import load_config, parse_config
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.interface import Options, Request
from bytenmt.decoding.model_summary import model_description
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.evaluation.properties import properties
from bytenmt.reporter import Reporter
from bytenmt.training.run import train

LINES = [b"one", "둘 three".encode(), b"x"]


def guide_blocks() -> dict[str, str]:
    """The guide's Python code by the file that it belongs to; that of a program of one's own as "own"."""
    text = (PACKAGE / "docs/adding-an-architecture.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert sum(block.count("\n") for block in blocks) <= 110
    return dict(zip(("config.py", "model.py", "program.py", "own"), blocks, strict=True))


def write_folder(architectures: Path) -> None:
    """Write the example's folder as the guide has it."""
    folder = architectures / "echo"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name, block in guide_blocks().items():
        if name != "own":
            (folder / name).write_text(block, encoding="utf-8")


@pytest.fixture(params=["with a program", "without one"])
def echo(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModuleType]:
    """The example's module, registered for the length of a test; its name tells whether it has a program."""
    before = set(sys.modules)
    own, with_program = guide_blocks()["own"], request.param == "with a program"
    (tmp_path / "architectures").mkdir()
    write_folder(tmp_path / "architectures")
    architectures.__path__.append(str(tmp_path / "architectures"))
    try:
        config, model, program = (
            import_module(f"bytenmt.architectures.echo.{name}") for name in ("config", "model", "program")
        )
        names = vars(config) | vars(model) | {"write_program": program.write_program}
        if not with_program:
            own = own.replace(", write_program)", ")")
        exec(own, names)
        yield model
    finally:
        architectures.__path__.pop()
        for name in set(sys.modules) - before:
            if name.startswith("bytenmt.architectures.echo"):
                del sys.modules[name]
        vars(architectures).pop("echo", None)
        forget_architecture("echo")


def trained(run: Path, texts: dict[str, Any], *settings: str) -> Path:
    """A few updates of it."""
    limits = ["train.max_updates=6", "train.max_tokens=200", "train.valid_lines=2", *settings]
    train(run, load_config("echo", None, "", limits), **texts, device=CPU)
    return run


without_a_program = pytest.mark.parametrize("echo", ["without one"], indirect=True)


@pytest.mark.parametrize("echo", ["with a program"], indirect=True)
@pytest.mark.parametrize("source", ["true", "false"])
def test_both_engines_run_it(echo: ModuleType, tmp_path: Path, source: str) -> None:
    """The program computes what the module does, and tells its parameters and its costs."""
    config = load_config("echo", None, "", [f"model.source={source}", "model.d_embedding=24"]).model
    torch.manual_seed(2)
    model = build_model(config).eval()
    with torch.no_grad():
        for part in model.parameters():
            part.mul_(3)
    shapes = {name: tuple(part.shape) for name, part in model.named_parameters()}
    assert parameter_shapes(config) == shapes
    assert decoder_weights(config) == model.decoder_weights()
    assert state_bytes(config) == 4 * sum(part.numel() for part in model.first_state()) == 4 * 24
    assert receptive_field(config) is None and properties(config) is None
    packed = pack_model(
        {name: part.detach().numpy() for name, part in model.named_parameters()}, config, "fp32"
    )
    lines = LINES if source == "true" else [None] * 3
    requests = [Request(line, 9) for line in lines]
    options = Options()
    found = [
        {number: best[0] for number, best in decode(engine, requests)}
        for engine in (NumbaEngine([packed], options, 3), TorchEngine([model], options, 3, CPU))
    ]
    for number in range(3):
        cpu, reference = (one[number] for one in found)
        assert cpu.text == reference.text
        assert cpu.log_probability == pytest.approx(reference.log_probability, abs=1e-4)


@pytest.mark.slow
def test_it_is_one_folder_and_one_line_of_the_package(tmp_path: Path) -> None:
    """A copy of the package with the folder, the line and a preset knows it like any other."""
    package = tmp_path / "bytenmt"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    write_folder(package / "architectures")
    line = '        Architecture("convs2s", "ConvS2SConfig", "ConvS2S"),\n'
    new = 'Architecture("echo", "EchoConfig", "Echo"),'
    assert new in (PACKAGE / "docs/adding-an-architecture.md").read_text(encoding="utf-8")
    registry = package / "architectures/registry.py"
    text = registry.read_text(encoding="utf-8")
    assert text.count(line) == 1
    registry.write_text(text.replace(line, f"{line}        {new}\n"), encoding="utf-8")
    with (package / "architectures/presets.py").open("a", encoding="utf-8") as presets:
        presets.write('\nPRESETS["small"]["echo"] = {"model": {"d_embedding": 64}, "train": {"lr": 2e-3}}\n')
    told = subprocess.run(
        [sys.executable, "-m", "bytenmt", "info", "echo"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "fading = 0.8" in told and "multiply-accumulates" in told


@pytest.mark.slow
@without_a_program
def test_it_is_trained_and_asked(echo: ModuleType, tmp_path: Path, texts: dict[str, Any]) -> None:
    """auto takes PyTorch in place of the CPU engine, and says so once; what insists on that engine fails."""
    run, told = trained(tmp_path / "run", texts), list[str]()

    class LineCollector(Reporter):
        def say(self, line: str) -> None:
            if "compiling" not in line:  # the search, where no test before has compiled it
                told.append(line)

    asked: dict[str, Any] = {"device": "cpu", "beam": 2, "max_len_b": 9}
    found = Translator.load(run, reporter=LineCollector(), **asked).translate(LINES)
    assert told == ["bytenmt: decoding with --engine torch: the numba engine has no program for echo"]
    assert found == Translator.load(run, engine="torch", reporter=LineCollector(), **asked).translate(LINES)
    assert len(told) == 1
    for engine, precision, what in (("numba", "auto", "no program for echo"), ("auto", "int8", "torch has")):
        with pytest.raises(BytenmtError, match=what):
            Translator.load(run, engine=engine, precision=precision, device="cpu")
    assert "echo" in model_description(str(run), None) and "fading = 0.8" in model_description("echo", None)


def test_its_configuration_is_strict(echo: ModuleType) -> None:
    assert load_config("echo", None, "", ["model.source=false"]).model.source is False
    for setting, what in (
        ("model.fading=x", r"model\.fading"),
        ("model.d_hidden=3", r"unknown key model\.d_hidden"),
        ("train.lr=-1", r"train\.lr"),
    ):
        with pytest.raises(ConfigError, match=what):
            load_config("echo", None, "", [setting])
    for setting in ("model.tie_embedding=true", "model.ngrams=[3]"):
        with pytest.raises(ConfigError, match="leave them out"):
            load_config("echo", None, "", [setting])
    with pytest.raises(ConfigError, match="preset tiny has no architecture 'echo'"):
        load_config("echo", "tiny", "", [])
    with pytest.raises(ValueError, match="already"):
        register(echo.EchoConfig, echo.Echo, {"small": {}})


def test_another_process_is_told_to_load_a_plugin() -> None:
    for told in (
        lambda: load_config("echo", None, "", []),
        lambda: parse_config({"model": {"arch": "echo"}}),
    ):
        with pytest.raises(ConfigError, match="echo.*--plugin"):
            told()
