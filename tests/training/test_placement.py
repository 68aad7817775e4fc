"""Test on an emulated device that no tensor of a training or of decoding is left on the CPU."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fast_variants import rotated
from labelled_device import DEVICE, HOST, WrongDevice, device_of, labelled_device, put
from small_runs import SMALL, config, nine_lines

from bytenmt.data.batches import Batch, assemble
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode
from bytenmt.training import translation
from bytenmt.training.arguments import configuration
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import TranslationObjective

TABLES = ["model.ngrams=[2]", "model.ngram_rows=64"]
# Reads by the host in an update: the length of the longest text.
WAITS = {"bytenet": {"_local_scalar_dense": 1}, "transformer": {"_local_scalar_dense": 1}}
RUNS = rotated([*SMALL], ["fp32", "bf16"], 1)


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """Nine pairs."""
    files = nine_lines(tmp_path_factory.mktemp("text") / "lines")
    return assemble(ParallelCorpus.open_all([files]), np.arange(9))


def trainer_of(arch: str, *settings: str) -> Trainer:
    return Trainer(config(arch, *TABLES, *settings), DEVICE)


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "precision"), RUNS)
def test_training_and_decoding_stay_on_the_device(
    arch: str, precision: str, batch: Batch, tmp_path: Path
) -> None:
    """Two updates, a checkpoint, a third update after loading it, and a greedy decode."""
    settings = [f"train.precision={precision}", "train.optimizer=muon", "train.ema=0.9"]
    with labelled_device() as waits:
        trainer = trainer_of(arch, *settings)
        for _ in range(2):
            trainer.update([batch])
        trainer.save(tmp_path / "run")
        resumed = trainer_of(arch, *settings)
        resumed.load(tmp_path / "run")
        state = [tensor for one in resumed.optimizer.state.values() for tensor in one.values()]
        assert all(device_of(tensor) == DEVICE for tensor in state)
        waits.clear()
        nats, norm = resumed.update([batch])
        # clip_grad_norm_ groups tensors by their real device, which moves a scalar here alone.
        waits.pop("to the host")
        assert +waits == WAITS.get(arch, {})
        assert device_of(nats) == device_of(norm) == DEVICE
        engine = TorchEngine([resumed.model.eval()], SearchOptions(), 2, DEVICE)
        assert len(list(decode(engine, [Request(b"eins", 3), Request(b"drei", 3)]))) == 2


@pytest.mark.slow
def test_a_validation_decodes_its_lines(tmp_path: Path) -> None:
    corpus = ParallelCorpus.open_all([nine_lines(tmp_path / "lines")])
    settings = config("bytenet", "train.valid_lines=200")
    with labelled_device():
        objective = TranslationObjective(settings, corpus, corpus, device=DEVICE)
        assert objective.decode(Trainer(settings, DEVICE).model.eval())["valid_lines"] == 9


def test_a_tensor_on_the_cpu_is_caught(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulated device finds a tensor left on the CPU, in the tables' state and in a loss."""
    with labelled_device():
        trainer = trainer_of("convs2s")
        trainer.update([batch])
        assert trainer.row_adam is not None
        trainer.row_adam.exp_avg = put(trainer.row_adam.exp_avg.clone(), HOST)
        with pytest.raises(WrongDevice):
            trainer.update([batch])
    moved = translation.to_device

    def forgetful(*given: Any, **options: Any) -> Any:
        tensors = moved(*given, **options)
        return tensors._replace(target_len=tensors.target_len.cpu())

    monkeypatch.setattr(translation, "to_device", forgetful)
    with labelled_device():
        trainer = trainer_of("convs2s")
        with pytest.raises(WrongDevice):
            trainer.update([batch])


def test_a_gpu_gets_larger_batches(tmp_path: Path) -> None:
    """Eight times the preset's, with the rate by the square root, unless they are set."""

    def batch_and_rate(on_gpu: bool, **told: float) -> tuple[int, float]:
        settings = {"train": told}
        new = configuration(tmp_path / "run", False, "luong", "base", None, settings, on_gpu=on_gpu)
        return new.train.max_tokens, new.train.lr

    assert batch_and_rate(False) == (16_000, 7e-4)
    assert batch_and_rate(True) == (128_000, 7e-4 * 8**0.5)
    assert batch_and_rate(True, lr=1e-3) == (128_000, 1e-3)
    assert batch_and_rate(True, max_tokens=9_000) == (9_000, 7e-4)
