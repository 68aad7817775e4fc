"""kill -9 at any moment, even while a checkpoint is written, changes nothing in the end."""

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import FORKSERVER, SECONDS
from small_runs import CPU, assert_same, config, weights, write_pairs

from bytenmt.data.pair_files import PairFiles
from bytenmt.training.run import train

pytestmark = pytest.mark.slow

UPDATES = 12
# The operating system's calls of which a checkpoint's writing is made.
CALLS = ("fsync", "replace", "unlink")


def run_once(arch: str, run: Path, folder: Path) -> None:
    """Train or go on, with a checkpoint after every update."""
    settings = f"train.schedule=constant train.max_updates={UPDATES} train.save_every=1"
    wanted = config(arch, settings, "train.valid_every=5 train.ema=0.9 train.byte_dropout=0.1")
    files = PairFiles(folder / "src", folder / "tgt")
    valid = PairFiles(folder / "valid_src", folder / "valid_tgt")
    train(run, wanted, files=[files], valid=valid, device=CPU, resume=True)


def die_in_call(n: int) -> None:
    """Let this process kill itself in its n-th call of CALLS, before or after the call's work."""
    left = n

    def dying(call: Any) -> Any:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0 and n % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            result = call(*arguments, **named)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    for name in CALLS:
        setattr(os, name, dying(getattr(os, name)))


def child(arch: str, run: Path, folder: Path, in_call: int | None) -> int:
    """Fork a training; returns its process number."""
    pid = os.fork()
    if pid:
        return pid
    os.dup2(os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
    if in_call is not None:
        die_in_call(in_call)
    try:
        run_once(arch, run, folder)
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)


def train_and_die(arch: str, folder: Path) -> None:
    """Trains folder/whole in one go and folder/killed with six deaths, on the texts src, tgt,
    valid_src and valid_tgt there, and writes to folder/deaths how many were at a random moment and
    how many inside a checkpoint's writing. Fails with the log where a child does by anything but
    its death."""
    torch.set_num_threads(1)
    draw = random.Random(arch)
    started = time.monotonic()
    pid = child(arch, folder / "whole", folder, None)
    assert os.waitpid(pid, 0)[1] == 0, (folder / "log").read_text()
    seconds = time.monotonic() - started
    deaths = {"moment": 0, "write": 0}
    for kind in [*["moment", "write"] * 3, None]:
        in_call = draw.randrange(1, 30) if kind == "write" else None
        pid = child(arch, folder / "killed", folder, in_call)
        if kind == "moment":
            time.sleep(draw.uniform(0.1, 0.4) * seconds)
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        assert status == 0 or (kind and os.WIFSIGNALED(status)), (folder / "log").read_text()
        if kind and status:
            deaths[kind] += 1
    (folder / "deaths").write_text(f"{deaths['moment']} {deaths['write']}")


def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    """After several deaths the weights, the moving average and the optimiser are bit-identical to
    those of a run in one go, and nothing but the kept checkpoints lies about."""
    write_pairs(tmp_path)
    process = FORKSERVER.Process(target=train_and_die, args=("convs2s", tmp_path))
    process.start()
    process.join(10 * SECONDS)
    assert process.exitcode == 0, "see above"
    at_random, in_a_write = map(int, (tmp_path / "deaths").read_text().split())
    assert at_random >= 2 and in_a_write >= 2
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))
    names = [{path.name for path in (tmp_path / run).rglob("*")} for run in ("whole", "killed")]
    assert names[0] == names[1]
