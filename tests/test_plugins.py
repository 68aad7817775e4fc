"""Plugins: those of the guide train, resume exactly, and are asked for; bad ones end in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command_server
import guide_pages
import pytest
import small_runs
from click.testing import CliRunner
from small_runs import CPU, config

from bytenmt import plugins
from bytenmt.checkpoints.weights import read_config
from bytenmt.cli.main import main
from bytenmt.config.schema import load_config, parse_config
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.plugins import load_plugins
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer

GUIDE = guide_pages.files(guide_pages.ROOT / "bytenmt" / "docs" / "for-researchers.md")
USED = (
    *("train.loss_terms.confidence=0.1", "train.schedule=sawtooth", "train.optimizer=adamax"),
    *("data.augment.word_drop=0.5", "train.options.epsilon=1e-7"),
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The guide's plugins as files outside of the package; what they register is removed afterwards."""
    monkeypatch.setenv(plugins.ENVIRONMENT, "")
    before = [set(registry) for registry in plugins.REGISTRIES]
    modules = set(sys.modules)
    for name, text in GUIDE.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    yield [str(tmp_path / name) for name in GUIDE]
    for registry, names in zip(plugins.REGISTRIES, before, strict=True):
        for name in set(registry) - names:
            registry.remove(name)
    for name in set(sys.modules) - modules:
        if name in {Path(file).stem for file in GUIDE}:
            del sys.modules[name]


@pytest.mark.slow
def test_the_plugins_of_the_guide_train_and_resume_exactly(
    files: list[str], tmp_path: Path, texts: dict[str, Any]
) -> None:
    """Each kind but an architecture, together; the run records its plugins."""
    load_plugins(files)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for run, limit in ((whole, 8), (parts, 3), (parts, 8)):
        settings = config("luong", *USED, f"train.max_updates={limit}")
        train(run, settings, **texts, device=CPU, resume=run == parts)
    small_runs.assert_same(small_runs.weights(whole), small_runs.weights(parts))
    assert set(read_config(whole).plugins) == {"confidence_penalty.py", "schedules.py", "word_drop.py"}
    assert read_config(whole).train.loss_terms == {"confidence": 0.1}


@pytest.mark.slow
def test_a_loss_term_changes_the_weights_by_its_weight(
    files: list[str], tmp_path: Path, texts: dict[str, Any]
) -> None:
    """With weight 0 they are those of a training without it."""
    load_plugins(files)
    found = []
    for number, more in enumerate(([], ["=0.0"], ["=0.5"])):
        settings = [f"train.loss_terms.confidence{value}" for value in more]
        run = tmp_path / str(number)
        train(run, config("luong", *settings, "train.max_updates=2"), **texts, device=CPU)
        found.append(small_runs.weights(run))
    small_runs.assert_same(found[0], found[1])
    with pytest.raises(AssertionError):
        small_runs.assert_same(found[0], found[2])


@pytest.mark.slow
def test_a_run_says_which_plugin_is_missing(files: list[str], tmp_path: Path, texts: dict[str, Any]) -> None:
    """The plugin is needed for training but not for translating."""
    load_plugins(files)
    run = tmp_path / "run"
    train(run, config("luong", *USED, "train.max_updates=2"), **texts, device=CPU)
    commands = (
        (["train", "-o", str(run), "--resume", "--max-updates", "3"], "--plugin schedules.py"),
        (["translate", str(run), "--engine", "torch", "--max-len-a", "0", "--max-len-b", "2"], ""),
    )
    with command_server.serving(tmp_path) as program:
        ended = [
            subprocess.run(
                [str(program), *words],
                input="ab\n",
                capture_output=True,
                text=True,
                env={**os.environ, plugins.ENVIRONMENT: ""},
            )
            for words, _ in commands
        ]
    for done, (_, message) in zip(ended, commands, strict=True):
        assert (done.returncode != 0) == bool(message) and message in done.stderr, done.stderr
        assert not message or len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_child_process_has_the_plugins(files: list[str]) -> None:
    """The child process reads a configuration with their names."""
    load_plugins(files)
    code = (
        "from bytenmt.config.schema import load_config\n"
        "print(load_config('luong', 'tiny', '', ['train.schedule=sawtooth']).plugins)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "('schedules.py',)\n"


ARCHITECTURE = """
from bytenmt.architectures.registry import register
from bytenmt.architectures.transformer.config import TransformerConfig
from bytenmt.architectures.transformer.model import Transformer

class MineConfig(TransformerConfig, frozen=True, kw_only=True, tag="mine"):
    pass

register(MineConfig, Transformer, {"small": {"model": {"d_embedding": 8, "d_model": 8}}})
"""


def test_an_architecture_of_a_plugin(files: list[str], tmp_path: Path) -> None:
    """A configuration names it; a stored one without the plugin says which to give."""
    plugin = tmp_path / "mine_plugin.py"
    plugin.write_text(ARCHITECTURE)
    load_plugins([str(plugin)])
    settings = load_config("mine", None, "", [])
    assert settings.plugins == ("mine_plugin.py",)
    tree = {"model": {"arch": "mine", "d_embedding": 8, "d_model": 8}, "plugins": ["mine_plugin.py"]}
    assert parse_config(tree).model == settings.model
    plugins.ARCHITECTURES.remove("mine")
    del sys.modules["mine_plugin"]
    with pytest.raises(ConfigError, match="'mine'.*--plugin mine_plugin.py"):
        parse_config(tree)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "train.loss_terms.confidence=0.1",
            "loss term 'confidence' is not registered; one of a plugin needs",
        ),
        ("data.augment.word_drop=0.1", "augmentation 'word_drop' is not registered; one of a plugin needs"),
        ("train.schedule=sawtooth", "'sawtooth' is none of cosine, .*, plateau; one of a plugin needs"),
    ],
)
def test_a_new_run_says_that_a_plugin_is_needed(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"{message} `--plugin"):
        load_config("luong", "tiny", "", [setting])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('no\\nGPU')", r"RuntimeError: no GPU \(bad.py, line 1\)"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def f(:", "SyntaxError"),
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        (
            "from bytenmt.plugins import *\nregister_schedule('cosine', len)",
            "there is a schedule 'cosine' already",
        ),
        ("from bytenmt.plugins import *\nregister_schedule('a.b', len)", "'a.b' is no name"),
    ],
)
def test_a_bad_plugin_is_one_line(files: list[str], tmp_path: Path, text: str, message: str) -> None:
    """Before or after the command; what it registered first does not stay."""
    bad = tmp_path / "bad.py"
    before = "from bytenmt.plugins import register_metric; register_metric('half', max);"
    bad.write_text(f"{before}{text}" if text.startswith("raise") else text)
    with pytest.raises(BytenmtError, match=message):
        load_plugins([str(bad)])
    for words in (["--plugin", str(bad), "info", "luong"], ["info", "luong", "--plugin", str(bad)]):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1
    assert "half" not in plugins.METRICS and "bad" not in sys.modules


def test_a_missing_plugin_is_one_line(files: list[str]) -> None:
    for name, message in (
        ("nothing.py", "the file does not exist"),
        ("no.such.module", "No module named 'no'"),
        ("nosuch", "no such module"),
    ):
        result = CliRunner().invoke(main, ["info", "luong", "--plugin", name])
        assert result.exit_code == 1 and message in result.stderr and len(result.stderr.splitlines()) == 1


def test_a_plugin_is_imported_once(files: list[str]) -> None:
    """Named again, before and after the command, it does not take its own names."""
    result = CliRunner().invoke(main, ["--plugin", files[0], "info", "luong", "--plugin", files[0]])
    assert result.exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["linear", "wsd", "cosine"])
def test_epochs_end_a_run_and_resume_exactly(
    tmp_path: Path, texts: dict[str, Any], schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate falls to zero with the last batch of the last epoch, wherever the run was interrupted."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    limits = [
        "train.max_updates=0",
        "train.max_epochs=2",
        f"train.schedule={schedule}",
        "train.warmup_updates=1",
    ]
    outcome = train(whole, config("luong", *limits), **texts, device=CPU)
    cut = [*limits, "train.save_every=2"]

    update = Trainer.update

    def interrupted(self: Trainer, *arguments: Any) -> Any:
        done = update(self, *arguments)
        if self.progress.update == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", interrupted)
        train(parts, config("luong", *cut), **texts, device=CPU)
    train(parts, config("luong", *cut), **texts, device=CPU, resume=True)
    small_runs.assert_same(small_runs.weights(whole), small_runs.weights(parts))
    records = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert outcome.update > 3 and records[-1]["epoch"] == 1
    assert records[-1]["lr"] == pytest.approx(0, abs=1e-9) and records[0]["lr"] > 1e-3
