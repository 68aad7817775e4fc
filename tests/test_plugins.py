"""Plugins: those of the guide train, resume exactly, and are asked for; bad ones end in one line."""

import math
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import guide_pages
import pytest
import torch
from click.testing import CliRunner
from heard import Heard
from small_runs import CPU, assert_same, config, forget_architecture, records, weights

from bytenmt import plugins
from bytenmt.checkpoints.weights import BEST, read_config, read_run
from bytenmt.cli.main import main
from bytenmt.config.schema import load_config, parse_stored_config
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError, ConfigError, DataError
from bytenmt.plugins import (
    AUGMENTATIONS,
    LOSS_TERMS,
    METRICS,
    OPTIMIZERS,
    SCHEDULES,
    Metric,
    load_plugins,
)
from bytenmt.training import run as training
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer

GUIDE = guide_pages.files(guide_pages.ROOT / "bytenmt" / "docs" / "for-researchers.md")
REGISTRIES = (LOSS_TERMS, SCHEDULES, OPTIMIZERS, AUGMENTATIONS, METRICS)
USED = (
    *("train.loss_terms.confidence=0.1", "train.schedule=sawtooth", "train.optimizer=adamax"),
    *("data.augment.word_drop=0.5", "train.options.epsilon=1e-7"),
)


@pytest.fixture(autouse=True)
def removed_afterwards() -> Iterator[None]:
    """Remove what a test has registered."""
    before = [dict(registry) for registry in REGISTRIES]
    yield
    for registry, entries in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(entries)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The guide's plugins as files outside of the package."""
    monkeypatch.setenv(plugins.ENVIRONMENT, "")
    for name, text in GUIDE.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    yield [str(tmp_path / name) for name in GUIDE]
    forget_plugins()


@pytest.mark.slow
def test_the_plugins_of_the_guide_train_and_resume_exactly(
    files: list[str], tmp_path: Path, texts: dict[str, Any]
) -> None:
    """Each kind but an architecture, together."""
    load_plugins(files)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for run, limit in ((whole, 8), (parts, 3), (parts, 8)):
        settings = config("luong", *USED, f"train.max_updates={limit}")
        train(run, settings, **texts, device=CPU, resume=run == parts)
    assert_same(weights(whole), weights(parts))
    assert read_config(whole).train.loss_terms == {"confidence": 0.1}


def forget_plugins() -> None:
    """Leave this process as one that has imported no plugin of the guide."""
    for registry in REGISTRIES:
        registry.clear()
    for name in {Path(file).stem for file in GUIDE} & set(sys.modules):
        del sys.modules[name]
    plugins.load_inherited_plugins.cache_clear()


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
    assert resumed.exit_code and "'adamax' is none of adamw, " in resumed.stderr
    assert "one of a plugin needs `--plugin" in resumed.stderr
    assert len(resumed.stderr.splitlines()) == 1
    assert Translator.load(run, engine="torch", device="cpu", max_len_a=0, max_len_b=2).translate(["ab"])


def test_a_child_process_has_the_plugins(files: list[str]) -> None:
    """A process with the environment of one that has loaded them reads a configuration with their names."""
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
    """A configuration names it; a stored one, also of a version that recorded plugins, needs it."""
    plugin = tmp_path / "mine_plugin.py"
    plugin.write_text(ARCHITECTURE)
    load_plugins([str(plugin)])
    settings = load_config("mine", None, [])
    tree = {"model": {"arch": "mine", "d_embedding": 8, "d_model": 8}, "plugins": ["mine_plugin.py"]}
    assert parse_stored_config(tree).model == settings.model
    forget_architecture("mine")
    del sys.modules["mine_plugin"]
    with pytest.raises(ConfigError, match="'mine'.*one of a plugin needs `--plugin"):
        parse_stored_config(tree)


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
        load_config("luong", "tiny", [setting])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('no\\nGPU')", r"RuntimeError: no GPU \(line 1\)"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def f(:", "SyntaxError"),
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("from bytenmt.plugins import *\nSCHEDULES['cosine'] = len", "a schedule 'cosine' already"),
        ("from bytenmt.plugins import *\nSCHEDULES['a.b'] = len", "'a.b' is no name"),
        ("", "No such file"),
    ],
)
def test_a_bad_plugin_is_one_line(files: list[str], tmp_path: Path, text: str, message: str) -> None:
    bad = tmp_path / "bad.py"
    if text:
        bad.write_text(text)
    with pytest.raises(BytenmtError, match=message):
        load_plugins([str(bad)])
    result = CliRunner().invoke(main, ["info", "luong", "--plugin", str(bad)])
    assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1
    assert "bad" not in sys.modules


def test_a_plugin_is_imported_once(files: list[str]) -> None:
    """Named again, it does not take its own names."""
    result = CliRunner().invoke(main, ["info", "luong", "--plugin", files[0], "--plugin", files[0]])
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
    assert_same(weights(whole), weights(parts))
    found = records(whole)
    assert outcome.update > 3 and found[-1]["epoch"] == 1
    assert found[-1]["lr"] == pytest.approx(0, abs=1e-9) and found[0]["lr"] > 1e-3


# ---- their state and their results


class Counting(torch.optim.Optimizer):
    """An optimizer whose steps depend on plain numbers and a list, of parameters and of groups."""

    def __init__(self, groups: list[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, {"lr": lr, "k": 0, "weight_sum": 0.0, "is_warm": False})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["k"] += 1
            group["weight_sum"] += group["lr"] / group["k"]
            group["is_warm"] = group["k"] > 2
            for p in group["params"]:
                state = self.state[p]
                state["n"] = state.get("n", 0) + 1
                state["ages"] = [*state.get("ages", []), state["n"] % 5]
                if p.grad is not None:
                    factor = group["weight_sum"] / (state["n"] + sum(state["ages"]) + group["is_warm"])
                    p.sub_(p.grad, alpha=factor)


@pytest.mark.slow
def test_plain_numbers_of_an_optimizer_are_resumed_exactly(tmp_path: Path, texts: dict[str, Any]) -> None:
    OPTIMIZERS["counting"] = lambda groups, train: Counting(groups, train.lr)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for run, limit in ((whole, 6), (parts, 3), (parts, 6)):
        settings = ("train.optimizer=counting", "train.schedule=constant", f"train.max_updates={limit}")
        train(run, config("luong", *settings), **texts, device=CPU, resume=run == parts)
    assert_same(weights(whole), weights(parts))
    saved = weights(whole)
    assert saved["trainer.optimizer.param_groups.0.k"] == 6 and saved["trainer.optimizer.state.0.n"] == 6
    assert saved["trainer.optimizer.state.0.ages.5"] == 1


def test_groups_keep_their_share_of_the_rate(tmp_path: Path, texts: dict[str, Any]) -> None:
    """The schedule multiplies each group's rate."""
    rates: list[list[float]] = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            rates.append([group["lr"] for group in self.param_groups])
            super().step()

    def build(groups: list[dict[str, Any]], train: Any) -> torch.optim.Optimizer:
        groups[0]["lr"] = 10 * train.lr
        return Watched(groups, lr=train.lr)

    OPTIMIZERS["watched"] = build
    SCHEDULES["half"] = lambda train, progress: 0.5
    settings = (
        "train.optimizer=watched",
        "train.schedule=half",
        "train.warmup_updates=1",
        "train.max_updates=1",
    )
    train(tmp_path / "run", config("luong", *settings), **texts, device=CPU)
    assert rates == [[pytest.approx(0.01), pytest.approx(0.001)]]


def one_after_the_other(values: Sequence[float]) -> Any:
    """A metric that has these values at the validations of a run."""
    left = iter(values)
    return lambda texts, truth: next(left, math.nan)


@pytest.mark.slow
@pytest.mark.parametrize("is_higher_better", [True, False])
def test_nan_is_never_the_best(tmp_path: Path, texts: dict[str, Any], is_higher_better: bool) -> None:
    """A number is better than NaN, at the first validation or later; NaN counts for the patience."""
    for name, values, best, last in (
        ("first", [math.nan, 2.0, math.nan, math.nan], 2, 4),
        ("never", [math.nan, math.nan, math.nan], None, 2),
    ):
        METRICS[name] = Metric(one_after_the_other(values), is_higher_better)
        settings = [f"train.metric={name}", "train.valid_lines=2", "train.patience=2"]
        settings += ["train.valid_every=1", "train.max_updates=9", "train.schedule=constant"]
        heard = Heard()
        outcome = train(tmp_path / name, config("luong", *settings), **texts, device=CPU, reporter=heard)
        assert outcome.update == last and (tmp_path / name / BEST).exists() == (best is not None)
        assert best is None or read_run(tmp_path / name)[1].facts.update == best
        found = [record for record in records(tmp_path / name) if f"valid_{name}" in record]
        assert found[-1][f"valid_{name}"] is None  # NaN is no JSON
    assert any("every validation's never was NaN" in line for line in heard.lines)


def test_the_names_of_scores_are_reserved() -> None:
    for name in ("bleu", "architecture", *METRICS.reserved):
        with pytest.raises(ValueError, match=f"'{name}' is reserved"):
            METRICS[name] = Metric(lambda texts, truth: 0.0)


@pytest.mark.parametrize("returned", [(b"a\nb", b"c"), (b"\xff", b"c"), ("a", "b"), None])
def test_a_bad_augmentation_is_one_line(tmp_path: Path, texts: dict[str, Any], returned: Any) -> None:
    AUGMENTATIONS["bad"] = lambda source, target, random: returned
    with pytest.raises(DataError, match="data.augment.bad returned .*: correct the plugin"):
        train(tmp_path / "run", config("luong", "data.augment.bad=1.0"), **texts, device=CPU)


@pytest.mark.slow
def test_a_run_that_diverges_ends(
    tmp_path: Path, texts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is NaN, or stays higher than that of any model that learns; what was saved stands."""
    LOSS_TERMS["nan"] = lambda x: x.logits.sum() * math.nan
    SCHEDULES["broken"] = lambda train, progress: math.nan
    OPTIMIZERS["wild"] = lambda groups, train: torch.optim.SGD(groups, lr=1e30)
    monkeypatch.setattr(training, "MOST_UPDATES", 4)
    common = ["train.clip_norm=0.0", "train.warmup_updates=2", "train.max_updates=9"]
    for settings, message in (
        (["train.loss_terms.nan=0.1"], "diverged"),
        (["train.schedule=broken"], "train.schedule = broken returned nan after update 1"),
        (["train.optimizer=wild", "train.save_every=9"], "diverged .*; nothing has been saved"),
        (["train.optimizer=wild", "train.save_every=1"], "diverged .*; the last checkpoint is kept"),
    ):
        run = tmp_path / "-".join(settings)
        with pytest.raises(BytenmtError, match=message):
            train(run, config("luong", *common, *settings), **texts, device=CPU)
    monkeypatch.setattr(training, "MOST_BITS", 0.1)
    with pytest.raises(BytenmtError, match=r"diverged \([\d.]+ bits a byte\).*the last checkpoint is kept"):
        train(tmp_path / "high", config("luong", "train.max_updates=9"), **texts, device=CPU)
