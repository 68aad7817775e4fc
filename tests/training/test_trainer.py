"""One update: split batches, summed batches, hidden bytes, the average; and what ends or outlives a run."""

from __future__ import annotations

import builtins
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from heard import Heard
from small_runs import CPU, config, contents, weights

from bytenmt.checkpoints.checkpoint import load_checkpoint, load_run, read_weights
from bytenmt.checkpoints.weights import METRICS
from bytenmt.data.batches import Batch, assemble
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.training.losses import draw_inputs, drop_bytes
from bytenmt.training.metrics import TENSORBOARD
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import TranslationObjective, to_device
from bytenmt.utf8 import BOS, PAD


@pytest.fixture
def batch(texts: dict[str, Any]) -> Batch:
    """Nine pairs."""
    return assemble(ParallelCorpus.open_all(texts["files"]), np.arange(9))


def gradients(trainer: Trainer, *batches: Batch) -> list[torch.Tensor]:
    """Return the gradients of one update with these batches."""
    total = sum(int(part.target_len.sum()) for part in batches)
    trainer.update(batches, total)
    return [p.grad for p in trainer.parameters if p.grad is not None]


def still(arch: str = "convs2s", *settings: str) -> Trainer:
    """A trainer without dropout, clipping or motion: its gradients can be compared."""
    return Trainer(config(arch, "model.dropout=0.0", "train.clip_norm=0.0", "train.lr=1e-9", *settings), CPU)


def rows(batch: Batch, begin: int, end: int) -> Batch:
    return Batch(*(part[begin:end] for part in batch))


@pytest.mark.slow
def test_summed_batches_are_one(batch: Batch) -> None:
    """Under update_freq two halves have the gradient of the whole, though their lengths differ."""
    whole = gradients(still(), batch)
    halves = gradients(still(), rows(batch, 0, 2), rows(batch, 2, 9))
    for one, other in zip(whole, halves, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def test_a_full_gpu_splits_the_batch(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    """If only two rows fit, nine rows go in parts of two after a failed part of five is discarded; the
    gradient is the same, with one warning.
    """
    whole = gradients(still(), batch)
    trainer, heard = still(), Heard()
    trainer.reporter, objective = heard, trainer.objective
    assert isinstance(objective, TranslationObjective)
    plain, sizes = objective.plain_loss, []

    def full(model: Any, source: torch.Tensor, *rest: torch.Tensor) -> Any:
        sizes.append(len(source))
        if len(source) > 2 and len(source) != 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(model, source, *rest)

    monkeypatch.setattr(objective, "loss", full)
    for one, other in zip(whole, gradients(trainer, batch), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)
    assert sizes == [9, 5, 4, 3, 2, 2, 2, 2, 1]
    gradients(trainer, batch)
    assert sizes[9:] == [2, 2, 2, 2, 1]
    assert ["out of GPU memory" in line for line in heard.lines] == [True]
    monkeypatch.setattr(objective, "loss", lambda *_: full(None, torch.zeros(9)))
    with pytest.raises(BytenmtError, match="a single training pair"):
        gradients(trainer, batch)


def test_random_draws_follow_from_update_and_process(batch: Batch) -> None:
    """Dropout is the same in the same update, whatever was drawn before, and another in the next."""
    settings = config("convs2s", "train.clip_norm=0.0", "train.lr=1e-9", "train.weight_decay=0.0")
    trainer = Trainer(settings, CPU)
    first = gradients(trainer, batch)
    second = gradients(trainer, batch)
    again = Trainer(settings, CPU)
    torch.rand(5)
    assert all(torch.equal(x, y) for x, y in zip(first, gradients(again, batch), strict=True))
    assert not all(torch.allclose(x, y, rtol=1e-2) for x, y in zip(first, second, strict=True))


@pytest.mark.parametrize("kind", ["mask", "replace"])
def test_hidden_bytes(kind: str) -> None:
    """A share of the bytes, never BOS; masked by PAD, or replaced by what UTF-8 may have."""
    torch.manual_seed(0)
    inputs = torch.randint(32, 127, (200, 50), dtype=torch.uint8)
    inputs[:, 0] = BOS
    hidden = drop_bytes(inputs, 0.3, kind)
    changed = hidden != inputs
    assert not changed[:, 0].any() and inputs[:, 1:].max() < 127
    assert changed[:, 1:].float().mean() == pytest.approx(0.3, abs=0.02)
    values = hidden[changed]
    if kind == "mask":
        assert (values == PAD).all()
    else:
        codes = [*range(0x800), *range(0x800, 0xD800, 64), *range(0xE000, 0x110000, 64)]
        assert set(values.tolist()) == set("".join(map(chr, codes)).encode())


def test_the_models_own_bytes_are_drawn_without_dropout(batch: Batch) -> None:
    """The decoder's own bytes are those it would write in use; dropout is on again afterwards."""
    trainer = Trainer(config("luong", "model.dropout=0.8", "train.teacher_forcing=0.5"), CPU)
    on, model = to_device(batch, CPU), trainer.model.train()
    torch.manual_seed(3)
    assert isinstance(trainer.objective, TranslationObjective)
    drawn = trainer.objective.inputs(model, on)
    assert all(module.training for module in model.modules())
    with torch.no_grad():
        memory = model.eval().encode(on.source, on.source_len)
    torch.manual_seed(3)
    assert torch.equal(drawn, draw_inputs(model, memory, on.target_in, 0.5))
    assert not torch.equal(drawn, on.target_in)


def losses(run: Path, name: str = "train_bits_per_byte") -> list[float]:
    records = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    return [record[name] for record in records if name in record]


@pytest.mark.slow
def test_the_average_is_validated_saved_and_resumed(texts: dict[str, Any], tmp_path: Path) -> None:
    """With train.ema the saved weights are the average's; resumed, the run goes on from the weights
    themselves, bit for bit."""
    settings = ["train.schedule='constant'", "train.ema=0.95", "train.byte_dropout=0.2", "train.save_every=4"]
    train(tmp_path / "whole", config("bytenet", *settings, "train.max_updates=8"), **texts, device=CPU)
    parts = tmp_path / "parts"
    train(parts, config("bytenet", *settings, "train.max_updates=4"), **texts, device=CPU)
    saved = load_checkpoint(parts)
    assert not torch.equal(
        saved.weights["embedding.weight"], read_weights(parts, "last")[1][0]["embedding.weight"]
    )
    train(parts, config("bytenet", *settings, "train.max_updates=8"), **texts, device=CPU, resume=True)
    one, other = weights(tmp_path / "whole"), weights(parts)
    assert one.keys() == other.keys() and all(torch.equal(t, other[name]) for name, t in one.items())


@pytest.mark.slow
def test_patience_and_plateau(texts: dict[str, Any], tmp_path: Path) -> None:
    """A run that gets no better ends, with its bar at the end; on a plateau its learning rate falls first."""
    heard = Heard()
    hopeless = [
        "train.valid_lines=1",
        "train.lr=1e-12",
        "train.warmup_updates=0",
        "train.valid_every=2",
        "train.weight_decay=0.0",
    ]
    run = tmp_path / "run"
    settings = [*hopeless, "train.patience=3", "train.metric=chrf", "train.max_updates=40"]
    train(run, config("luong", *settings), **texts, device=CPU, reporter=heard)
    assert "(no better chrf for 3 validations)" in heard.lines[-1]
    assert heard.shown[-1] == 1.0 and max(heard.shown[:-1]) == 0.2
    assert load_checkpoint(run).update == 8
    train(run, config("luong", *settings), **texts, device=CPU, resume=True, reporter=heard)
    assert "is finished at update 8" in heard.lines[-1]
    plateau = [
        "train.schedule='plateau'",
        "train.plateau_factor=0.1",
        "train.min_lr=1e-2",
        "train.metric=chrf",
    ]
    train(tmp_path / "plateau", config("luong", *hopeless, *plateau), **texts, device=CPU, reporter=heard)
    assert "below train.min_lr" in heard.lines[-1]
    np.testing.assert_allclose(sorted(set(losses(tmp_path / "plateau", "lr"))), [1e-15, 1e-14, 1e-13, 1e-12])


@pytest.mark.slow
def test_a_full_disk_ends_nothing(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save that fails is told of and the run goes on; at the end it is an error. What was saved stands."""
    run = tmp_path / "run"
    settings = ["train.schedule='constant'", "train.valid_every=100", "train.save_every=2"]
    train(run, config("convs2s", *settings, "train.max_updates=2"), **texts, device=CPU)
    before = weights(run)
    sync, full, failing = os.fsync, False, {4, 8}

    def fsync(file: int) -> None:
        if full:
            raise OSError(28, "No space left on device")
        sync(file)

    monkeypatch.setattr(os, "fsync", fsync)
    save = Trainer.save

    def saving(self: Trainer, *arguments: Any) -> None:
        nonlocal full
        full = self.progress.update in failing
        save(self, *arguments)

    monkeypatch.setattr(Trainer, "save", saving)
    heard, longer = Heard(), config("convs2s", *settings, "train.max_updates=8")
    with pytest.raises(CheckpointError, match="No space left"):
        train(run, longer, **texts, device=CPU, resume=True, reporter=heard)
    assert any("warning" in line and "update 4" in line for line in heard.lines)
    assert load_checkpoint(run).update == 6
    failing.clear()
    full = False
    train(run, config("convs2s", *settings, "train.max_updates=8"), **texts, device=CPU, resume=True)
    train(tmp_path / "whole", config("convs2s", *settings, "train.max_updates=8"), **texts, device=CPU)
    assert before.keys() == weights(run).keys()
    assert all(torch.equal(t, weights(run)[name]) for name, t in weights(tmp_path / "whole").items())


def test_other_text_is_refused(texts: dict[str, Any], tmp_path: Path) -> None:
    """A resume on another corpus would go on from a place that is not there."""
    run = tmp_path / "run"
    train(run, config("luong", "train.max_updates=2"), **texts, device=CPU)
    other = texts | {"files": [texts["valid"]]}
    before = contents(run)
    with pytest.raises(BytenmtError, match="was trained on other text"):
        train(run, config("luong", "train.max_updates=3"), **other, device=CPU, resume=True)
    assert contents(run) == before


def test_several_corpora(texts: dict[str, Any], tmp_path: Path) -> None:
    """Pairs of all corpora are the run's."""
    table = tmp_path / "table"
    table.write_text("\n".join([*(f"{i}\t{i}" for i in range(5)), *["x\t"] * 12]) + "\n")
    from bytenmt.data.corpus import PairFiles

    files = [*texts["files"], PairFiles(tsv=table, weight=2.0)]
    run = tmp_path / "run"
    settings = ["train.max_updates=1", "train.max_tokens=100000", "train.log_every=1"]
    train(run, config("luong", *settings), files=files, valid=texts["valid"], device=CPU)
    assert load_run(run, CPU).facts.pairs == 40 + 5


@pytest.mark.slow
def test_tensorboard(texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its absence is one line."""
    pytest.importorskip("tensorboard")
    run = tmp_path / "run"
    train(run, config("luong", "train.max_updates=2"), **texts, device=CPU, tensorboard=True)
    assert any((run / TENSORBOARD).iterdir())
    find = builtins.__import__("importlib.util").util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "tensorboard" else find(name)
    )
    with pytest.raises(BytenmtError, match="pip install tensorboard"):
        train(
            tmp_path / "none", config("luong", "train.max_updates=1"), **texts, device=CPU, tensorboard=True
        )
    assert not (tmp_path / "none").exists()


def test_batches_follow_the_configuration(texts: dict[str, Any], tmp_path: Path) -> None:
    """Widths are multiples of train.round_to; with train.short_first the first epoch rises in length and the
    second does not; weights repeat pairs; the place in the plan moves along."""
    corpus = ParallelCorpus.open_all([*texts["files"], texts["valid"]._replace(weight=3.0)])
    settings = config("luong", "train.round_to=8", "train.short_first=true", "train.max_tokens=300")
    objective = TranslationObjective(settings, corpus, corpus)
    epochs: list[list[Batch]] = [[], []]
    for share in objective.shares(0, 0):
        if share.epoch == 2:
            break
        assert share.data.source.shape[1] % 8 == 0 and (share.data.target.shape[1] - 1) % 8 == 0
        epochs[share.epoch].append(share.data)
        assert share.batch == len(epochs[share.epoch])
    again = next(objective.shares(1, 2))
    assert again[1:3] == (1, 3) and np.array_equal(again.data.target, epochs[1][2].target)
    widths = [[part.source.shape[1] + part.target.shape[1] for part in epoch] for epoch in epochs]
    assert widths[0] == sorted(widths[0]) and widths[1] != sorted(widths[1])
    assert [sum(len(part.target_len) for part in epoch) for epoch in epochs] == [40 + 3 * 5] * 2
