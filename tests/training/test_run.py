"""A training run: what it learns, validates and saves, how it begins and how it ends."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from heard import Heard
from processes import results
from small_runs import CPU, assert_same, config, records, weights

from bytenmt.api.runs import Run
from bytenmt.architectures.registry import ARCHITECTURES
from bytenmt.checkpoints.checkpoint import load_checkpoint, model_tensors
from bytenmt.checkpoints.weights import read_run
from bytenmt.config.schema import Config, load_config
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.pair_files import PairFiles
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.distributed import Group
from bytenmt.errors import CheckpointError, ConfigError, DataError
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.training import run as training
from bytenmt.training.arguments import configuration, settings_tree
from bytenmt.training.loop import TrainingLoop
from bytenmt.training.precision import precision_of
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer

# ---- learning and validation


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_model_learns_to_copy(arch: str, tmp_path: Path) -> None:
    """Every architecture, with its source, gets well below what one can reach that sees nothing of
    it, though some sources are empty."""
    generator = np.random.default_rng(1)
    lines = ["".join(generator.choice(list("ab가"), 2)) for _ in range(60)]
    file = tmp_path / "text"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = ["model.dropout=0.0 train.max_updates=70 train.lr=0.1 train.warmup_updates=5"]
    settings.append("train.valid_every=70 train.save_every=70 train.max_tokens=400")
    settings.append("data.empty_source=0.1")
    if arch == "luong":
        settings.append("model.n_layers=1")
    if arch == "transformer":  # which learns at lower rates alone
        settings.append("train.lr=0.02")
    run, pair = tmp_path / "run", PairFiles(file, file)
    train(run, config(arch, *settings), files=[pair], valid=pair, device=CPU)
    # Who knows how often each line occurs, and no more, pays the entropy of that for a line.
    shares = np.array(list(Counter(lines).values())) / len(lines)
    n_bytes = sum(len(line.encode()) + 1 for line in lines)
    blind = -len(lines) * float(shares @ np.log2(shares)) / n_bytes
    assert blind > 0.6
    progress = read_run(run)[1].facts.progress
    assert progress is not None and progress.best is not None and progress.best < 0.8 * blind


@pytest.mark.slow
def test_best_is_the_best_validation(texts: dict[str, Any], tmp_path: Path) -> None:
    """Weights and validations are fp32 where training is in bf16."""
    run, name = tmp_path / "run", "valid_bits_per_byte"
    settings = config("convs2s", "train.max_updates=20 train.lr=0.05 train.precision=bf16")
    train(run, settings, **texts, device=CPU)
    found = {record["update"]: record[name] for record in records(run) if name in record}
    model, facts = Run(run).model(), read_run(run)[1].facts
    assert found[20] < found[4] - 0.1 and model.embedding.weight.dtype == torch.float32
    assert facts.progress is not None
    assert found[facts.update] == facts.progress.best == min(found.values())
    corpus = ParallelCorpus.open_all([texts["valid"]])
    nats = log_probabilities(TorchScorer([model], CPU), corpus)
    again = bits_per_byte(nats, corpus.target_lengths)
    assert again == pytest.approx(min(found.values()), abs=1e-5)


@pytest.mark.parametrize(
    ("arch", "preset", "precision"),
    [("bahdanau", "tiny", "fp32"), ("bahdanau", "small", "bf16"), ("bytenet", "tiny", "bf16")],
)
def test_auto_is_the_quicker_precision(
    arch: str, preset: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recurrent models of few units are trained faster in fp32 (tools/bench/train.py)."""
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": True})
    assert precision_of(CPU, load_config(arch, preset, ()).model) == precision
    monkeypatch.setattr("torch.cpu.get_capabilities", dict)
    assert precision_of(CPU, load_config(arch, preset, ()).model) == "fp32"


# ---- the beginning


def best(path: Path) -> dict[str, torch.Tensor]:
    return model_tensors(Run(path).model())


STILL = ("train.lr=1e-30", "train.weight_decay=0.0", "train.max_updates=2")  # weights as they were


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose weights others begin with."""
    folder = tmp_path_factory.mktemp("first")
    for name, lines in (("src", "one two\nthree\n"), ("tgt", "eins zwei\ndrei\n")):
        (folder / name).write_text(lines * 9)
    pair = PairFiles(folder / "src", folder / "tgt")
    settings = config("luong", "train.max_updates=2")
    train(folder / "run", settings, files=[pair], valid=pair, device=CPU)
    return folder / "run"


def _begin_as_one(group: Group, folder: Path, texts: dict[str, Any], first_run: Path) -> None:
    # What they read differs, as on machines whose disks do: the leading process reads for all.
    start = first_run if group.is_leader else folder / "not there"
    settings = config("luong", *STILL)
    train(folder / "run", settings, **texts, device=CPU, init_from=start, group=group)


@pytest.mark.slow
def test_a_run_begins_with_the_weights_of_another(
    first_run: Path, texts: dict[str, Any], tmp_path: Path
) -> None:
    """The best checkpoint or average of it, with another dropout, a fresh optimiser, and its own
    text; alone, and as two processes."""
    for number, ema in enumerate(((), ("train.ema=0.9999",))):
        run = tmp_path / str(number)
        wanted = config("luong", *STILL, "model.dropout=0.1", *ema)
        train(run, wanted, **texts, device=CPU, init_from=first_run)
        assert_same(best(first_run), best(run))
        assert read_run(run, "last")[1].facts.pairs == 40
    results(_begin_as_one, tmp_path, texts, first_run)
    assert_same(best(first_run), best(tmp_path / "run"))
    wide = config("luong", "model.d_hidden=16")
    with pytest.raises(CheckpointError, match="another model"):
        train(tmp_path / "wide", wide, **texts, device=CPU, init_from=first_run)
    assert not (tmp_path / "wide").exists()


def test_the_model_of_such_a_run_is_that_of_the_other(first_run: Path) -> None:
    """Dropout may be changed, and the other keys are those of any run."""

    def options(
        *settings: str, arch: str | None = None, preset: str | None = None, start: Path = first_run
    ) -> Config:
        tree = settings_tree(settings, {})
        return configuration(first_run.parent / "new", False, arch, preset, None, tree, True, start)

    own = config("luong")
    assert options().model == own.model
    assert options(arch="luong").train == load_config("luong", "small", []).train
    assert options(preset="tiny").train == load_config("luong", "tiny", []).train
    shipped = options(start=Path("data/models/en-de"))  # it goes on keeping spans
    assert (shipped.data.sentinels, shipped.data.copy) == (0.2, 0.0)
    assert options("data.sentinels=0", start=Path("data/models/en-de")).data.sentinels == 0
    other = options("model.dropout=0.5", "train.lr=0.5")
    assert other.model == msgspec.structs.replace(own.model, dropout=0.5) and other.train.lr == 0.5
    with pytest.raises(ConfigError, match="model.arch is 'luong', but --arch is 'bytenet'"):
        options(arch="bytenet")
    with pytest.raises(ConfigError, match="model.wrong"):
        options("model.wrong=1")


PAIRS, ALONE = ("src tgt", "valid_src valid_tgt"), ("src", "valid_src")
TEXT = ["model.source=false", "train.window=20"]
# The architecture and settings, the files, without a source or with one, and the error.
BAD: list[tuple[str, list[str], tuple[str, str], str]] = [
    ("bytenet", [], ("short valid_tgt", PAIRS[1]), "short has 1 lines and .* has 5"),
    ("bytenet", ["train.max_updates=0"], PAIRS, "needs an end"),
    ("bytenet", ["train.metric=chrf", "train.valid_lines=0"], PAIRS, "chrf needs"),
    ("bytenet", TEXT, PAIRS, "model.source is false"),
    ("bytenet", [], ALONE, "model.source is true"),
    ("bytenet", [*TEXT, "train.context=0"], ("short", "valid_src"), "19 bytes.*window of 20"),
    ("bytenet", [*TEXT, "train.context=8"], ("empty", "valid_src"), "0 bytes.*window of 28"),
    ("bytenet", TEXT, ("src", "empty"), "empty is empty"),
    ("bytenet", TEXT, ("src", "."), "director"),
    ("bytenet", [*TEXT, "train.teacher_forcing=0.5"], ALONE, "teacher_forcing"),
    ("bytenet", [*TEXT, "train.max_tokens=19"], ALONE, "raise train.max_tokens"),
    ("bytenet", [*TEXT, "train.metric=chrf"], ALONE, "chrf needs"),
]


@pytest.mark.parametrize(("arch", "settings", "names", "message"), BAD)
@pytest.mark.usefixtures("texts")
def test_bad_input_leaves_no_folder(
    arch: str, settings: list[str], names: tuple[str, str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "short").write_bytes(b"19 bytes of a text.")
    (tmp_path / "empty").write_bytes(b"")

    def files_of(some: str) -> PairFiles:
        *source, target = (tmp_path / name for name in some.split())
        return PairFiles(source[0] if source else None, target)

    files, valid = map(files_of, names)
    with pytest.raises((ConfigError, DataError), match=message):
        train(tmp_path / "run", config(arch, *settings), files=[files], valid=valid, device=CPU)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_resume_keeps_the_threads(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless --threads is given, or the machine has fewer; a model is built with those that are
    given, and PyTorch's own number is restored afterwards."""
    run, before, built = tmp_path / "run", torch.get_num_threads(), list[int]()

    def build(*arguments: Any) -> Trainer:
        built.append(torch.get_num_threads())
        return Trainer(*arguments)

    monkeypatch.setattr(training, "Trainer", build)
    rows = ((None, 4, before), (3, 4, 3), (None, 4, 3), (None, 2, 2), (None, 4, 2))
    for n_updates, (threads, n_cores, expected) in enumerate(rows, 1):
        monkeypatch.setattr(training, "n_cores", lambda n_cores=n_cores: n_cores)
        heard = Heard()
        wanted = config("luong", f"train.max_updates={n_updates} train.schedule=constant")
        more: dict[str, Any] = {"resume": run.exists(), "threads": threads, "reporter": heard}
        train(run, wanted, **texts, device=CPU, **more)
        assert any(f", {expected} CPU thread" in line for line in heard.lines)
        assert built.pop() == (threads or before)
        assert torch.get_num_threads() == before


# ---- the end


@pytest.mark.slow
def test_patience_and_plateau(texts: dict[str, Any], tmp_path: Path) -> None:
    heard, run = Heard(), tmp_path / "run"
    hopeless = "train.valid_lines=1 train.lr=1e-12 train.warmup_updates=0 train.valid_every=2"
    hopeless += " train.weight_decay=0.0 train.metric=chrf"
    settings = config("luong", hopeless, "train.patience=3 train.max_updates=40")
    train(run, settings, **texts, device=CPU, reporter=heard)
    assert "(no better chrf for 3 validations)" in heard.lines[-1]
    assert heard.shown[-1] == 1.0 and max(heard.shown[:-1]) == 0.2
    assert load_checkpoint(run).update == 8
    train(run, settings, **texts, device=CPU, resume=True, reporter=heard)
    assert "finished at update 8 (no better chrf for 3 validations); best" in heard.lines[-1]
    assert heard.lines[-1].endswith(": raise its limits or --patience to go on")
    plateau = "train.schedule=plateau train.plateau_factor=0.1 train.min_lr=1e-2"
    falling = config("luong", hopeless, plateau)
    train(tmp_path / "plateau", falling, **texts, device=CPU, reporter=heard)
    assert "below train.min_lr" in heard.lines[-1]
    rates = {record["lr"] for record in records(tmp_path / "plateau")}
    np.testing.assert_allclose(sorted(rates), [1e-14, 1e-13, 1e-12])


@pytest.mark.slow
def test_a_full_disk_leaves_what_was_saved(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save that fails ends the run in one line; resumed, it has the weights of one that was not
    ended."""
    run = tmp_path / "run"
    settings = ["train.schedule='constant'", "train.valid_every=100", "train.save_every=2"]
    train(run, config("convs2s", *settings, "train.max_updates=2"), **texts, device=CPU)
    sync, save, full = os.fsync, Trainer.save, False

    def fsync(file: int) -> None:
        if full:
            raise OSError(28, "No space left on device")
        sync(file)

    def saving(self: Trainer, *arguments: Any, **named: Any) -> None:
        nonlocal full
        full = self.progress.update == 6
        save(self, *arguments, **named)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Trainer, "save", saving)
    longer = config("convs2s", *settings, "train.max_updates=8")
    with pytest.raises(CheckpointError, match="No space left"):
        train(run, longer, **texts, device=CPU, resume=True)
    assert load_checkpoint(run).update == 4
    monkeypatch.setattr(Trainer, "save", save)
    full = False
    train(run, longer, **texts, device=CPU, resume=True)
    train(tmp_path / "whole", longer, **texts, device=CPU)
    assert_same(weights(tmp_path / "whole"), weights(run))


def test_a_warm_up_longer_than_the_run_is_named(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrainingLoop, "go", lambda self: 2)
    for n_updates, is_long in ((99, True), (100, True), (101, False)):
        heard = Heard()
        settings = config("luong", f"train.warmup_updates=100 train.max_updates={n_updates}")
        train(tmp_path / str(n_updates), settings, **texts, device=CPU, reporter=heard)
        message = f"train.warmup_updates is 100, and the run ends after {n_updates} updates"
        assert any(message in line for line in heard.lines) == is_long


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "jumps"), [("cosine", True), ("constant", False)])
def test_rates_that_jump(schedule: str, jumps: bool, texts: dict[str, Any], tmp_path: Path) -> None:
    """A finished cosine run that is extended; not one that goes on to the end that it had."""
    common = [f"train.schedule={schedule}", "train.warmup_updates=1", "train.valid_every=100"]
    for n_updates, expected in ((6, False), (12, jumps)):
        heard = Heard()
        limits = config("luong", *common, f"train.max_updates={n_updates}")
        resumed = n_updates > 6
        train(tmp_path, limits, **texts, device=CPU, resume=resumed, reporter=heard)
        assert any("the learning rate jumps from" in line for line in heard.lines) == expected
    jump = [line for line in heard.lines if "rate jumps" in line]
    assert not jumps or "to 0.001: train.schedule = cosine depends on the end" in jump[0]
