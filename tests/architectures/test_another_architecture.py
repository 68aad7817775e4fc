"""The example of docs/adding-an-architecture.md is trained, stored and used to translate.

Tests architectures/registry.py (register, build_model, ARCHITECTURES) and the guide's differences.
"""

import os
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
from guide_pages import ROOT, blocks
from heard import Heard
from small_runs import CPU, forget_architecture
from source_tree import PACKAGE

from bytenmt import architectures
from bytenmt.architectures.parameters import (
    decoder_weights,
    model_program,
    parameter_shapes,
    state_bytes,
)
from bytenmt.architectures.registry import build_model, register
from bytenmt.config.schema import load_config
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.decoding.model_summary import model_description
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.jit import CACHE_VARIABLE
from bytenmt.training.run import train
from bytenmt.translation.translator import Translator

GUIDE = PACKAGE / "docs/adding-an-architecture.md"
LINES = [b"one", "둘 three".encode(), b"x"]


def guide_blocks() -> dict[str, str]:
    """The guide's Python code by the file that it belongs to; that of a program of one's own as
    "own"."""
    texts = [block.text for block in blocks(GUIDE) if block.info == "python"]
    assert sum(text.count("\n") for text in texts) <= 110
    return dict(zip(("config.py", "model.py", "program.py", "own"), texts, strict=True))


@pytest.fixture(params=["with a program", "without one"])
def echo(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModuleType]:
    """The example's module, registered for the length of a test; its name tells whether it has a
    program."""
    before = set(sys.modules)
    own, with_program = guide_blocks()["own"], request.param == "with a program"
    folder = tmp_path / "architectures" / "echo"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    for name in ("config.py", "model.py", "program.py"):
        (folder / name).write_text(guide_blocks()[name], encoding="utf-8")
    architectures.__path__.append(str(tmp_path / "architectures"))
    try:
        config, model, program = (
            import_module(f"bytenmt.architectures.echo.{name}")
            for name in ("config", "model", "program")
        )
        names = vars(config) | vars(model) | {"write_program": program.write_program}
        if not with_program:
            without_program = own.replace("    write_program,\n", "")
            assert without_program != own
            own = without_program
        exec(own, names)
        yield model
    finally:
        architectures.__path__.pop()
        for name in set(sys.modules) - before:
            if name.startswith("bytenmt.architectures.echo"):
                del sys.modules[name]
        vars(architectures).pop("echo", None)
        forget_architecture("echo")


@pytest.mark.parametrize("echo", ["with a program"], indirect=True)
@pytest.mark.parametrize("source", ["true", "false"])
def test_both_engines_run_it(echo: ModuleType, tmp_path: Path, source: str) -> None:
    """The program computes what the module does, and tells its parameters and its costs."""
    config = load_config("echo", None, [f"model.source={source}", "model.d_embedding=24"]).model
    torch.manual_seed(2)
    model = build_model(config).eval()
    with torch.no_grad():
        for part in model.parameters():
            part.mul_(3)
    shapes = {name: tuple(part.shape) for name, part in model.named_parameters()}
    assert parameter_shapes(config) == shapes
    assert decoder_weights(config) == sum(part.numel() for part in model.decoder.parameters())
    program = model_program(config)
    assert program is not None and state_bytes(program) == 4 * 24
    assert config.receptive_field is None
    arrays = {name: part.detach().numpy() for name, part in model.named_parameters()}
    packed = pack_model(arrays, config, "fp32")
    lines = LINES if source == "true" else [None] * 3
    requests = [Request(line, 9) for line in lines]
    options = SearchOptions()
    engines = NumbaEngine([packed], options, 3), TorchEngine([model], options, 3, CPU)
    found = [{number: best[0] for number, best in decode(one, requests)} for one in engines]
    for number in range(3):
        cpu, reference = (one[number] for one in found)
        assert cpu.text == reference.text
        assert cpu.log_probability == pytest.approx(reference.log_probability, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("echo", ["without one"], indirect=True)
def test_it_is_trained_and_asked(echo: ModuleType, tmp_path: Path, texts: dict[str, Any]) -> None:
    """auto takes PyTorch in place of the CPU engine, and says so once; what insists on that engine
    fails."""
    run, told = tmp_path / "run", Heard()
    limits = ["train.max_updates=6", "train.max_tokens=200", "train.valid_lines=2"]
    train(run, load_config("echo", None, limits), **texts, device=CPU)

    asked: dict[str, Any] = {"device": "cpu", "beam": 2, "max_len_b": 9}
    found = Translator.load(run, reporter=told, **asked).translate(LINES)
    assert found == Translator.load(run, engine="torch", reporter=told, **asked).translate(LINES)
    # The search is compiled here, where no earlier test did so.
    lines = [line for line in told.lines if "compiling" not in line]
    reason = "the numba engine has no program for echo"
    assert lines == [f"bytenmt: decoding with --engine torch: {reason}"]
    assert Translator.load(run, precision="bf16", device="cpu").translate("a")
    choices = (("numba", "auto", "no program for echo"), ("auto", "int8", "torch has"))
    for engine, precision, what in choices:
        with pytest.raises(BytenmtError, match=what):
            Translator.load(run, engine=engine, precision=precision, device="cpu")
    assert "echo" in model_description(str(run), None)
    assert "fading = 0.8" in model_description("echo", None)


def test_its_configuration_is_strict(echo: ModuleType) -> None:
    assert load_config("echo", None, ["model.source=false"]).model.source is False
    with pytest.raises(ConfigError, match=r"model\.d_hidden: unknown key"):
        load_config("echo", None, ["model.d_hidden=3"])
    with pytest.raises(ConfigError, match="leave them out"):
        load_config("echo", None, ["model.ngrams=[3]"])
    with pytest.raises(ConfigError, match="echo has only the presets small, not tiny"):
        load_config("echo", "tiny", [])
    with pytest.raises(ValueError, match="already"):
        register(echo.EchoConfig, echo.Echo, {"small": {}})
    with pytest.raises(ValueError, match="small is required"):
        register(echo.EchoConfig, echo.Echo, {"tiny": {}})


# ---- the guide's changes of a model

TESTS = [
    "tests/architectures/test_contract.py",
    "tests/architectures/test_reference.py",
    "tests/decoding/test_program_check.py",
]


def apply(difference: str, path: Path) -> None:
    """Replace the lines of a difference that are old by the new ones; all of it occurs once."""
    lines = difference.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name} has {text.count(old)} times:\n{old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.slow
def test_the_examples_pass_the_tests_that_the_guide_names(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("bytenmt", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for block in blocks(GUIDE):
        if block.info.startswith("diff "):
            apply(block.text, tmp_path / block.info.removeprefix("diff "))
    words = [sys.executable, "-m", "pytest", "-q", "-n0", "-k", "luong-scaled or bytenet-tanh"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env = {CACHE_VARIABLE: str(PACKAGE / "__pycache__"), **env, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*words, *TESTS], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    passed = int(done.stdout.split(" passed")[0].split()[-1])
    assert passed >= 30, done.stdout
