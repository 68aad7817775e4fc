"""The training loop: its loss, its schedule, and that nothing is lost when it stops."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from heard import Heard
from small_runs import CPU, assert_same, config, contents, weights

from bytenmt.architectures.registry import ARCHITECTURES, build_model
from bytenmt.checkpoints.checkpoint import load_run
from bytenmt.checkpoints.weights import METRICS, read_config
from bytenmt.config.schema import load_config
from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.errors import BytenmtError, CheckpointError, ConfigError, DataError
from bytenmt.training.losses import byte_loss, draw_inputs
from bytenmt.training.precision import precision_of
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import TranslationObjective

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_resume_is_bit_identical(arch: str, texts: dict[str, Any], tmp_path: Path) -> None:
    """Stopped after 5 updates and resumed, 8 updates end with the weights of 8 at one go: weights,
    optimiser, random states and the place in the plan are all there."""
    settings = ["train.schedule='constant'"]
    if arch in ("luong", "bytenet"):  # one that steps, one that does not: decoding leaves no trace either
        settings.append("train.valid_lines=1")
    train(tmp_path / "whole", config(arch, *settings, "train.max_updates=8"), **texts, device=CPU)
    parts = tmp_path / "parts"
    train(parts, config(arch, *settings, "train.max_updates=5"), **texts, device=CPU)
    torch.manual_seed(99)
    resumed = config(arch, *settings, "train.max_updates=8")
    train(parts, resumed, **texts, device=CPU, resume=True)
    assert_same(weights(tmp_path / "whole"), weights(parts))


def test_metrics_of_a_resumed_run_count_every_update_once(texts: dict[str, Any], tmp_path: Path) -> None:
    """Records that a killed run wrote after its last save are written again, not twice."""
    run = tmp_path / "run"
    train(run, config("bytenet", "train.max_updates=6"), **texts, device=CPU)
    with open(run / METRICS, "a") as file:
        file.write('{"update":7,"train_bits_per_byte":1}\n{"update":8,"tra')
    train(run, config("bytenet", "train.max_updates=9"), **texts, device=CPU, resume=True)
    records = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    assert [r["update"] for r in records if "train_bits_per_byte" in r] == list(range(1, 10))
    assert all(math.isfinite(r["lr"]) and r["seconds"] >= 0 for r in records)


def test_validation_and_checkpoints_by_time(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a minute an update, at the first update that sees two more minutes, or three more, on the clock;
    how long a validation takes delays the next one and adds none. The weights know nothing of it."""
    clock, saved = [0.0], list[int]()
    update, score, save = Trainer.update, TranslationObjective.score, Trainer.save

    def slow(self: Trainer, *arguments: Any) -> Any:
        clock[0] += 60
        return update(self, *arguments)

    def slower(self: TranslationObjective, *arguments: Any) -> Any:
        clock[0] += 200
        return score(self, *arguments)

    def save_and_record(self: Trainer, run: Path, best: bool, facts: Any) -> None:
        saved.extend([] if best else [self.progress.update])
        save(self, run, best, facts)

    monkeypatch.setattr(Trainer, "update", slow)
    monkeypatch.setattr(TranslationObjective, "score", slower)
    monkeypatch.setattr(Trainer, "save", save_and_record)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    common = [
        "train.schedule='constant'",
        "train.max_updates=8",
        "train.valid_lines=1",
        "train.metric=chrf",
        "train.lr=1e-9",
    ]
    timed, plain = tmp_path / "timed", tmp_path / "plain"
    often = ["train.valid_every=4m", "train.save_every='3m'"]
    train(timed, config("luong", *common, *often), **texts, device=CPU)
    assert validated(timed) == [5, 8]
    assert saved == [4, 6, 7, 8], "the clock stands at 180, 300 + 200, 560 and 620 seconds there"
    train(plain, config("luong", *common), **texts, device=CPU)
    assert validated(plain) == [4, 8]
    assert_same(weights(timed), weights(plain))


def validated(run: Path) -> list[int]:
    """The updates after which the weights were scored."""
    records = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    return [r["update"] for r in records if "valid_bits_per_byte" in r]


def test_a_finished_run_is_left_alone(texts: dict[str, Any], tmp_path: Path) -> None:
    """--resume on a finished run says so and changes nothing; where nothing was saved it starts afresh, which
    is told."""
    run, heard = tmp_path / "run", Heard()
    wanted = config("convs2s", "train.max_updates=3")
    assert train(run, wanted, **texts, device=CPU, resume=True, reporter=heard) == (3, 0)
    assert sum("holds nothing to resume" in line for line in heard.lines) == 1
    before = contents(run)
    heard = Heard()
    assert train(run, wanted, **texts, device=CPU, resume=True, reporter=heard) == (3, 0)
    assert heard.lines[-1] == f"{run} is finished at update 3: raise its limits to go on"
    assert not any("--resume" in line for line in heard.lines)
    assert contents(run) == before


def test_best_is_the_best_validation(texts: dict[str, Any], tmp_path: Path) -> None:
    """The best checkpoint has the lowest validated bits per byte, and weights that give them again."""
    from bytenmt.decoding.pytorch.reader import TorchReader
    from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities

    run = tmp_path / "run"
    train(run, config("convs2s", "train.max_updates=20", "train.lr=0.05"), **texts, device=CPU)
    records = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    validated = {r["update"]: r["valid_bits_per_byte"] for r in records if "valid_bits_per_byte" in r}
    loaded = load_run(run, CPU)
    assert loaded.facts.progress.best == min(validated.values())
    assert validated[loaded.facts.update] == min(validated.values())
    corpus = ParallelCorpus.open_all([texts["valid"]])
    again = bits_per_byte(log_probabilities(TorchReader([loaded.model], CPU), corpus), corpus.target_lengths)
    assert again == pytest.approx(min(validated.values()), abs=1e-5)


@pytest.mark.parametrize("arch", ["bahdanau", "convs2s"])  # one that steps, one that does not
def test_bf16(arch: str, texts: dict[str, Any], tmp_path: Path) -> None:
    """Training in bf16 autocast learns as fp32 does, with fp32 weights, and validates in fp32."""
    bits = {}
    for precision in ("fp32", "bf16"):
        run = tmp_path / precision
        settings = [f"train.precision={precision}", "train.max_updates=15", "train.lr=0.02"]
        train(run, config(arch, *settings, "model.dropout=0.0"), **texts, device=CPU)
        loaded = load_run(run, CPU)
        assert loaded.model.embedding.weight.dtype == torch.float32
        bits[precision] = loaded.facts.progress.best
    assert bits["bf16"] == pytest.approx(bits["fp32"], rel=0.05)


@pytest.mark.parametrize("arch", ["bahdanau", "luong", "bytenet"])  # GRU, LSTM and convolutions
def test_bf16_is_resumed_to_the_bit(
    arch: str, texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with precision auto on a CPU with bf16 keeps bf16 when it is resumed on one without."""
    has_bf16: dict[str, Any] = {"avx512bf16": True}
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: has_bf16)
    monkeypatch.setattr("bytenmt.training.precision.WIDE", 1)
    settings = ["train.precision=auto", "train.schedule='constant'", "train.valid_lines=0"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole, config(arch, *settings, "train.max_updates=5"), **texts, device=CPU)
    train(parts, config(arch, *settings, "train.max_updates=2"), **texts, device=CPU)
    has_bf16.clear()
    train(parts, config(arch, *settings, "train.max_updates=5"), **texts, device=CPU, resume=True)
    assert_same(weights(whole), weights(parts))
    assert read_config(parts).train.precision == "bf16"
    train(tmp_path / "fp32", config(arch, *settings, "train.max_updates=5"), **texts, device=CPU)
    assert read_config(tmp_path / "fp32").train.precision == "fp32"
    table = "embedding.weight"
    assert not torch.equal(weights(tmp_path / "fp32")[table], weights(whole)[table])


@pytest.mark.parametrize(
    ("arch", "preset", "precision"),
    [("bahdanau", "tiny", "fp32"), ("bahdanau", "small", "bf16"), ("bytenet", "tiny", "bf16")],
)
def test_auto_is_the_quicker_precision(
    arch: str, preset: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recurrent models of few units are trained faster in fp32 (tools/bench/train.py)."""
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: {"avx512bf16": True})
    assert precision_of(CPU, load_config(arch, preset, "", ()).model) == precision
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", dict)
    assert precision_of(CPU, load_config(arch, preset, "", ()).model) == "fp32"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_model_learns_to_copy(arch: str, tmp_path: Path) -> None:
    """Every architecture, with its source, gets well below what one can reach that sees nothing of it."""
    generator = np.random.default_rng(1)
    lines = ["".join(generator.choice(list("ab가"), 2)) for _ in range(60)]
    file = tmp_path / "text"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = [
        "model.dropout=0.0",
        "train.max_updates=70",
        "train.lr=0.1",
        "train.warmup_updates=5",
    ]
    settings += ["train.valid_every=70", "train.save_every=70", "train.max_tokens=400"]
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
    assert load_run(run, CPU).facts.progress.best < 0.8 * blind


def test_byte_loss_against_numpy() -> None:
    """Nats of the real bytes alone, and smoothed, computed position by position in float64."""
    torch.manual_seed(0)
    logits = torch.randn(3, 4, 256)
    target = torch.randint(0, 256, (3, 4), dtype=torch.uint8)
    target_len = torch.tensor([4, 1, 3])
    nats = smoothed = 0.0
    for row in range(3):
        for t in range(int(target_len[row])):
            x = logits[row, t].double().numpy()
            log_p = x - np.log(np.exp(x).sum())
            nats -= log_p[int(target[row, t])]
            smoothed -= 0.9 * log_p[int(target[row, t])] + 0.1 * log_p.mean()
    loss, total = byte_loss(logits, target, target_len, 0.1)
    assert float(total) == pytest.approx(nats, rel=1e-5)
    assert float(loss) == pytest.approx(smoothed, rel=1e-5)
    assert float(byte_loss(logits, target, target_len, 0.0)[0]) == pytest.approx(nats, rel=1e-5)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_drawn_inputs(arch: str) -> None:
    """Ratio 1 keeps the true bytes; ratio 0 feeds back what the model itself says, step by step."""
    torch.manual_seed(3)
    model = build_model(config(arch).model).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    src = torch.randint(32, 127, (3, 6), dtype=torch.uint8)
    memory = model.encode(src, torch.tensor([6, 3, 5]))
    truth = torch.randint(32, 127, (3, 7), dtype=torch.uint8)
    assert torch.equal(draw_inputs(model, memory, truth, 1.0), truth)
    own = draw_inputs(model, memory, truth, 0.0)
    with torch.no_grad():
        logits, _ = model(own, memory, model.start(memory))
    assert torch.equal(own[:, 1:], logits.argmax(-1)[:, :-1].to(torch.uint8))
    assert torch.equal(own[:, 0], truth[:, 0])


@pytest.mark.parametrize("ema", [(), ("train.ema=0.9999",)])
def test_embedding_of_another_run(texts: dict[str, Any], tmp_path: Path, ema: tuple[str, ...]) -> None:
    """A table goes from one architecture to another of the same width, and no further; a moving average
    begins with it."""
    first = tmp_path / "first"
    train(first, config("luong", "train.max_updates=2"), **texts, device=CPU)
    second = config("bytenet", "train.max_updates=1", "train.lr=1e-12", "train.weight_decay=0.0", *ema)
    train(tmp_path / "second", second, **texts, device=CPU, init_embedding=first)
    tables = [weights(run)["embedding.weight"] for run in (first, tmp_path / "second")]
    torch.testing.assert_close(tables[0], tables[1], atol=1e-8, rtol=0)
    wide = config("bytenet", "model.d_embedding=9", "train.max_updates=1")
    with pytest.raises(CheckpointError, match="not of this model's width 9"):
        train(tmp_path / "third", wide, **texts, device=CPU, init_embedding=first)
    assert not (tmp_path / "third").exists()


def test_divergence_is_one_error_and_the_checkpoint_stands(texts: dict[str, Any], tmp_path: Path) -> None:
    """A loss that is not a number ends training before anything bad is saved."""
    run = tmp_path / "run"
    settings = ["train.schedule='constant'", "train.warmup_updates=0"]
    train(run, config("bytenet", "train.max_updates=3", *settings), **texts, device=CPU)
    before = weights(run)
    settings += ["train.save_every=400", "train.valid_every=400", "train.clip_norm=0.0"]
    wild = config("bytenet", "train.max_updates=400", "train.lr=1000", *settings)
    with pytest.raises(BytenmtError, match="diverged"):
        train(run, wild, **texts, device=CPU, resume=True)
    assert_same(before, weights(run))


def test_bad_input_leaves_no_folder(texts: dict[str, Any], tmp_path: Path) -> None:
    """Unusable training text is refused before the run folder is created."""
    run = tmp_path / "run"
    short = tmp_path / "short"
    short.write_text("one line\n")
    with pytest.raises(DataError, match="5.*1|1.*5"):
        train(run, config("luong"), **(texts | {"files": [PairFiles(short, texts["valid"].tgt)]}), device=CPU)
    with pytest.raises(ConfigError, match="needs an end"):
        train(run, config("luong", "train.max_updates=0"), **texts, device=CPU)
    with pytest.raises(ConfigError, match="count validations: give --valid-every"):
        train(run, config("luong", "train.patience=3", "train.valid_every=2m"), **texts, device=CPU)
    with pytest.raises(ConfigError, match="chrf needs"):
        train(run, config("luong", "train.metric=chrf", "train.valid_lines=0"), **texts, device=CPU)
    assert not run.exists()
