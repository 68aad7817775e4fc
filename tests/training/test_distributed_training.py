"""Several processes train one model: the number of them changes nothing, and torchrun restarts what
dies."""

import os
import signal
from pathlib import Path
from typing import Any

import command_server
import pytest
import torch
from processes import results, torchrun
from small_runs import config, records, write_pairs

from bytenmt.checkpoints.checkpoint import load_checkpoint
from bytenmt.cli.console import Console
from bytenmt.data.pair_files import PairFiles
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.evaluation import likelihood
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer

pytestmark = pytest.mark.slow


TEXT = ["model.source=false", "train.window=20"]


def train_as_one(group: Group, arch: str, run: Path, folder: Path, settings: list[str]) -> None:
    """Train in a process of a group, in float64: rounding grows in training as any other difference
    does."""
    wanted = config(arch, "model.dropout=0.0", "train.schedule='constant'", *settings)
    files, valid = PairFiles(tgt=folder / "src"), PairFiles(tgt=folder / "valid_src")
    if wanted.model.source:
        files = PairFiles(folder / "src", folder / "tgt")
        valid = PairFiles(folder / "valid_src", folder / "valid_tgt")
    more: dict[str, Any] = {"resume": True, "group": group, "reporter": Console()}
    torch.set_default_dtype(torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(likelihood, "LINES_AT_ONCE", 2)  # each process scores some of the seven
        try:
            train(run, wanted, files=[files], valid=valid, device=torch.device("cpu"), **more)
        finally:
            torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("arch", "more"),
    [
        ("convs2s", []),
        ("seq2seq", ["model.ngrams=[2,3]", "model.ngram_rows=64"]),
        ("luong", [*TEXT, "model.input_feeding=false"]),  # whose state is carried on
        ("bytenet", [*TEXT, "train.context=8"]),
    ],
)
def test_processes_share_one_run(arch: str, more: list[str], tmp_path: Path) -> None:
    """12 updates of two processes have the losses of one, and the same validation; a run that two
    began is finished by one."""
    write_pairs(tmp_path, 60, 7, n_long=5)  # the share of a batch with a long one may be empty
    settings = ["train.max_updates=12 train.valid_every=6 train.update_freq=2 train.ema=0.9", *more]
    settings.append("train.valid_lines=2 train.lr=0.03")
    train_as_one(SINGLE_PROCESS, arch, tmp_path / "one", tmp_path, settings)
    results(train_as_one, arch, tmp_path / "two", tmp_path, [*settings, "train.max_updates=7"])
    train_as_one(SINGLE_PROCESS, arch, tmp_path / "two", tmp_path, settings)
    one, two = records(tmp_path / "one"), records(tmp_path / "two")

    def values(run: list[dict[str, Any]], name: str) -> dict[int, float]:
        return {record["update"]: record[name] for record in run if name in record}

    losses, others = (values(run, "train_bits_per_byte") for run in (one, two))
    assert len(losses) == 12 and losses[12] < losses[1] - 0.15
    assert losses == pytest.approx(others, abs=1e-8)
    scores, others = (values(run, "valid_bits_per_byte") for run in (one, two))
    del others[7]  # where two processes stopped
    assert scores.keys() == {6, 12} and scores == pytest.approx(others, abs=1e-8)


def test_torchrun_restarts_a_job_of_which_a_process_has_died(tmp_path: Path) -> None:
    """The second process is killed once; the first ends by a clear message; the restarted job goes
    on from the last checkpoint and ends as a run in one go."""
    write_pairs(tmp_path, 60, 7, n_long=5)
    # Of four attempts one is needed: now and then a thread of PyTorch's aborts a process that has
    # finished.
    job = ["--nproc-per-node=2", "--max-restarts=3", "--monitor-interval=0.1", "--no-python"]
    with command_server.serving(tmp_path, die_once) as program:
        code = torchrun(tmp_path / "log", *job, str(program), str(tmp_path))
    told = (tmp_path / "log").read_text()
    assert code == 0 and "resuming" in told and "at update 4" in told, told
    train_as_one(SINGLE_PROCESS, "convs2s", tmp_path / "whole", tmp_path, ["train.max_updates=10"])
    whole, killed = load_checkpoint(tmp_path / "whole"), load_checkpoint(tmp_path / "killed")
    assert killed.update == 10
    for name, tensor in whole.weights.items():
        torch.testing.assert_close(killed.weights[name], tensor, rtol=0, atol=1e-8)


def die_once(arguments: list[str]) -> None:
    """Train as a process of torchrun; the second process dies in update 7 of the first attempt."""
    from bytenmt.distributed import process_group

    folder = Path(arguments[0])
    trainer: Any = Trainer
    update = trainer.update

    def dying(self: Trainer, *arguments: Any) -> Any:
        first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        if first and self.group.rank == 1 and self.progress.update == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return update(self, *arguments)

    trainer.update = dying
    settings = ["train.max_updates=10", "train.save_every=4", "train.valid_every=10"]
    with process_group(torch.device("cpu")) as group:
        train_as_one(group, "convs2s", folder / "killed", folder, settings)
