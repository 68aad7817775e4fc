"""One update: its losses, the bytes that the decoder reads, summed batches."""

from itertools import takewhile
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
import torch
from small_runs import CPU, config

from bytenmt.architectures.registry import ARCHITECTURES, build_model
from bytenmt.checkpoints.facts import Progress
from bytenmt.checkpoints.weights import BEST
from bytenmt.data.augment.augmenter import Augmenter
from bytenmt.data.batches import Batch, assemble, batches
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.epoch_plan import epoch_plan
from bytenmt.data.text_file import TextFile
from bytenmt.errors import BytenmtError
from bytenmt.sentinels import SENTINELS
from bytenmt.training.losses import draw_inputs, drop_bytes, masked_loss
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import TranslationObjective, to_device
from bytenmt.utf8 import BOS, PAD


@pytest.fixture
def batch(texts: dict[str, Any]) -> Batch:
    """Nine pairs."""
    return assemble(ParallelCorpus.open_all(texts["files"]), np.arange(9))


def gradients(trainer: Trainer, *batches: Batch) -> list[torch.Tensor]:
    """Return the gradients of one update with these batches."""
    trainer.update(batches, sum(int(part.target_len.sum()) for part in batches))
    return [p.grad for p in trainer.parameters if p.grad is not None]


def still(arch: str = "convs2s", *settings: str) -> Trainer:
    """A trainer without dropout, clipping or motion: its gradients can be compared."""
    plain = "model.dropout=0.0 train.clip_norm=0.0 train.lr=1e-9"
    return Trainer(config(arch, plain, *settings), CPU)


@pytest.mark.slow
def test_summed_batches_are_one(batch: Batch) -> None:
    whole = gradients(still(), batch)
    pairs = batch.pairs()
    halves = gradients(still(), Batch.from_pairs(pairs[:2]), Batch.from_pairs(pairs[2:]))
    for one, other in zip(whole, halves, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def test_a_full_gpu_is_told_in_one_line(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = still()
    monkeypatch.setattr(trainer.objective, "loss", Mock(side_effect=torch.OutOfMemoryError))
    with pytest.raises(BytenmtError, match="not enough GPU memory: halve train.max_tokens"):
        gradients(trainer, batch)


def test_random_draws_follow_from_update_and_process(batch: Batch) -> None:
    """Dropout is the same in the same update whatever was drawn before, and differs in the next."""
    settings = config("convs2s", "train.clip_norm=0.0", "train.lr=1e-9", "train.weight_decay=0.0")
    trainer, again = Trainer(settings, CPU), Trainer(settings, CPU)
    first, second = gradients(trainer, batch), gradients(trainer, batch)
    torch.rand(5)
    assert all(torch.equal(x, y) for x, y in zip(first, gradients(again, batch), strict=True))
    assert not all(torch.allclose(x, y, rtol=1e-2) for x, y in zip(first, second, strict=True))


def test_batches_follow_the_configuration(texts: dict[str, Any]) -> None:
    """Weights repeat pairs; the place in the plan moves along."""
    more = msgspec.structs.replace(texts["valid"], weight=3.0)
    corpus = ParallelCorpus.open_all([*texts["files"], more])
    settings = config("luong", "train.max_tokens=300")
    objective = TranslationObjective(settings, corpus, corpus)
    epochs: list[list[Batch]] = [[], []]
    for share in objective.shares(0, 0):
        if share.epoch == 2:
            break
        epochs[share.epoch].append(share.data)
        assert share.batch == len(epochs[share.epoch])
    again = next(objective.shares(1, 2))
    assert again[1:3] == (1, 3) and np.array_equal(again.data.target, epochs[1][2].target)
    assert [sum(len(part.target_len) for part in epoch) for epoch in epochs] == [40 + 3 * 5] * 2


def test_the_next_epoch_is_planned_beside_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sentinels and batches are those of an epoch planned alone, also after a resume."""
    lines = "".join(f"Anna has {n} of {n * n} <b>\n" for n in range(50)).encode()
    text = TextFile.from_bytes(lines, "text")
    corpus = ParallelCorpus.from_texts(text, text)
    settings = config("luong", "train.max_tokens=300", "data.sentinels=0.5")
    seed = settings.train.seed
    objective = TranslationObjective(settings, corpus, corpus)
    planned = {epoch: Event() for epoch in range(4)}
    plan = objective._plan

    def plan_and_tell(epoch: int) -> Any:
        result = plan(epoch)
        planned[epoch].set()
        return result

    monkeypatch.setattr(objective, "_plan", plan_and_tell)
    shares = objective.shares(0, 0)
    epochs: list[list[Batch]] = [[next(shares).data], []]
    assert planned[1].wait(60)
    for share in takewhile(lambda share: share.epoch < 2, shares):
        epochs[share.epoch].append(share.data)
    augmenter = Augmenter(corpus, settings.data, seed)
    for epoch, found in enumerate(epochs):
        alone = augmenter.corpus(epoch)
        order = epoch_plan(alone.source_lengths, alone.target_lengths, 300, seed, epoch)
        expected = [batch.pairs() for batch in batches(alone, order)]
        assert [batch.pairs() for batch in found] == expected
        sources = b"".join(source for batch in expected for source, _ in batch)
        assert any(byte in sources for byte in SENTINELS)
    assert next(objective.shares(1, 2)).data.pairs() == epochs[1][2].pairs()


def test_without_its_best_weights_a_run_begins_to_look_for_them(tmp_path: Path) -> None:
    trainer = Trainer(config("luong"), CPU)
    progress = Progress(update=9, best=1.0, best_update=3, waited=2)
    for is_there, expected in ((True, (1.0, 3, 2)), (False, (None, 0, 0))):
        trainer.progress = progress
        trainer.save(tmp_path, best=is_there)
        if not is_there:
            (tmp_path / BEST).unlink()
        trainer.load(tmp_path)
        loaded = trainer.progress
        assert (loaded.best, loaded.best_update, loaded.waited, loaded.update) == (*expected, 9)


def test_the_loss_against_numpy() -> None:
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
    real = torch.arange(4) < target_len[:, None]
    loss, total = masked_loss(logits, target, real, 0.1)
    assert float(total) == pytest.approx(nats, rel=1e-5)
    assert float(loss) == pytest.approx(smoothed, rel=1e-5)
    assert float(masked_loss(logits, target, real, 0.0)[0]) == pytest.approx(nats, rel=1e-5)


# ---- the bytes that the decoder reads


def test_hidden_bytes() -> None:
    """A share of the bytes, never BOS, becomes PAD."""
    torch.manual_seed(0)
    inputs = torch.randint(32, 127, (200, 50), dtype=torch.uint8)
    inputs[:, 0] = BOS
    hidden = drop_bytes(inputs, 0.3)
    changed = hidden != inputs
    assert not changed[:, 0].any() and inputs[:, 1:].max() < 127
    assert changed[:, 1:].float().mean() == pytest.approx(0.3, abs=0.02)
    assert (hidden[changed] == PAD).all()


def test_the_models_own_bytes_are_drawn_without_dropout(batch: Batch) -> None:
    """The decoder's own bytes are those it would write in use; dropout is on again afterwards."""
    trainer = Trainer(config("luong", "model.dropout=0.8", "train.teacher_forcing=0.5"), CPU)
    on, model = to_device(batch, CPU), trainer.model.train()
    torch.manual_seed(3)
    assert isinstance(trainer.objective, TranslationObjective)
    drawn = trainer.objective.decoder_inputs(model, on)
    assert all(module.training for module in model.modules())
    with torch.no_grad():
        memory = model.eval().encode(on.source, on.source_len)
    torch.manual_seed(3)
    assert torch.equal(drawn, draw_inputs(model, memory, on.target_in, 0.5))
    assert not torch.equal(drawn, on.target_in)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_drawn_inputs(arch: str) -> None:
    """Ratio 1 keeps the true bytes; ratio 0 feeds back what the model itself says, step by step;
    between them each byte is one of both, and their share is what it should be."""
    torch.manual_seed(3)
    model = build_model(config(arch).model).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    source = torch.randint(32, 127, (8, 6), dtype=torch.uint8)
    memory = model.encode(source, torch.tensor([6, 3, 5, 4, 6, 2, 1, 6]))
    true = torch.randint(32, 127, (8, 30), dtype=torch.uint8)
    assert torch.equal(draw_inputs(model, memory, true, 1.0), true)
    for ratio in (0.0, 0.6):
        drawn = draw_inputs(model, memory, true, ratio)
        with torch.no_grad():
            logits = model(drawn, memory, model.start(memory))[0]
        own = drawn[:, 1:] == logits.argmax(-1)[:, :-1].to(torch.uint8)
        assert torch.equal(drawn[:, 0], true[:, 0])
        assert bool((own | (drawn[:, 1:] == true[:, 1:])).all())
        assert float(own.float().mean()) == pytest.approx(1 - ratio, abs=0.1)
