"""Check that every pair of an epoch is trained on exactly once when the number of machines changes.

    nice python tools/verify/machines.py

Two torchrun agents on loopback, with one process each, stand for two machines. A model is trained by both,
then continued by one process alone, then by both to the end; first from a stream, which each machine gets at
its standard input and rank 0 reads, then from a file of the same pairs. Every process records the pairs that
it trains on. Prints the number of pairs of each process, and exits with 1 where a pair was lost or repeated,
or where the weights from stream and file differ in a byte.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

N_PAIRS, SECONDS = 150, 600
PHASES = ((2, 3), (1, 5), (2, 0))  # number of machines and last update of each phase; 0: to the end
SETTINGS = (
    "model.d_embedding=8",
    "model.d_hidden=16",
    "train.max_tokens=150",
    "train.precision=fp32",
    "train.schedule=constant",
    "train.valid_lines=0",
    f"data.stream_window={N_PAIRS}",
)


def worker(notes: str, arguments: Sequence[str]) -> None:
    """Run `bytenmt train` in this process and append each pair that it trains on to a file of its rank."""
    from bytenmt.cli.main import main
    from bytenmt.training.trainer import Trainer

    update = Trainer.update
    rank, size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")

    def noted(self: Trainer, batches: Sequence[Any], target_bytes: int | None = None) -> Any:
        with open(f"{notes}.{rank}-of-{size}", "ab") as file:
            file.writelines(bytes(row[:3]) + b"\n" for batch in batches for row in batch.source)
        return update(self, batches, target_bytes)

    Trainer.update = noted  # type: ignore[method-assign]
    main(["train", *arguments])


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def train_phase(folder: Path, name: str, number: int, last: int, arguments: Sequence[str]) -> None:
    """Continue training with a phase's machines until update `last`. Raises RuntimeError if one fails."""
    size = PHASES[number][0]
    own = [__file__, "--worker", str(folder / f"{name}.{number}"), "-o", str(folder / name), *arguments]
    own += ["--max-updates", str(last), "--resume"]
    command = [sys.executable, *own]
    if size > 1:
        agent = f"--nnodes {size} --nproc-per-node 1 --rdzv-backend c10d --local-addr 127.0.0.1"
        meeting = ["--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-id", f"{name}{number}"]
        command = [sys.executable, "-m", "torch.distributed.run", *agent.split(), *meeting, *own]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    machines = []
    for _ in range(size):
        with open(folder / "pairs.tsv", "rb") as stream:
            machines.append(
                subprocess.Popen(command, stdin=stream, stderr=subprocess.PIPE, env=environment, text=True)
            )
    try:
        for machine in machines:
            stderr = machine.communicate(timeout=SECONDS)[1]
            if machine.returncode:
                raise RuntimeError(stderr)
    finally:
        for machine in machines:
            machine.kill()


def count_trained_pairs(folder: Path, name: str) -> Counter[bytes]:
    """Count how often each pair was trained on, and print the number of pairs of each process."""
    seen: Counter[bytes] = Counter()
    for notes in sorted(folder.glob(f"{name}.*.*-of-*")):
        lines = notes.read_bytes().splitlines()
        print(f"{notes.name}: {len(lines)} pairs", flush=True)
        seen.update(lines)
    return seen


def last_update(run: Path) -> int:
    """Return the number of updates of a run."""
    from bytenmt.checkpoints.manifest import read_pointer

    return read_pointer(run).last


def checkpoint_tensors(run: Path) -> list[bytes]:
    """Return the tensor bytes of the last checkpoint, weights and optimiser, without the files' headers."""
    found = sorted((run / "checkpoints").glob(f"update-{last_update(run):08d}*"))
    files = [path.read_bytes() for path in found]
    return [data[8 + int.from_bytes(data[:8], "little") :] for data in files]


def main() -> None:
    """Run all phases from a stream, then the same from a file."""
    argparse.ArgumentParser(description="Train on two machines, on one, and on two again.").parse_args()
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pairs.tsv").write_text("".join(f"{n:03}{'x' * (n % 7)}\ty\n" for n in range(N_PAIRS)))
        (folder / "valid.tsv").write_text("a\tb\nc\td\n")
        options = ["--arch", "luong", "--preset", "tiny", "--threads", "1", "--device", "cpu"]
        options += ["--valid-tsv", str(folder / "valid.tsv"), *(w for s in SETTINGS for w in ("--set", s))]
        n_updates = 10_000
        for name, table in (("stream", "-"), ("file", str(folder / "pairs.tsv"))):
            for number, (_, last) in enumerate(PHASES):
                train_phase(folder, name, number, last or n_updates, ["--tsv", table, *options])
            # The stream ends after one epoch; the training from the file gets as many updates.
            n_updates = last_update(folder / name)
            seen = count_trained_pairs(folder, name)
            once = len(seen) == N_PAIRS and set(seen.values()) == {1}
            good &= once
            print(f"{name}: {n_updates} updates, every pair once: {'yes' if once else 'NO'}", flush=True)
        same = checkpoint_tensors(folder / "stream") == checkpoint_tensors(folder / "file")
        print(f"weights and optimiser of both are the same: {'yes' if same else 'NO'}")
    sys.exit(0 if good and same else 1)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], sys.argv[3:])
    else:
        main()
