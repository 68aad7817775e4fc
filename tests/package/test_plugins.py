"""Plugins: the guide's trains, resumes exactly and is asked for; bad ones end in one line."""

import math
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import guide_pages
import pytest
from click.testing import CliRunner
from heard import Heard
from small_runs import CPU, assert_same, config, forget_architecture, records, weights

from bytenmt import plugins
from bytenmt.checkpoints.checkpoint import load_checkpoint
from bytenmt.checkpoints.weights import BEST, read_config, read_run
from bytenmt.cli.main import main
from bytenmt.config.schema import load_config, parse_stored_config
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.evaluation.scores import text_values
from bytenmt.plugins import LOSS_TERMS, METRICS, SCHEDULES, load_plugins
from bytenmt.training import loop as training
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import TranslationObjective
from bytenmt.translation.translator import Translator

GUIDE = guide_pages.files(guide_pages.ROOT / "bytenmt" / "docs" / "for-researchers.md")
USED = ("train.loss_terms.confidence=0.1", "train.schedule=sawtooth", "train.valid_lines=1")


PACKAGE_SCHEDULES = dict(SCHEDULES)
PACKAGE_METRICS = dict(METRICS)


def forget_plugins() -> None:
    """Leave this process as one that has imported no plugin of the guide."""
    LOSS_TERMS.clear()
    registries: list[tuple[Any, Any]] = [(SCHEDULES, PACKAGE_SCHEDULES), (METRICS, PACKAGE_METRICS)]
    for entries, package_entries in registries:
        entries.clear()
        entries.update(package_entries)
    for name in {Path(file).stem for file in GUIDE} & set(sys.modules):
        del sys.modules[name]


@pytest.fixture(autouse=True)
def forgotten_afterwards() -> Iterator[None]:
    """Remove what a test has registered."""
    yield
    forget_plugins()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The guide's plugin as a file outside of the package."""
    monkeypatch.setenv(plugins.ENVIRONMENT, "")
    for name, text in GUIDE.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return [str(tmp_path / name) for name in GUIDE]


@pytest.mark.slow
def test_the_plugin_of_the_guide_trains_and_resumes_exactly(
    files: list[str], tmp_path: Path, texts: dict[str, Any]
) -> None:
    load_plugins(files)
    whole = tmp_path / "whole"
    parts = tmp_path / "parts"
    for run, limit in ((whole, 8), (parts, 3), (parts, 8)):
        settings = config("luong", *USED, f"train.max_updates={limit}")
        train(run, settings, **texts, device=CPU, resume=run == parts)
    assert_same(weights(whole), weights(parts))
    assert read_config(whole).train.loss_terms == {"confidence": 0.1}
    assert records(whole)[-1]["valid_length_error"] > 0


@pytest.mark.slow
def test_a_run_says_what_is_missing(
    files: list[str], tmp_path: Path, texts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is needed for training but not for translating."""
    load_plugins(files)
    run = tmp_path / "run"
    train(run, config("luong", *USED, "train.max_updates=2"), **texts, device=CPU)
    monkeypatch.setenv(plugins.ENVIRONMENT, "")
    forget_plugins()
    resumed = CliRunner().invoke(main, ["train", "-o", str(run), "--resume", "--max-updates", "3"])
    assert resumed.exit_code and "'sawtooth' is not one of cosine, " in resumed.stderr
    assert "one of a plugin needs `--plugin" in resumed.stderr
    assert len(resumed.stderr.splitlines()) == 1
    translator = Translator.load(run, engine="torch", device="cpu", max_len_a=0, max_len_b=2)
    assert translator.translate(["ab"])


def test_a_child_process_has_the_plugins(files: list[str]) -> None:
    """A process with the environment of one that has loaded them reads their names."""
    load_plugins(files)
    forget_plugins()
    assert load_config("luong", "tiny", ["train.schedule=sawtooth"]).train.schedule == "sawtooth"


ARCHITECTURE = """
from bytenmt.architectures.registry import register
from bytenmt.architectures.transformer.config import TransformerConfig
from bytenmt.architectures.transformer.model import Transformer

class MineConfig(TransformerConfig, frozen=True, kw_only=True, tag="mine"):
    pass

register(MineConfig, Transformer, {"small": {"model": {"d_embedding": 8, "d_model": 8}}})
"""


def test_an_architecture_of_a_plugin(files: list[str], tmp_path: Path) -> None:
    """A configuration names it; a stored one needs it, also one of an older version. A file that is
    named twice is imported once."""
    plugin = tmp_path / "mine_plugin.py"
    plugin.write_text(ARCHITECTURE)
    load_plugins([str(plugin)] * 2)
    (tmp_path / "other").mkdir()
    other = shutil.copy(plugin, tmp_path / "other")
    with pytest.raises(BytenmtError, match="another module is named mine_plugin: rename the file"):
        load_plugins([str(other)])
    settings = load_config("mine", None, [])
    former = {"tie_embedding": False, "ngram_dropout": 0.3}  # keys that change nothing
    tree: dict[str, Any] = {"model": {"arch": "mine", "d_embedding": 8, "d_model": 8, **former}}
    tree |= {"data": {"augment": {"word_drop": 0.5}}, "train": {"options": {"epsilon": 1e-7}}}
    tree["plugins"] = ["mine_plugin.py"]
    assert parse_stored_config(tree).model == settings.model
    forget_architecture("mine")
    del sys.modules["mine_plugin"], os.environ[plugins.ENVIRONMENT]
    with pytest.raises(ConfigError, match="'mine'.*one of a plugin needs `--plugin"):
        parse_stored_config(tree)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('no\\nGPU')", r"RuntimeError: no GPU \(line 1\)"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def f(:", "SyntaxError"),
        ("import nothing_at_all", "ModuleNotFoundError: No module named 'nothing_at_all'"),
        ("", "No such file"),
    ],
)
def test_bad_plugins_are_told(files: list[str], tmp_path: Path, text: str, message: str) -> None:
    bad = tmp_path / "bad.py"
    if text:
        bad.write_text(text)
    with pytest.raises(BytenmtError, match=message):
        load_plugins([str(bad)])
    result = CliRunner().invoke(main, ["info", "luong", "--plugin", str(bad)])
    assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1
    assert "bad" not in sys.modules


@pytest.mark.slow
def test_epochs_end_a_run_and_resume_exactly(
    tmp_path: Path, texts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate falls to zero with the last batch of the last epoch, wherever the run stopped."""
    whole = tmp_path / "whole"
    parts = tmp_path / "parts"
    limits = "train.max_updates=0 train.max_epochs=2 train.schedule=wsd train.warmup_updates=1"
    train(whole, config("luong", limits), **texts, device=CPU)
    cut = config("luong", limits, "train.save_every=2")
    update = Trainer.update

    def interrupted(self: Trainer, *arguments: Any) -> Any:
        done = update(self, *arguments)
        if self.progress.update == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", interrupted)
        heard = Heard()
        train(parts, cut, **texts, device=CPU, reporter=heard)
    said = "stopping at the end of this update; another Ctrl-C stops at once and saves nothing"
    assert heard.lines.count(said) == 1
    train(parts, cut, **texts, device=CPU, resume=True)
    assert_same(weights(whole), weights(parts))
    found = records(whole)
    assert found[-1]["update"] > 3 and found[-1]["epoch"] == 1
    assert found[-1]["lr"] == pytest.approx(0, abs=1e-9) and found[0]["lr"] > 1e-3


@pytest.mark.slow
def test_nan_is_never_the_best(
    tmp_path: Path, texts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number is better than NaN, at any validation; NaN counts for the patience."""
    settings = "train.patience=2 train.valid_every=1 train.max_updates=9 train.schedule=constant"
    for name, values, best, last in (
        ("first", [math.nan, 2.0, math.nan, math.nan], 2, 4),
        ("never", [math.nan, math.nan, math.nan], None, 2),
    ):
        scores = Mock(side_effect=[{"valid_bits_per_byte": value} for value in values])
        monkeypatch.setattr(TranslationObjective, "score", scores)
        heard, run = Heard(), tmp_path / name
        train(run, config("luong", settings), **texts, device=CPU, reporter=heard)
        assert load_checkpoint(run).update == last
        assert (run / BEST).exists() == (best is not None)
        assert best is None or read_run(run)[1].facts.update == best
        found = [record for record in records(run) if "valid_bits_per_byte" in record]
        assert found[-1]["valid_bits_per_byte"] is None  # NaN is no JSON
    assert any("every validation's bits per byte was NaN" in line for line in heard.lines)


@pytest.mark.slow
def test_a_run_that_diverges_ends(
    tmp_path: Path, texts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is NaN, or stays above that of any model that learns; what was saved stands."""
    LOSS_TERMS["nan"] = lambda x: x.logits.sum() * math.nan
    SCHEDULES["broken"] = lambda train, progress: math.nan
    monkeypatch.setattr(training, "MAX_DIVERGED_UPDATES", 4)
    common = "train.clip_norm=0.0 train.warmup_updates=2 train.max_updates=9"
    wild = "train.optimizer=sgd train.lr=1000"
    rare = f"{wild} train.save_every=9 train.valid_every=9"
    kept = "the last checkpoint is kept"
    for number, (settings, message) in enumerate(
        (
            ("train.loss_terms.nan=0.1", "diverged"),
            ("train.schedule=broken", "train.schedule = broken returned nan after update 1"),
            (rare, "diverged .*; nothing has been saved"),
            (f"{wild} train.save_every=1", f"diverged .*; {kept}"),
        )
    ):
        run = tmp_path / str(number)
        with pytest.raises(BytenmtError, match=message):
            train(run, config("luong", common, settings), **texts, device=CPU)
    assert all(bool(tensor.isfinite().all()) for tensor in weights(run).values())
    monkeypatch.setattr(training, "MAX_BITS", 0.1)
    with pytest.raises(BytenmtError, match=rf"diverged \([\d.]+ bits a byte\).*{kept}"):
        train(tmp_path / "high", config("luong", "train.max_updates=9"), **texts, device=CPU)


def test_the_comet_of_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines run with a stand-in for the package, which is not installed here."""

    model = Mock(predict=Mock(return_value=Mock(scores=[0.5])))
    comet = Mock(load_from_checkpoint=Mock(return_value=model))
    monkeypatch.setitem(sys.modules, "comet", comet)
    guide = guide_pages.ROOT / "bytenmt" / "docs" / "for-researchers.md"
    (lines,) = (block.text for block in guide_pages.blocks(guide) if "comet" in block.text)
    exec(lines, {})
    assert text_values(["s"], ["t"], ["r"])["comet"] == 0.5
    assert model.predict.call_args.args[0] == [{"src": "s", "mt": "t", "ref": "r"}]
    assert METRICS["comet"].is_higher_better and "comet" not in PACKAGE_METRICS
