"""--resume: a run that was stopped ends with the bits of one at one go, whatever is trained."""

import math
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import accepted, invoke, listing, refused
from heard import Heard
from small_runs import CPU, assert_same, config, records, weights

import bytenmt
from bytenmt.architectures.registry import ARCHITECTURES
from bytenmt.checkpoints.checkpoint import load_checkpoint
from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.weights import read_config, read_run
from bytenmt.config.schema import AUGMENTATIONS
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.pair_files import PairFiles
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.span_classes import PATTERNS_VERSION
from bytenmt.training.arguments import configuration, files_to_train_on, texts_of_run
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import TranslationObjective

DECODED = "train.valid_lines=2"
NGRAMS = ["model.ngrams=[2,3,5]", "model.ngram_rows=64"]
AUGMENTED = [f"data.{name}=0.2" for name in AUGMENTATIONS]
TEXT = ["model.source=false", "train.window=20", "train.max_tokens=120", "train.update_freq=2"]
CONTEXT, BF16, MUON = "train.context=8", "train.precision=bf16", "train.optimizer=muon"
RECURRENT = "model.recurrent=decoder model.dilations=[]"
# What each case is there for; the architectures once with decoding on the way, which leaves no
# trace.
CASES: dict[str, tuple[str, list[str]]] = {arch: (arch, [DECODED]) for arch in ARCHITECTURES}
CASES |= {
    "average": ("bytenet", ["train.ema=0.95", "train.byte_dropout=0.2"]),
    "own bytes": ("luong", ["train.teacher_forcing=0.5"]),
    "muon": ("luong", [MUON]),
    "muon convolutions": ("convs2s", [MUON, "model.encoder=conv", "model.value_layers=[[12,3]]"]),
    "tables": ("seq2seq", NGRAMS),
    "average of tables": ("bahdanau", [*NGRAMS, "train.ema=0.9"]),
    "tables beside convolutions": ("convs2s", NGRAMS),
    "epochs": ("luong", ["train.max_epochs=9"]),
    "augmented": ("convs2s", AUGMENTED),
    # Texts: the carried states of recurrent models are there, too.
    "text, seq2seq": ("seq2seq", TEXT),
    "text, bahdanau": ("bahdanau", TEXT),
    "text, luong": ("luong", [*TEXT, "train.ema=0.9"]),
    "text, bytenet": ("bytenet", [*TEXT, CONTEXT, BF16]),
    "text, convs2s": ("convs2s", [*TEXT, CONTEXT, "model.encoder_layers=[]"]),
    "text, transformer": ("transformer", [*TEXT, CONTEXT, BF16]),
    "text, recurrent": ("bytenet", [*TEXT, "train.context=0", RECURRENT]),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_resume_is_bit_identical(case: str, texts: dict[str, Any], tmp_path: Path) -> None:
    """Weights, optimiser, averages, random states and the place in the text are all there."""
    arch, settings = CASES[case]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    if case.startswith("text"):
        (pair,), valid = texts["files"], texts["valid"]
        alone = [PairFiles(tgt=pair.src), PairFiles(tgt=pair.tgt)]
        texts = {"files": alone, "valid": PairFiles(tgt=valid.tgt)}
    for run, n_updates in ((whole, 7), (parts, 4), (parts, 7)):
        torch.manual_seed(99)
        limit = f"train.max_updates={n_updates}"
        wanted = config(arch, "train.schedule=constant", *settings, limit)
        train(run, wanted, **texts, device=CPU, resume=run.exists())
    assert_same(weights(whole), weights(parts))
    is_carried = any(name.startswith("trainer.objective.") for name in weights(parts))
    assert is_carried == (case.startswith("text") and CONTEXT not in settings)
    if "train.ema" in " ".join(settings):
        trained = load_checkpoint(parts).weights["embedding.weight"]
        used = read_run(parts, "last")[1].arrays["embedding.weight"]
        assert not torch.equal(trained, torch.from_numpy(used))


@pytest.mark.slow
def test_bf16_is_resumed_to_the_bit(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with precision auto on a CPU with bf16 keeps bf16 when it is resumed on one without;
    the other precision is another training."""
    has_bf16: dict[str, Any] = {"avx512_bf16": True}
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: has_bf16)
    monkeypatch.setattr("bytenmt.training.precision.MIN_BF16_UNITS", 1)
    runs = {name: tmp_path / name for name in ("whole", "parts", "fp32")}
    for name, n_updates in (("whole", 3), ("parts", 1), ("parts", 3), ("fp32", 3)):
        limit, run = f"train.max_updates={n_updates}", runs[name]
        settings = config("luong", "train.precision=auto train.schedule=constant", limit)
        train(run, settings, **texts, device=CPU, resume=run.exists())
        if name == "parts":
            has_bf16.clear()
    whole, parts, other = map(weights, runs.values())
    assert_same(whole, parts)
    assert [read_config(run).train.precision for run in runs.values()] == ["bf16", "bf16", "fp32"]
    assert not torch.equal(whole["embedding.weight"], other["embedding.weight"])


def test_what_is_not_resumed_stays_as_it_is(texts: dict[str, Any], tmp_path: Path) -> None:
    run, heard = tmp_path / "run", Heard()
    wanted = config("convs2s", "train.max_updates=3")
    assert train(run, wanted, **texts, device=CPU, resume=True, reporter=heard) == 0
    assert sum("holds nothing to resume" in line for line in heard.lines) == 1
    before, heard = listing(run), Heard()
    assert train(run, wanted, **texts, device=CPU, resume=True, reporter=heard) == 0
    assert heard.lines[-1].startswith("finished at update 3; best validation bits per byte")
    assert heard.lines[-1].endswith(f"{run}: raise its limits or --patience to go on")
    assert not any("--resume" in line for line in heard.lines)
    longer = config("convs2s", "train.max_updates=4")
    with pytest.raises(BytenmtError, match="was trained on other text"):
        train(run, longer, **(texts | {"files": [texts["valid"]]}), device=CPU, resume=True)
    assert listing(run) == before


def test_a_run_keeps_to_its_patterns_of_spans(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With sentinels; a run without them has none."""
    for sentinels, version in ((0.2, PATTERNS_VERSION), (0.0, None)):
        run = tmp_path / str(sentinels)
        settings = ("convs2s", f"data.sentinels={sentinels}")
        train(run, config(*settings, "train.max_updates=2"), **texts, device=CPU)
        assert read_run(run)[1].facts.patterns == version
        with monkeypatch.context() as later:
            later.setattr("bytenmt.training.translation.PATTERNS_VERSION", PATTERNS_VERSION + 1)
            longer = config(*settings, "train.max_updates=3")
            refusal = pytest.raises(BytenmtError, match="patterns of spans")
            with refusal if version else nullcontext():
                train(run, longer, **texts, device=CPU, resume=True)


@pytest.mark.slow
def test_an_average_begins_with_other_weights(texts: dict[str, Any], tmp_path: Path) -> None:
    """--init-from: stopped and resumed by the same options, a run ends with the weights of one that
    was not, even where the first run has gone since."""
    gone = tmp_path / "gone"
    train(gone, config("luong", "train.max_updates=2"), **texts, device=CPU)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    longer, shorter = (
        config("luong", f"train.schedule=constant train.ema=0.9 train.max_updates={n}")
        for n in (6, 3)
    )
    train(whole, longer, **texts, device=CPU, init_from=gone)
    train(parts, shorter, **texts, device=CPU, init_from=gone)
    gone.rename(tmp_path / "elsewhere")
    train(parts, longer, **texts, device=CPU, init_from=gone, resume=True)
    assert_same(weights(whole), weights(parts))


# ---- a loop of one's own

LINEAR = "train.schedule=linear train.max_epochs=2 train.warmup_updates=1 train.max_updates=0"


def own_loop(
    texts: dict[str, Any], n_updates: int
) -> tuple[Trainer, TranslationObjective, list[float]]:
    """Train as the guide does; return the bits per byte of each update, too."""
    settings = config("luong", LINEAR)
    pairs, valid = (ParallelCorpus.open_all(files) for files in (texts["files"], [texts["valid"]]))
    objective = TranslationObjective(settings, pairs, valid)
    trainer = Trainer(settings, CPU, objective=objective)
    trainer.model.train()
    bits = []
    for share in islice(objective.shares(epoch=0, batch=0), n_updates):
        n_sentences, target_bytes, _ = share.data.counts
        bits.append(float(trainer.learn([share])[0]) / math.log(2) / (target_bytes - n_sentences))
    return trainer, objective, bits


@pytest.mark.slow
def test_an_own_loop_trains_as_the_command_and_can_be_resumed(
    texts: dict[str, Any], tmp_path: Path
) -> None:
    """A schedule by epochs falls in it, and the weights are those of a run without a break."""
    whole, own = tmp_path / "whole", tmp_path / "own"
    train(whole, config("luong", LINEAR), **texts, device=CPU)
    trainer, objective, bits = own_loop(texts, 3)
    assert [record["train_bits_per_byte"] for record in records(whole)[:3]] == pytest.approx(bits)
    assert trainer.progress.batch == 3 and trainer.progress.epoch_batches > 3
    assert trainer.progress.seconds > 0
    assert trainer.optimizer.param_groups[0]["lr"] < 0.95 * trainer.config.train.lr
    trainer.save(own, best=True, facts=objective.facts())
    bytenmt.train(own, resume=True, threads=1)
    assert_same(weights(whole), weights(own))
    trainer.save(tmp_path / "other", facts=Facts(pairs=3))
    with pytest.raises(bytenmt.BytenmtError, match="3 pairs.*now"):
        train(tmp_path / "other", config("luong", LINEAR), **texts, device=CPU, resume=True)


# ---- the command

SMALL = "--arch luong --preset tiny --threads 1 --set train.valid_lines=0"
SMALL += " --set model.d_embedding=8 --set model.d_hidden=8"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("src", "one two\nthree\nfour\n"), ("tgt", "eins zwei\ndrei\nvier\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "valid").write_text("sechs\nzehn\nacht und neun\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("option", ["weighted", "text"])
def test_a_run_knows_its_texts(place: Path, option: str) -> None:
    """--resume needs none of them; others are refused, and other settings."""
    texts = "--text src --valid-text valid --set train.window=4"
    if option == "weighted":
        texts = "--src src --tgt tgt --src tgt --tgt src --weight 2 --weight 0.5"
        texts += " --valid-src src --valid-tgt valid"
    asked = invoke(f"train -o run {SMALL} --resume")
    assert asked.exit_code == 1
    assert "run holds nothing to continue: give the training text" in asked.stderr
    accepted(f"train -o run {SMALL} {texts} --max-updates 1")
    files, valid = texts_of_run(place / "run")
    assert [one.tgt for one in valid] == [place / "valid"]
    assert [one.weight for one in files] == {"weighted": [2.0, 0.5]}.get(option, [1.0])
    weighted, _ = files_to_train_on(place / "run", True, ((),) * 4, [3.0] * len(files), ((),) * 4)
    assert [one.weight for one in weighted] == [3.0] * len(files)
    accepted("train -o run --resume --max-updates 2")
    other_text = "trained on other text" if option == "text" else "model.source"
    longer = "train -o run --resume --max-updates 3"
    assert other_text in refused(f"{longer} --text valid --valid-text valid")
    clipped = "train.clip_norm is 0.5, but run was trained with"
    assert clipped in refused(f"{longer} --set train.clip_norm=0.5")
    facts = read_run(place / "run", "last")[1].facts
    assert facts.update == 2 and facts.valid is not None and facts.without_folders().valid is None
    (place / "src").unlink()
    assert "src cannot be read: No such file" in refused(longer)


def test_python_leaves_out_what_is_none(place: Path) -> None:
    small = {"model.d_embedding": 8, "model.d_hidden": 8, "train.valid_lines": 0}
    more: dict[str, Any] = {"src": "src", "tgt": "tgt", "valid_src": "src", "valid_tgt": "valid"}
    more |= {"arch": "luong", "preset": "tiny", "settings": small, "threads": 1}
    run = bytenmt.train("run", **more, max_updates=1, max_minutes=None)
    assert run.config.train.max_minutes == 0
    with pytest.raises(BytenmtError, match="continue it with --resume, or give another folder"):
        bytenmt.train("run", **more, max_updates=1)
    with pytest.raises(BytenmtError, match="no training text: give --src and --tgt"):
        bytenmt.train("new", arch="luong")
    assert bytenmt.train("run", resume=True, max_updates=2, threads=1).metrics()[-1]["update"] == 2


def test_intervals_change_on_resume(texts: dict[str, Any], tmp_path: Path) -> None:
    """Those of logging, validation and saving; the learning rate does not."""
    run = tmp_path / "run"
    train(run, config("luong", "train.max_updates=2"), **texts, device=CPU)
    intervals = {"log_every": 2, "valid_every": 3, "save_every": 5}
    tree = {"train": {"max_updates": 7, **intervals}}
    changed = configuration(run, True, None, None, None, tree)
    train(run, changed, **texts, device=CPU, resume=True)
    validated = [record["update"] for record in records(run) if "valid_bits_per_byte" in record]
    assert validated == [2, 3, 6, 7]
    assert {name: getattr(read_config(run).train, name) for name in intervals} == intervals
    with pytest.raises(ConfigError, match="--resume changes only max_updates, .*, save_every"):
        configuration(run, True, None, None, None, {"train": {"lr": 0.5}})
